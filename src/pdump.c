/* SPDX-License-Identifier: MIT */
/* pdump: one look at a process, every thread's merged stack, innermost frame first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "output/output.h"
#include "src/download.h"
#include "src/options.h"
#include "src/report.h"

/* The stacks are seen once all names are there. */
enum { FETCH_SECONDS = 5, FETCH_MEGABYTES = 256 };

static int print_dump(const struct dump *dump, const struct options *options)
{
	const struct output_options form = report_output_options(options);
	struct error error;
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	if (!options->json)
		output_dump_text(dump, &form, &text);
	else if (!output_dump_json(dump, &text, &error))
		return report_error(&error, 0);
	if (!output_file_write("-", text.text, text.size, &error))
		return report_error(&error, 0);
	if (options->nonblocking)
		log_info("nothing was stopped: stacks of active threads may be torn");
	if (dump->debug_problems)
		log_info("%s", dump->debug_problems);
	return EXIT_DONE;
}

static int status_of(const struct dump *dump, bool partial)
{
	if (partial)
		return EXIT_PARTIAL;
	if (dump->python_version)
		return EXIT_DONE;
	log_error("%s", dump->python_problem);
	return EXIT_NOT_PYTHON;
}

int main(int argc, char **argv)
{
	struct options options;
	options_parse_pdump(argc, argv, &options);
	options_apply_log(&options, "pdump");
	struct rlimit file_limit;
	report_raise_file_limit(&file_limit);
	struct session_options session = report_session_options(&options);
	struct download download;
	download_init(&download, FETCH_SECONDS, FETCH_MEGABYTES, options.level == LOG_QUIET);
	session.fetch = download_wanted() ? &download.fetch : NULL;
	struct interner *strings = interner_new();
	struct dump dump;
	struct error error;
	bool partial;
	int status;
	if (!dump_process(options.pid, &session, strings, &dump, &partial, &error)) {
		status = report_error(&error, options.pid);
	} else {
		status = print_dump(&dump, &options);
		if (status == EXIT_DONE)
			status = status_of(&dump, partial);
		dump_release(&dump);
	}
	interner_free(strings);
	return status;
}
