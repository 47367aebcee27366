/* SPDX-License-Identifier: MIT */
#include "copy/cpu_hold.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/log.h"

enum {
	STOPS = 2,   /* until a thread is followed: one that is stopped once is not worth it */
	CROWDED = 8, /* ticks in a row with several running threads: the taker is nobody's then */
	IDLE = 100,  /* without any: likewise */
	SWITCHES = 10000, /* a second beside ours, more of which would cost the thread 1 % */
	LATE = 40,	/* times LATE_NS, less the ticks that were on time, until a CPU is let be */
	MOST_LATE = 10, /* what one tick counts of it at most */
	LOST = 2,	/* what a sample that was lost counts of it */
};
static const uint64_t CHECK_NS = 1000000000; /* between two looks at what it costs */
static const uint64_t LATE_NS = 500000;	     /* later: the CPU was not given in time */
static const uint64_t STAY_NS = 2000000000;  /* then it is not tried again for so long */
static const uint64_t SLOW_NS = 1000000;     /* a stop that waits for a CPU */
static const uint64_t OTHER_NS = 6000;	     /* more is not done while a thread waits for it */
static const uint64_t SETTLED_NS = 300000;   /* it has been on this CPU for so long */
static const uint64_t SWITCH_NS = 100000;    /* between a switch and a thread that does something */

/* RAX of a thread whose system call is under way (Linux arch/x86/entry). */
static const uint64_t UNDER_WAY = (uint64_t)-ENOSYS;

void cpu_holder_init(struct cpu_holder *holder, const struct target *target, bool wanted)
{
	struct error error;
	memset(holder, 0, sizeof(*holder));
	placement_init(&holder->placement);
	holder->leave = -1;
	if (!wanted)
		return;
	/* Of the first thread, which hardly ever runs. */
	holder->wanted = switch_log_open(target, guard_outer_process(), &holder->own, &error);
	if (!holder->wanted)
		log_debug("sample", "%s", error.message);
}

void cpu_holder_release(struct cpu_holder *holder)
{
	switch_log_close(holder->own);
	copier_free(holder->copier);
	holder->own = NULL;
	holder->copier = NULL;
}

/*
 * A long stall weighs more than a short one. But all CPUs of a virtual machine may stand still at
 * once, which is not because of the thread.
 */
static void count_late(struct cpu_holder *holder, uint64_t late_ns)
{
	const uint64_t count = late_ns / LATE_NS;
	holder->late -= holder->late > 0;
	if (cpu_holder_follows(holder))
		holder->late += count < MOST_LATE ? count : MOST_LATE;
	if (holder->late < LATE)
		return;
	log_debug("sample", "CPU %d is not given in time", holder->placement.cpu);
	holder->stay_until_ns = holder->tick_ns + STAY_NS;
	holder->late = 0;
}

static void count_running(struct cpu_holder *holder)
{
	if (holder->running > 1)
		holder->crowded += holder->crowded < CROWDED;
	else if (holder->running == 1)
		holder->crowded = 0;
	holder->idle = holder->running == 0 ? holder->idle + 1 : 0;
	holder->running = 0;
}

/*
 * Several threads that run have several CPUs. What is done besides copying is done at the thread's
 * expense. And where it cannot be made to give way at once (an older kernel, without the right to a
 * higher priority), ticks come late.
 */
void cpu_holder_begin(struct cpu_holder *holder, uint64_t now_ns, uint64_t deadline_ns,
		      uint64_t period_ns, uint64_t other_ns)
{
	holder->tick_ns = now_ns;
	holder->deadline_ns = deadline_ns;
	holder->period_ns = period_ns;
	count_late(holder, now_ns > deadline_ns ? now_ns - deadline_ns : 0);
	count_running(holder);
	holder->may_follow = holder->crowded < CROWDED && now_ns >= holder->stay_until_ns &&
			     other_ns <= OTHER_NS;
	if (holder->placement.cpu >= 0 && (!holder->may_follow || holder->idle >= IDLE))
		placement_stay_on(&holder->placement, -1);
}

void cpu_holder_end(struct cpu_holder *holder, uint64_t now_ns)
{
	holder->rest_ns = now_ns;
	if (holder->leave >= 0)
		placement_stay_off(&holder->placement, holder->leave);
	holder->leave = -1;
}

bool cpu_holder_follows(const struct cpu_holder *holder)
{
	return holder->placement.cpu >= 0 && !holder->placement.off;
}

static void refuse(struct cpu_hold *hold, const char *why)
{
	log_debug("sample", "%s", why);
	cpu_hold_release(hold);
	hold->refused = true;
}

/* Which cannot be made to give way. */
static bool is_real_time(pid_t tid)
{
	int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
	return policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE;
}

/* Why the thread is not to be followed any longer, looked for now and then; NULL: it is. */
static const char *why_not(const struct cpu_holder *holder, struct cpu_hold *hold,
			   uint64_t position)
{
	const uint64_t now_ns = holder->tick_ns, passed_ns = now_ns - hold->checked_ns;
	if (passed_ns < CHECK_NS)
		return NULL;
	const uint64_t most = passed_ns / (CHECK_NS / SWITCHES) + 2 * passed_ns / holder->period_ns;
	const uint64_t switches = (hold->checked_position - position) / SWITCH_LOG_BYTES;
	const bool costly = hold->checked_ns && switches > most;
	hold->checked_ns = now_ns;
	hold->checked_position = position;
	if (costly)
		return "a thread has too many context switches to be told of them";
	return is_real_time(hold->tid) ? "a real-time thread does not give way" : NULL;
}

uint64_t cpu_hold_position(const struct cpu_hold *hold)
{
	return hold->trusted ? switch_log_position(hold->log) : 0;
}

bool cpu_hold_runs(const struct cpu_holder *holder, struct cpu_hold *hold)
{
	struct thread_switch last;
	if (!hold->trusted || !switch_log_last(hold->log, &last))
		return false;
	const char *why = why_not(holder, hold, last.position);
	if (why)
		refuse(hold, why);
	return last.runnable;
}

/* The taker, too, makes a thread wait, but no earlier than that. */
bool cpu_hold_waited(const struct cpu_holder *holder, const struct cpu_hold *hold)
{
	struct thread_switch last;
	return hold->trusted && switch_log_last(hold->log, &last) && last.runnable &&
	       last.on_cpu == (last.time_ns > holder->deadline_ns);
}

/*
 * To the CPU that it runs on, where it cannot run while we do. One that has got it but now (it
 * sleeps and wakes all the time) may be elsewhere the next time.
 */
static bool follow(struct cpu_holder *holder, const struct cpu_hold *hold,
		   const struct thread_switch *last)
{
	if (hold->interrupted) {
		if (holder->may_follow && !last->on_cpu && last->cpu == clock_cpu())
			holder->leave = last->cpu;
		return false;
	}
	/* It stopped for us, too. */
	const uint64_t quarter = holder->period_ns / 4;
	const uint64_t settled_ns = quarter < SETTLED_NS ? quarter : SETTLED_NS;
	return holder->may_follow && last->cpu != holder->placement.cpu &&
	       (!last->on_cpu || last->time_ns + settled_ns < holder->tick_ns) &&
	       placement_stay_on(&holder->placement, last->cpu);
}

bool cpu_hold_begin(struct cpu_holder *holder, struct cpu_hold *hold, struct thread_switch *last)
{
	holder->running++;
	if (!hold->trusted || !switch_log_last(hold->log, last))
		return false;
	if (last->runnable && follow(holder, hold, last) && !switch_log_last(hold->log, last))
		return false;
	last->registers.fs_base = hold->fs_base;
	/* In exit or execve its memory may be another thread's or program's already. */
	return !last->on_cpu && last->registers.value[REGISTER_RAX] != UNDER_WAY;
}

static uint64_t pause_of(const struct cpu_holder *holder, const struct cpu_hold *hold)
{
	const uint64_t off_ns = hold->ours ? switch_log_off_cpu(hold->log, &hold->last) : 0;
	const uint64_t rest_ns = hold->rest_ns ? hold->rest_ns : holder->rest_ns;
	const uint64_t ours_ns = rest_ns - hold->last.time_ns;
	if (off_ns == 0)
		return 0;
	/* Others had the CPU before it. */
	return hold->copy_ns + (off_ns > ours_ns + SWITCH_NS ? ours_ns : off_ns);
}

/* What the kernel did in the thread's place before it reported the switch. */
static uint64_t copy_time(const struct cpu_holder *holder, const struct cpu_hold *hold,
			  const struct thread_switch *last)
{
	const bool expected = holder->copier && holder->expected == hold->tid;
	const uint64_t began_ns = expected ? copier_began_ns(holder->copier) : 0;
	return began_ns && began_ns < last->time_ns ? last->time_ns - began_ns : 0;
}

bool cpu_hold_end(struct cpu_holder *holder, struct cpu_hold *hold,
		  const struct thread_switch *last, uint64_t *pause_ns)
{
	const uint64_t copy_ns = copy_time(holder, hold, last);
	if (switch_log_position(hold->log) != last->position) {
		holder->lost++;
		holder->late += LOST;
		return false;
	}
	holder->held++;
	*pause_ns = pause_of(holder, hold);
	hold->last = *last;
	hold->copy_ns = copy_ns;
	hold->rest_ns = 0;
	hold->ours = last->runnable && last->cpu == clock_cpu() &&
		     last->time_ns + SWITCH_NS > holder->tick_ns;
	return true;
}

void cpu_hold_leave(struct cpu_holder *holder, struct cpu_hold *hold)
{
	holder->running++;
	holder->left++;
	if (hold->rest_ns == 0)
		hold->rest_ns = holder->rest_ns;
}

/* Older kernels do not report all registers of a thread that is in a system call. */
void cpu_hold_check(struct cpu_hold *hold, const struct registers *registers)
{
	struct thread_switch last;
	hold->fs_base = registers->fs_base;
	if (!hold->log || hold->trusted || hold->refused || !switch_log_last(hold->log, &last))
		return;
	hold->trusted = !last.on_cpu && memcmp(last.registers.value, registers->value,
					       sizeof(registers->value)) == 0;
	hold->refused = !hold->trusted;
}

/* From now on, when it is expected to give way. */
static void copy_switches(struct cpu_holder *holder, const struct cpu_hold *hold)
{
	struct error error;
	if (!holder->copier || switch_log_copy(hold->log, holder->copier, &error))
		return;
	log_debug("sample", "%s", error.message);
	copier_free(holder->copier);
	holder->copier = NULL;
}

void cpu_hold_learn(struct cpu_holder *holder, struct cpu_hold *hold, const struct target *target,
		    pid_t tid, uint64_t stop_ns)
{
	struct error error;
	if (hold->log && hold->refused)
		refuse(hold, "the kernel tells other registers at a switch than by ptrace");
	if (!holder->wanted || hold->log || hold->refused)
		return;
	hold->stops += stop_ns > SLOW_NS ? STOPS : 1;
	if (hold->stops < STOPS)
		return;
	hold->tid = tid;
	hold->refused = is_real_time(tid);
	if (hold->refused)
		return;
	if (switch_log_open(target, tid, &hold->log, &error)) {
		copy_switches(holder, hold);
		return;
	}
	hold->refused = error.kind != ERROR_BUSY;
	hold->stops = 0;
	log_debug("sample", "%s", error.message);
}

void cpu_hold_release(struct cpu_hold *hold)
{
	switch_log_close(hold->log);
	hold->log = NULL;
	hold->stops = 0;
	hold->checked_ns = 0;
	hold->trusted = hold->ours = hold->interrupted = false;
}
