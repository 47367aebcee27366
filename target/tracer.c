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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <limits.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target/internal.h"

enum {
	TICK_NS = 4 * 1000 * 1000,	    /* how long a wait may be overdue */
	ENDED_NS = 1000 * 1000,		    /* a stop takes 10 to 40 us; later, look at /proc */
	SLEEP_LIMIT_NS = 100 * 1000 * 1000, /* should a SIGCHLD get lost, look then */
	LOOK_NS = 20 * 1000 * 1000,	    /* and whatever was heard, look now and then */
	DOUBT_NS = 2500, /* a traced thread: after a stop of ours, between two looks for others */
	SPIN_NS = 60 * 1000, /* of spinning for a stop on another CPU */
	SPIN_RESTS = 32,     /* stops without a spin after one in vain */
};

struct traced {
	pid_t tid;
	bool stopped;		 /* by us, until tracer_resume */
	bool group_stop;	 /* its user's stop: to be kept */
	bool unsure;		 /* may have stopped already: look before interrupting */
	int signal;		 /* to be delivered on resuming */
	enum tracer_event event; /* to be reported */
};

/* A timer that wakes this thread from its wait for SIGCHLD. */
struct alarm {
	timer_t timer;
	uint64_t at; /* for when it was set last; 0: it could not be */
};

enum { ALARM_TICK, ALARM_SLEEP, ALARM_COUNT = ALARM_SLEEP + 2 };

struct tracer {
	const struct target *target;
	struct traced *threads; /* in order of tid */
	size_t count, capacity;
	size_t events; /* of threads that have one to report */
	bool process_ended, emptied;
	/*
	 * A SIGCHLD was taken, and not all reports after it. To ask for reports the kernel goes
	 * through all traced threads, at 25 ns each: with a thousand of them that is not done at
	 * each tick. Doubtful: it told of a stop that we made and have seen; but while one waits to
	 * be taken, the kernel does not keep another.
	 */
	bool heard, doubtful;
	uint64_t looked_at, looks;
	int end_status;
	struct alarm alarms[ALARM_COUNT];
	size_t alarm_count;  /* all of them, or they cannot be used */
	unsigned spin_rests; /* stops to come without a spin */
};

/* ---- the table ---- */

/* Where the thread is, or would go. */
static size_t position(const struct tracer *tracer, pid_t tid)
{
	size_t low = 0, high = tracer->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (tracer->threads[middle].tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct traced *find(const struct tracer *tracer, pid_t tid)
{
	size_t at = position(tracer, tid);
	return at < tracer->count && tracer->threads[at].tid == tid ? &tracer->threads[at] : NULL;
}

static void add(struct tracer *tracer, pid_t tid)
{
	size_t at = position(tracer, tid);
	tracer->threads = alloc_room(tracer->threads, &tracer->capacity, tracer->count + 1,
				     sizeof(*tracer->threads));
	memmove(&tracer->threads[at + 1], &tracer->threads[at],
		(tracer->count - at) * sizeof(*tracer->threads));
	tracer->threads[at] = (struct traced){.tid = tid, .unsure = true};
	tracer->count++;
}

static void drop(struct tracer *tracer, struct traced *thread)
{
	size_t at = (size_t)(thread - tracer->threads);
	tracer->events -= thread->event != TRACER_NOTHING;
	tracer->count--;
	memmove(thread, thread + 1, (tracer->count - at) * sizeof(*thread));
}

static void set_event(struct tracer *tracer, struct traced *thread, enum tracer_event event)
{
	tracer->events += thread->event == TRACER_NOTHING;
	thread->event = event;
	thread->stopped = false;
}

/* Done without where they cannot be had. */
static void make_alarms(struct tracer *tracer)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGCHLD};
	event._sigev_un._tid = gettid();
	while (tracer->alarm_count < ALARM_COUNT &&
	       timer_create(CLOCK_MONOTONIC, &event, &tracer->alarms[tracer->alarm_count].timer) ==
		       0)
		tracer->alarm_count++;
}

static bool has_alarms(const struct tracer *tracer)
{
	return tracer->alarm_count == ALARM_COUNT;
}

static bool set_alarm(struct alarm *alarm, uint64_t at)
{
	const struct itimerspec when = {
		.it_value = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)}};
	const bool set = timer_settime(alarm->timer, TIMER_ABSTIME, &when, NULL) == 0;
	alarm->at = set ? at : 0;
	return set;
}

static sigset_t sigchld(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	return signals;
}

struct tracer *tracer_new(const struct target *target)
{
	struct tracer *tracer = alloc_zeroed(1, sizeof(*tracer));
	struct sigaction action;
	const sigset_t signals = sigchld();
	tracer->target = target;
	/* Inherited as ignored, no stop would be announced and no exit status kept. */
	if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
		signal(SIGCHLD, SIG_DFL);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	make_alarms(tracer);
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
	free(tracer);
}

void tracer_forget(struct tracer *tracer, pid_t tid)
{
	struct traced *thread = find(tracer, tid);
	if (thread)
		drop(tracer, thread);
}

/* ---- stops ---- */

/* R, S, Z ... or 0 when there is no such thread. */
static char thread_state(const struct tracer *tracer, pid_t tid)
{
	char path[40], text[TARGET_STAT_SIZE];
	struct proc_stat stat;
	snprintf(path, sizeof(path), "task/%d/stat", (int)tid);
	if (proc_read(tracer->target->directory, path, text, sizeof(text)) <= 0 ||
	    !proc_parse_stat(text, &stat))
		return 0;
	return stat.state;
}

static bool has_ended(const struct tracer *tracer, pid_t tid)
{
	char state = thread_state(tracer, tid);
	return state == 0 || state == 'Z' || state == 'X';
}

bool tracer_seize(struct tracer *tracer, pid_t tid, struct error *error)
{
	struct traced *thread = find(tracer, tid);
	if (thread && !thread->event)
		return true;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)(long)PTRACE_O_TRACEEXEC) < 0) {
		/* Threads that have ended are refused as if it were forbidden. */
		int os_errno = errno;
		if (os_errno == EPERM && has_ended(tracer, tid))
			os_errno = ESRCH;
		return error_set_errno(error, os_errno, "cannot trace thread %d", (int)tid);
	}
	if (thread)
		drop(tracer, thread);
	add(tracer, tid);
	return true;
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

static void resume(struct traced *thread)
{
	if (!thread->stopped)
		return;
	/* Fails only when the thread was killed meanwhile: that is reported by itself. */
	if (thread->group_stop)
		ptrace(PTRACE_LISTEN, thread->tid, NULL, NULL);
	else
		ptrace(PTRACE_CONT, thread->tid, NULL, (void *)(long)thread->signal);
	thread->stopped = false;
	thread->signal = 0;
}

void tracer_resume(struct tracer *tracer, pid_t tid)
{
	struct traced *thread = find(tracer, tid);
	if (thread)
		resume(thread);
}

void tracer_resume_all(struct tracer *tracer)
{
	for (size_t i = 0; i < tracer->count; i++)
		resume(&tracer->threads[i]);
}

/*
 * After an exec the first thread alone is left, by whichever thread it was asked for; there is
 * room for it, since that thread was in the table.
 */
static void note_exec(struct tracer *tracer, pid_t tid)
{
	tracer->count = 1;
	tracer->events = 0;
	tracer->threads[0] = (struct traced){.tid = tid};
	set_event(tracer, &tracer->threads[0], TRACER_EXEC);
	ptrace(PTRACE_CONT, tid, NULL, NULL);
}

static void note_end(struct tracer *tracer, pid_t tid, int status)
{
	struct traced *thread = find(tracer, tid);
	if (tid == target_pid(tracer->target)) {
		/* The kernel reports the first thread's end when no other is left. */
		tracer->process_ended = true;
		tracer->end_status = status;
	} else if (thread) {
		set_event(tracer, thread, TRACER_THREAD_ENDED);
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
		note_exec(tracer, thread->tid);
		return false;
	}
	note_stop(thread, status);
	return true;
}

/*
 * A stop that PTRACE_INTERRUPT made, and that was waited for. Linux kernel/signal.c,
 * do_jobctl_trap: it is told as CLD_STOPPED without a signal; that of a signal, and exec, are
 * CLD_TRAPPED. The end of a group-stop looks the same, and has to be answered.
 */
static bool is_seen(const struct tracer *tracer, const siginfo_t *info)
{
	if (info->si_code != CLD_STOPPED || info->si_status != 0)
		return false;
	const struct traced *thread = find(tracer, info->si_pid);
	return thread && !thread->unsure && !thread->group_stop;
}

/* A SIGCHLD was taken: an alarm, or a report. */
static void hear(struct tracer *tracer, const siginfo_t *info)
{
	if (info->si_code == SI_TIMER)
		return;
	if (is_seen(tracer, info))
		tracer->doubtful = true;
	else
		tracer->heard = true;
}

static void wait_signal(struct tracer *tracer, uint64_t ns)
{
	siginfo_t info = {0};
	struct timespec timeout = {.tv_nsec = (long)ns};
	const sigset_t signals = sigchld();
	if (sigtimedwait(&signals, &info, &timeout) > 0)
		hear(tracer, &info);
	else if (ns >= SLEEP_LIMIT_NS)
		tracer->heard = true; /* should one have got lost */
}

/* Until an alarm goes off or something is reported: both are SIGCHLD. */
static void wait_signal_or_alarm(struct tracer *tracer)
{
	siginfo_t info = {0};
	const sigset_t signals = sigchld();
	if (sigwaitinfo(&signals, &info) > 0)
		hear(tracer, &info);
}

/*
 * Sleeps until a traced thread reports something, for TICK_NS at most. Sleeping, not yielding: the
 * thread may need our CPU to get to its stop, and sched_yield costs a turn of 4 ms (Linux 6.18).
 * Without a timeout: to set one for each wait makes 24 us of 10. The tick is a SIGCHLD too.
 */
static void wait_report_or_tick(struct tracer *tracer, uint64_t now)
{
	struct alarm *tick = &tracer->alarms[ALARM_TICK];
	if (!has_alarms(tracer) || (now >= tick->at && !set_alarm(tick, now + TICK_NS))) {
		wait_signal(tracer, TICK_NS);
		return;
	}
	wait_signal_or_alarm(tracer);
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
	uint64_t start = now_ns();
	do {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got != 0)
			return got;
		__builtin_ia32_pause();
	} while (now_ns() - start < SPIN_NS);
	tracer->spin_rests = SPIN_RESTS;
	return 0;
}

/* The thread's next report, waiting until the deadline; 0: none came, -1: not traced by us. */
static pid_t wait_report(struct tracer *tracer, pid_t tid, unsigned patience_us, int *status)
{
	uint64_t start = 0;
	pid_t early = spin_report(tracer, tid, status);
	if (early != 0)
		return early;
	for (;;) {
		/* The time first: if we were kept from running, there is a last look after it. */
		uint64_t now = now_ns();
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got != 0)
			return got;
		if (!start)
			start = now;
		if (now - start >= UINT64_C(1000) * patience_us)
			return 0;
		/* A first thread that ended before the others never reports. */
		if (now - start > ENDED_NS && tid == target_pid(tracer->target) &&
		    has_ended(tracer, tid))
			return -1;
		wait_report_or_tick(tracer, now);
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
			got = wait_report(tracer, tid, patience_us, &status);
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
		if (tid != target_pid(tracer->target) || !has_ended(tracer, tid))
			set_event(tracer, thread, TRACER_THREAD_ENDED);
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
		/* Killed in the stop. */
		thread->stopped = false;
		return gone(thread->tid, error);
	}
	if (into.iov_len != sizeof(values)) {
		resume(thread);
		return error_set(error, ERROR_UNSUPPORTED, "thread %d runs 32-bit code",
				 (int)thread->tid);
	}
	translate(&values, registers);
	return true;
}

bool tracer_stop(struct tracer *tracer, pid_t tid, unsigned patience_us,
		 struct registers *registers, struct error *error)
{
	struct traced *thread = find(tracer, tid);
	if (!thread || thread->event || tracer->process_ended)
		return gone(tid, error);
	if (!thread->stopped && !stop(tracer, thread, patience_us, error))
		return false;
	return read_registers(thread, registers, error);
}

/* ---- reports between samples ---- */

static void handle(struct tracer *tracer, pid_t tid, int status)
{
	struct traced *thread = find(tracer, tid);
	struct traced stranger = {.tid = tid};
	if (!WIFSTOPPED(status)) {
		note_end(tracer, tid, status);
	} else if (status >> 16 == PTRACE_EVENT_EXEC && tracer->capacity) {
		note_exec(tracer, tid);
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
		drop(tracer, thread);
		tracer->emptied = tracer->count == 0;
	} else {
		thread->event = TRACER_NOTHING;
		tracer->events--;
	}
	return event;
}

static enum tracer_event report_process_end(struct tracer *tracer, pid_t *tid, int *status)
{
	*tid = target_pid(tracer->target);
	if (status)
		*status = tracer->end_status;
	tracer->process_ended = tracer->emptied = false;
	tracer->count = tracer->events = 0;
	return TRACER_PROCESS_ENDED;
}

enum tracer_event tracer_poll(struct tracer *tracer, pid_t *tid, int *status)
{
	int reported;
	pid_t from;
	while ((from = waitpid(-1, &reported, __WALL | WNOHANG)) > 0)
		handle(tracer, from, reported);
	for (size_t i = 0; tracer->events && i < tracer->count; i++)
		if (tracer->threads[i].event)
			return report(tracer, &tracer->threads[i], tid);
	if (tracer->process_ended)
		return report_process_end(tracer, tid, status);
	/* Nobody tells us of the process's end when its first thread was not traced. */
	if (tracer->emptied && !target_alive(tracer->target)) {
		tracer->end_status = -1;
		return report_process_end(tracer, tid, status);
	}
	tracer->emptied = false;
	return TRACER_NOTHING;
}

static bool look_is_due(const struct tracer *tracer, uint64_t now, uint64_t deadline_ns)
{
	const uint64_t since = now - tracer->looked_at, doubt = tracer->count * DOUBT_NS;
	return tracer->heard || since >= LOOK_NS ||
	       (tracer->doubtful && (since >= doubt || now + doubt <= deadline_ns));
}

static bool something_waits(struct tracer *tracer, uint64_t deadline_ns)
{
	siginfo_t info = {0};
	if (tracer->events || tracer->process_ended)
		return true;
	uint64_t now = now_ns();
	if (!look_is_due(tracer, now, deadline_ns))
		return false;
	tracer->looked_at = now;
	tracer->looks++;
	tracer->doubtful = false;
	tracer->heard = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
			info.si_pid != 0;
	return tracer->heard;
}

/* Sets the alarm that is not set for `other`, unless one is set for that time already. */
static bool set_one(struct alarm alarms[2], uint64_t at, uint64_t other)
{
	return alarms[0].at == at || alarms[1].at == at ||
	       set_alarm(&alarms[alarms[0].at == other], at);
}

/*
 * Two are set at a time: when one goes off, the kernel prepares the clock for the next one anyway,
 * while to set a timer that is the earliest prepares it once more: 5 us in a virtual machine.
 */
static bool set_alarms(struct tracer *tracer, uint64_t deadline_ns, uint64_t following_ns)
{
	struct alarm *alarms = &tracer->alarms[ALARM_SLEEP];
	return has_alarms(tracer) && set_one(alarms, deadline_ns, following_ns) &&
	       (!following_ns || set_one(alarms, following_ns, deadline_ns));
}

uint64_t tracer_looks(const struct tracer *tracer)
{
	return tracer->looks;
}

bool tracer_sleep(struct tracer *tracer, uint64_t deadline_ns, uint64_t following_ns)
{
	for (;;) {
		/* Looked at first: one SIGCHLD may stand for several reports. */
		if (something_waits(tracer, deadline_ns))
			return true;
		uint64_t now = now_ns();
		if (now >= deadline_ns)
			return false;
		uint64_t left = deadline_ns - now;
		if (left > SLEEP_LIMIT_NS) {
			wait_signal(tracer, SLEEP_LIMIT_NS);
			return true; /* the caller may have other reasons not to sleep on */
		}
		if (set_alarms(tracer, deadline_ns, following_ns))
			wait_signal_or_alarm(tracer);
		else
			wait_signal(tracer, left);
	}
}
