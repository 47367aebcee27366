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

struct target;

/* Opens /proc/PID; traces nothing. GONE: no such process (or a zombie); DENIED; SYSTEM. */
bool MUST_CHECK target_open(pid_t pid, struct target **target, struct error *error);
void target_free(struct target *target); /* NULL accepted */

pid_t target_pid(const struct target *target);
const char *target_command_line(const struct target *target); /* "python3 train.py", clean UTF-8 */
const char *target_executable(const struct target *target);   /* as the target names it */

/* After the process executed another program: reads the two anew. The strings given out before
 * are freed; no other thread of ours may use them meanwhile. */
void target_follow_exec(struct target *target);

/* Reads by process_vm_readv; any thread of ours, also in the pause. Lives as long as target. */
const struct memory_reader *target_memory(const struct target *target);

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

/* True while /proc/PID is the same process and not a zombie. */
bool target_alive(const struct target *target);

/* Changes when the process executes a program, another one or the same again (device and inode of
 * its executable, start of its memory map, the random bytes that the kernel gives it). */
bool target_image_key(const struct target *target, uint64_t *key, struct error *error);

/* The first thread's stack pointer as its program began: above it stand only the arguments, the
 * environment and the auxiliary vector. 0: not known (its thread has ended, or we may not ask). */
remote_addr target_start_stack(const struct target *target);

/*
 * Opens a path as the target sees it (/proc/PID/root), regular files only, read-only, never
 * following a link out of that root and never blocking on a fifo. -1 and *error when not there.
 */
int target_open_file(const struct target *target, const char *path, struct error *error);

/* A descriptor of the target's root directory (O_PATH), owned by target; -1 when not readable. */
int target_root(const struct target *target);

/*
 * Why tracing this process is denied, and what to do about it, as lines for stderr, each ended by
 * a newline ("  why: ...\n  try: ...\n"); text is size bytes. os_errno: what the system said.
 */
void target_explain_denial(pid_t pid, int os_errno, char *text, size_t size);

/* ---- threads: thread.c, kernel_stack.c
 * ------------------------------------------------------------------- */

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
 * there is to know of one of them comes from target_thread_read; false: it has ended.
 */
bool MUST_CHECK target_thread_list(const struct target *target, pid_t **tids, size_t *count,
				   struct error *error);
bool MUST_CHECK target_thread_read(const struct target *target, pid_t tid,
				   struct target_thread *thread);

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

/* How often the thread was scheduled so far (schedstat): unchanged means it has not run. */
bool MUST_CHECK target_thread_runs(struct target_thread_files *files, uint64_t *runs,
				   struct error *error);

/* Its state now (R, S, D, T, t ... of stat), or 0 when it has ended. May run in the pause. */
char target_thread_state(const struct target_thread_files *files);

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

/* ---- stopping: tracer.c; all calls from the thread that made the tracer ------------------- */

/*
 * Traces threads of one process and knows at each moment which are stopped. When the thread that
 * made it exits, or is killed, the kernel detaches everything and the target runs on.
 */
struct tracer;

struct tracer *tracer_new(const struct target *target);

/* Resumes every stopped thread and releases the memory; detaching is left to the thread's exit
 * (a detach would need another stop). NULL accepted. */
void tracer_free(struct tracer *tracer);

/* PTRACE_SEIZE, once a thread; no stop. Already traced by us: true. DENIED, GONE. */
bool MUST_CHECK tracer_seize(struct tracer *tracer, pid_t tid, struct error *error);

/*
 * Stops a seized thread and reads its registers. Waits at most `patience_us` (BUSY then: the
 * thread is uninterruptible; its late stop is consumed and resumed by tracer_poll). A thread in a
 * group-stop is read as it is and stays stopped. GONE. Runs in the pause, allocates nothing.
 */
bool MUST_CHECK tracer_stop(struct tracer *tracer, pid_t tid, unsigned patience_us,
			    struct registers *registers, struct error *error);

/* Lets a stopped thread run on: the signal that stopped it is delivered, a group-stop is kept. */
void tracer_resume(struct tracer *tracer, pid_t tid);
void tracer_resume_all(struct tracer *tracer);

/* Forgets a thread that has ended. */
void tracer_forget(struct tracer *tracer, pid_t tid);

enum tracer_event { TRACER_NOTHING, TRACER_THREAD_ENDED, TRACER_EXEC, TRACER_PROCESS_ENDED };

/*
 * Consumes whatever the traced threads report (signals, late stops, ends) and passes it on. Call
 * it between samples, until it returns TRACER_NOTHING. *tid: whom the event concerns; *status: wait
 * status of TRACER_PROCESS_ENDED, when we are its parent or tracer, else -1. A thread whose end is
 * reported is forgotten. Reaps every child of ours; a plain waitpid for a traced child may wait
 * forever, since its traced threads have to be reaped first.
 */
enum tracer_event tracer_poll(struct tracer *tracer, pid_t *tid, int *status);

/*
 * Sleeps until the deadline (CLOCK_MONOTONIC, ns) or until a traced thread reports something.
 * SIGCHLD must be blocked in every thread of ours. `following_ns`: the deadline of the sleep after
 * this one, or 0: with it known, the CPU comes to rest sooner. True: there may be something to
 * poll, or a tenth of a second of a longer sleep is over; false: the deadline has come.
 */
bool tracer_sleep(struct tracer *tracer, uint64_t deadline_ns, uint64_t following_ns);

/* ---- context switches: switch_log.c ------------------------------------------------------- */

/*
 * What the kernel's performance events tell of one thread's context switches. While no other record
 * follows that of a switch, the thread has not run: whatever was copied meanwhile is of one moment,
 * though nobody stopped it. The thread pays for it about a microsecond a switch. From one thread of
 * ours at a time.
 */
struct switch_log;

struct thread_switch {
	bool on_cpu;	   /* it runs; false: it has left its CPU, and `registers` are the user's */
	bool runnable;	   /* it runs, or waits for a CPU that somebody else was given */
	int cpu;	   /* on which it runs or ran */
	uint64_t time_ns;  /* of the switch, CLOCK_MONOTONIC */
	uint64_t position; /* of its record in the log */
	struct registers registers; /* without fs_base */
};

/*
 * Takes two pages and a descriptor. DENIED without CAP_PERFMON (or CAP_SYS_ADMIN) while
 * kernel.perf_event_paranoid is above 1; GONE; BUSY: too many are open; SYSTEM. The caller closes
 * it before the target is freed.
 */
bool MUST_CHECK switch_log_open(const struct target *target, pid_t tid, struct switch_log **log,
				struct error *error);
void switch_log_close(struct switch_log *log); /* NULL accepted */

/* The thread's last switch; false: none since the log was opened, or it is being written. A tenth
 * of a microsecond, no system call; in the pause, too, as the two below. */
bool MUST_CHECK switch_log_last(const struct switch_log *log, struct thread_switch *last);

/* Where the log is written: falls by so much each time that the thread leaves its CPU and gets one
 * again; the same as last->position: the thread has not run since that. */
enum { SWITCH_LOG_BYTES = 216 };
uint64_t switch_log_position(const struct switch_log *log);

/* How long the thread was off its CPU after that switch; 0: it still is, or the log is beyond it.
 */
uint64_t switch_log_off_cpu(const struct switch_log *log, const struct thread_switch *out);

/* ---- copies that the kernel makes: copier.c ----------------------------------------------------
 */

/*
 * Copies registers and memory of a thread in its own place: in an interrupt of the CPU on which it
 * runs, or as it leaves that; one thread at a time, any. DENIED without CAP_BPF and CAP_PERFMON (or
 * CAP_SYS_ADMIN); SYSTEM: the kernel cannot (before Linux 5.15), or not safely (5.18 to 6.3). Takes
 * 0.2 MB of the kernel's memory and a millisecond. The caller frees it. From one thread of ours at
 * a time.
 */
struct copier;
enum copier_place { COPIER_IN_INTERRUPT, COPIER_AT_SWITCH };
bool MUST_CHECK copier_new(enum copier_place place, struct copier **copier, struct error *error);
void copier_free(struct copier *copier); /* NULL accepted */

/* The stack is copied from `red_zone` bytes below SP to its end: no more than COPIER_BYTES, nor are
 * all of the ranges, which are in the order of their addresses. */
enum { COPIER_RANGES = 64, COPIER_BYTES = 64 << 10 };
struct copier_request {
	pid_t tid;
	remote_addr stack_end;
	size_t red_zone;
	const struct target_range *ranges;
	size_t range_count;
};

enum copier_result {
	COPIER_COPIED,
	COPIER_ANOTHER, /* another thread runs on that CPU; it has not left its CPU in that time */
	COPIER_CALL,	/* it is in a system call that is under way */
	COPIER_LARGE,	/* too much */
	COPIER_MISSING, /* not all of it is in memory: nothing can be used */
	COPIER_FAILED,	/* there is no such CPU, or the kernel does not do it */
};

/*
 * COPIER_IN_INTERRUPT: now. Some microseconds of that CPU, some tens of the caller's; he is on
 * another CPU. *took_ns: from the request to the answer, so no less than the thread stood still;
 * undefined unless COPIED.
 */
enum copier_result copier_interrupt(struct copier *copier, const struct copier_request *request,
				    int cpu, uint64_t *took_ns);

/*
 * COPIER_AT_SWITCH: of a thread whose log that is, from now on; once for each log. And: each time
 * that this thread leaves its CPU in that time (CLOCK_MONOTONIC), in place of what was expected
 * before, of this thread or another. The CPU needs some microseconds for it. False: too much,
 * nothing is copied.
 */
bool MUST_CHECK switch_log_copy(const struct switch_log *log, const struct copier *copier,
				struct error *error);
bool MUST_CHECK copier_expect(struct copier *copier, const struct copier_request *request,
			      uint64_t from_ns, uint64_t until_ns);

/*
 * What became of what was expected last at that thread's last switch, and when the kernel began
 * with it (CLOCK_MONOTONIC, copied or not; the log's record is written after it; 0: there was no
 * switch since). Both, and the copy, are of that switch while the log stands still
 * (switch_log_position). No system call; in the pause.
 */
enum copier_result copier_outcome(const struct copier *copier);
uint64_t copier_began_ns(const struct copier *copier);

/* What was copied last: registers, without fs_base; the stack, red zone included; the ranges as
 * they were asked for. The bytes are the copier's, until it is asked for others. */
struct copier_span {
	struct target_range range;
	const uint8_t *bytes;
};
void copier_registers(const struct copier *copier, struct registers *registers);
struct copier_span copier_stack(const struct copier *copier);
size_t copier_range_count(const struct copier *copier);
struct copier_span copier_range(const struct copier *copier, size_t number);

/* ---- without stopping: watch.c ------------------------------------------------------------ */

/* Hears of the end of a process and of its exec without tracing it. All calls from one thread,
 * watcher_wake excepted. */
struct watcher;
struct watcher *watcher_new(const struct target *target);
void watcher_free(struct watcher *watcher); /* NULL accepted */

/*
 * TRACER_PROCESS_ENDED when it has, TRACER_EXEC when it runs another program than at the last call:
 * some tens of microseconds. A child of ours that has ended is left for its parent to reap.
 */
enum tracer_event watcher_poll(struct watcher *watcher);

/* Sleeps until the deadline (CLOCK_MONOTONIC, ns), until the process has ended, or until it is
 * woken, from any thread. True: it did not sleep until the deadline. */
bool watcher_sleep(struct watcher *watcher, uint64_t deadline_ns);
void watcher_wake(struct watcher *watcher);

/* ---- modules: module.c, module_table.c, elf_file.c ---------------------------------------- */

struct module_segment {
	uint64_t vaddr, file_offset, file_size, memory_size;
	uint32_t flags; /* PF_X ... */
};

struct module_section {
	const char *name;
	uint64_t vaddr, file_offset, size;
	uint32_t type, index;
	uint64_t flags;
};

enum module_origin {
	MODULE_OF_FILE,	  /* mapped, or the vDSO */
	MODULE_OF_JIT,	  /* made at run time: see jit.c */
	MODULE_OF_PYTHON, /* the same by CPython itself: a part of its eval function */
};

/*
 * One ELF image mapped into the target. Lives as long as its table: an unloaded library keeps its
 * struct, so that samples taken before still resolve.
 */
struct module {
	uint32_t id;	  /* index in the table; never reused */
	const char *path; /* as the target names it; "[vdso]" */
	const char *name; /* its last component, without " (deleted)" */
	uint64_t device, inode;
	struct build_id build_id;
	uint64_t load_bias;	/* run-time address - ELF address */
	remote_addr start, end; /* what its mappings span */
	int fd;			/* the file, read-only; -1: bytes */
	const void *bytes;	/* the whole ELF image when there is no file (vDSO, deleted) */
	size_t bytes_size;
	struct module_segment *segments; /* PT_LOAD, in order of vaddr */
	size_t segment_count;
	struct module_section *sections; /* may be none (no section headers) */
	size_t section_count;
	uint64_t eh_frame_hdr, eh_frame_hdr_size; /* ELF address of PT_GNU_EH_FRAME; size 0: none */
	uint64_t dynamic, dynamic_size;		  /* PT_DYNAMIC */
	uint64_t entry;				  /* ELF address where a process starts; 0: none */
	bool fixed;				  /* ET_EXEC */
	enum module_origin origin;
	remote_addr base;    /* what its ELF addresses are shown relative to; 0 but for code made at
				run    time, whose ELF addresses are those of run time */
	void *unwind_cache;  /* owned by unwind/: see unwinder_free */
	bool no_python;	     /* owned by python/: it has looked here for an interpreter in vain, */
	bool no_python_text; /* also in what there is beside symbols */
};

struct mapping {
	remote_addr start, end;
	uint64_t offset;
	uint32_t protection;   /* PROT_READ | PROT_EXEC ... */
	struct module *module; /* NULL: not an ELF file (heap, stack, data file) */
	uint8_t attempts;      /* failed ones to open the image of an executable mapping */
	const char *path;      /* "" for anonymous memory; "[heap]", "[stack]" */
};

struct module_table {
	uint64_t generation;	  /* changes whenever any mapping of code or of a module changed */
	struct mapping *mappings; /* in order of address, not overlapping */
	size_t mapping_count;
	struct module **modules; /* all ever seen */
	size_t module_count, module_capacity;
	size_t last_hit;
	struct jit_code *jit; /* NULL: code made at run time is not looked for */
};

void module_table_init(struct module_table *table);
void module_table_release(struct module_table *table);

/* Reads /proc/PID/maps anew; *changed (may be NULL) tells whether the generation moved. */
bool MUST_CHECK module_table_refresh(struct module_table *table, const struct target *target,
				     bool *changed, struct error *error);

/* For replay and tests: makes a module from an open file (taken over by the table) or from bytes
 * (copied), with no mapping yet. Fails with CORRUPT when it is not a 64-bit x86-64 ELF image. */
bool MUST_CHECK module_table_add(struct module_table *table, const char *path, int fd,
				 const void *bytes, size_t bytes_size, uint64_t load_bias,
				 struct module **module, struct error *error);

/* The same of an image of code made at run time. */
bool MUST_CHECK module_table_add_made(struct module_table *table, const void *bytes,
				      size_t bytes_size, enum module_origin origin,
				      struct module **module, struct error *error);

/* Replaces all mappings (copied; path strings must outlive the table); the generation moves. */
void module_table_set_mappings(struct module_table *table, const struct mapping *mappings,
			       size_t count);

/*
 * The mapping that holds the address, or NULL. O(log n), last hit first. Not thread-safe. For code
 * made at run time that somebody tells of, the part of it that is known, with a module: it is valid
 * until the next module_table_follow_jit.
 */
const struct mapping *module_table_find(struct module_table *table, remote_addr address);

/* ---- code made at run time: jit.c, jit_list.c, jit_image.c, perf_map.c ---------------------- */

/*
 * From now on asks the target of code that no file has: images registered by GDB's JIT interface,
 * and /tmp/perf-PID.map. Nothing is read before module_table_find meets such code. `target` is
 * used, not owned; NULL: code is known by module_table_add_jit alone.
 */
void module_table_use_jit(struct module_table *table, const struct target *target);

/* To be called before each sample is decoded: follows what the target has made since. The
 * generation moves when there was something. Some microseconds once such code was met, else none.
 */
void module_table_follow_jit(struct module_table *table);

/* After an exec: nothing of what is known holds any more. */
void module_table_forget_jit(struct module_table *table);

/* All such code met since *epoch changed, in the order in which it was met; for captures. */
const struct mapping *const *module_table_jit(const struct module_table *table, uint64_t *epoch,
					      size_t *count);

/* Adds a range of such code, of a module of this table. */
void module_table_add_jit(struct module_table *table, const struct mapping *mapping);

/* Copies bytes of the image by ELF address (not run-time address), from the file or the bytes;
 * what lies beyond a segment's file size reads as zeros. CORRUPT when outside every segment. */
bool MUST_CHECK module_read(const struct module *module, uint64_t vaddr, void *buffer, size_t size,
			    struct error *error);

/* Copies bytes of the file by offset. */
bool MUST_CHECK module_read_file(const struct module *module, uint64_t offset, void *buffer,
				 size_t size, struct error *error);

const struct module_section *module_section(const struct module *module, const char *name);

/* The ELF address of a defined symbol in .dynsym, then .symtab, then the .symtab of its separate
 * debug file where one is installed; *size may be NULL. ABSENT when none has it. */
bool MUST_CHECK module_symbol(const struct module *module, const char *name, uint64_t *vaddr,
			      uint64_t *size, struct error *error);

struct module_place {
	uint64_t vaddr, size; /* zeros when not found */
	bool found;
	uint32_t name; /* of a part: the index of its function's name */
};

/* The same for several symbols, each table read once, a later one only while a name is missing.
 * Fills in places[0 .. count-1]; returns how many were found. */
size_t module_find_symbols(const struct module *module, const char *const names[], size_t count,
			   struct module_place places[]);

/* The same of the dynamic table alone: what other modules can see of this one. Cheap. */
size_t module_find_exported(const struct module *module, const char *const names[], size_t count,
			    struct module_place places[]);

/*
 * The functions of these names and what compilers split off or copied from them: all symbols NAME
 * and NAME.SUFFIX (".cold", ".part.0", ".constprop.1", ".llvm.123") with a size, of all three
 * tables. Fills in at most `capacity` different ones and returns how many.
 */
size_t module_find_parts(const struct module *module, const char *const names[], size_t count,
			 struct module_place parts[], size_t capacity);

#endif
