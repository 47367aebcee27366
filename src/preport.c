/* SPDX-License-Identifier: MIT */
/*
 * preport: reads profiles from files, and writes them in other formats. Needs no privilege and
 * looks at no process.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "modules/module.h"
#include "profile/diff.h"
#include "read/read.h"
#include "replay/replay.h"
#include "src/apart.h"
#include "src/browser.h"
#include "src/download.h"
#include "src/filters.h"
#include "src/preport_options.h"
#include "src/report.h"
#include "view/view.h"

struct conversion {
	struct preport_options options;
	struct interner *strings;
	struct profile *profiles;
	size_t count;		       /* of those read */
	bool partial;		       /* a file ended early */
	struct symbol_folder *symbols; /* once it is needed */
	struct download download;
	struct apart apart;
};

/* Raw samples have all that was recorded: what is shown of it is asked for now. */
static bool replay(struct conversion *conversion, const char *path, struct profile *profile,
		   struct error *error)
{
	struct session_options session = report_session_options(&conversion->options.general);
	session.native = session.native_threads = true;
	if (conversion->options.symbols && !conversion->symbols &&
	    !symbol_folder_open(conversion->options.symbols, &conversion->symbols, error))
		return false;
	session.symbols = conversion->symbols;
	if (conversion->apart.fetches) {
		enum { SECONDS = 60, MEGABYTES = 1024 };
		download_init(&conversion->download, SECONDS, MEGABYTES,
			      conversion->options.general.log.level == LOG_QUIET);
		session.fetch = &conversion->download.fetch;
	}
	return replay_file(path, &session, conversion->strings, profile, error);
}

static bool read_one(struct conversion *conversion, const char *path, struct profile *profile,
		     struct error *error)
{
	enum read_kind kind;
	const char *note;
	if (!read_profile(path, conversion->strings, profile, &kind, &note, error))
		return kind == READ_CAPTURE && strcmp(path, "-") != 0 &&
		       replay(conversion, path, profile, error);
	if (note)
		log_warning("%s: %s", path, note);
	conversion->partial |= note != NULL;
	return true;
}

static void move_all(struct conversion *conversion)
{
	const struct preport_options *options = &conversion->options;
	for (size_t i = 0; i < conversion->count; i++)
		for (size_t n = 0; n < options->map_count; n++)
			profile_move_sources(&conversion->profiles[i], options->maps[n].from,
					     options->maps[n].to);
}

static bool read_all(struct conversion *conversion, struct error *error)
{
	const struct preport_options *options = &conversion->options;
	conversion->profiles = alloc_zeroed(options->input_count, sizeof(*conversion->profiles));
	for (; conversion->count < options->input_count; conversion->count++) {
		struct profile *profile = &conversion->profiles[conversion->count];
		if (!read_one(conversion, options->inputs[conversion->count], profile, error))
			return false;
	}
	move_all(conversion);
	return true;
}

/* All that was read becomes the first profile. */
static bool merge_all(struct conversion *conversion, struct error *error)
{
	struct profile merged;
	if (conversion->count == 1)
		return true;
	if (!profile_merge(&merged, conversion->profiles, conversion->count, error))
		return false;
	while (conversion->count > 1)
		profile_release(&conversion->profiles[--conversion->count]);
	profile_release(&conversion->profiles[0]);
	conversion->profiles[0] = merged;
	return true;
}

/* False: some function's share has grown too much, and is named. */
static bool check_growth(const struct profile_diff *diff, double most)
{
	bool well = true;
	for (size_t i = 0; i < diff->function_count; i++) {
		const struct diff_function *function = &diff->functions[i];
		if (!function->self_differs || 100 * function->self_change <= most)
			continue;
		log_error("%s: %.2f %% before, %.2f %% after, %+.2f points", function->text,
			  100 * diff_share(function->self.before, diff->samples.before),
			  100 * diff_share(function->self.after, diff->samples.after),
			  100 * function->self_change);
		well = false;
	}
	return well;
}

static bool write_difference(struct conversion *conversion, const struct profile_diff *diff,
			     struct error *error)
{
	const struct options *options = &conversion->options.general;
	const struct view_options form = report_view_options(options);
	for (size_t i = 0; i < options->writing.output_count; i++) {
		const struct options_output *output = &options->writing.outputs[i];
		struct strbuf _cleanup_strbuf_ bytes;
		strbuf_init(&bytes);
		if (!output_diff(diff, output->format, &form, &bytes, error) ||
		    !output_file_write(output->path, bytes.text, bytes.size, error))
			return false;
		log_info("wrote %s: %llu samples before, %llu after", report_path(output),
			 (unsigned long long)diff->samples.before,
			 (unsigned long long)diff->samples.after);
	}
	return true;
}

/* *well: no function's share has grown too much. */
static bool compare(struct conversion *conversion, bool *well, struct error *error)
{
	const struct preport_options *options = &conversion->options;
	struct profile_diff diff;
	for (size_t i = 0; i < conversion->count; i++)
		filters_apply(&options->general, &conversion->profiles[i]);
	if (!profile_diff_init(&diff, &conversion->profiles[0], &conversion->profiles[1], error))
		return false;
	const bool written = write_difference(conversion, &diff, error);
	*well = options->fail_above < 0 || check_growth(&diff, options->fail_above);
	profile_diff_release(&diff);
	return written;
}

/*
 * Source files as they are here, where the recording was made here, too. Whoever wrote it may have
 * put any name into it: so only what everybody may read.
 */
static struct foreign_root source_files(const struct profile *profile)
{
	enum { NOBODY = 65534 };
	char name[HOST_NAME_MAX + 1] = "";
	const bool here = gethostname(name, sizeof(name) - 1) == 0 && profile->host &&
			  strcmp(profile->host, name) == 0;
	return (struct foreign_root){.fd = here ? FOREIGN_OUR_ROOT : FOREIGN_NOWHERE,
				     .user = NOBODY};
}

static bool write_outputs(struct conversion *conversion, struct error *error)
{
	const struct options *options = &conversion->options.general;
	struct profile *profile = &conversion->profiles[0];
	filters_apply(options, profile);
	profile_root(profile, options->thread_roots);
	if (report_is_timed(options))
		profile_make_times(profile);
	for (size_t i = 0; i < options->writing.output_count; i++) {
		if (!report_write(options, profile, source_files(profile),
				  &options->writing.outputs[i], error))
			return false;
		log_info("wrote %s: %llu samples", report_path(&options->writing.outputs[i]),
			 (unsigned long long)profile->counts.samples);
	}
	return true;
}

static void open_browser(void *context)
{
	const struct options *options = context;
	const struct options_output *output = options_browsable(options);
	struct file_server server = {0};
	struct error error;
	if (!options->open || !output)
		return;
	if (!browser_show(output, &server, &error))
		log_warning("%s", error.message);
	file_server_wait(&server);
}

static int convert(struct conversion *conversion)
{
	struct error error;
	bool well = true;
	if (!read_all(conversion, &error) ||
	    !(conversion->options.diff
		      ? compare(conversion, &well, &error)
		      : merge_all(conversion, &error) && write_outputs(conversion, &error))) {
		log_error("%s", error.message);
		return EXIT_IO;
	}
	apart_finish(&conversion->apart);
	if (!well)
		return EXIT_IO;
	return conversion->partial ? EXIT_PARTIAL : EXIT_DONE;
}

static struct apart apart_of(struct preport_options *options)
{
	return (struct apart){
		.options = &options->general,
		.inputs = options->inputs,
		.input_count = options->input_count,
		.symbols = options->symbols,
		.fetches = download_wanted(),
		.finish = options->general.open ? open_browser : NULL,
		.context = &options->general,
	};
}

int main(int argc, char **argv)
{
	struct conversion conversion = {0};
	report_hold_standard_files();
	alloc_stay_small();
	view_json_begin();
	preport_options_parse(argc, argv, &conversion.options);
	options_apply_log(&conversion.options.general, "preport");
	conversion.apart = apart_of(&conversion.options);
	apart_begin(&conversion.apart);
	conversion.strings = interner_new();
	const int status = convert(&conversion);
	for (size_t i = 0; i < conversion.count; i++)
		profile_release(&conversion.profiles[i]);
	free(conversion.profiles);
	free(conversion.options.inputs);
	symbol_folder_free(conversion.symbols);
	interner_free(conversion.strings);
	return status;
}
