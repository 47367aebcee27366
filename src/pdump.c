/* SPDX-License-Identifier: MIT */
/* pdump: one look at processes, every thread's merged stack, innermost frame first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file_limit.h"
#include "base/guardian.h"
#include "base/log.h"
#include "base/parser_thread.h"
#include "src/apart.h"
#include "src/cgroups.h"
#include "src/download.h"
#include "src/dumps.h"
#include "src/options.h"
#include "src/report.h"
#include "target/rights.h"
#include "view/view.h"

/* The stacks are seen once all names are there. */
enum { FETCH_SECONDS = 5, FETCH_MEGABYTES = 256 };

struct looking {
	const struct options *options;
	const struct session_options *session;
	int status;
};

static void look(void *context)
{
	struct looking *looking = context;
	looking->status = dumps_run(looking->options, looking->session);
}

int main(int argc, char **argv)
{
	struct options options;
	report_hold_standard_files();
	target_rights_begin();
	options_parse_pdump(argc, argv, &options);
	options_apply_log(&options, "pdump");
	options_find_processes(&options);
	struct error error;
	sigset_t mask;
	view_json_begin();
	const struct guardian_options outer = {.status = EXIT_IO, .lost = "nothing more is shown"};
	if (!guardian_begin(&outer, &mask, &error))
		return report_error(&error, 0);
	struct target_cgroup *cgroup = NULL;
	bool whole = true;
	if (options.others.cgroup && !cgroups_list(&options, &cgroup, &whole, &error))
		return report_error(&error, 0);
	target_cgroup_free(cgroup);
	struct rlimit file_limit;
	file_limit_raise(&file_limit);
	struct session_options session = report_session_options(&options);
	struct download download;
	download_init(&download, FETCH_SECONDS, FETCH_MEGABYTES, options.log.level == LOG_QUIET);
	session.fetch = download_wanted() ? &download.fetch : NULL;
	const struct apart apart = {.options = &options, .fetches = session.fetch != NULL};
	if (options.pid_count == 0)
		apart_begin(&apart);
	else
		apart_begin_live(&apart);
	struct looking looking = {.options = &options, .session = &session};
	parser_thread_run(look, &looking);
	return looking.status == EXIT_DONE && !whole ? EXIT_PARTIAL : looking.status;
}
