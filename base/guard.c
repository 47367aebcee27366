/* SPDX-License-Identifier: MIT */
/*
 * Relies on clone(2): with CLONE_VM and without CLONE_THREAD it makes a process that is killed
 * alone, and with CLONE_VFORK the thread that made it sleeps until that ends, so that both may use
 * one thread's area of libc (errno, malloc). That thread, the host, does nothing else.
 */
#include "base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum {
	STACK_SIZE = 2 << 20,
	STACK_GUARD = 64 << 10,
	HOST_STACK = 256 << 10,
};

static const uint64_t CONDEMNED = ~(uint64_t)0;
static const uint64_t LOST_NS = 1000000000; /* until one that was killed has ended, if it can */
static const uint64_t LOOK_NS = 15000000;   /* between two looks ... */
static const uint64_t NEXT_NS = 5000000;    /* ... and after one that has found it waiting */
static const uint64_t OUTER_NS = 50000000;  /* between two looks whether who waits is there */

static _Thread_local struct guard *here;
static pthread_once_t expected = PTHREAD_ONCE_INIT;

/* ---- in the work ---- */

bool guard_is_here(void)
{
	return here != NULL;
}

void guard_begin_wait(void)
{
	if (here)
		atomic_fetch_add(&here->waits, 1);
}

void guard_end_wait(void)
{
	if (!here)
		return;
	uint64_t waits = atomic_load_explicit(&here->waits, memory_order_relaxed);
	/* Condemned, it is not to touch anything any more. */
	while (waits == CONDEMNED ||
	       !atomic_compare_exchange_strong(&here->waits, &waits, waits + 1))
		pause();
}

void guard_rest_until(uint64_t time_ns)
{
	if (!here)
		return;
	atomic_store_explicit(&here->resting_until_ns, time_ns, memory_order_relaxed);
	if (time_ns - here->outer_seen_ns < OUTER_NS)
		return;
	/*
	 * PR_SET_PDEATHSIG came too late for the host's end, and then it was a thread without
	 * rights that ended last: it may send no signal to who has them.
	 */
	here->outer_seen_ns = time_ns;
	if (getppid() != here->outer)
		_exit(1);
}

pid_t guard_outer_process(void)
{
	return here ? here->outer : getpid();
}

static int begin(void *argument)
{
	struct guard *guard = argument;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != guard->outer)
		return 1;
	here = guard;
	guard->work(guard->context);
	here = NULL;
	return 0;
}

/* ---- the host ---- */

static void report_end(struct guard *guard, pid_t pid)
{
	siginfo_t info;
	/* It lets go of its tracees before it can be waited for; its number is its own until then.
	 */
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | __WALL) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&guard->lock);
	waitpid(pid, &guard->status, __WALL);
	guard->pid = 0;
	pthread_mutex_unlock(&guard->lock);
}

static void *be_host(void *argument)
{
	struct guard *guard = argument;
	char *const end = (char *)guard->stack + STACK_SIZE;
	const pid_t pid = clone(begin, end,
				CLONE_VM | CLONE_SIGHAND | CLONE_VFORK | CLONE_FILES | CLONE_FS |
					CLONE_PARENT_SETTID,
				guard, &guard->pid);
	if (pid > 0)
		report_end(guard, pid);
	pthread_mutex_lock(&guard->lock);
	guard->over = true;
	pthread_cond_signal(&guard->changed);
	pthread_mutex_unlock(&guard->lock);
	return NULL;
}

static void *new_stack(void)
{
	void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED)
		return NULL;
	if (mprotect(stack, STACK_GUARD, PROT_NONE) == 0)
		return stack;
	munmap(stack, STACK_SIZE);
	return NULL;
}

static bool start_host(struct guard *guard)
{
	pthread_attr_t attributes;
	guard->stack = new_stack();
	if (!guard->stack)
		return false;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, HOST_STACK);
	const int failure = pthread_create(&guard->host, &attributes, be_host, guard);
	pthread_attr_destroy(&attributes);
	if (failure == 0)
		return true;
	munmap(guard->stack, STACK_SIZE);
	errno = failure;
	return false;
}

/* ---- who looks ---- */

/* What the last looks have found. */
struct seen {
	uint64_t waits, since_ns;
};

/* It may as well wait for a CPU, or be busy. */
static bool sleeps(pid_t pid)
{
	char path[32], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (size <= 0)
		return false;
	text[size] = '\0';
	const char *const name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' && name_end[2] != 'R';
}

/* A tracer that is stopped keeps its tracees waiting. */
static void let_go_on(pid_t pid)
{
	siginfo_t info = {0};
	if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | __WALL) == 0 && info.si_pid)
		kill(pid, SIGCONT);
}

/* True: it was killed. */
static bool look(struct guard *guard, struct seen *seen, uint64_t now)
{
	uint64_t waits = atomic_load(&guard->waits);
	if (!guard->pid)
		return false;
	let_go_on(guard->pid);
	if (waits % 2 == 0 || waits != seen->waits) {
		*seen = (struct seen){waits, now};
		return false;
	}
	if (now - seen->since_ns < guard->limit_ns || !sleeps(guard->pid) ||
	    !atomic_compare_exchange_strong(&guard->waits, &waits, CONDEMNED))
		return false;
	kill(guard->pid, SIGKILL);
	return true;
}

static uint64_t next_look(const struct guard *guard, const struct seen *seen, uint64_t now)
{
	const uint64_t rest = atomic_load_explicit(&guard->resting_until_ns, memory_order_relaxed);
	/* While it rests it may be stopped, too. */
	const uint64_t longest = now + 4 * LOOK_NS;
	if (seen->waits % 2)
		return now + NEXT_NS;
	return rest <= now ? now + LOOK_NS : rest < longest ? rest + LOOK_NS : longest;
}

static void sleep_until(struct guard *guard, uint64_t deadline_ns)
{
	const struct timespec until = {(time_t)(deadline_ns / 1000000000u),
				       (long)(deadline_ns % 1000000000u)};
	pthread_cond_timedwait(&guard->changed, &guard->lock, &until);
}

/* False: it cannot even be killed, and is left alone. */
static bool await_end(struct guard *guard, bool *killed)
{
	struct seen seen = {0};
	uint64_t killed_ns = 0;
	*killed = false;
	while (!guard->over) {
		const uint64_t now = clock_now_ns();
		if (!*killed && (*killed = look(guard, &seen, now)))
			killed_ns = now;
		if (*killed && now - killed_ns > guard->lost_ns)
			return false;
		sleep_until(guard, next_look(guard, &seen, now));
	}
	return true;
}

void guard_init(struct guard *guard)
{
	pthread_condattr_t attributes;
	memset(guard, 0, sizeof(*guard));
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	guard->lost_ns = LOST_NS;
	pthread_mutex_init(&guard->lock, NULL);
	pthread_cond_init(&guard->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

void guard_release(struct guard *guard)
{
	pthread_mutex_destroy(&guard->lock);
	pthread_cond_destroy(&guard->changed);
}

/* Those that run, and those that are lost; whether anything was not answered. */
static _Atomic unsigned alive;
static _Atomic bool unanswered;

void guard_note_unanswered(void)
{
	atomic_store(&unanswered, true);
}

void guard_close_standard(void)
{
	close_range(STDIN_FILENO, STDERR_FILENO, 0);
}

/* One that is left, or is waiting yet for another thread, keeps our descriptors when we end. */
static void end_standard(void)
{
	if (!atomic_load(&alive) && !atomic_load(&unanswered))
		return;
	(void)!fflush(NULL);
	guard_close_standard();
}

static void expect_end(void)
{
	(void)!atexit(end_standard);
}

enum guard_end guard_run(struct guard *guard, uint64_t limit_ns, void (*work)(void *context),
			 void *context)
{
	bool killed;
	guard->work = work;
	guard->context = context;
	guard->limit_ns = limit_ns;
	guard->outer = getpid();
	guard->over = false;
	guard->status = -1;
	atomic_store(&guard->waits, 0);
	atomic_store(&guard->resting_until_ns, 0);
	guard->outer_seen_ns = 0;
	pthread_once(&expected, expect_end);
	atomic_fetch_add(&alive, 1);
	if (!start_host(guard)) {
		atomic_fetch_sub(&alive, 1);
		return GUARD_FAILED;
	}
	pthread_mutex_lock(&guard->lock);
	const bool ended = await_end(guard, &killed);
	pthread_mutex_unlock(&guard->lock);
	guard->lost = !ended;
	if (guard->lost) {
		pthread_detach(guard->host);
		return GUARD_STUCK;
	}
	pthread_join(guard->host, NULL);
	atomic_fetch_sub(&alive, 1);
	munmap(guard->stack, STACK_SIZE);
	if (killed) {
		guard_note_unanswered();
		return GUARD_STUCK;
	}
	return WIFEXITED(guard->status) && WEXITSTATUS(guard->status) == 0 ? GUARD_DONE
									   : GUARD_FAILED;
}

enum guard_end guard_once(uint64_t limit_ns, uint64_t lost_ns, void (*work)(void *context),
			  void *context, bool *lost)
{
	struct guard *guard = alloc_zeroed(1, sizeof(*guard));
	guard_init(guard);
	guard->lost_ns = lost_ns;
	const enum guard_end end = guard_run(guard, limit_ns, work, context);
	*lost = guard->lost;
	if (*lost) /* it is in use for ever */
		return end;
	guard_release(guard);
	free(guard);
	return end;
}

bool guard_is_lost(const struct guard *guard)
{
	return guard->lost;
}

void guard_wake(struct guard *guard)
{
	pthread_mutex_lock(&guard->lock);
	if (guard->pid)
		kill(guard->pid, SIGCHLD);
	pthread_mutex_unlock(&guard->lock);
}
