/* SPDX-License-Identifier: MIT */
/*
 * A child that works and a parent that the shell knows (ptrace(2): a tracee reports each signal to
 * its tracer and waits). The parent passes signals on, wakes a child that was stopped, ends as it
 * ends. Relies on waitpid reporting stops. Must never be the one that the target waits for: it
 * traces nothing.
 */
#include "base/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
enum { PASSED_ON = sizeof(passed_on) / sizeof(*passed_on) };

/* The child's status, as it ends: it may wait in a file system that does not answer, and cannot
 * even be killed then. By a pipe that makes SIGCHLD: who has no rights may send us no signal. */
static int told[2] = {-1, -1};
static const uint64_t LEFT_NS = 150000000;
enum { LOOK_NS = 50000000 };

/* timeout(1) sends one signal twice, to its child and to the whole group: that is one. */
static const uint64_t SAME_NS = 100000000;

/* ---- the parent ---- */

/* By the same signal, without a core file of its own. */
static void __attribute__((noreturn)) end_by(int number)
{
	const struct rlimit none = {0};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	setrlimit(RLIMIT_CORE, &none);
	signal(number, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	_exit(128 + number);
}

static bool is_expected(int number)
{
	return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGPIPE;
}

/* It crashed, or somebody has picked it: a user who wants an end sends it to us. */
static void __attribute__((noreturn))
report_killed(const struct guardian_options *options, int number)
{
	log_error("the process that does the work was ended by signal %d (%s): %s; what it looked "
		  "at runs on",
		  number, strsignal(number), options->lost);
	_exit(options->status);
}

static void look_at_child(pid_t child, const struct guardian_options *options)
{
	int status;
	pid_t found;
	/* Any: as the first process of a container it inherits others. */
	while ((found = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0 ||
	       (found < 0 && errno == EINTR)) {
		if (found != child)
			continue;
		if (WIFSTOPPED(status))
			kill(-child, SIGCONT); /* its group: the one that traces, too */
		else if (WIFSIGNALED(status) && is_expected(WTERMSIG(status)))
			end_by(WTERMSIG(status));
		else if (WIFSIGNALED(status))
			report_killed(options, WTERMSIG(status));
		else
			_exit(WEXITSTATUS(status));
	}
	if (found < 0) {
		log_error("the process that does the work cannot be waited for: %s",
			  strerror(errno));
		_exit(options->status);
	}
}

/* What it tells is told once. */
static void look_at_told(int *status, uint64_t *since_ns)
{
	const uint64_t now = clock_now_ns();
	if (*since_ns && now - *since_ns > LEFT_NS)
		_exit(*status);
	if (!*since_ns && read(told[0], status, sizeof(*status)) == sizeof(*status))
		*since_ns = now;
}

static void pass_on(pid_t child, int number, uint64_t *last_ns)
{
	const uint64_t now = clock_now_ns();
	if (number != SIGUSR1 && *last_ns && now - *last_ns < SAME_NS)
		return;
	*last_ns = now;
	sigqueue(child, number, (union sigval){0});
}

static void __attribute__((noreturn))
guard(pid_t child, const sigset_t *awaited, const struct guardian_options *options)
{
	const struct timespec soon = {.tv_nsec = LOOK_NS};
	uint64_t last_ns[PASSED_ON] = {0}, ending_ns = 0;
	int status = 0;
	if (options->meanwhile)
		options->meanwhile();
	for (;;) {
		look_at_child(child, options);
		look_at_told(&status, &ending_ns);
		const int number = sigtimedwait(awaited, NULL, ending_ns ? &soon : NULL);
		for (size_t i = 0; i < PASSED_ON; i++)
			if (number == passed_on[i])
				pass_on(child, number, &last_ns[i]);
	}
}

/* ---- the child ---- */

/* The last thing it does. */
static void tell_end(int status, void *unused)
{
	(void)unused;
	(void)!fflush(NULL);
	(void)!write(told[1], &status, sizeof(status));
}

static bool listen_to_child(void)
{
	return pipe2(told, O_CLOEXEC | O_NONBLOCK) == 0 &&
	       fcntl(told[0], F_SETOWN, getpid()) == 0 && fcntl(told[0], F_SETSIG, SIGCHLD) == 0 &&
	       fcntl(told[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0;
}

/* Blocked, not ignored: to write to a terminal whose foreground it is not is allowed then, too. */
static void begin_work(pid_t parent, const sigset_t *before, bool holds)
{
	static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};
	sigset_t mask = *before;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setpgid(0, 0);
	for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++)
		sigaddset(&mask, stops[i]);
	for (size_t i = 0; holds && i < PASSED_ON; i++)
		sigaddset(&mask, passed_on[i]);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

bool guardian_begin(const struct guardian_options *options, sigset_t *mask, struct error *error)
{
	const pid_t parent = getpid();
	struct sigaction before;
	sigset_t awaited;
	sigemptyset(&awaited);
	sigaddset(&awaited, SIGCHLD);
	for (size_t i = 0; i < PASSED_ON; i++) {
		if (passed_on[i] == SIGHUP && signals_ignored(SIGHUP)) /* nohup(1) */
			continue;
		/* What is ignored is not waited for; a script's "precord ... &" ignores SIGINT. */
		signal(passed_on[i], SIG_DFL);
		sigaddset(&awaited, passed_on[i]);
	}
	/* Inherited as ignored, the child's end and its stops would not be reported. */
	sigaction(SIGCHLD, NULL, &before);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &awaited, mask);
	const pid_t child = listen_to_child() ? fork() : -1;
	if (child < 0)
		return error_set_errno(error, errno, "cannot start a process");
	if (child > 0) {
		close(told[1]);
		guard(child, &awaited, options);
	}
	close(told[0]);
	on_exit(tell_end, NULL);
	sigaction(SIGCHLD, &before, NULL);
	begin_work(parent, mask, options->holds_signals);
	return true;
}

bool guardian_passed_on(const siginfo_t *info)
{
	return info->si_code == SI_QUEUE;
}

pid_t guardian_group(void)
{
	return getpgid(getppid());
}

bool guardian_in_foreground(void)
{
	const pid_t foreground = tcgetpgrp(STDERR_FILENO);
	return foreground < 0 || foreground == guardian_group();
}
