/* SPDX-License-Identifier: MIT */
/* What the files of target/ share among themselves. */
#ifndef TARGET_INTERNAL_H
#define TARGET_INTERNAL_H

#include <elf.h>
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"
#include "target/target.h"

enum { TARGET_PAGE = 4096, TARGET_STAT_SIZE = 1024 };

/* What may change behind a const struct target, from any of our threads. */
struct target_state {
	/*
	 * The thread whose memory is asked for: the first one, until it ends before the others
	 * (pthread_exit in main): then /proc/PID/maps is empty and reads by its number fail.
	 */
	_Atomic pid_t living_tid;
	_Atomic unsigned kept_files;  /* descriptors of threads that are kept open: thread.c */
	unsigned files_limit;	      /* and how many may be; 0: not asked yet */
	_Atomic unsigned switch_logs; /* that are open */
};

struct target {
	struct memory_reader memory; /* first: its reader is cast to the target */
	pid_t pid;
	int directory; /* /proc/PID: never another process that got its number */
	int root;
	int newest; /* /proc/sys/kernel/ns_last_pid; -1: there is none */
	uint64_t start_time;
	char *command_line;
	char *executable;
	struct target_state *state;
};

/* ---- copier.c ---- */

/* The program is run at each overflow of that perf event. False with errno set. */
bool copier_attach(const struct copier *copier, int event);

/* ---- /proc: process.c ---- */

/*
 * Reads at most size - 1 bytes of a file and ends them by a NUL. -1 with errno set. Allocates
 * nothing.
 */
ssize_t proc_read(int directory, const char *path, char *buffer, size_t size);

/* Opens for reading what is a regular file at the moment; -1 with errno set. */
int proc_open_regular(int directory, const char *path);

/* What /proc/PID/stat says; false when the text does not look like it. */
enum { PF_KTHREAD = 0x00200000 }; /* Linux include/linux/sched.h */
struct proc_stat {
	char state;
	bool kernel_thread;
	uint64_t start_time, start_code, start_stack;
};
bool proc_parse_stat(const char *text, struct proc_stat *stat);

/* Looks for a thread that has not ended and notes it in target->state; false: there is none. */
bool target_find_living_thread(const struct target *target);

/* Opens /proc/PID/NAME, by way of a living thread when the first one has ended. */
int target_open_proc(const struct target *target, const char *name);

/* target_explain_denial with another directory as "/"; for tests. */
void target_explain_denial_at(const char *root, pid_t pid, int os_errno, char *text, size_t size);

/* ---- threads: thread.c, kernel_stack.c ---- */

/* Reads a file of /proc/PID/task/TID, by the descriptor that is kept (-1: none), as text. */
bool MUST_CHECK thread_read_look(const struct target_thread_files *files, int kept,
				 const char *name, char *text, size_t size, struct error *error);

/* target_thread_kernel of texts; each may be NULL. */
void kernel_stack_text(const char *stack, const char *wchan, const char *call,
		       char text[TARGET_KERNEL_SIZE]);

/* ---- ELF: elf_file.c ---- */

/* Reads the headers of module->fd or module->bytes into the module. CORRUPT, UNSUPPORTED. */
bool MUST_CHECK module_read_headers(struct module *module, struct error *error);

/* The sections and the build ID alone: a separate debug file's segments are not in it. */
bool module_read_sections(struct module *module);

/* Releases what module_read_headers and the opening allocated, not the struct. */
void module_release(struct module *module);

/*
 * The load bias of a mapping of the module's file, as each segment that could be mapped there gives
 * it: up to `size` different values, the likeliest first. Returns their number.
 */
size_t module_biases(const struct module *module, remote_addr start, uint64_t offset,
		     bool executable, uint64_t *biases, size_t size);

/* ---- module.c ---- */

/* One line of /proc/PID/maps. */
struct maps_line {
	remote_addr start, end;
	uint64_t offset, device, inode;
	uint32_t protection;
	const char *path; /* "\012" decoded; points into the caller's text */
};

/*
 * Reads one line (without its newline, NUL-terminated, changed in place); false: not such a line.
 */
bool maps_parse_line(char *text, struct maps_line *line);

/*
 * Opens the file behind the lines of one image (they differ in address and offset only) into a new
 * module whose bias is not set yet. At most `limit` bytes are copied out of memory when there is no
 * way to a file. ABSENT, CORRUPT, UNSUPPORTED, GONE.
 */
bool MUST_CHECK module_open(const struct target *target, const struct maps_line *lines,
			    size_t count, uint64_t limit, struct module **module,
			    struct error *error);

/* CLOCK_MONOTONIC */
static inline uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* tracer.c: how often tracer_sleep has asked the kernel for reports, which takes the longer, the
 * more threads are traced. */
struct tracer;
uint64_t tracer_looks(const struct tracer *tracer);

/* A module without a file yet: path copied, fd -1. */
struct module *module_new(const char *path);
void module_free(struct module *module); /* NULL accepted */

#endif
