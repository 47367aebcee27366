/* SPDX-License-Identifier: MIT */
/*
 * The process we look at: its memory, threads, mappings and ELF files, and the power to stop its
 * threads. The only folder that calls ptrace, process_vm_readv or perf_event_open or opens /proc.
 */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/memory_reader.h"
#include "base/types.h"
#include "files/foreign_file.h"

/* x86-64 registers by their DWARF numbers (System V ABI, AMD64 supplement, figure 3.36). */
enum register_number {
	REGISTER_RAX,
	REGISTER_RDX,
	REGISTER_RCX,
	REGISTER_RBX,
	REGISTER_RSI,
	REGISTER_RDI,
	REGISTER_RBP,
	REGISTER_RSP,
	REGISTER_R8,
	REGISTER_R9,
	REGISTER_R10,
	REGISTER_R11,
	REGISTER_R12,
	REGISTER_R13,
	REGISTER_R14,
	REGISTER_R15,
	REGISTER_RIP,
	REGISTER_COUNT
};

struct registers {
	uint64_t value[REGISTER_COUNT];
	uint64_t fs_base; /* pthread_self() with glibc and musl; 0: not known */
	uint32_t known;	  /* bit N: value[N] holds; a blocked thread gives RSP and RIP alone */
};

/* ---- the process: process.c -------------------------------------------------------------- */

enum { TARGET_PAGE = 4096 };

struct target;

/* Opens /proc/PID; traces nothing. GONE: no such process (or a zombie); DENIED; SYSTEM. */
bool MUST_CHECK target_open(pid_t pid, struct target **target, struct error *error);
void target_free(struct target *target); /* NULL accepted */

pid_t target_pid(const struct target *target);
const char *target_command_line(const struct target *target); /* "python3 train.py", clean UTF-8 */
const char *target_executable(const struct target *target);   /* as the target names it */

/* Makes another process of it, and takes that over; pointers to it and to its memory go on, and
 * what it has open of threads must be closed before. No other thread of ours may use either
 * meanwhile.
 */
void target_replace(struct target *target, struct target *fresh);

/* After the process executed another program: reads the two anew. The strings given out before
 * are freed; no other thread of ours may use them meanwhile. */
void target_follow_exec(struct target *target);

/*
 * A variable of the environment that the process was started with, as bytes: environment.c. What it
 * has set itself is not seen. False: it has none of that name, one longer than `size` allows, or
 * it cannot be read.
 */
bool target_environment(const struct target *target, const char *name, char *value, size_t size);

/* Its number among the processes of one job, as those who start jobs say it: torch's RANK, then
 * Open MPI's, MPICH's and Slurm's. Its children inherit it. False: it has none. */
bool target_job_rank(const struct target *target, uint32_t *rank);

/* Reads by process_vm_readv; any thread of ours, also in the pause. Lives as long as target. BUSY:
 * a page is not there, and may never come. */
const struct memory_reader *target_memory(const struct target *target);

/*
 * Guarded work was killed in a read: does what it wanted come now, to who has more patience? (The
 * target may have held the lock of its memory, or swapped.) If not, its memory is distrusted, as
 * below; true also when it wanted nothing of this target. Takes 0.3 s at most.
 */
bool target_await_memory(const struct target *target);

/* A page has not come: from then on those that are not there are not waited for in the pause. */
void target_distrust_memory(const struct target *target);
/* ... nor for a moment when nobody stands still. */
void target_forgo_memory(const struct target *target);
/* How many reads were given up, or refused for that. */
uint64_t target_withheld_reads(const struct target *target);

/* One remote range of a gathered read. */
struct target_range {
	remote_addr address;
	size_t size;
};

/*
 * One process_vm_readv of up to 1,024 ranges into one buffer, back to back. Returns the number of
 * bytes read, which stops at the first hole (later ranges are skipped), or -1 with errno set.
 * May run in the pause.
 */
ssize_t target_read_ranges(const struct target *target, const struct target_range *ranges,
			   size_t count, void *buffer);

/* The process that has a thread of that number; the number itself, where it is a process or nothing
 * is known of it. */
pid_t target_process_of(pid_t tid);

/* True while /proc/PID is the same process and not a zombie, and where that cannot be read. */
bool target_alive(const struct target *target);

/* Changes when the process executes a program, another one or the same again (device and inode of
 * its executable, start of its memory map, the random bytes that the kernel gives it). */
bool target_image_key(const struct target *target, uint64_t *key, struct error *error);

/* The first thread's stack pointer as its program began: above it stand only the arguments, the
 * environment and the auxiliary vector. 0: not known (its thread has ended, or we may not ask). */
remote_addr target_start_stack(const struct target *target);

/*
 * Opens a path as the target sees it (/proc/PID/root), read-only: what the target's user may read,
 * as files/foreign_file.h judges it, and no link leads out of that root. -1 and *error when not
 * there.
 */
int target_open_file(const struct target *target, const char *path, struct error *error);

/* The target's root directory, owned by target (FOREIGN_NOWHERE when not readable), and who it is
 * at the moment: for files that it, or a file of its, names. */
struct foreign_root target_files(const struct target *target);

/* The user whose rights its files are opened by; nobody's (-1) while that is not known. */
uid_t target_user(const struct target *target);

/* Whether what is mounted for it is for us: a path of the one is a path of the other. */
bool target_shares_mounts(const struct target *target);

/* /proc/PID, owned by target; and when it was started, in clock ticks since boot. */
int target_directory(const struct target *target);
uint64_t target_start_time(const struct target *target);

/* Opens /proc/PID/NAME, by way of a living thread when the first one has ended. */
int target_open_proc(const struct target *target, const char *name);

/* Looks for a thread that has not ended and notes it in target->state; false: there is none. */
bool target_find_living_thread(const struct target *target);

/*
 * Why tracing this process is denied, and what to do about it, as lines for stderr, each ended by
 * a newline ("  why: ...\n  try: ...\n"); text is size bytes. os_errno: what the system said.
 */
void target_explain_denial(pid_t pid, int os_errno, char *text, size_t size);

/* ---- threads: thread.c, kernel_stack.c --------------------------------------------------------
 */

struct target_thread {
	pid_t tid;	     /* in our PID namespace */
	pid_t namespace_tid; /* in the target's innermost PID namespace (NSpid) */
	char name[32];	     /* the kernel's comm, cleaned */
	char state;	     /* R, S, D, T, t, Z ... of /proc/PID/task/TID/stat */
};

/* All threads now, in the order of the kernel's list; *threads is malloc'ed, the caller frees. */
bool MUST_CHECK target_threads(const struct target *target, struct target_thread **threads,
			       size_t *count, struct error *error);

/*
 * The numbers alone, which takes a tenth of the time; *tids is malloc'ed, the caller frees. What
 * there is to know of one of them comes from target_thread_read; ERROR_GONE: it has ended. Of a
 * list that ends early for want of something there is none.
 */
bool MUST_CHECK target_thread_list(const struct target *target, pid_t **tids, size_t *count,
				   struct error *error);
bool MUST_CHECK target_thread_read(const struct target *target, pid_t tid,
				   struct target_thread *thread, struct error *error);

/* Who traces the thread; 0: nobody, or one in another PID namespace, or it has ended. */
pid_t target_thread_tracer(const struct target *target, pid_t tid);

/* Cheap: the number of threads now, or 0 when the process is gone. */
size_t target_thread_count(const struct target *target);

/* What is remembered from call to call; zeroed at first. */
struct target_births {
	pid_t newest;
	bool calm;
};

/*
 * Cheap: true when no thread can have been made since the last call, by any process in our PID
 * namespace or within it. The kernel tells the number that it gave last; a thread has it before it
 * is in the list, so the call after a change says false once more. Always false where the kernel
 * does not tell (no CONFIG_CHECKPOINT_RESTORE). It does not tell of one whose number was asked for
 * (clone3's set_tid), and one may be held up on its way to the list: a look now and then is needed.
 */
bool target_no_births(const struct target *target, struct target_births *births);

/* What a thread waits in (/proc/PID/task/TID/syscall). */
struct target_wait {
	bool running; /* on or waiting for a CPU: nothing else is known */
	long number;  /* the system call; -1: blocked, but not in a system call */
	uint64_t arguments[6];
	remote_addr sp, pc;
};

/*
 * Files of one thread, kept open so that a look at it is one pread: as long as half of the
 * descriptors that this process may have suffice (the limit is raised as far as it may be). A
 * thread beyond that has them opened at each look. From one thread of ours at a time.
 */
struct target_thread_files;
bool MUST_CHECK target_thread_files_open(const struct target *target, pid_t tid,
					 struct target_thread_files **files, struct error *error);
void target_thread_files_close(struct target_thread_files *files); /* NULL accepted */

/* About 2 us. GONE when the thread ended. May run in the pause. */
bool MUST_CHECK target_thread_wait(const struct target_thread_files *files,
				   struct target_wait *wait, struct error *error);

/* How often the thread was scheduled so far (schedstat): unchanged means it has not run. In the
 * pause where its file is kept open, which may not be done there. */
bool target_thread_keeps_runs(struct target_thread_files *files);
bool MUST_CHECK target_thread_runs(struct target_thread_files *files, uint64_t *runs,
				   struct error *error);

/* How long it was on a CPU so far (schedstat); up to its last switch, or, while it runs, to the
 * kernel's last clock tick. As the two above. */
bool MUST_CHECK target_thread_cpu_ns(struct target_thread_files *files, uint64_t *used_ns,
				     struct error *error);

/* Its state now (R, S, D, T, t ... of stat), 0 when it has ended, or '?'. May run in the pause. */
char target_thread_state(const struct target_thread_files *files);

/* Such a state, or a process's: of one that has ended, which is still listed (a zombie). */
bool target_state_is_end(char state);

/* Room for what target_thread_kernel tells: some twenty functions. */
enum { TARGET_KERNEL_SIZE = 1024 };

/*
 * What a blocked thread waits in: the kernel's functions, innermost first, then the system call
 * that it made, as clean text of a name a line. The functions come from `stack`, which is root's
 * to read, else the innermost one alone from `wchan`; of a thread that is not in a system call, or
 * where neither may be read, what is left of that. Some 10 us; opens files.
 */
void target_thread_kernel(const struct target_thread_files *files, const struct target_wait *wait,
			  char text[TARGET_KERNEL_SIZE]);

/* The name of a system call ("futex"), or NULL. */
const char *target_syscall_name(long number);

#endif
