/* SPDX-License-Identifier: MIT */
/* What precord says of a recording on stderr: the progress, the closing line, what is missing. */
#include "src/recording.h"

#include <stdio.h>
#include <unistd.h>

#include "base/guardian.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "src/report.h"

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

void recording_show_progress(struct recording *recording)
{
	struct recorder_status status;
	char samples[32], late[32], torn[32];
	if (recording->options.log.level == LOG_QUIET || !isatty(STDERR_FILENO) ||
	    !guardian_in_foreground())
		return;
	recorder_status(recording->recorder, &status);
	const struct profile_counts *counts = &status.counts;
	const struct profile_pacing pacing = profile_pacing(counts, recording->options.rate);
	unsigned seconds = (unsigned)(counts->elapsed_ns / 1000000000u);
	fprintf(stderr, "\r%02u:%02u  %s samples  %.1f Hz  %s late  %s torn", seconds / 60,
		seconds % 60, grouped(counts->samples, samples), pacing.rate,
		grouped(counts->late, late), grouped(counts->torn, torn));
	if (recording->options.stacks.nonblocking)
		fputs("  nothing stopped\033[K", stderr);
	else
		fprintf(stderr, "  target stopped %.1f %%\033[K", 100 * pacing.stopped_share);
	fflush(stderr);
	recording->progress_shown = true;
}

void recording_end_progress(struct recording *recording)
{
	if (recording->progress_shown)
		fputs("\r\033[K", stderr);
	recording->progress_shown = false;
}

/* What there mostly is none of. */
static void add_rare(struct strbuf *line, const struct profile_counts *counts)
{
	const struct {
		const char *name;
		uint64_t count;
	} rare[] = {
		{"dropped", counts->dropped},
		{"truncated", counts->truncated},
		{"uninterruptible", counts->uninterruptible},
		{"contradicting", counts->contradictions},
		{"pending", profile_pending(counts)},
	};
	char text[32];
	for (size_t i = 0; i < sizeof(rare) / sizeof(*rare); i++)
		if (rare[i].count)
			strbuf_printf(line, ", %s %s", grouped(rare[i].count, text), rare[i].name);
}

/* "3 processes, " of a recording that may have several. */
static const char *process_count(const struct recording *recording, char text[48])
{
	char number[32];
	struct recorder_status status;
	recorder_status(recording->recorder, &status);
	text[0] = '\0';
	if (recording->options.subprocesses || recording->options.pid_count > 1)
		snprintf(text, 48, "%s process%s, ", grouped(status.processes, number),
			 status.processes == 1 ? "" : "es");
	return text;
}

void recording_report_written(const struct recording *recording, const char *outputs,
			      const struct profile_counts *counts)
{
	char samples[32], late[32], torn[32], salvaged[32], guessed[32], gone[32];
	char asked[32], repeats[32], processes[48];
	const struct profile_pacing pacing = profile_pacing(counts, recording->options.rate);
	struct strbuf more;
	strbuf_init(&more);
	add_rare(&more, counts);
	strbuf_printf(&more, "; %s asked, %s repeats", grouped(counts->asked, asked),
		      grouped(counts->repeats, repeats));
	strbuf_printf(&more, "; %.1f of %g Hz, %.1f %% late, ", pacing.rate,
		      recording->options.rate, 100 * pacing.late_share);
	if (recording->options.stacks.nonblocking)
		strbuf_add_text(&more, "nothing was stopped: stacks may be torn");
	else
		strbuf_printf(&more, "target stopped %.1f %%", 100 * pacing.stopped_share);
	log_info("wrote %s: %s samples, %s%llu thread%s, %.0f %% native; %s late, %s torn, "
		 "%s salvaged, %s guessed, %s gone%s",
		 outputs, grouped(counts->samples, samples), process_count(recording, processes),
		 (unsigned long long)counts->threads, counts->threads == 1 ? "" : "s",
		 share(counts->native_samples, counts->samples), grouped(counts->late, late),
		 grouped(counts->torn, torn), grouped(counts->salvaged, salvaged),
		 grouped(counts->guessed, guessed), grouped(counts->gone, gone), more.text);
	strbuf_release(&more);
}

/* None was asked. */
static void report_nothing_to_sample(const struct recording *recording, bool no_tick)
{
	const struct options *options = &recording->options;
	struct recorder_status status;
	recorder_status(recording->recorder, &status);
	const char *python = options->stacks.native ? "" : "Python ";
	if (no_tick)
		log_warning("no samples: the first was due after %g s; a higher rate (-r) may help",
			    1 / options->rate);
	else if (!options->stacks.native && !status.python_found)
		log_warning("no samples: there was no Python%s",
			    options->subprocesses
				    ? ""
				    : "; -s records the processes that are started, too");
	else if (options->stacks.gil)
		log_warning("no samples: no thread held the GIL");
	else if (options->mode == MODE_WALL)
		log_warning("no samples: there was no %sthread", python);
	else
		log_warning("no samples: no %sthread was running; -i counts idle threads, too",
			    python);
}

/* All that came to be decoded were torn, if any was. */
void recording_report_no_samples(const struct recording *recording,
				 const struct profile_counts *counts)
{
	const struct options *options = &recording->options;
	const struct {
		uint64_t count;
		const char *what, *hint;
	} causes[] = {
		{counts->torn, "torn",
		 options->stacks.nonblocking
			 ? "without --nonblocking threads are stopped while they are read"
		 : options->stacks.native
			 ? "without --native there may be some; --debug=sample says why"
			 : "--join=fs-base may help; --debug=python says why"},
		{counts->late, "late", "a lower rate (-r) may help"},
		{counts->dropped, "dropped", "a lower rate (-r) may help"},
		{counts->uninterruptible, "of threads in uninterruptible sleep",
		 "--kernel -i shows what they wait for"},
		{counts->gone, "of threads that ended meanwhile", "a higher rate (-r) may help"},
	};
	size_t most = 0;
	char count[32], asked[32];
	for (size_t i = 1; counts->torn == 0 && i < sizeof(causes) / sizeof(*causes); i++)
		if (causes[i].count > causes[most].count)
			most = i;
	if (causes[most].count > 0)
		log_warning("no samples: %s of %s asked were %s; %s",
			    grouped(causes[most].count, count), grouped(counts->asked, asked),
			    causes[most].what, causes[most].hint);
	else
		report_nothing_to_sample(recording, counts->ticks == 0);
}

bool recording_has_no_python(const struct recording *recording,
			     const struct recorder_status *status)
{
	return recording->options.subprocesses && !recording->options.others.native_processes &&
	       !status->python_found;
}

void recording_report_processes(struct recording *recording, const struct recorder_status *status)
{
	if (!recording->options.subprocesses)
		children_report(&recording->children);
	if (status->unread)
		log_warning("%llu process%s could not be read: --debug=sample says why",
			    (unsigned long long)status->unread, status->unread == 1 ? "" : "es");
	if (recording_has_no_python(recording, status))
		log_error("none of the processes is Python");
	if (status->withheld)
		log_warning("a page of the process's memory does not come (userfaultfd, or a file"
			    " system that does not answer): stacks that need such are torn");
	if (recording->unanswered)
		log_warning(FILES_UNANSWERED);
}
