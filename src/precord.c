/* SPDX-License-Identifier: MIT */
/* precord: samples a process, or a command that it starts, into a profile. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "output/output.h"
#include "src/command.h"
#include "src/download.h"
#include "src/options.h"
#include "src/report.h"

enum { PROGRESS_MS = 250, FETCH_SECONDS = 60, FETCH_MEGABYTES = 1024 };

struct recording {
	struct options options;
	struct session_options session;
	struct download download;
	struct interner *strings;
	struct recorder *recorder;
	struct command command;
	sigset_t waiting_mask;	  /* while main waits: SIGINT, SIGTERM and SIGUSR1 get through */
	sigset_t mask;		  /* the signals as they were before ... */
	struct rlimit file_limit; /* ... and the limit of open files: the command gets them back */
	bool progress_shown;
	bool interrupted; /* by SIGINT or SIGTERM */
	pid_t writer;	  /* a process of ours that writes what there is, after SIGUSR1; 0: none */
	char default_output[512];
};

/* "1,180": digits in threes, in every locale. */
static const char *grouped(uint64_t number, char text[32])
{
	char digits[24];
	int count = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	int to = 0;
	for (int i = 0; i < count; i++) {
		if (i > 0 && (count - i) % 3 == 0)
			text[to++] = ',';
		text[to++] = digits[i];
	}
	text[to] = '\0';
	return text;
}

static double share(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

static void show_progress(struct recording *recording)
{
	struct recorder_status status;
	char samples[32], late[32], torn[32];
	if (recording->options.level == LOG_QUIET || !isatty(STDERR_FILENO))
		return;
	recorder_status(recording->recorder, &status);
	const struct profile_counts *counts = &status.counts;
	const struct profile_pacing pacing = profile_pacing(counts);
	unsigned seconds = (unsigned)(counts->elapsed_ns / 1000000000u);
	fprintf(stderr, "\r%02u:%02u  %s samples  %.1f Hz  %s late  %s torn", seconds / 60,
		seconds % 60, grouped(counts->samples, samples), pacing.rate,
		grouped(counts->late, late), grouped(counts->torn, torn));
	if (recording->options.nonblocking)
		fputs("  nothing stopped\033[K", stderr);
	else
		fprintf(stderr, "  target stopped %.1f %%\033[K", 100 * pacing.stopped_share);
	fflush(stderr);
	recording->progress_shown = true;
}

static void end_progress(struct recording *recording)
{
	if (recording->progress_shown)
		fputs("\r\033[K", stderr);
	recording->progress_shown = false;
}

/* ---- what is written ---- */

static void report_written(const struct recording *recording, const struct options_output *output,
			   const struct profile_counts *counts)
{
	char samples[32], late[32], torn[32], salvaged[32], guessed[32], gone[32];
	const struct profile_pacing pacing = profile_pacing(counts);
	struct strbuf more;
	strbuf_init(&more);
	if (counts->dropped)
		strbuf_printf(&more, ", %llu dropped", (unsigned long long)counts->dropped);
	if (counts->truncated)
		strbuf_printf(&more, ", %llu truncated", (unsigned long long)counts->truncated);
	if (counts->uninterruptible)
		strbuf_printf(&more, ", %llu uninterruptible",
			      (unsigned long long)counts->uninterruptible);
	if (counts->contradictions)
		strbuf_printf(&more, ", %llu contradicting",
			      (unsigned long long)counts->contradictions);
	strbuf_printf(&more, "; %.1f of %g Hz, %.1f %% late, ", pacing.rate,
		      recording->options.rate, 100 * pacing.late_share);
	if (recording->options.nonblocking)
		strbuf_add_text(&more, "nothing was stopped: stacks may be torn");
	else
		strbuf_printf(&more, "target stopped %.1f %%", 100 * pacing.stopped_share);
	log_info("wrote %s: %s samples, %llu thread%s, %.0f %% native; %s late, %s torn, "
		 "%s salvaged, %s guessed, %s gone%s",
		 strcmp(output->path, "-") == 0 ? "standard output" : output->path,
		 grouped(counts->samples, samples), (unsigned long long)counts->threads,
		 counts->threads == 1 ? "" : "s", share(counts->native_samples, counts->samples),
		 grouped(counts->late, late), grouped(counts->torn, torn),
		 grouped(counts->salvaged, salvaged), grouped(counts->guessed, guessed),
		 grouped(counts->gone, gone), more.text);
	strbuf_release(&more);
}

static bool write_output(const struct recording *recording, const struct profile *profile,
			 const struct options_output *output, struct error *error)
{
	const struct output_options form = report_output_options(&recording->options);
	struct strbuf bytes;
	strbuf_init(&bytes);
	bool well = output_profile(profile, output->format, &form, &bytes, error) &&
		    output_file_write(output->path, bytes.text, bytes.size, error);
	strbuf_release(&bytes);
	return well;
}

static bool write_outputs(struct recording *recording)
{
	struct profile profile;
	struct error error;
	if (!recorder_profile(recording->recorder, &profile, &error)) {
		report_error(&error, 0);
		return false;
	}
	bool well = true;
	for (size_t i = 0; i < recording->options.output_count; i++) {
		const struct options_output *output = &recording->options.outputs[i];
		if (write_output(recording, &profile, output, &error)) {
			report_written(recording, output, &profile.counts);
			continue;
		}
		report_error(&error, 0);
		well = false;
	}
	if (profile.debug_problems)
		log_info("%s", profile.debug_problems);
	if (profile.counts.samples == 0 && !recording->options.native)
		log_warning(
			"no samples: no Python thread was running; -i counts idle threads, too");
	else if (profile.counts.samples == 0)
		log_warning("no samples: no thread was running; -i counts idle threads, too");
	profile_release(&profile);
	return well;
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
		log_debug("precord", "sampling waits for writing: fork: %s", strerror(errno));
	write_outputs(recording);
	if (writer == 0)
		_exit(0);
}

/* What it writes is older than what is written at the end. */
static void wait_for_writer(struct recording *recording)
{
	while (recording->writer && waitpid(recording->writer, NULL, 0) < 0 && errno == EINTR)
		;
	recording->writer = 0;
}

/* ---- the course of a recording ---- */

static int failed_status(const struct recording *recording, int status)
{
	return recording->options.command ? EXIT_OWN_FAILURE : status;
}

/* The signals that came in, noted by the handler and consumed by main. */
static volatile sig_atomic_t end_signal, write_signal;

static void note_signal(int number)
{
	if (number == SIGUSR1)
		write_signal = number;
	else
		end_signal = number;
}

/*
 * All threads block all signals; main lets those for it through while it waits (ppoll). No
 * signalfd: the kernel wakes its reader for each SIGCHLD, too, a thousand times a second.
 */
static void block_signals(struct recording *recording)
{
	static const int ours[] = {SIGINT, SIGTERM, SIGUSR1};
	struct sigaction action = {.sa_handler = note_signal};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD); /* the taker sleeps on it by sigtimedwait */
	sigprocmask(SIG_BLOCK, &set, &recording->mask);
	sigprocmask(SIG_BLOCK, NULL, &recording->waiting_mask);
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
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
	for (size_t i = 0; i < recording->options.output_count; i++) {
		if (output_file_check(recording->options.outputs[i].path, &error))
			continue;
		report_error(&error, 0);
		return false;
	}
	return true;
}

/* Returns 0, or the exit status. */
static int start(struct recording *recording)
{
	struct options *options = &recording->options;
	struct error error;
	pid_t pid = options->pid;
	recording->command.release_fd = -1;
	if (options->command) {
		if (!command_start(options->command, &recording->mask, &recording->file_limit,
				   &recording->command, &error))
			return failed_status(recording, report_error(&error, 0));
		pid = recording->command.pid;
	}
	if (recorder_start(pid, &recording->session, recording->strings,
			   recording->command.release_fd, &recording->recorder, &error))
		return 0;
	int status = report_error(&error, pid);
	if (options->command)
		kill(pid, SIGKILL); /* it has not executed anything yet */
	return failed_status(recording, status);
}

static void name_output(struct recording *recording)
{
	struct options *options = &recording->options;
	if (options->output_count > 0 || options->capture)
		return;
	const char *words = options->command ? options->command[0] : "process";
	pid_t pid = options->command ? recording->command.pid : options->pid;
	options_add_default_output(options, words, pid, (uint64_t)time(NULL),
				   recording->default_output, sizeof(recording->default_output));
}

/* False: the recording is over. */
static bool handle_signals(struct recording *recording)
{
	if (write_signal && !is_being_written(recording)) {
		write_signal = 0;
		end_progress(recording);
		write_meanwhile(recording);
	}
	if (!end_signal)
		return true;
	if (end_signal == SIGTERM && recording->options.command)
		kill(recording->command.pid, SIGTERM);
	recording->interrupted = true;
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

static void sample_until_end(struct recording *recording)
{
	struct pollfd polled = {.fd = recorder_event_fd(recording->recorder), .events = POLLIN};
	for (;;) {
		struct recorder_status status;
		recorder_status(recording->recorder, &status);
		int wait = milliseconds_left(recording, status.counts.elapsed_ns);
		if (wait == 0)
			return;
		struct timespec timeout = {.tv_nsec = wait * 1000000L};
		int events = ppoll(&polled, 1, &timeout, &recording->waiting_mask);
		if (!handle_signals(recording) || events > 0)
			return;
		show_progress(recording);
	}
}

/* From here on a second SIGINT or SIGTERM ends the program at once. */
static void let_signals_end_us(const struct recording *recording)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
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
		int signal_number = sigtimedwait(&set, NULL, &patience);
		if (signal_number != SIGINT && signal_number != SIGTERM)
			continue;
		if (signal_number == SIGTERM)
			kill(recording->command.pid, SIGTERM);
		if (recording->interrupted)
			exit(128 + signal_number);
		recording->interrupted = true;
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

static int finish(struct recording *recording)
{
	struct recorder_status status;
	struct error error;
	end_progress(recording);
	bool well = recorder_stop(recording->recorder, &error);
	if (!well)
		report_error(&error, 0);
	let_signals_end_us(recording);
	wait_for_writer(recording);
	recorder_status(recording->recorder, &status);
	if (has_not_executed(recording))
		return wait_for_command(recording, &status);
	if (!recording->options.command && status.ended && status.counts.samples == 0 && well) {
		log_error("process %d ended before the first sample", recording->options.pid);
		return EXIT_NO_PROCESS;
	}
	well = write_outputs(recording) && well;
	recorder_log_pauses(recording->recorder);
	if (recording->options.command)
		return well ? wait_for_command(recording, &status) : EXIT_OWN_FAILURE;
	if (!well)
		return EXIT_IO;
	return status.counts.uninterruptible ? EXIT_PARTIAL : EXIT_DONE;
}

int main(int argc, char **argv)
{
	static struct recording recording;
	alloc_stay_small();
	options_parse_precord(argc, argv, &recording.options);
	options_apply_log(&recording.options, "precord");
	recording.session = report_session_options(&recording.options);
	download_init(&recording.download, FETCH_SECONDS, FETCH_MEGABYTES,
		      recording.options.level == LOG_QUIET);
	if (download_wanted())
		recording.session.fetch = &recording.download.fetch;
	recording.strings = interner_new();
	block_signals(&recording);
	report_raise_file_limit(&recording.file_limit);
	int status = failed_status(&recording, EXIT_IO);
	if (check_outputs(&recording))
		status = start(&recording);
	if (recording.recorder) {
		name_output(&recording);
		sample_until_end(&recording);
		status = finish(&recording);
	}
	recorder_free(recording.recorder);
	interner_free(recording.strings);
	return status;
}
