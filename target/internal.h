/* SPDX-License-Identifier: MIT */
/* What the files of target/ share among themselves. */
#ifndef TARGET_INTERNAL_H
#define TARGET_INTERNAL_H

#include <elf.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "target/copier.h"
#include "target/switch_log.h"

enum { TARGET_STAT_SIZE = 1024 };

/* Which of its pages are there, and what became of reads of those that are not: memory.c. */
enum { AWAITED_MOST = 64 };

struct target_pages {
	_Atomic int map;	   /* /proc/PID/pagemap; -1: not open */
	_Atomic int memory;	   /* /proc/PID/mem, of threads without rights; -1: not open */
	_Atomic unsigned stuck;	   /* reads that had to be given up */
	_Atomic bool distrusted;   /* a page may never come: none is read that is not there */
	_Atomic uint64_t withheld; /* reads that were refused for that */
	/* What guarded work reads at this moment, the first ranges of it. */
	struct target_range awaited[AWAITED_MOST];
	_Atomic size_t awaited_count;
};

/* What may change behind a const struct target, from any of our threads. */
struct target_state {
	/*
	 * The thread whose memory is asked for: the first one, until it ends before the others
	 * (pthread_exit in main): then /proc/PID/maps is empty and reads by its number fail.
	 */
	_Atomic pid_t living_tid;
	_Atomic unsigned kept_files;   /* descriptors of threads that are kept open: thread.c */
	unsigned files_limit;	       /* and how many may be; 0: not asked yet */
	_Atomic unsigned switch_logs;  /* that are open */
	_Atomic uid_t user;	       /* whose files it may read, when that was seen last */
	_Atomic uint64_t user_seen_ns; /* 0: never */
	struct target_pages pages;
};

struct target_core;

struct target {
	struct memory_reader memory; /* first: its reader is cast to the target */
	struct target_core *core;    /* NULL: it is a process */
	pid_t pid;
	int directory; /* /proc/PID: never another process that got its number */
	int root;
	int newest; /* /proc/sys/kernel/ns_last_pid; -1: there is none */
	uint64_t start_time;
	char *command_line;
	char *executable;
	struct target_state *state;
};

/* ---- memory.c ---- */

void memory_open(struct target *target);
void memory_close(struct target *target);
void memory_follow_exec(const struct target *target);
/* What is known of the pages of another process takes the place of that. */
void memory_replace(struct target_pages *pages, struct target_pages *fresh);
/* May its memory be read at all? False with errno. */
bool memory_may_read(const struct target *target);

/* ---- core.c: what is not a process answers these instead ---- */

ssize_t core_read_ranges(const struct target_core *core, const struct target_range *ranges,
			 size_t count, void *buffer);
void core_free(struct target_core *core);
remote_addr core_start_stack(const struct target_core *core);
struct foreign_root core_files(const struct target *target);
bool core_thread_list(const struct target_core *core, pid_t **tids, size_t *count);
bool core_thread_read(const struct target_core *core, pid_t tid, struct target_thread *thread);
bool core_thread_wait(const struct target_core *core, pid_t tid, struct target_wait *wait);

/* ---- copier.c ---- */

/* The program is run at each overflow of that perf event. False with errno set. */
bool copier_attach(const struct copier *copier, int event);

/* ---- rights.c ---- */

/*
 * openat for reading; of a directory of /proc with what right a program file's capabilities give to
 * read it. May run in the pause.
 */
int rights_open_proc(int directory, const char *path);

/* openat, also for a thread that has given its rights up (base/errand.h). */
int rights_openat(int directory, const char *path, int flags);

/* ---- /proc: proc_file.c ---- */

/*
 * Reads at most size - 1 bytes of a file and ends them by a NUL. -1 with errno set. Allocates
 * nothing.
 */
ssize_t proc_read(int directory, const char *path, char *buffer, size_t size);

/* That errno says of a file in /proc that its process or thread has ended, not that we lack
 * something (descriptors, memory, the right). */
bool proc_says_ended(int os_errno);

/* "exe", or "task/TID/exe" when the first thread has ended. */
void proc_living_path(const struct target *target, const char *name, char path[64]);

/* What /proc/PID/stat says; false when the text does not look like it. */
enum { PF_KTHREAD = 0x00200000 }; /* Linux include/linux/sched.h */
struct proc_stat {
	char state;
	bool kernel_thread;
	pid_t parent;
	uint64_t cpu_ticks; /* of all its threads, also those that have ended */
	uint64_t start_time, start_code, start_stack;
};
bool proc_parse_stat(const char *text, struct proc_stat *stat);

/* target_explain_denial with another directory as "/"; for tests. */
void target_explain_denial_at(const char *root, pid_t pid, int os_errno, char *text, size_t size);

/* ---- threads: thread.c, kernel_stack.c ---- */

/* Reads a file of /proc/PID/task/TID, by the descriptor that is kept (-1: none), as text. */
bool MUST_CHECK thread_read_look(const struct target_thread_files *files, int kept,
				 const char *name, char *text, size_t size, struct error *error);

/* target_thread_kernel of texts; each may be NULL. */
void kernel_stack_text(const char *stack, const char *wchan, const char *call,
		       char text[TARGET_KERNEL_SIZE]);

/* tracer.c: how often tracer_sleep has asked the kernel for reports, which takes the longer, the
 * more threads are traced. */
struct tracer;
uint64_t tracer_looks(const struct tracer *tracer);

#endif
