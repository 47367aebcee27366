/* SPDX-License-Identifier: MIT */
/*
 * Stops and resumes threads by ptrace, and passes on whatever else they report meanwhile. Relies on
 * PTRACE_SEIZE (Linux 3.4): no stop at attaching, and group-stops that can be kept. Must never
 * leave a thread stopped that was not, never resume one that its user stopped, never lose or
 * invent a signal. tracer_stop and tracer_resume run in the pause: they allocate nothing.
 *
 * What a seized thread can report (ptrace(2)):
 *   PTRACE_EVENT_STOP + SIGTRAP                  our PTRACE_INTERRUPT, or the end of a group-stop
 *   PTRACE_EVENT_STOP + SIGSTOP, TSTP, TTIN, TTOU  a group-stop: PTRACE_LISTEN, or it is lost
 *   PTRACE_EVENT_EXEC                            another program; no thread but the first is left
 *   a signal, event 0                            about to be delivered: PTRACE_CONT with it
 *   an end                                       the thread's, or the process's
 * An interrupt that meets another stop may or may not give a stop of its own later (Linux,
 * kernel/signal.c: ptrace_stop clears a trap that is pending, one that is asked for afterwards
 * stays). So any PTRACE_EVENT_STOP that nobody waits for is just resumed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <limits.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/tracer_internal.h"

enum {
	ENDED_NS = 1000 * 1000, /* a stop takes 10 to 40 us; later, look at /proc */
	SPIN_NS = 60 * 1000,	/* of spinning for a stop on another CPU */
	SPIN_RESTS = 32,	/* stops without a spin after one in vain */
	REPORTS_MOST = 4096,	/* taken at a time */
};

struct tracer *tracer_new(const struct target *target)
{
	struct tracer *tracer = alloc_zeroed(1, sizeof(*tracer));
	struct sigaction action;
	const sigset_t signals = tracer_signals();
	tracer->target = target;
	/* Inherited as ignored, no stop would be announced and no exit status kept. */
	if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
		signal(SIGCHLD, SIG_DFL);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	tracer_make_alarms(tracer);
	if (sysconf(_SC_NPROCESSORS_ONLN) <= 1)
		tracer->spin_rests = UINT_MAX; /* nobody runs while we do */
	return tracer;
}

void tracer_free(struct tracer *tracer)
{
	if (!tracer)
		return;
	tracer_resume_all(tracer);
	for (size_t i = 0; i < tracer->alarm_count; i++)
		timer_delete(tracer->alarms[i].timer);
	free(tracer->threads);
	free(tracer->processes);
	free(tracer);
}

void tracer_forget(struct tracer *tracer, pid_t tid)
{
	struct traced *thread = traced_find(tracer, tid);
	if (thread)
		traced_drop(tracer, thread);
}

/* ---- stops ---- */

/* R, S, Z ... or 0 when the process has no such thread; '?': it cannot be read. */
static char thread_state(const struct tracer *tracer, pid_t pid, pid_t tid)
{
	const bool first = pid == target_pid(tracer->target);
	char path[64], text[TARGET_STAT_SIZE];
	struct proc_stat stat;
	/* Another one's number is its own until we have heard of its end. */
	if (first)
		snprintf(path, sizeof(path), "task/%d/stat", (int)tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	const ssize_t size =
		proc_read(first ? tracer->target->directory : AT_FDCWD, path, text, sizeof(text));
	if (size < 0 && !proc_says_ended(errno))
		return '?';
	return size > 0 && proc_parse_stat(text, &stat) ? stat.state : 0;
}

static bool has_ended(const struct tracer *tracer, pid_t pid, pid_t tid)
{
	char state = thread_state(tracer, pid, tid);
	return state == 0 || target_state_is_end(state);
}

void tracer_follow_children(struct tracer *tracer)
{
	tracer->follows_children = true;
}

static long trace_options(const struct tracer *tracer)
{
	return PTRACE_O_TRACEEXEC |
	       (tracer->follows_children ? PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK : 0);
}

bool tracer_seize_of(struct tracer *tracer, pid_t pid, pid_t tid, struct error *error)
{
	struct traced *thread = traced_find(tracer, tid);
	if (thread && !thread->event)
		return true;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)trace_options(tracer)) < 0) {
		/* Threads that have ended are refused as if it were forbidden. */
		int os_errno = errno;
		if (os_errno == EPERM && has_ended(tracer, pid, tid))
			os_errno = ESRCH;
		return error_set_errno(error, os_errno, "cannot trace thread %d", (int)tid);
	}
	if (thread)
		traced_drop(tracer, thread);
	struct traced_process *process = traced_find_process(tracer, pid);
	traced_add(tracer, process ? process : traced_add_process(tracer, pid), tid)->unsure = true;
	return true;
}

bool tracer_seize(struct tracer *tracer, pid_t tid, struct error *error)
{
	return tracer_seize_of(tracer, target_pid(tracer->target), tid, error);
}

static bool is_stop_signal(int number)
{
	return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* Notes what a stop of the thread is and what resuming it takes. */
static void note_stop(struct traced *thread, int status)
{
	int event = status >> 16;
	thread->stopped = true;
	thread->group_stop = event == PTRACE_EVENT_STOP && is_stop_signal(WSTOPSIG(status));
	thread->signal = event == 0 ? WSTOPSIG(status) : 0;
}

/*
 * A thread may enter a call that waits in the very moment in which it is stopped. Most calls go on
 * by themselves afterwards; of some the kernel makes EINTR (signal(7)). Those that wait without end
 * can be made again: as calls that go on unless a handler is to be run (Linux,
 * include/linux/errno.h: ERESTARTNOHAND), so that a signal that has come meanwhile interrupts them
 * as ever.
 */
static bool is_interrupted(const struct user_regs_struct *values)
{
	if (values->rax != (unsigned long long)-EINTR)
		return false;
	switch (values->orig_rax) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)values->r10 < 0; /* the timeout */
	case SYS_semop:
		return true;
	case SYS_semtimedop:
		return values->r10 == 0;
	case SYS_rt_sigtimedwait:
		return values->rdx == 0;
	default:
		return false;
	}
}

static void restart(const struct traced *thread)
{
	enum { ERESTARTNOHAND = 514 };
	const size_t rax = offsetof(struct user, regs) + offsetof(struct user_regs_struct, rax);
	ptrace(PTRACE_POKEUSER, thread->tid, (void *)rax, (void *)(long)-ERESTARTNOHAND);
}

/* Fails when the thread was killed meanwhile, which is reported by itself. For any other failure it
 * is tried once more: nobody else would let the thread go. */
static void let_run(enum __ptrace_request how, pid_t tid, int signal)
{
	for (int i = 0; i < 2 && ptrace(how, tid, NULL, (void *)(long)signal) < 0; i++)
		;
}

static void resume(struct traced *thread)
{
	if (!thread->stopped)
		return;
	if (thread->restart)
		restart(thread);
	thread->restart = false;
	if (thread->group_stop)
		let_run(PTRACE_LISTEN, thread->tid, 0);
	else
		let_run(PTRACE_CONT, thread->tid, thread->signal);
	thread->stopped = false;
	thread->signal = 0;
}

void tracer_resume(struct tracer *tracer, pid_t tid)
{
	struct traced *thread = traced_find(tracer, tid);
	if (thread)
		resume(thread);
}

void tracer_resume_all(struct tracer *tracer)
{
	for (size_t i = 0; i < tracer->count; i++)
		resume(&tracer->threads[i]);
}

/*
 * After an exec the first thread alone is left, by whichever thread it was asked for. There is room
 * for it, unless none of the process's was in the table: then nobody asks for it.
 */
static void note_exec(struct tracer *tracer, struct traced_process *process)
{
	traced_drop_threads(tracer, process);
	if (tracer->count < tracer->capacity)
		traced_set_event(tracer, traced_insert(tracer, process, process->pid), TRACER_EXEC);
	let_run(PTRACE_CONT, process->pid, 0);
}

static void note_process_end(struct tracer *tracer, struct traced_process *process, int status)
{
	tracer->news += !traced_has_news(process);
	process->ended = true;
	process->end_status = status;
}

static void note_end(struct tracer *tracer, pid_t tid, int status)
{
	struct traced *thread = traced_find(tracer, tid);
	struct traced_process *process = traced_find_process(tracer, tid);
	if (process) {
		/* The kernel reports the first thread's end when no other is left. */
		note_process_end(tracer, process, status);
	} else if (thread) {
		traced_set_event(tracer, thread, TRACER_THREAD_ENDED);
	}
}

/* True when the report is a stop that can be read from. */
static bool digest(struct tracer *tracer, struct traced *thread, int status)
{
	if (!WIFSTOPPED(status)) {
		note_end(tracer, thread->tid, status);
		return false;
	}
	if (status >> 16 == PTRACE_EVENT_EXEC) {
		struct traced_process *process = traced_find_process(tracer, thread->pid);
		if (process)
			note_exec(tracer, process);
		return false;
	}
	note_stop(thread, status);
	return true;
}

/*
 * A thread on another CPU stops within some 15 us, while to sleep and be woken by it takes 20 us
 * more: so spin first. A thread that shares our CPU can only stop when we sleep: after a spin
 * that saw no report, the next SPIN_RESTS stops go without.
 */
static pid_t spin_report(struct tracer *tracer, pid_t tid, int *status)
{
	if (tracer->spin_rests > 0) {
		tracer->spin_rests -= tracer->spin_rests < UINT_MAX;
		return 0;
	}
	uint64_t start = clock_now_ns();
	do {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got != 0)
			return got;
		__builtin_ia32_pause();
	} while (clock_now_ns() - start < SPIN_NS);
	tracer->spin_rests = SPIN_RESTS;
	return 0;
}

/* The thread's next report, waiting until the deadline; 0: none came, -1: not traced by us. */
static pid_t wait_report(struct tracer *tracer, const struct traced *thread, unsigned patience_us,
			 int *status)
{
	const pid_t tid = thread->tid;
	uint64_t start = 0;
	pid_t early = spin_report(tracer, tid, status);
	if (early != 0)
		return early;
	for (;;) {
		/* The time first: if we were kept from running, there is a last look after it. */
		uint64_t now = clock_now_ns();
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got != 0)
			return got;
		if (!start)
			start = now;
		if (now - start >= UINT64_C(1000) * patience_us)
			return 0;
		/* A first thread that ended before the others never reports. */
		if (now - start > ENDED_NS && tid == thread->pid &&
		    has_ended(tracer, thread->pid, tid))
			return -1;
		tracer_wait_report(tracer, now);
	}
}

static bool gone(pid_t tid, struct error *error)
{
	return error_set(error, ERROR_GONE, "thread %d has ended", (int)tid);
}

static bool stop(struct tracer *tracer, struct traced *thread, unsigned patience_us,
		 struct error *error)
{
	pid_t tid = thread->tid, got = 0;
	int status = 0;
	if (thread->unsure)
		got = waitpid(tid, &status, __WALL | WNOHANG);
	if (got == 0) {
		if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
			got = -1;
		else
			got = wait_report(tracer, thread, patience_us, &status);
	}
	if (got == 0) {
		thread->unsure = true;
		return error_set(error, ERROR_BUSY, "thread %d does not stop", (int)tid);
	}
	if (got < 0) {
		/*
		 * The first thread's end is the process's, which is found out otherwise; alive
		 * but not ours, it is another one, made first by an exec we were not told of.
		 */
		if (tid != thread->pid || !has_ended(tracer, thread->pid, tid))
			traced_set_event(tracer, thread, TRACER_THREAD_ENDED);
		return gone(tid, error);
	}
	if (!digest(tracer, thread, status))
		return gone(tid, error);
	thread->unsure = status >> 16 != PTRACE_EVENT_STOP;
	return true;
}

static void translate(const struct user_regs_struct *from, struct registers *to)
{
	*to = (struct registers){
		.value =
			{
				[REGISTER_RAX] = from->rax,
				[REGISTER_RDX] = from->rdx,
				[REGISTER_RCX] = from->rcx,
				[REGISTER_RBX] = from->rbx,
				[REGISTER_RSI] = from->rsi,
				[REGISTER_RDI] = from->rdi,
				[REGISTER_RBP] = from->rbp,
				[REGISTER_RSP] = from->rsp,
				[REGISTER_R8] = from->r8,
				[REGISTER_R9] = from->r9,
				[REGISTER_R10] = from->r10,
				[REGISTER_R11] = from->r11,
				[REGISTER_R12] = from->r12,
				[REGISTER_R13] = from->r13,
				[REGISTER_R14] = from->r14,
				[REGISTER_R15] = from->r15,
				[REGISTER_RIP] = from->rip,
			},
		.fs_base = from->fs_base,
		.known = (1u << REGISTER_COUNT) - 1,
	};
}

static bool read_registers(struct traced *thread, struct registers *registers, struct error *error)
{
	struct user_regs_struct values;
	struct iovec into = {&values, sizeof(values)};
	if (ptrace(PTRACE_GETREGSET, thread->tid, (void *)(long)NT_PRSTATUS, &into) < 0) {
		/* Killed in the stop; should it be anything else, it must run on. */
		resume(thread);
		return gone(thread->tid, error);
	}
	if (into.iov_len != sizeof(values)) {
		resume(thread);
		return error_set(error, ERROR_UNSUPPORTED, "thread %d runs 32-bit code",
				 (int)thread->tid);
	}
	translate(&values, registers);
	thread->restart = !thread->group_stop && !thread->signal && is_interrupted(&values);
	return true;
}

bool tracer_stop(struct tracer *tracer, pid_t tid, unsigned patience_us,
		 struct registers *registers, struct error *error)
{
	struct traced *thread = traced_find(tracer, tid);
	const struct traced_process *process =
		thread ? traced_find_process(tracer, thread->pid) : NULL;
	if (!process || thread->event || process->ended)
		return gone(tid, error);
	if (!thread->stopped && !stop(tracer, thread, patience_us, error))
		return false;
	return read_registers(thread, registers, error);
}

/* ---- reports between samples ---- */

/* "Tgid:\t4711\n" */
static bool is_process(pid_t tid)
{
	char path[40], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	const char *line = proc_read(AT_FDCWD, path, text, sizeof(text)) > 0
				   ? strstr(text, "\nTgid:\t")
				   : NULL;
	return line && strtol(line + strlen("\nTgid:\t"), NULL, 10) == tid;
}

/*
 * A child begins with a stop of its own, traced as its parent is. It is found by that: the parent's
 * report may come later, or never, should it be killed. Threads have no such stop.
 */
static struct traced *note_child(struct tracer *tracer, pid_t pid, int status)
{
	if (!tracer->follows_children || status >> 16 != PTRACE_EVENT_STOP ||
	    traced_find_process(tracer, pid) || !is_process(pid))
		return NULL;
	struct traced_process *process = traced_add_process(tracer, pid);
	process->born = true;
	tracer->news++;
	return traced_add(tracer, process, pid);
}

static void handle(struct tracer *tracer, pid_t tid, int status)
{
	struct traced *thread = traced_find(tracer, tid);
	struct traced_process *process = traced_find_process(tracer, tid);
	struct traced stranger = {.tid = tid};
	if (!thread && WIFSTOPPED(status))
		thread = note_child(tracer, tid, status);
	if (!WIFSTOPPED(status)) {
		note_end(tracer, tid, status);
	} else if (status >> 16 == PTRACE_EVENT_EXEC && process) {
		note_exec(tracer, process);
	} else {
		/* One that was forgotten must run on as well. */
		struct traced *which = thread ? thread : &stranger;
		note_stop(which, status);
		resume(which);
		which->unsure = false;
	}
}

static enum tracer_event report(struct tracer *tracer, struct traced *thread, pid_t *tid)
{
	enum tracer_event event = thread->event;
	*tid = thread->tid;
	if (event == TRACER_THREAD_ENDED) {
		struct traced_process *process = traced_find_process(tracer, thread->pid);
		traced_drop(tracer, thread);
		if (process && process->threads == 0) {
			tracer->news += !traced_has_news(process);
			process->emptied = true;
		}
	} else {
		thread->event = TRACER_NOTHING;
		tracer->events--;
	}
	return event;
}

static enum tracer_event report_process_end(struct tracer *tracer, struct traced_process *process,
					    pid_t *tid, int *status)
{
	*tid = process->pid;
	if (status)
		*status = process->end_status;
	traced_drop_threads(tracer, process);
	traced_drop_process(tracer, process);
	return TRACER_PROCESS_ENDED;
}

static bool is_alive(const struct tracer *tracer, pid_t pid)
{
	return pid == target_pid(tracer->target) ? target_alive(tracer->target)
						 : !has_ended(tracer, pid, pid);
}

/* Of one that is both, the birth comes first. */
static enum tracer_event report_process(struct tracer *tracer, struct traced_process *process,
					pid_t *tid, int *status)
{
	if (process->born) {
		process->born = false;
		tracer->news -= !traced_has_news(process);
		*tid = process->pid;
		return TRACER_CHILD;
	}
	/* Nobody tells us of the process's end when its first thread was not traced. */
	if (!process->ended && process->emptied && !is_alive(tracer, process->pid))
		note_process_end(tracer, process, -1);
	if (process->ended)
		return report_process_end(tracer, process, tid, status);
	process->emptied = false;
	tracer->news--;
	return TRACER_NOTHING;
}

enum tracer_event tracer_poll(struct tracer *tracer, pid_t *tid, int *status)
{
	int reported;
	pid_t from;
	/* Those who do nothing but fork may report faster than it is handled: not for ever. */
	for (unsigned i = 0; (from = waitpid(-1, &reported, __WALL | WNOHANG)) > 0; i++) {
		handle(tracer, from, reported);
		if (i >= REPORTS_MOST) {
			tracer->heard = true;
			break;
		}
	}
	/* A birth before what its threads have to report. */
	for (size_t i = 0; tracer->news && i < tracer->process_count; i++)
		if (tracer->processes[i].born)
			return report_process(tracer, &tracer->processes[i], tid, status);
	for (size_t i = 0; tracer->events && i < tracer->count; i++)
		if (tracer->threads[i].event)
			return report(tracer, &tracer->threads[i], tid);
	for (size_t i = 0; tracer->news && i < tracer->process_count; i++) {
		if (!traced_has_news(&tracer->processes[i]))
			continue;
		const enum tracer_event event =
			report_process(tracer, &tracer->processes[i], tid, status);
		if (event != TRACER_NOTHING)
			return event;
	}
	return TRACER_NOTHING;
}
