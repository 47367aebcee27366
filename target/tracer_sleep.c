/* SPDX-License-Identifier: MIT */
/*
 * How the tracer sleeps until a traced thread reports something, which is a SIGCHLD, or until a
 * time, which is made one by a timer of its own. Consumes no report.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/tracer_internal.h"

enum {
	TICK_NS = 4 * 1000 * 1000,	    /* how long a wait may be overdue */
	SLEEP_LIMIT_NS = 100 * 1000 * 1000, /* should a SIGCHLD get lost, look then */
	LOOK_NS = 20 * 1000 * 1000,	    /* and whatever was heard, look now and then */
	DOUBT_NS = 2500, /* a traced thread: after a stop of ours, between two looks for others */
};

void tracer_make_alarms(struct tracer *tracer)
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

sigset_t tracer_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	return signals;
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
	const struct traced *thread = traced_find(tracer, info->si_pid);
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
	const sigset_t signals = tracer_signals();
	if (sigtimedwait(&signals, &info, &timeout) > 0)
		hear(tracer, &info);
	else if (ns >= SLEEP_LIMIT_NS)
		tracer->heard = true; /* should one have got lost */
}

/* Until an alarm goes off or something is reported: both are SIGCHLD. */
static void wait_signal_or_alarm(struct tracer *tracer)
{
	siginfo_t info = {0};
	const sigset_t signals = tracer_signals();
	if (sigwaitinfo(&signals, &info) > 0)
		hear(tracer, &info);
}

/*
 * Sleeps until a traced thread reports something, for TICK_NS at most. Sleeping, not yielding: the
 * thread may need our CPU to get to its stop, and sched_yield costs a turn of 4 ms (Linux 6.18).
 * Without a timeout: to set one for each wait makes 24 us of 10. The tick is a SIGCHLD too.
 */
void tracer_wait_report(struct tracer *tracer, uint64_t now)
{
	struct alarm *tick = &tracer->alarms[ALARM_TICK];
	if (!has_alarms(tracer) || (now >= tick->at && !set_alarm(tick, now + TICK_NS))) {
		wait_signal(tracer, TICK_NS);
		return;
	}
	wait_signal_or_alarm(tracer);
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
	if (tracer->events || tracer->news)
		return true;
	uint64_t now = clock_now_ns();
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
		uint64_t now = clock_now_ns();
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
