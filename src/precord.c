/* SPDX-License-Identifier: MIT */
/* precord: samples a process, or a command that it starts, into a profile. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file_limit.h"
#include "base/guard.h"
#include "base/guardian.h"
#include "base/log.h"
#include "base/parser_thread.h"
#include "base/strbuf.h"
#include "files/far_file.h"
#include "output/output.h"
#include "src/cgroups.h"
#include "src/filters.h"
#include "src/recording.h"
#include "src/report.h"
#include "target/rights.h"
#include "target/switch_log.h"
#include "view/view.h"

enum { PROGRESS_MS = 250, FETCH_SECONDS = 60, FETCH_MEGABYTES = 1024 };

/* ---- what is written ---- */

/* False: one was not written. The others are named in one line, which has the counts, too. */
static bool write_each(struct recording *recording, const struct profile *profile)
{
	enum { LONGEST = 400 };
	const struct options_writing *const writing = &recording->options.writing;
	struct strbuf _cleanup_strbuf_ written;
	size_t unnamed = 0;
	bool well = true;
	struct error error;
	strbuf_init(&written);
	for (size_t i = 0; i < writing->output_count; i++)
		if (!report_write(&recording->options, profile, recorder_files(recording->recorder),
				  &writing->outputs[i], &error)) {
			report_error(&error, 0);
			well = false;
		} else if (written.size > LONGEST) {
			unnamed++;
		} else {
			strbuf_printf(&written, "%s%s", written.size ? ", " : "",
				      report_path(&writing->outputs[i]));
		}
	if (unnamed)
		strbuf_printf(&written, ", %zu more", unnamed);
	if (written.size)
		recording_report_written(recording, written.text, &profile->counts);
	return well;
}

static bool write_here(struct recording *recording)
{
	struct profile profile;
	struct error error;
	if (!recorder_profile(recording->recorder, &profile, &error)) {
		report_error(&error, 0);
		return false;
	}
	const bool none = profile.counts.samples == 0;
	filters_apply(&recording->options, &profile);
	const bool well = write_each(recording, &profile);
	if (profile.debug_problems)
		log_info("%s", profile.debug_problems);
	if (profile.timeline.lost)
		log_warning("%llu samples have no time: there are too many",
			    (unsigned long long)profile.timeline.lost);
	if (none)
		recording_report_no_samples(recording, &profile.counts);
	profile_release(&profile);
	return well;
}

struct writing {
	struct recording *recording;
	bool well;
};

static void write_one(void *context)
{
	struct writing *writing = context;
	writing->well = write_here(writing->recording);
}

/* By who parses. */
static bool write_outputs(struct recording *recording)
{
	struct writing writing = {recording, false};
	parser_thread_run(write_one, &writing);
	return writing.well;
}

static bool is_being_written(struct recording *recording)
{
	/* Without a child when the taker, which waits for any, has heard of its end. */
	if (recording->writer && waitpid(recording->writer, NULL, WNOHANG) != 0)
		recording->writer = 0;
	return recording->writer != 0;
}

/* By a process of its own: sampling does not wait until all frames are named. */
static void write_meanwhile(struct recording *recording)
{
	pid_t writer = recorder_fork(recording->recorder);
	if (writer > 0) {
		recording->writer = writer;
		return;
	}
	if (writer < 0)
		log_debug("sample", "sampling waits for writing: fork: %s", strerror(errno));
	if (writer < 0) {
		write_outputs(recording);
		return;
	}
	parser_thread_enter_alone();
	write_here(recording);
	guard_close_standard();
	_exit(0);
}

/* What it writes is older than what is written at the end: it is to be over by then, and not waited
 * for where a file system does not answer. */
static void end_writer(struct recording *recording)
{
	enum { LOOKS = 400, BETWEEN_US = 5000, KILLED_AT = 200 };
	for (int i = 0; i < LOOKS && is_being_written(recording); i++) {
		if (i == KILLED_AT)
			kill(recording->writer, SIGKILL);
		usleep(BETWEEN_US);
	}
	recording->writer = 0;
}

/* ---- the last time ---- */

/* Bits of the status of who writes. */
enum { NOT_WRITTEN = 1, LEFT_UNANSWERED = 2 };

/* Who writes at the end, to whom a signal is passed on: it may wait for a server. 0: nobody. */
static volatile sig_atomic_t last_writer;

/* Told by a pipe: where it has a file open of a file system that does not answer it cannot end. */
static void __attribute__((noreturn))
write_apart(struct recording *recording, pid_t parent, int told)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(NOT_WRITTEN);
	parser_thread_enter_alone();
	const uint8_t result = (uint8_t)((write_here(recording) ? 0 : NOT_WRITTEN) |
					 (far_file_unanswered() ? LEFT_UNANSWERED : 0));
	guard_close_standard(); /* once it has told, it may be killed */
	if (write(told, &result, sizeof(result)) != sizeof(result))
		_exit(NOT_WRITTEN);
	_exit(0);
}

static void say_how_it_ended(int status)
{
	if (WIFSIGNALED(status))
		log_error("the process that writes was ended by signal %d (%s): nothing more is "
			  "written",
			  WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* False: what is to be written is not, or not all. */
static bool hear_writer(struct recording *recording, pid_t writer, int told)
{
	uint8_t result = 0;
	ssize_t got;
	int status = 0;
	while ((got = read(told, &result, sizeof(result))) < 0 && errno == EINTR)
		;
	if (got > 0) {
		last_writer = 0;
		(void)waitpid(writer, NULL, WNOHANG);
		recording->unanswered |= result & LEFT_UNANSWERED;
		return !(result & NOT_WRITTEN);
	}
	while (waitpid(writer, &status, 0) < 0 && errno == EINTR)
		;
	last_writer = 0;
	say_how_it_ended(status);
	return false;
}

/*
 * By a process with memory of its own: who reads debug information has none of ours to write to.
 * It ends with us.
 */
static bool write_at_end(struct recording *recording)
{
	const pid_t parent = getpid();
	sigset_t ending, before;
	int ends[2];
	if (recording->options.log.no_sandbox || pipe2(ends, O_CLOEXEC) != 0)
		return write_outputs(recording);
	const pid_t writer = recorder_fork(recording->recorder);
	if (writer == 0)
		write_apart(recording, parent, ends[1]);
	_cleanup_close_ int told = ends[0];
	close(ends[1]);
	if (writer < 0)
		return write_outputs(recording);
	last_writer = writer;
	sigemptyset(&ending);
	if (recording->session.fetch) {
		sigaddset(&ending, SIGINT);
		sigaddset(&ending, SIGTERM);
	}
	sigprocmask(SIG_UNBLOCK, &ending, &before);
	const bool well = hear_writer(recording, writer, told);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return well;
}

static void open_browser(struct recording *recording)
{
	const struct options_output *output = options_browsable(&recording->options);
	struct error error;
	if (recording->options.open && output && !browser_show(output, &recording->server, &error))
		log_warning("%s", error.message);
}

/* ---- the course of a recording ---- */

static int failed_status(const struct recording *recording, int status)
{
	return recording->options.command ? EXIT_OWN_FAILURE : status;
}

/* The signals that came in, noted by the handler and consumed by main. */
static volatile sig_atomic_t end_signal, write_signal;

/* By the user, of one process: who sends one to all of this name has asked once. */
static volatile sig_atomic_t asked_to_end;

static void note_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (number == SIGUSR1) {
		write_signal = number;
		return;
	}
	end_signal = number;
	if (guardian_passed_on(info))
		asked_to_end = 1;
}

static bool is_second(const siginfo_t *info)
{
	const bool asked = asked_to_end;
	if (!guardian_passed_on(info))
		return false;
	asked_to_end = 1;
	return asked;
}

static void end_at_second(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (last_writer)
		kill(last_writer, number);
	if (!is_second(info))
		return;
	signal(number, SIG_DFL);
	raise(number);
}

/*
 * All threads block all signals; main lets those for it through while it waits (ppoll). No
 * signalfd: the kernel wakes its reader for each SIGCHLD, too, a thousand times a second.
 */
static void block_signals(struct recording *recording)
{
	static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
	struct sigaction action = {.sa_sigaction = note_signal, .sa_flags = SA_SIGINFO};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD); /* the taker sleeps on it by sigtimedwait */
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, NULL, &recording->waiting_mask);
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
		struct sigaction before;
		/* nohup(1) */
		if (ours[i] == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
		    before.sa_handler == SIG_IGN)
			continue;
		sigaddset(&set, ours[i]);
		sigdelset(&recording->waiting_mask, ours[i]);
		sigaction(ours[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static bool check_outputs(struct recording *recording)
{
	struct error error;
	for (size_t i = 0; i < recording->options.writing.output_count; i++) {
		if (output_file_check(recording->options.writing.outputs[i].path, &error))
			continue;
		report_error(&error, 0);
		return false;
	}
	return true;
}

/* What is to be recorded; 0, or the exit status. */
static int choose_targets(struct recording *recording, struct recorder_targets *targets)
{
	struct options *options = &recording->options;
	struct error error;
	const struct command_place place = {&recording->mask, &recording->file_limit,
					    guardian_group()};
	*targets = (struct recorder_targets){.release_fd = -1};
	if (options->command) {
		if (!command_start(options->command, &place, &recording->command, &error))
			return failed_status(recording, report_error(&error, 0));
		targets->pids = &recording->command.pid;
		targets->count = 1;
		targets->release_fd = recording->command.release_fd;
		return 0;
	}
	if (options->others.cgroup &&
	    !cgroups_list(options, &recording->cgroup, &recording->whole_cgroup, &error))
		return report_error(&error, 0);
	targets->pids = options->pids;
	targets->count = options->pid_count;
	targets->cgroup = recording->cgroup;
	return 0;
}

static void name_output(struct recording *recording)
{
	struct options *options = &recording->options;
	if (options->writing.output_count > 0 || options->writing.capture)
		return;
	const char *words = options->command ? options->command[0] : "process";
	pid_t pid = options->command ? recording->command.pid : options->pids[0];
	options_add_default_output(options, words, pid, (uint64_t)time(NULL),
				   recording->default_output, sizeof(recording->default_output));
}

/* No thread has been started yet; all outputs are known. */
static void begin_apart(struct recording *recording)
{
	name_output(recording);
	recording->apart = (struct apart){
		.options = &recording->options,
		.fetches = recording->session.fetch != NULL,
	};
	apart_begin_live(&recording->apart);
}

/* Of several, the one that it is about. */
static void say_which(struct error *error, pid_t pid)
{
	const struct error plain = *error;
	char number[16];
	snprintf(number, sizeof(number), "%d", (int)pid);
	if (!strstr(plain.message, number))
		snprintf(error->message, sizeof(error->message), "process %s: %.170s", number,
			 plain.message);
}

/* Returns 0, or the exit status. */
static int start(struct recording *recording)
{
	struct error error;
	struct recorder_targets targets;
	pid_t failed = 0;
	int status = choose_targets(recording, &targets);
	if (!status)
		begin_apart(recording);
	if (status || recorder_start(&targets, &recording->session, recording->strings,
				     &recording->recorder, &failed, &error))
		return status;
	if (targets.count > 1 && failed)
		say_which(&error, failed);
	status = report_error(&error, failed);
	if (recording->options.command)
		kill(recording->command.pid, SIGKILL); /* it has not executed anything yet */
	return failed_status(recording, status);
}

/* False: the recording is over. */
static bool handle_signals(struct recording *recording)
{
	if (write_signal && !is_being_written(recording)) {
		write_signal = 0;
		recording_end_progress(recording);
		write_meanwhile(recording);
	}
	if (!end_signal)
		return true;
	if (end_signal != SIGINT && recording->options.command)
		kill(recording->command.pid, end_signal);
	return false;
}

static int milliseconds_left(const struct recording *recording, uint64_t elapsed_ns)
{
	double duration = recording->options.duration;
	if (duration <= 0)
		return PROGRESS_MS;
	double left = duration * 1000 - (double)elapsed_ns / 1e6;
	return left <= 0 ? 0 : left < PROGRESS_MS ? (int)left + 1 : PROGRESS_MS;
}

/* --snapshot: what SIGUSR1 asks for, now and then. One that takes longer than until the next is
 * followed by that at once. */
static void snapshot_if_due(struct recording *recording, uint64_t elapsed_ns)
{
	const double now = (double)elapsed_ns / 1e9, period = recording->options.snapshot;
	if (period <= 0 || now < recording->next_snapshot)
		return;
	/* The first call sets when the first one is due. */
	if (recording->next_snapshot > 0)
		write_signal = SIGUSR1;
	while (recording->next_snapshot <= now)
		recording->next_snapshot += period;
}

static pid_t target_of(const struct recording *recording)
{
	return recording->options.command ? recording->command.pid : recording->options.pids[0];
}

static void sample_until_end(struct recording *recording)
{
	struct pollfd polled = {.fd = recorder_event_fd(recording->recorder), .events = POLLIN};
	for (;;) {
		struct recorder_status status;
		recorder_status(recording->recorder, &status);
		int wait = milliseconds_left(recording, status.counts.elapsed_ns);
		snapshot_if_due(recording, status.counts.elapsed_ns);
		if (wait == 0)
			return;
		struct timespec timeout = {.tv_nsec = wait * 1000000L};
		int events = ppoll(&polled, 1, &timeout, &recording->waiting_mask);
		if (!handle_signals(recording) || events > 0)
			return;
		children_look_if_due(&recording->children, target_of(recording));
		recording_show_progress(recording);
	}
}

/* From here on a second SIGINT or SIGTERM ends the program at once. */
static void let_signals_end_us(const struct recording *recording)
{
	const struct sigaction action = {.sa_sigaction = end_at_second, .sa_flags = SA_SIGINFO};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!recording->options.command)
		sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* SIGTERM is passed on; Ctrl-C reaches the command by itself. A second signal ends us. */
static bool wait_for_end(struct recording *recording, int *wait_status)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	for (;;) {
		pid_t ended = waitpid(recording->command.pid, wait_status, WNOHANG);
		if (ended != 0)
			return ended > 0;
		/* With a limit: the SIGCHLD may have been taken by the taker before it ended. */
		struct timespec patience = {.tv_nsec = PROGRESS_MS * 1000000};
		siginfo_t info;
		int signal_number = sigtimedwait(&set, &info, &patience);
		if (signal_number != SIGINT && signal_number != SIGTERM)
			continue;
		if (signal_number == SIGTERM)
			kill(recording->command.pid, SIGTERM);
		if (is_second(&info))
			exit(128 + signal_number);
	}
}

static int wait_for_command(struct recording *recording, const struct recorder_status *status)
{
	int wait_status = status->wait_status;
	if (!status->has_wait_status && !wait_for_end(recording, &wait_status))
		return EXIT_OWN_FAILURE;
	return command_exit_status(wait_status);
}

/* The command could not be executed: there is nothing to write. */
static bool has_not_executed(const struct recording *recording)
{
	int failure = recording->options.command ? command_exec_error(&recording->command) : 0;
	if (failure)
		log_error("cannot execute %s: %s", recording->options.command[0],
			  strerror(failure));
	return failure != 0;
}

static bool is_partial(const struct recording *recording, const struct recorder_status *status)
{
	return status->never_stopped || status->unread || status->withheld ||
	       recording->unanswered || (recording->cgroup && !recording->whole_cgroup);
}

static int finish(struct recording *recording)
{
	struct recorder_status status;
	struct error error;
	recording_end_progress(recording);
	bool well = recorder_stop(recording->recorder, &error);
	if (!well)
		report_error(&error, 0);
	let_signals_end_us(recording);
	end_writer(recording);
	recorder_status(recording->recorder, &status);
	if (has_not_executed(recording))
		return wait_for_command(recording, &status);
	if (!recording->options.command && status.ended && status.counts.samples == 0 && well) {
		log_error("process %d ended before the first sample", (int)target_of(recording));
		return EXIT_NO_PROCESS;
	}
	well = write_at_end(recording) && well;
	recording->unanswered |= far_file_unanswered();
	open_browser(recording);
	recording_report_processes(recording, &status);
	recorder_log_pauses(recording->recorder);
	if (recording->options.command)
		return well ? wait_for_command(recording, &status) : EXIT_OWN_FAILURE;
	if (!well)
		return EXIT_IO;
	if (recording_has_no_python(recording, &status))
		return EXIT_NOT_PYTHON;
	return is_partial(recording, &status) ? EXIT_PARTIAL : EXIT_DONE;
}

int main(int argc, char **argv)
{
	static struct recording recording;
	struct error error;
	report_hold_standard_files();
	target_rights_begin();
	alloc_stay_small();
	view_json_begin();
	options_parse_precord(argc, argv, &recording.options);
	options_apply_log(&recording.options, "precord");
	options_find_processes(&recording.options);
	alloc_set_end_status(failed_status(&recording, EXIT_IO));
	const struct guardian_options outer = {.status = failed_status(&recording, EXIT_IO),
					       .lost = "nothing more is written",
					       .meanwhile = switch_log_expect,
					       .holds_signals = true};
	if (!guardian_begin(&outer, &recording.mask, &error))
		return failed_status(&recording, report_error(&error, 0));
	recording.session = report_session_options(&recording.options);
	download_init(&recording.download, FETCH_SECONDS, FETCH_MEGABYTES,
		      recording.options.log.level == LOG_QUIET);
	if (download_wanted())
		recording.session.fetch = &recording.download.fetch;
	recording.strings = interner_new();
	block_signals(&recording);
	file_limit_raise(&recording.file_limit);
	int status = failed_status(&recording, EXIT_IO);
	if (check_outputs(&recording))
		status = start(&recording);
	if (recording.recorder) {
		children_begin(&recording.children, target_of(&recording));
		sample_until_end(&recording);
		children_look(&recording.children, target_of(&recording));
		status = finish(&recording);
		file_server_wait(&recording.server);
	}
	recorder_free(recording.recorder);
	target_cgroup_free(recording.cgroup);
	interner_free(recording.strings);
	return status;
}
