/* SPDX-License-Identifier: MIT */
/*
 * One look at all threads of a process, or of a core file: passes (passes.c) until nothing is to be
 * read again, then what they have found (fill.c).
 */
#include "dump/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/errand.h"
#include "target/core.h"

/* What is done with the rights that are kept for it (base/errand.h): it parses numbers alone. */
struct step {
	struct dumper *dumper;
	unsigned pass;
	struct error *error;
	bool well;
};

static void list_threads(void *context)
{
	struct step *step = context;
	struct process *process = &step->dumper->process;
	const struct session_options *options = step->dumper->options;
	step->well = threads_refresh(&process->threads, process->target, options, step->error) &&
		     threads_check_wanted(&process->threads, process->target, options, step->error);
}

static void take_with_rights(void *context)
{
	struct step *step = context;
	step->well = dump_take_pass(step->dumper, step->pass, step->error);
}

static bool prepare(struct dumper *dumper, struct dump *dump, struct error *error)
{
	struct error problem;
	if (!process_refresh(&dumper->process, error))
		return false;
	if (!process_open_python(&dumper->process, &problem)) {
		if (problem.kind == ERROR_DENIED || problem.kind == ERROR_GONE) {
			*error = problem;
			return false;
		}
		const bool may_have = problem.kind == ERROR_TORN || problem.kind == ERROR_ABSENT;
		if (may_have && target_core_is_cut_off(dumper->process.target))
			error_set(&problem, ERROR_TORN,
				  "the core file is cut off before what tells of an interpreter");
		dumper->unread = problem.kind == ERROR_BUSY;
		dump->python_problem = intern_text(dump->strings, problem.message);
		dump->no_python = problem.kind == ERROR_ABSENT;
	}
	process_set_options(&dumper->process, dumper->options, &dumper->means);
	dumper->process.taker.runtime = decoder_runtime(dumper->process.decoder);
	dumper->process.taker.main_stack_end = process_main_stack_end(&dumper->process);
	dumper->process.taker.patience =
		(struct patience){.tries = 1000, .for_whole = 1000, .ns = 500000000};
	struct step step = {.dumper = dumper, .error = error};
	errand_run(list_threads, &step);
	return step.well;
}

static bool take_pass(struct dumper *dumper, unsigned pass, struct error *error)
{
	struct step step = {dumper, pass, error, false};
	errand_run(take_with_rights, &step);
	return step.well;
}

/* Not earlier: threads that are to stop would have to share their CPUs with it. The few that are
 * looked at once more do. */
static void read_ahead(struct dumper *dumper)
{
	const struct python_runtime *runtime = decoder_runtime(dumper->process.decoder);
	if (dumper->options->native && runtime)
		resolver_read_ahead(dumper->resolver, python_runtime_module(runtime));
}

static bool look_at_all(struct dumper *dumper, struct dump *dump, bool *partial,
			struct error *error)
{
	dumper->look_count = dumper->process.threads.count;
	dumper->looks = alloc_zeroed(dumper->look_count + 1, sizeof(*dumper->looks));
	for (size_t i = 0; i < dumper->look_count; i++)
		dumper->looks[i] =
			(struct look){.watched = dumper->process.threads.threads[i], .again = true};
	dumper->kept = alloc_zeroed(dumper->look_count + 1, sizeof(struct look *));
	bool again = true, well = true;
	for (unsigned pass = 0; pass < MAX_PASSES && again && well; pass++) {
		well = take_pass(dumper, pass, error);
		if (pass == 0 && well)
			read_ahead(dumper);
		again = well && dump_decode_pass(dumper);
	}
	if (well)
		dump_fill(dumper, dump, partial);
	return well;
}

static void release(struct dumper *dumper)
{
	resolver_free(dumper->resolver);
	for (size_t i = 0; i < dumper->look_count; i++) {
		raw_sample_free(dumper->looks[i].raw);
		free(dumper->looks[i].stack);
	}
	free(dumper->looks);
	free(dumper->kept);
	process_release(&dumper->process);
}

static void dump_init(struct dump *dump, struct interner *strings)
{
	memset(dump, 0, sizeof(*dump));
	arena_init(&dump->arena);
	dump->strings = strings;
}

static struct decode_options decoding_of(const struct session_options *options)
{
	return (struct decode_options){
		.native = options->native,
		.internals = options->internals,
		.rbx = options->join == JOIN_RBX,
		.columns = true,
		.decides_later = true,
	};
}

/* Of a process that is open. */
static bool dump_opened(struct dumper *dumper, struct dump *dump, bool *partial,
			struct error *error)
{
	dumper->resolver =
		resolver_new(dumper->process.target, dump->strings, dumper->options->internals);
	bool well = prepare(dumper, dump, error);
	if (well) {
		dump_describe(dumper, dump);
		if (!(dumper->options->python_only && dump->no_python))
			well = look_at_all(dumper, dump, partial, error);
	}
	return well;
}

bool dump_process(pid_t pid, const struct session_options *options, struct interner *strings,
		  struct dump *dump, bool *partial, struct error *error)
{
	struct dumper dumper = {.options = options};
	const struct decode_options decoding = decoding_of(options);
	dump_init(dump, strings);
	*partial = false;
	guard_init(&dumper.guard);
	if (!process_open(&dumper.process, pid, &decoding, strings, error))
		return false;
	const bool well = dump_opened(&dumper, dump, partial, error);
	release(&dumper);
	if (!well)
		dump_release(dump);
	return well;
}

/* ---- a core file ---- */

static void fill_core_problems(const struct target *target, struct dump *dump)
{
	const char *const *texts;
	const bool cut = target_core_is_cut_off(target);
	const size_t count = target_core_problems(target, &texts);
	const char **problems = arena_alloc(&dump->arena, (count + 1) * sizeof(*problems));
	for (size_t i = 0; i < count; i++)
		problems[i] = intern_text(dump->strings, texts[i]);
	if (cut)
		problems[count] = "the core file is cut off: what it lacks is not shown";
	dump->core_problems = problems;
	dump->core_problem_count = count + cut;
}

bool dump_core(const struct target_core_options *core, const struct session_options *options,
	       struct interner *strings, struct dump *dump, bool *partial, struct error *error)
{
	struct dumper dumper = {.options = options};
	const struct decode_options decoding = decoding_of(options);
	struct target *target;
	dump_init(dump, strings);
	*partial = false;
	guard_init(&dumper.guard);
	if (!target_open_core(core, &target, error))
		return false;
	process_open_target(&dumper.process, target, &decoding, strings);
	const bool well = dump_opened(&dumper, dump, partial, error);
	if (well) {
		dump->time = target_core_time(target);
		*partial |= target_core_is_cut_off(target);
		fill_core_problems(target, dump);
	}
	release(&dumper);
	if (!well)
		dump_release(dump);
	return well;
}

void dump_release(struct dump *dump)
{
	arena_release(&dump->arena);
	dump->threads = NULL;
	dump->thread_count = 0;
}
