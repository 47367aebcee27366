/* SPDX-License-Identifier: MIT */
/*
 * Stopping and resuming the threads of forked processes: nothing is left stopped, no signal is
 * lost, whatever happens at whichever moment. The processes announce what they did through pipes
 * and shared memory; what is waited for is waited for with a limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "modules/internal.h"
#include "target/internal.h"
#include "target/tracer.h"

enum { THREADS = 4, MANY = 300, PATIENCE_US = 2000000 };

/* Shared with the process under test. */
struct shared {
	_Atomic uint64_t turns, signals, eintr;
	_Atomic int go, tid;
};

static struct shared *shared;

/* ---- processes ---- */

static void *turn(void *unused)
{
	(void)unused;
	for (;;)
		atomic_fetch_add(&shared->turns, 1);
	return NULL;
}

static void count_signal(int number)
{
	(void)number;
	atomic_fetch_add(&shared->signals, 1);
}

static void start_threads(void *(*run)(void *))
{
	pthread_t thread;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, run, NULL);
}

static void spin_body(int ready)
{
	start_threads(turn);
	(void)!write(ready, "r", 1);
	turn(NULL);
}

static void signal_body(int ready)
{
	signal(SIGRTMIN, count_signal);
	signal(SIGTRAP, count_signal);
	(void)!write(ready, "r", 1);
	turn(NULL);
}

static void *sleep_on(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

/* Its first thread takes the signals. */
static void many_body(int ready)
{
	sigset_t signals;
	pthread_t thread;
	signal(SIGRTMIN, count_signal);
	sigemptyset(&signals);
	sigaddset(&signals, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	for (int i = 0; i < MANY; i++)
		pthread_create(&thread, NULL, i ? sleep_on : turn, NULL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	(void)!write(ready, "r", 1);
	sleep_on(NULL);
}

static void vfork_body(int ready)
{
	(void)!write(ready, "r", 1);
	if (vfork() == 0) {
		/* Ends when the test says so, by way of the shared page. */
		while (!atomic_load(&shared->go))
			usleep(1000);
		_exit(0);
	}
	atomic_fetch_add(&shared->turns, 1);
	for (;;)
		pause();
}

static void *end_when_told(void *unused)
{
	(void)unused;
	atomic_store(&shared->tid, gettid());
	while (!atomic_load(&shared->go))
		;
	return NULL;
}

static void ending_thread_body(int ready)
{
	pthread_t thread;
	pthread_create(&thread, NULL, end_when_told, NULL);
	while (!atomic_load(&shared->tid))
		;
	(void)!write(ready, "r", 1);
	turn(NULL);
}

static void *exec_when_told(void *unused)
{
	(void)unused;
	while (!atomic_load(&shared->go))
		;
	execl("/bin/sleep", "sleep", "60", (char *)NULL);
	_exit(127);
}

static void exec_body(int ready)
{
	start_threads(turn);
	pthread_t thread;
	pthread_create(&thread, NULL, exec_when_told, NULL);
	(void)!write(ready, "r", 1);
	turn(NULL);
}

static void early_leader_body(int ready)
{
	start_threads(turn);
	(void)!write(ready, "r", 1);
	pthread_exit(NULL);
}

static void exit_body(int ready)
{
	(void)!write(ready, "r", 1);
	while (!atomic_load(&shared->go))
		;
	_exit(7);
}

/* waitpid, which nobody is to interrupt. */
static int await_child(pid_t pid)
{
	int status = -1;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		atomic_fetch_add(&shared->eintr, 1);
	return status;
}

enum { CHILDREN = 3 };

/* Children, each with a child of its own, whose exit statuses tell them apart; and a program. */
static void family_body(int ready)
{
	(void)!write(ready, "r", 1);
	while (!atomic_load(&shared->go))
		;
	for (int i = 0; i < CHILDREN; i++) {
		const pid_t child = fork();
		if (child == 0) {
			const pid_t grandchild = fork();
			if (grandchild == 0)
				_exit(40 + i);
			_exit(WEXITSTATUS(await_child(grandchild)) == 40 + i ? 20 + i : 1);
		}
		if (WEXITSTATUS(await_child(child)) == 20 + i)
			atomic_fetch_add(&shared->turns, 1);
	}
	char *const arguments[] = {(char *)(uintptr_t) "true", NULL};
	pid_t program;
	if (posix_spawn(&program, "/bin/true", NULL, NULL, arguments, NULL) == 0 &&
	    await_child(program) == 0)
		atomic_fetch_add(&shared->turns, 1);
	sleep_on(NULL);
}

static void spinning_child_body(int ready)
{
	(void)!write(ready, "r", 1);
	while (!atomic_load(&shared->go))
		;
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		spin_body(ready);
	}
	sleep_on(NULL);
}

/* Forks without end; each child is waited for. */
static void forking_body(int ready)
{
	(void)!write(ready, "r", 1);
	for (;;) {
		const pid_t child = fork();
		if (child == 0)
			_exit(0);
		await_child(child);
		atomic_fetch_add(&shared->turns, 1);
	}
}

static pid_t start(void (*body)(int ready))
{
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(ready[1]);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* Threads that we trace are reaped one by one, and the process after them. */
static void end(pid_t pid)
{
	pid_t ended;
	kill(pid, SIGKILL);
	while ((ended = waitpid(-1, NULL, __WALL)) != pid && (ended > 0 || errno == EINTR))
		;
}

/* ---- what is looked at ---- */

static struct target *open_target(pid_t pid)
{
	struct target *target = NULL;
	struct error error = {0};
	if (!target_open(pid, &target, &error))
		fail_msg("%s", error.message);
	return target;
}

static bool eventually(bool (*holds)(const void *), const void *about)
{
	struct timespec pause = {.tv_nsec = 1000000};
	for (int i = 0; i < 10000; i++) {
		if (holds(about))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool turns_on(const void *from)
{
	return atomic_load(&shared->turns) > *(const uint64_t *)from;
}

static void assert_runs(void)
{
	uint64_t now = atomic_load(&shared->turns);
	assert_true(eventually(turns_on, &now));
}

static char state_of(pid_t pid)
{
	char path[40], text[1024];
	struct proc_stat stat;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (proc_read(-1, path, text, sizeof(text)) <= 0 || !proc_parse_stat(text, &stat))
		return 0;
	return stat.state;
}

static bool is_stopped(const void *pid)
{
	char state = state_of(*(const pid_t *)pid);
	return state == 'T' || state == 't';
}

static void poll_all(struct tracer *tracer)
{
	pid_t tid;
	int status;
	while (tracer_poll(tracer, &tid, &status) != TRACER_NOTHING)
		;
}

static uint64_t in_ms(uint64_t ms)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ms * 1000000u;
}

/* Polls until the event comes, for 10 s at most. */
static enum tracer_event await(struct tracer *tracer, enum tracer_event wanted, pid_t *tid,
			       int *status)
{
	uint64_t deadline = in_ms(10000);
	while (tracer_sleep(tracer, deadline, 0)) {
		enum tracer_event event;
		while ((event = tracer_poll(tracer, tid, status)) != TRACER_NOTHING)
			if (event == wanted)
				return event;
	}
	return TRACER_NOTHING;
}

static size_t seize_all(struct tracer *tracer, const struct target *target, pid_t *tids,
			size_t room)
{
	struct target_thread *threads;
	size_t count;
	struct error error = {0};
	assert_true(target_threads(target, &threads, &count, &error));
	assert_true(count <= room);
	for (size_t i = 0; i < count; i++) {
		tids[i] = threads[i].tid;
		if (!tracer_seize(tracer, tids[i], &error))
			fail_msg("%s", error.message);
	}
	free(threads);
	return count;
}

/* ---- tests ---- */

static void every_thread_stops_and_runs_on_and_nothing_is_allocated(void **state)
{
	(void)state;
	pid_t pid = start(spin_body), tids[THREADS + 2];
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	size_t count = seize_all(tracer, target, tids, sizeof(tids) / sizeof(*tids));
	assert_int_equal(count, THREADS + 1);
	uint64_t allocations = alloc_count();
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < count; i++) {
			if (!tracer_stop(tracer, tids[i], PATIENCE_US, &registers, &error))
				fail_msg("%s", error.message);
			assert_int_equal(registers.known, (1u << REGISTER_COUNT) - 1);
			assert_true(registers.value[REGISTER_RIP] && registers.fs_base);
		}
		uint64_t before = atomic_load(&shared->turns);
		usleep(100);
		assert_int_equal(atomic_load(&shared->turns), before);
		for (size_t i = 0; i < count; i++)
			tracer_resume(tracer, tids[i]);
		assert_runs();
	}
	assert_int_equal(alloc_count(), allocations);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

/* Real-time signals are queued one by one; SIGTRAP from a user looks much like a stop of ours. */
static void a_storm_of_signals_is_delivered_in_full(void **state)
{
	(void)state;
	pid_t pid = start(signal_body);
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	uint64_t sent = 0;
	assert_true(tracer_seize(tracer, pid, &error));
	for (int i = 0; i < 1000; i++) {
		kill(pid, SIGRTMIN);
		sent++;
		if (i % 100 == 0) {
			kill(pid, SIGTRAP);
			sent++;
		}
		if (!tracer_stop(tracer, pid, PATIENCE_US, &registers, &error))
			fail_msg("%s", error.message);
		tracer_resume(tracer, pid);
		if (i % 3 == 0 || i % 100 >= 98)
			poll_all(tracer);
		/* SIGTRAP is not queued twice. */
		uint64_t deadline = in_ms(10000);
		while (i % 100 == 99 && atomic_load(&shared->signals) < sent &&
		       in_ms(0) < deadline) {
			tracer_sleep(tracer, in_ms(1), 0);
			poll_all(tracer);
		}
		if (i % 100 == 99)
			assert_int_equal(atomic_load(&shared->signals), sent);
	}
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

/*
 * The kernel keeps one SIGCHLD until it is taken: that of a stop that was waited for may stand for
 * a report of another thread, too.
 */
static void a_signal_to_another_thread_is_delivered_beside_stops(void **state)
{
	(void)state;
	enum { ROUNDS = 300 };
	pid_t pid = start(many_body), tids[MANY + 1];
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	assert_int_equal(seize_all(tracer, target, tids, sizeof(tids) / sizeof(*tids)), MANY + 1);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		/* In the order of the kernel's list: the first one, the one that turns, the rest.
		 */
		if (!tracer_stop(tracer, tids[1], PATIENCE_US, &registers, &error))
			fail_msg("%s", error.message);
		kill(pid, SIGRTMIN);
		tracer_resume(tracer, tids[1]);
		uint64_t deadline = in_ms(10000);
		while (atomic_load(&shared->signals) < round && in_ms(0) < deadline)
			if (tracer_sleep(tracer, in_ms(0) + 100000, 0))
				poll_all(tracer);
		assert_int_equal(atomic_load(&shared->signals), round);
	}
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

/* To look for reports takes the longer, the more threads are traced. */
static void stops_that_were_waited_for_are_not_asked_about_each_time(void **state)
{
	(void)state;
	enum { ROUNDS = 300, LOOK_US = 600 };
	pid_t pid = start(many_body), tids[MANY + 1];
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	seize_all(tracer, target, tids, sizeof(tids) / sizeof(*tids));
	const uint64_t begin = in_ms(0), before = tracer_looks(tracer);
	for (int round = 0; round < ROUNDS; round++) {
		if (!tracer_stop(tracer, tids[1], PATIENCE_US, &registers, &error))
			fail_msg("%s", error.message);
		tracer_resume(tracer, tids[1]);
		if (tracer_sleep(tracer, in_ms(0) + 50000, 0))
			poll_all(tracer);
	}
	const uint64_t most = (in_ms(0) - begin) / (LOOK_US * UINT64_C(1000)) + 20;
	const uint64_t looks = tracer_looks(tracer) - before;
	if (looks > most)
		fail_msg("%d looks, at most %d were due", (int)looks, (int)most);
	assert_true(looks > 0);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static void a_stopped_process_stays_stopped_and_continues_on_sigcont(void **state)
{
	(void)state;
	pid_t pid = start(spin_body), tids[THREADS + 2];
	kill(pid, SIGSTOP);
	assert_true(eventually(is_stopped, &pid));
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	size_t count = seize_all(tracer, target, tids, sizeof(tids) / sizeof(*tids));
	uint64_t before = atomic_load(&shared->turns);
	for (int round = 0; round < 5; round++) {
		poll_all(tracer);
		for (size_t i = 0; i < count; i++) {
			if (!tracer_stop(tracer, tids[i], PATIENCE_US, &registers, &error))
				fail_msg("%s", error.message);
			tracer_resume(tracer, tids[i]);
		}
	}
	usleep(2000);
	poll_all(tracer);
	assert_int_equal(atomic_load(&shared->turns), before);
	kill(pid, SIGCONT);
	uint64_t deadline = in_ms(10000);
	while (!turns_on(&before) && in_ms(0) < deadline) {
		tracer_sleep(tracer, in_ms(1), 0);
		poll_all(tracer);
	}
	assert_true(turns_on(&before));
	/* And a stop while it is traced is kept as well. */
	kill(pid, SIGSTOP);
	for (int i = 0; i < 50; i++) {
		tracer_sleep(tracer, in_ms(1), 0);
		poll_all(tracer);
	}
	before = atomic_load(&shared->turns);
	assert_true(tracer_stop(tracer, pid, PATIENCE_US, &registers, &error));
	tracer_resume(tracer, pid);
	poll_all(tracer);
	usleep(2000);
	assert_int_equal(atomic_load(&shared->turns), before);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static void a_thread_in_vfork_is_busy_within_patience_and_unharmed(void **state)
{
	(void)state;
	pid_t pid = start(vfork_body);
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	while (state_of(pid) != 'D')
		usleep(100);
	assert_true(tracer_seize(tracer, pid, &error));
	uint64_t begin = in_ms(0);
	assert_false(tracer_stop(tracer, pid, 20000, &registers, &error));
	assert_int_equal(error.kind, ERROR_BUSY);
	assert_true(in_ms(0) - begin < 500000000u);
	assert_false(tracer_stop(tracer, pid, 1000, &registers, &error));
	assert_int_equal(error.kind, ERROR_BUSY);
	uint64_t before = 0;
	atomic_store(&shared->go, 1);
	uint64_t deadline = in_ms(10000);
	while (!turns_on(&before) && in_ms(0) < deadline) {
		tracer_sleep(tracer, in_ms(5), 0);
		poll_all(tracer);
	}
	assert_true(turns_on(&before));
	assert_true(tracer_stop(tracer, pid, PATIENCE_US, &registers, &error));
	tracer_resume(tracer, pid);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static void the_end_of_a_thread_is_reported_once(void **state)
{
	(void)state;
	pid_t pid = start(ending_thread_body), tids[THREADS + 2], tid = 0, ending;
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	int status;
	ending = atomic_load(&shared->tid);
	assert_int_equal(seize_all(tracer, target, tids, sizeof(tids) / sizeof(*tids)), 2);
	atomic_store(&shared->go, 1);
	/* Stopped again and again while it ends. */
	while (tracer_stop(tracer, ending, PATIENCE_US, &registers, &error))
		tracer_resume(tracer, ending);
	assert_int_equal(error.kind, ERROR_GONE);
	assert_int_equal(await(tracer, TRACER_THREAD_ENDED, &tid, &status), TRACER_THREAD_ENDED);
	assert_int_equal(tid, ending);
	assert_int_equal(tracer_poll(tracer, &tid, &status), TRACER_NOTHING);
	assert_false(tracer_stop(tracer, ending, PATIENCE_US, &registers, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	assert_false(tracer_seize(tracer, ending, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	assert_runs();
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static void an_exec_is_reported_and_the_new_program_runs(void **state)
{
	(void)state;
	pid_t pid = start(exec_body), tids[THREADS + 2], tid = 0;
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	uint64_t before_key, key;
	int status;
	assert_int_equal(seize_all(tracer, target, tids, sizeof(tids) / sizeof(*tids)),
			 THREADS + 2);
	assert_true(target_image_key(target, &before_key, &error));
	atomic_store(&shared->go, 1);
	assert_int_equal(await(tracer, TRACER_EXEC, &tid, &status), TRACER_EXEC);
	assert_int_equal(tid, pid);
	assert_true(target_image_key(target, &key, &error));
	assert_true(key != before_key);
	assert_int_equal(tracer_poll(tracer, &tid, &status), TRACER_NOTHING);
	if (!tracer_stop(tracer, pid, PATIENCE_US, &registers, &error))
		fail_msg("%s", error.message);
	tracer_resume(tracer, pid);
	assert_true(target_alive(target));
	assert_int_equal(target_thread_count(target), 1);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static void the_end_of_the_process_gives_its_status(void **state)
{
	(void)state;
	pid_t pid = start(exit_body), tid = 0;
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct error error = {0};
	int status = 0;
	assert_true(tracer_seize(tracer, pid, &error));
	atomic_store(&shared->go, 1);
	assert_int_equal(await(tracer, TRACER_PROCESS_ENDED, &tid, &status), TRACER_PROCESS_ENDED);
	assert_int_equal(tid, pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_false(target_alive(target));
	tracer_free(tracer);
	target_free(target);
}

/* What was reported of one process. */
struct seen {
	pid_t pid;
	int births, execs, ends, status;
};

static struct seen *seen_of(struct seen *list, size_t *count, size_t room, pid_t pid)
{
	for (size_t i = 0; i < *count; i++)
		if (list[i].pid == pid)
			return &list[i];
	assert_true(*count < room);
	list[*count] = (struct seen){.pid = pid};
	return &list[(*count)++];
}

static size_t count_ends(const struct seen *list, size_t count, int status)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++)
		found += list[i].births == 1 && list[i].ends == 1 && WIFEXITED(list[i].status) &&
			 WEXITSTATUS(list[i].status) == status;
	return found;
}

static void each_child_is_reported_once_with_its_exec_and_its_end(void **state)
{
	(void)state;
	enum { ALL = 2 * CHILDREN + 1 };
	struct seen list[2 * ALL];
	size_t count = 0, ends = 0;
	const pid_t pid = start(family_body);
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct error error = {0};
	const uint64_t deadline = in_ms(10000);
	tracer_follow_children(tracer);
	assert_true(tracer_seize(tracer, pid, &error));
	atomic_store(&shared->go, 1);
	while (ends < ALL && tracer_sleep(tracer, deadline, 0)) {
		enum tracer_event event;
		pid_t tid;
		int status;
		while ((event = tracer_poll(tracer, &tid, &status)) != TRACER_NOTHING) {
			struct seen *seen = seen_of(list, &count, 2 * ALL, tid);
			seen->births += event == TRACER_CHILD;
			seen->execs += event == TRACER_EXEC;
			assert_int_equal(seen->births, 1); /* before all else */
			if (event == TRACER_PROCESS_ENDED) {
				seen->ends++;
				seen->status = status;
				ends++;
			}
		}
	}
	assert_int_equal(count, ALL);
	for (int i = 0; i < CHILDREN; i++) {
		assert_int_equal(count_ends(list, count, 20 + i), 1);
		assert_int_equal(count_ends(list, count, 40 + i), 1);
	}
	assert_int_equal(count_ends(list, count, 0), 1);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(list[i].execs, list[i].status == 0);
	const uint64_t before = CHILDREN;
	assert_true(eventually(turns_on, &before));
	assert_int_equal(atomic_load(&shared->eintr), 0);
	assert_true(target_alive(target));
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static void threads_of_several_processes_are_stopped(void **state)
{
	(void)state;
	const pid_t pid = start(spinning_child_body);
	struct target *target = open_target(pid), *child_target;
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	struct error error = {0};
	struct target_thread *threads;
	pid_t child = 0, tid = 0;
	size_t count;
	int status;
	tracer_follow_children(tracer);
	assert_true(tracer_seize(tracer, pid, &error));
	atomic_store(&shared->go, 1);
	assert_int_equal(await(tracer, TRACER_CHILD, &child, &status), TRACER_CHILD);
	assert_int_not_equal(child, pid);
	assert_runs();
	child_target = open_target(child);
	assert_true(target_threads(child_target, &threads, &count, &error));
	for (size_t i = 0; i < count; i++) {
		assert_true(tracer_seize_of(tracer, child, threads[i].tid, &error));
		if (!tracer_stop(tracer, threads[i].tid, PATIENCE_US, &registers, &error))
			fail_msg("%s", error.message);
	}
	assert_true(tracer_stop(tracer, pid, PATIENCE_US, &registers, &error));
	tracer_resume_all(tracer);
	assert_runs();
	/* The end of the one is none of the other's. */
	kill(child, SIGKILL);
	assert_int_equal(await(tracer, TRACER_PROCESS_ENDED, &tid, &status), TRACER_PROCESS_ENDED);
	assert_int_equal(tid, child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_false(tracer_stop(tracer, threads[0].tid, PATIENCE_US, &registers, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	assert_true(tracer_stop(tracer, pid, PATIENCE_US, &registers, &error));
	tracer_resume(tracer, pid);
	free(threads);
	tracer_free(tracer);
	target_free(child_target);
	target_free(target);
	end(pid);
}

/* Each of them is born, and then ends, once. */
static void many_short_lives_are_all_reported(void **state)
{
	(void)state;
	enum { LIVES = 300, MOST = 4 * LIVES };
	static struct seen list[MOST];
	const pid_t pid = start(forking_body);
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct error error = {0};
	const uint64_t deadline = in_ms(30000);
	size_t count = 0, ends = 0;
	tracer_follow_children(tracer);
	assert_true(tracer_seize(tracer, pid, &error));
	while (ends < LIVES && tracer_sleep(tracer, deadline, 0)) {
		enum tracer_event event;
		pid_t tid;
		int status;
		while (count < MOST &&
		       (event = tracer_poll(tracer, &tid, &status)) != TRACER_NOTHING) {
			struct seen *seen = seen_of(list, &count, MOST, tid);
			seen->births += event == TRACER_CHILD;
			seen->ends += event == TRACER_PROCESS_ENDED;
			assert_int_equal(seen->births, 1);
			assert_true(seen->ends <= 1);
			ends += event == TRACER_PROCESS_ENDED;
		}
	}
	assert_true(ends >= LIVES);
	/* One is waited for before the next one is made. */
	assert_true(count - ends <= 2);
	assert_true(atomic_load(&shared->turns) + 2 >= ends);
	assert_int_equal(atomic_load(&shared->eintr), 0);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static bool is_zombie(const void *pid)
{
	return state_of(*(const pid_t *)pid) == 'Z';
}

static void a_process_outlives_its_first_thread(void **state)
{
	(void)state;
	pid_t pid = start(early_leader_body), tids[THREADS + 2], tid = 0;
	assert_true(eventually(is_zombie, &pid));
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct module_table table;
	struct registers registers;
	struct error error = {0};
	uint64_t word;
	int status;
	assert_true(target_alive(target));
	struct target_thread *threads;
	size_t count, seized = 0;
	assert_true(target_threads(target, &threads, &count, &error));
	for (size_t i = 0; i < count; i++)
		if (tracer_seize(tracer, threads[i].tid, &error))
			tids[seized++] = threads[i].tid;
		else
			assert_int_equal(error.kind, ERROR_GONE);
	free(threads);
	assert_int_equal(seized, THREADS);
	assert_true(tracer_stop(tracer, tids[0], PATIENCE_US, &registers, &error));
	if (!memory_read_u64(target_memory(target), registers.value[REGISTER_RSP], &word, &error))
		fail_msg("%s", error.message);
	tracer_resume(tracer, tids[0]);
	module_table_init(&table);
	if (!module_table_refresh(&table, target, NULL, &error))
		fail_msg("%s", error.message);
	assert_true(table.module_count > 2);
	module_table_release(&table);
	assert_int_equal(tracer_poll(tracer, &tid, &status), TRACER_NOTHING);
	assert_runs();
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

/* A tracer in a process of its own, to be killed at any moment. */
static pid_t start_tracer(pid_t pid)
{
	pid_t tracer_pid = fork();
	if (tracer_pid)
		return tracer_pid;
	struct target *target;
	struct registers registers;
	pid_t tids[THREADS + 2];
	struct target_thread *threads;
	size_t count;
	if (!target_open(pid, &target, NULL) || !target_threads(target, &threads, &count, NULL))
		_exit(1);
	struct tracer *tracer = tracer_new(target);
	for (size_t i = 0; i < count && i < THREADS + 2; i++) {
		tids[i] = threads[i].tid;
		(void)!tracer_seize(tracer, tids[i], NULL);
	}
	for (;;) {
		for (size_t i = 0; i < count; i++) {
			(void)!tracer_stop(tracer, tids[i], PATIENCE_US, &registers, NULL);
			tracer_resume(tracer, tids[i]);
		}
		poll_all(tracer);
	}
}

static pid_t start_following_tracer(pid_t pid)
{
	const pid_t tracer_pid = fork();
	if (tracer_pid)
		return tracer_pid;
	struct target *target;
	struct error error;
	if (!target_open(pid, &target, &error))
		_exit(1);
	struct tracer *tracer = tracer_new(target);
	tracer_follow_children(tracer);
	if (!tracer_seize(tracer, pid, &error))
		_exit(1);
	for (;;)
		if (tracer_sleep(tracer, in_ms(1000), 0))
			poll_all(tracer);
}

/* Whoever is about to fork, or has just been born. */
static void a_killed_tracer_leaves_no_child_stopped(void **state)
{
	(void)state;
	const pid_t pid = start(forking_body);
	for (int i = 0; i < 60; i++) {
		const pid_t tracer = start_following_tracer(pid);
		usleep((useconds_t)(i * 97 % 3000));
		end(tracer);
		assert_runs();
	}
	assert_int_equal(atomic_load(&shared->eintr), 0);
	end(pid);
}

static void a_killed_tracer_leaves_the_target_as_it_was(void **state)
{
	(void)state;
	pid_t pid = start(spin_body);
	for (int i = 0; i < 40; i++) {
		pid_t tracer = start_tracer(pid);
		usleep((useconds_t)(i * 97 % 3000));
		end(tracer);
		assert_runs();
	}
	kill(pid, SIGSTOP);
	assert_true(eventually(is_stopped, &pid));
	for (int i = 0; i < 20; i++) {
		uint64_t before = atomic_load(&shared->turns);
		pid_t tracer = start_tracer(pid);
		usleep((useconds_t)(i * 197 % 3000));
		end(tracer);
		/* From the traced stop to the user's it passes through "running" in the kernel. */
		assert_true(eventually(is_stopped, &pid));
		assert_int_equal(atomic_load(&shared->turns), before);
	}
	kill(pid, SIGCONT);
	assert_runs();
	end(pid);
}

/* A thread whose CPU went idle in the stop is on its way to run for some 20 us: not blocked. */
static void a_thread_just_resumed_counts_as_running(void **state)
{
	(void)state;
	/* Where the kernel takes pages back, the thread may wait for one of its own. */
	enum { ROUNDS = 2000, FAULTS_MOST = ROUNDS / 100 };
	int waiting = 0;
	pid_t pid = start(signal_body);
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct target_thread_files *files;
	struct target_wait wait;
	struct registers registers;
	struct error error = {0};
	assert_true(tracer_seize(tracer, pid, &error));
	assert_true(target_thread_files_open(target, pid, &files, &error));
	/* A stop on the way out of the write that told us is still one of a call. */
	assert_runs();
	for (int round = 0; round < ROUNDS; round++) {
		if (!tracer_stop(tracer, pid, PATIENCE_US, &registers, &error))
			fail_msg("%s", error.message);
		tracer_resume(tracer, pid);
		assert_true(target_thread_wait(files, &wait, &error));
		assert_true(wait.running || wait.number == -1);
		waiting += !wait.running;
	}
	assert_true(waiting <= FAULTS_MOST);
	target_thread_files_close(files);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static void sleep_ends_at_the_deadline_when_nothing_comes(void **state)
{
	(void)state;
	pid_t pid = start(spin_body);
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	uint64_t deadline = in_ms(20);
	assert_false(tracer_sleep(tracer, deadline, 0));
	assert_true(in_ms(0) >= deadline);
	/* Also with the following one known, and when it turns out to be another. */
	uint64_t following = in_ms(1);
	for (int round = 0; round < 100; round++) {
		deadline = round % 7 == 3 ? following + 500000 : following;
		following = deadline + 500000;
		assert_false(tracer_sleep(tracer, deadline, following));
		uint64_t now = in_ms(0);
		assert_true(now >= deadline);
		if (following < now)
			following = now + 500000;
	}
	/* The alarm of the one that nobody waited for is not the end of a longer sleep. */
	deadline = in_ms(20);
	assert_false(tracer_sleep(tracer, deadline, 0));
	assert_true(in_ms(0) >= deadline);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

/* Blocked in a call that a stop interrupts; its timeout is in shared->go. */
static void epoll_body(int ready)
{
	const int epoll = epoll_create1(0);
	struct epoll_event event;
	signal(SIGRTMIN, count_signal);
	(void)!write(ready, "r", 1);
	for (;;)
		if (epoll_wait(epoll, &event, 1, atomic_load(&shared->go)) < 0 && errno == EINTR)
			atomic_fetch_add(&shared->eintr, 1);
}

static bool is_in_epoll(const void *about)
{
	char path[64], text[8] = "";
	snprintf(path, sizeof(path), "/proc/%d/syscall", *(const pid_t *)about);
	FILE *const file = fopen(path, "r");
	if (!file)
		return false;
	const bool well = fgets(text, sizeof(text), file) && strncmp(text, "232 ", 4) == 0;
	fclose(file);
	return well;
}

static bool is_interrupted(const void *about)
{
	return atomic_load(&((const struct shared *)about)->eintr) > 0;
}

static void a_call_that_waits_without_end_goes_on_unless_a_handler_runs(void **state)
{
	enum { STOPS = 20 };
	(void)state;
	atomic_store(&shared->go, -1);
	pid_t pid = start(epoll_body), tid;
	struct target *target = open_target(pid);
	struct tracer *tracer = tracer_new(target);
	struct registers registers;
	assert_true(tracer_seize(tracer, pid, NULL));
	for (int i = 0; i < STOPS; i++) {
		assert_true(eventually(is_in_epoll, &pid));
		assert_true(tracer_stop(tracer, pid, PATIENCE_US, &registers, NULL));
		tracer_resume(tracer, pid);
	}
	assert_true(eventually(is_in_epoll, &pid));
	assert_int_equal(atomic_load(&shared->eintr), 0);
	assert_true(tracer_stop(tracer, pid, PATIENCE_US, &registers, NULL));
	kill(pid, SIGRTMIN);
	tracer_resume(tracer, pid);
	for (int i = 0; i < 10000 && !is_interrupted(shared); i++) {
		(void)tracer_poll(tracer, &tid, NULL);
		usleep(1000);
	}
	assert_int_equal(atomic_load(&shared->signals), 1);
	assert_int_equal(atomic_load(&shared->eintr), 1);
	tracer_free(tracer);
	target_free(target);
	end(pid);
}

static int set_up(void **state)
{
	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED;
}

static int tear_down(void **state)
{
	(void)state;
	return munmap(shared, 4096);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_thread_stops_and_runs_on_and_nothing_is_allocated),
		TEST(a_storm_of_signals_is_delivered_in_full),
		TEST(a_signal_to_another_thread_is_delivered_beside_stops),
		TEST(stops_that_were_waited_for_are_not_asked_about_each_time),
		TEST(a_stopped_process_stays_stopped_and_continues_on_sigcont),
		TEST(a_thread_in_vfork_is_busy_within_patience_and_unharmed),
		TEST(the_end_of_a_thread_is_reported_once),
		TEST(an_exec_is_reported_and_the_new_program_runs),
		TEST(the_end_of_the_process_gives_its_status),
		TEST(each_child_is_reported_once_with_its_exec_and_its_end),
		TEST(threads_of_several_processes_are_stopped),
		TEST(many_short_lives_are_all_reported),
		TEST(a_process_outlives_its_first_thread),
		TEST(a_killed_tracer_leaves_no_child_stopped),
		TEST(a_killed_tracer_leaves_the_target_as_it_was),
		TEST(a_thread_just_resumed_counts_as_running),
		TEST(sleep_ends_at_the_deadline_when_nothing_comes),
		TEST(a_call_that_waits_without_end_goes_on_unless_a_handler_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
