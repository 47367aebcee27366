/* SPDX-License-Identifier: MIT */
/*
 * The processes on the command line, with -s each followed by what it has started, become dumps on
 * stdout: one block of text or one line of JSON each; or, with --merge, and with those of files,
 * the few stacks that they have. What ends, or may not be read, is said on stderr and keeps none of
 * the others from being shown.
 */
#include "src/dumps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errand.h"
#include "base/log.h"
#include "dump/dump.h"
#include "files/broker.h"
#include "files/far_file.h"
#include "output/output.h"
#include "read/dump_file.h"
#include "record/record.h"
#include "src/report.h"
#include "symbolize/symbolize.h"
#include "target/descendants.h"
#include "target/target.h"

struct dumps {
	const struct options *options;
	struct session_options session;
	struct view_options form;
	struct interner *strings;
	const char *host;      /* NULL: not known */
	struct dump_list list; /* --merge: all of them */
	size_t shown;
	const char *debug_problems; /* as said last; NULL: none yet */
	bool explained;		    /* why something is denied */
	/* what came of them */
	size_t of_status[EXIT_PARTIAL + 1];
	size_t count;	  /* all of these */
	size_t no_python; /* not among these: children that are none of Python's */
};

static bool contains(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* ---- which ---- */

/* The tree of one, without those that are there already, and without us: who asks from inside of
 * the tree would find himself looking. Returns how many there are now. */
static size_t add_tree(const struct options *options, pid_t pid, pid_t *pids, size_t count)
{
	pid_t *tree = alloc_zeroed(OPTIONS_MAX_PROCESSES, sizeof(*tree));
	const size_t found = target_process_tree(pid, tree, OPTIONS_MAX_PROCESSES);
	for (size_t i = 0; i < found && count < OPTIONS_MAX_PROCESSES; i++) {
		const bool own = tree[i] == getpid() || tree[i] == getppid() ||
				 tree[i] == broker_process() ||
				 tree[i] == symbolize_fetcher_process();
		if (contains(pids, count, tree[i]) ||
		    (own && !contains(options->pids, options->pid_count, tree[i])))
			continue;
		pids[count++] = tree[i];
	}
	free(tree);
	return count;
}

static size_t list_all(struct dumps *dumps, pid_t *pids)
{
	const struct options *options = dumps->options;
	size_t count = 0;
	if (options->others.cgroup) {
		memcpy(pids, options->pids, options->pid_count * sizeof(*pids));
		return options->pid_count;
	}
	if (options->subprocesses && !target_knows_children())
		log_warning("this kernel does not list children (CONFIG_PROC_CHILDREN): only the"
			    " processes that were given are shown");
	for (size_t i = 0; i < options->pid_count; i++) {
		if (options->subprocesses)
			count = add_tree(options, options->pids[i], pids, count);
		else
			pids[count++] = options->pids[i];
	}
	if (options->subprocesses && count == OPTIONS_MAX_PROCESSES) {
		log_warning("only the first %d processes are shown", OPTIONS_MAX_PROCESSES);
		dumps->of_status[EXIT_PARTIAL]++;
		dumps->count++;
	}
	return count;
}

struct listing {
	struct dumps *dumps;
	pid_t *pids;
	size_t count;
};

static void list_with_rights(void *context)
{
	struct listing *listing = context;
	listing->count = list_all(listing->dumps, listing->pids);
}

static size_t list_processes(struct dumps *dumps, pid_t *pids)
{
	struct listing listing = {dumps, pids, 0};
	errand_run(list_with_rights, &listing);
	return listing.count;
}

/* ---- one of them ---- */

static int fetch_program(void *context, const struct build_id *id, const char *path)
{
	return symbolize_programs_fetch(context, id, path);
}

static bool look_at_core(const struct dumps *dumps, struct dump *dump, bool *partial,
			 struct error *error)
{
	struct target_core_options core = dumps->options->core;
	struct symbolize_programs *programs =
		dumps->session.fetch ? symbolize_programs_new(dumps->session.fetch) : NULL;
	if (programs) {
		core.fetch = fetch_program;
		core.context = programs;
	}
	const bool well = dump_core(&core, &dumps->session, dumps->strings, dump, partial, error);
	symbolize_programs_free(programs);
	return well;
}

/* pid 0: the core file. */
static bool look(const struct dumps *dumps, pid_t pid, struct dump *dump, bool *partial,
		 struct error *error)
{
	if (!pid)
		return look_at_core(dumps, dump, partial, error);
	struct session_options session = dumps->session;
	session.python_only = dumps->options->subprocesses;
	if (!dump_process(pid, &session, dumps->strings, dump, partial, error))
		return false;
	if (session.python_only && dump->no_python && dumps->options->others.native_processes) {
		dump_release(dump);
		session.python_only = false;
		session.native = session.native_threads = true;
		if (!dump_process(pid, &session, dumps->strings, dump, partial, error))
			return false;
	}
	dump->host = dumps->host;
	return true;
}

static void say_problems(struct dumps *dumps, const struct dump *dump)
{
	for (size_t i = 0; i < dump->core_problem_count; i++)
		log_warning("%s", dump->core_problems[i]);
	if (!dump->debug_problems || dump->debug_problems == dumps->debug_problems)
		return;
	dumps->debug_problems = dump->debug_problems;
	log_info("%s", dump->debug_problems);
}

/* False: it cannot be written. */
static bool show(struct dumps *dumps, const struct dump *dump, struct error *error)
{
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	if (!dumps->options->json) {
		strbuf_add_text(&text, dumps->shown ? "\n" : "");
		output_dump_text(dump, &dumps->form, &text);
	} else if (!output_dump_json(dump, &text, error)) {
		return false;
	}
	dumps->shown++;
	return output_file_write("-", text.text, text.size, error);
}

static void add_status(struct dumps *dumps, enum exit_status status)
{
	dumps->of_status[status]++;
	dumps->count++;
}

static void judge(struct dumps *dumps, const struct dump *dump, bool partial)
{
	if (partial) {
		add_status(dumps, EXIT_PARTIAL);
	} else if (dump->python_version) {
		add_status(dumps, EXIT_DONE);
	} else if (dump->no_python && dumps->options->subprocesses) {
		dumps->no_python++;
	} else {
		if (dumps->options->pid_count <= 1 && !dumps->options->subprocesses)
			log_error("%s", dump->python_problem);
		else
			log_error("process %d: %s", (int)dump->pid, dump->python_problem);
		add_status(dumps, EXIT_NOT_PYTHON);
	}
}

/* The cause is the same for most, and its remedy takes some lines. */
static void fail(struct dumps *dumps, pid_t pid, const struct error *error)
{
	add_status(dumps, report_error(error, dumps->explained ? 0 : pid));
	dumps->explained |= error->kind == ERROR_DENIED;
}

static bool look_at(struct dumps *dumps, pid_t pid, struct error *error)
{
	struct dump dump;
	bool partial;
	struct error problem;
	if (!look(dumps, pid, &dump, &partial, &problem)) {
		fail(dumps, pid, &problem);
		return true;
	}
	say_problems(dumps, &dump);
	judge(dumps, &dump, partial);
	if (dumps->options->merge) {
		dump_list_add(&dumps->list, &dump);
		return true;
	}
	const bool well = show(dumps, &dump, error);
	dump_release(&dump);
	return well;
}

/* ---- many as one: --merge ---- */

/* What can be read of it counts, and that there is more. */
static void read_file(struct dumps *dumps, const char *path)
{
	struct error error;
	const size_t before = dumps->list.count;
	const bool well = read_dump_file(path, dumps->strings, &dumps->list, &error);
	for (size_t i = before; i < dumps->list.count; i++)
		add_status(dumps, EXIT_DONE);
	if (!well)
		add_status(dumps, report_error(&error, 0));
}

static bool show_merged(const struct dumps *dumps, struct error *error)
{
	struct dump_groups groups;
	_cleanup_strbuf_ struct strbuf text;
	bool well = true;
	strbuf_init(&text);
	dump_groups_init(&groups, &dumps->list, dumps->form.lines, dumps->form.full_filenames);
	if (dumps->options->json)
		well = output_groups_json(&groups, &text, error);
	else
		output_groups_text(&groups, &dumps->form, &text);
	dump_groups_release(&groups);
	return well && output_file_write("-", text.text, text.size, error);
}

/* ---- all of them ---- */

static int overall(const struct dumps *dumps)
{
	if (dumps->count == 0) {
		log_error("none of the processes is Python");
		return EXIT_NOT_PYTHON;
	}
	for (int status = EXIT_DONE; status <= EXIT_PARTIAL; status++)
		if (dumps->of_status[status] == dumps->count)
			return status;
	return EXIT_PARTIAL;
}

static const char *host_name(struct interner *strings)
{
	char name[HOST_NAME_MAX + 1] = "";
	if (gethostname(name, sizeof(name) - 1) != 0 || !name[0])
		return NULL;
	return intern_text(strings, name);
}

int dumps_run(const struct options *options, const struct session_options *session)
{
	struct dumps dumps = {.options = options,
			      .session = *session,
			      .form = report_view_options(options),
			      .strings = interner_new()};
	struct error error;
	bool well = true;
	dumps.host = host_name(dumps.strings);
	pid_t *pids = alloc_zeroed(OPTIONS_MAX_PROCESSES, sizeof(*pids));
	const size_t count = list_processes(&dumps, pids);
	if (options->core.path)
		well = look_at(&dumps, 0, &error);
	for (size_t i = 0; i < count && well; i++)
		well = look_at(&dumps, pids[i], &error);
	for (size_t i = 0; i < options->file_count; i++)
		read_file(&dumps, options->files[i]);
	if (well && dumps.list.count)
		well = show_merged(&dumps, &error);
	if (options->stacks.nonblocking && (dumps.shown || dumps.list.count))
		log_info("nothing was stopped: stacks of active threads may be torn");
	if (far_file_unanswered())
		log_warning(FILES_UNANSWERED);
	const int status = well ? overall(&dumps) : report_error(&error, 0);
	free(pids);
	dump_list_release(&dumps.list);
	interner_free(dumps.strings);
	return status;
}
