/* SPDX-License-Identifier: MIT */
/*
 * One look at all threads of a process. A thread of ours does the tracing and ends at once when
 * all is copied, so that the kernel lets go of the target; the copies are decoded afterwards.
 * All running threads are stopped before any is read: a deadlock must be seen as one moment.
 * Blocked threads are read as they are; those whose stack cannot be told from the stack and
 * program counters alone are stopped in a second pass. With --nonblocking none is stopped, and a
 * running one is read until its stack stands still.
 */
#include "sample/internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

enum {
	MAX_PASSES = 4,
	PATIENCE_US = 20000,
	PATIENCE_LATER_US = 200,
	SETTLE_NS = 40000000, /* in one pass, until all who were stopped wait again */
	LARGE = 1 << 20,      /* bytes that are not copied once more */
};

/* What is known of one thread at the end of a pass. */
struct look {
	struct thread_slot *slot;
	struct raw_sample *raw; /* NULL: not read (yet) */
	bool again;		/* read it in the next pass */
	bool must_stop;		/* and stop it for that, although it is blocked */
	bool stopped_now;
	bool active;
	enum take_result result;
	struct decode_facts facts; /* of the stack that its slot has, if any */
};

struct dumper {
	struct target *target;
	const struct session_options *options;
	struct decoder decoder;
	struct resolver *resolver;
	struct slots slots;
	struct taker taker;
	struct look *looks;
	size_t look_count;
	struct look **kept; /* what the pass has copied, in that order */
	size_t kept_count;
	uint64_t settled_ns; /* until then a pass waits for those that the one before stopped */
	pid_t tracer_tid;
	struct error error;
	bool failed;
};

static bool must_stop(const struct dumper *dumper, const struct look *look)
{
	const struct session_options *options = dumper->options;
	if (options->nonblocking)
		return false;
	return look->must_stop || options->unwinder == UNWINDER_PTRACE ||
	       options->join == JOIN_FS_BASE;
}

/* Of thousands of threads just what was copied; a deep stack as it is, in the scratch sample. */
static void keep(struct dumper *dumper, struct look *look, struct raw_sample **scratch)
{
	dumper->kept[dumper->kept_count++] = look;
	raw_sample_free(look->raw);
	if (raw_sample_footprint(*scratch) < LARGE) {
		look->raw = raw_sample_clone(*scratch);
	} else {
		look->raw = *scratch;
		*scratch = raw_sample_new();
	}
	look->result = TAKE_OK;
	look->again = false;
}

/* So that a stack of any depth is copied whole at the first look. Nobody else uses the table while
 * a pass is under way. */
static void note_stack_end(struct dumper *dumper, struct thread_slot *slot, remote_addr sp)
{
	const struct mapping *mapping = module_table_find(&dumper->decoder.modules, sp);
	if (mapping && !mapping->module && !atomic_load(&slot->stack_end))
		atomic_store(&slot->stack_end, mapping->end);
}

static void rest(void)
{
	struct timespec time = {.tv_nsec = 50000};
	nanosleep(&time, NULL);
}

/* What a thread does. One that was blocked until an earlier pass stopped it runs for a moment, or
 * waits for a CPU, on its way back into the same call. */
static bool read_wait(const struct dumper *dumper, const struct look *look,
		      struct target_wait *wait)
{
	const bool stopped = look->result == TAKE_LATE || (look->raw && look->raw->stopped);
	const bool disturbed = stopped && !look->active;
	while (target_thread_wait(look->slot->files, wait, NULL)) {
		if (!wait->running || !disturbed || clock_now_ns() >= dumper->settled_ns)
			return true;
		rest();
	}
	return false;
}

/* Reads a blocked thread without stopping it; false: it moved, or must be stopped. */
static bool read_blocked(struct dumper *dumper, struct look *look, struct raw_sample **scratch)
{
	struct target_wait wait;
	if (!read_wait(dumper, look, &wait)) {
		look->result = TAKE_GONE;
		look->again = false;
		return true;
	}
	look->active = wait.running;
	take_note_wait(&dumper->taker, look->slot, &wait);
	if (wait.running || must_stop(dumper, look))
		return false;
	note_stack_end(dumper, look->slot, wait.sp);
	look->result = take_blocked(&dumper->taker, look->slot, &wait, *scratch);
	if (look->result == TAKE_MOVED)
		return false;
	if (look->result == TAKE_OK)
		keep(dumper, look, scratch);
	look->again = false;
	return true;
}

static bool stop(struct dumper *dumper, struct look *look, unsigned patience_us,
		 struct registers *registers)
{
	struct tracer *tracer = dumper->taker.tracer;
	struct error error;
	if (tracer_seize(tracer, look->slot->tid, &error) &&
	    tracer_stop(tracer, look->slot->tid, patience_us, registers, &error))
		return true;
	if (error.kind == ERROR_DENIED || error.kind == ERROR_SYSTEM) {
		dumper->error = error;
		dumper->failed = true;
	}
	look->again = false;
	look->result = take_failure(look->slot, &error);
	return false;
}

/* Stops all that run, then copies them, then lets all go on. */
static void read_running(struct dumper *dumper, struct raw_sample **scratch)
{
	struct registers *registers = alloc_zeroed(dumper->look_count + 1, sizeof(*registers));
	/* Who was late on a busy machine gets more time in the next pass. */
	unsigned patience = PATIENCE_US << dumper->taker.pass;
	for (size_t i = 0; i < dumper->look_count && !dumper->failed; i++) {
		struct look *look = &dumper->looks[i];
		if (!look->again)
			continue;
		look->stopped_now = stop(dumper, look, patience, &registers[i]);
		if (look->result == TAKE_UNINTERRUPTIBLE)
			patience = PATIENCE_LATER_US; /* the whole patience is spent once */
	}
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		if (!look->stopped_now)
			continue;
		raw_sample_reset(*scratch);
		(*scratch)->registers = registers[i];
		note_stack_end(dumper, look->slot, registers[i].value[REGISTER_RSP]);
		take_stopped(&dumper->taker, look->slot, *scratch);
		keep(dumper, look, scratch);
		look->stopped_now = false;
	}
	tracer_resume_all(dumper->taker.tracer);
	free(registers);
}

static void read_unstopped(struct dumper *dumper, struct raw_sample **scratch)
{
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		if (!look->again)
			continue;
		look->again = false;
		look->result = take_unstopped(&dumper->taker, look->slot, *scratch);
		if (look->result == TAKE_OK)
			keep(dumper, look, scratch);
	}
}

static void *take_pass(void *argument)
{
	struct dumper *dumper = argument;
	struct raw_sample *scratch = raw_sample_new();
	bool traced = !dumper->options->nonblocking;
	dumper->tracer_tid = gettid();
	dumper->taker.tracer = traced ? tracer_new(dumper->target) : NULL;
	for (size_t i = 0; i < dumper->look_count; i++)
		if (dumper->looks[i].again)
			dumper->looks[i].again = !read_blocked(dumper, &dumper->looks[i], &scratch);
	if (traced)
		read_running(dumper, &scratch);
	else
		read_unstopped(dumper, &scratch);
	tracer_free(dumper->taker.tracer);
	raw_sample_free(scratch);
	return NULL; /* the end of this thread detaches from the target */
}

/* The kernel lets go of the target after pthread_join() sees the end of a thread, and before the
 * thread's number is free: until then the next pass would find the target traced. */
static void await_detached(const struct dumper *dumper)
{
	while (tgkill(getpid(), dumper->tracer_tid, 0) == 0)
		rest();
}

static bool run_pass(struct dumper *dumper, unsigned pass, struct error *error)
{
	const struct python_runtime *runtime = decoder_runtime(&dumper->decoder);
	struct error ignored;
	if (pass > 0)
		await_detached(dumper);
	if (runtime && !join_refresh(&dumper->taker.join, runtime, dumper->target, &ignored))
		log_debug("join", "%s", ignored.message);
	slots_join(&dumper->slots, &dumper->taker.join);
	dumper->kept_count = 0;
	dumper->taker.pass = pass;
	dumper->settled_ns = clock_now_ns() + SETTLE_NS;
	/* Each pass copies all code objects: the one before may not have been decoded. */
	python_known_codes_free(dumper->taker.known);
	dumper->taker.known = python_known_codes_new();
	pthread_t thread;
	int failure = pthread_create(&thread, NULL, take_pass, dumper);
	if (failure)
		return error_set_errno(error, failure, "cannot start a thread");
	pthread_join(thread, NULL);
	log_debug("sample", "pass %u: %zu threads copied", pass, dumper->kept_count);
	if (dumper->failed && error)
		*error = dumper->error;
	return !dumper->failed;
}

/* Where it ends is known by now: that much of it is copied in the next pass. */
static bool needs_more_stack(const struct dumper *dumper, const struct look *look,
			     const struct decode_facts *facts)
{
	return facts->end == UNWIND_END_STACK_COPY && dumper->options->native &&
	       atomic_load(&look->slot->stack_end);
}

static void decode_look(struct dumper *dumper, struct look *look)
{
	struct thread_slot *slot = look->slot;
	struct decode_facts now;
	/* Whom Python did not know in so many looks, it does not know. */
	if (dumper->taker.pass == MAX_PASSES - 1)
		look->raw->unjoined = false;
	const bool torn = decode_sample(&dumper->decoder, look->raw, &now) == DECODE_TORN;
	bool rbx = dumper->options->join == JOIN_RBX && atomic_load(&slot->learned) &&
		   !now.known_to_python;
	/* The next list of Python's threads may have it: to stop it tells fs_base alone. */
	bool listed = look->raw->unjoined && dumper->taker.join.tids_known;
	look->must_stop = (torn && !listed) || now.needs_register;
	look->again = torn || now.needs_register || rbx || needs_more_stack(dumper, look, &now);
	/* What was seen earlier is shown, and told of. */
	if (!torn || !slot->seen)
		look->facts = now;
	if (torn)
		return;
	slot->last_count = dumper->decoder.stack_count;
	slot->last_stack = alloc_room(slot->last_stack, &slot->last_capacity, slot->last_count + 1,
				      sizeof(*slot->last_stack));
	memcpy(slot->last_stack, dumper->decoder.stack,
	       slot->last_count * sizeof(*slot->last_stack));
	slot->seen = true;
}

/* Decodes what a pass has read, in that order: what is new of code objects stands in the first copy
 * that has it. True when some thread must be read again. */
static bool decode_pass(struct dumper *dumper)
{
	bool again = false;
	for (size_t i = 0; i < dumper->kept_count; i++)
		decode_look(dumper, dumper->kept[i]);
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		/* It may be in time, or hold still, in the next one. */
		look->again |=
			look->result == TAKE_LATE || (look->result == TAKE_TORN && look->raw);
		again |= look->again;
	}
	return again;
}

static const struct python_thread *python_thread_of(const struct join *join,
						    const struct raw_sample *raw)
{
	const struct python_thread *found = NULL;
	for (uint32_t i = 0; raw && i < raw->tstate_count && !found; i++)
		found = join_by_tstate(join, raw->tstates[i]);
	return found;
}

static const char *problem_of(const struct look *look)
{
	switch (look->result) {
	case TAKE_GONE:
		return "the thread ended";
	case TAKE_UNINTERRUPTIBLE:
		return "uninterruptible";
	case TAKE_LATE:
		return "it did not stop in time";
	case TAKE_TORN:
	case TAKE_OK:
	case TAKE_MOVED:
		break;
	}
	if (look->raw && look->raw->shortened)
		return "its innermost frames changed each time they were read";
	return look->slot->seen ? NULL : "it changed while it was read";
}

/* In D sleep, and still in the same call: it could not have been stopped. */
static bool is_uninterruptible(const struct look *look)
{
	struct target_wait now;
	if (look->result == TAKE_UNINTERRUPTIBLE)
		return true;
	return look->slot->state == 'D' && look->raw && !look->raw->stopped &&
	       target_thread_wait(look->slot->files, &now, NULL) && !now.running &&
	       now.number == look->raw->wait.number && now.sp == look->raw->wait.sp;
}

static void fill_thread(struct dumper *dumper, struct resolver *resolver, struct look *look,
			struct dump *dump, struct dump_thread *thread)
{
	struct thread_slot *slot = look->slot;
	const struct decode_facts *facts = &look->facts;
	const struct python_runtime *runtime = decoder_runtime(&dumper->decoder);
	const struct python_thread *python = python_thread_of(&dumper->taker.join, look->raw);
	thread->tid = slot->tid;
	thread->state = slot->state;
	thread->activity = look->result == TAKE_GONE  ? THREAD_GONE
			   : is_uninterruptible(look) ? THREAD_UNINTERRUPTIBLE
			   : look->active	      ? THREAD_ACTIVE
						      : THREAD_IDLE;
	thread->known_to_python = facts->known_to_python;
	thread->python_id = facts->thread_id;
	thread->holds_gil = facts->holds_gil;
	thread->gc_running = facts->gc_running;
	thread->truncated = facts->truncated && dumper->options->native;
	thread->problem = problem_of(look);
	if (python && runtime) {
		struct python_thread own = *python;
		own.native_thread_id = 0; /* after a fork the Thread object has its parent's */
		thread->name = python_thread_name(runtime, target_memory(dumper->target), &own,
						  dump->strings);
	}
	if (!thread->name)
		thread->name = intern_text(dump->strings, slot->comm);
	struct frame *frames = NULL;
	size_t count = 0, capacity = 0;
	if (slot->seen)
		resolver_stack(resolver, &dumper->decoder.frames, slot->last_stack,
			       slot->last_count, &frames, &count, &capacity);
	thread->frames = arena_alloc(&dump->arena, count * sizeof(*frames));
	thread->frame_count = count;
	for (size_t i = 0; i < count; i++)
		thread->frames[i] = frames[count - 1 - i];
	free(frames);
}

/* What could not be read at all is shown, too: it is said so. */
static bool shown(const struct dumper *dumper, const struct look *look)
{
	if (look->result != TAKE_OK)
		return true;
	if (dumper->options->gil_only && !look->facts.holds_gil)
		return false;
	if (look->facts.known_to_python || !look->slot->seen)
		return true;
	return !decoder_runtime(&dumper->decoder) || dumper->options->native_threads;
}

static void fill_dump(struct dumper *dumper, struct dump *dump, bool *partial)
{
	struct resolver *resolver = dumper->resolver;
	resolver_set_fetch(resolver, dumper->options->fetch);
	resolver_run(resolver, &dumper->decoder.frames, dumper->decoder.unwinder);
	dump->threads = arena_alloc(&dump->arena, dumper->look_count * sizeof(*dump->threads));
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		if (!shown(dumper, look))
			continue;
		struct dump_thread *thread = &dump->threads[dump->thread_count++];
		fill_thread(dumper, resolver, look, dump, thread);
		*partial |= thread->problem != NULL || thread->activity == THREAD_UNINTERRUPTIBLE;
		dump->has_gil |= look->facts.has_gil;
	}
	dump->debug_problems = resolver_problems(resolver);
}

static void describe(struct dumper *dumper, struct dump *dump)
{
	const struct python_runtime *runtime = decoder_runtime(&dumper->decoder);
	dump->pid = target_pid(dumper->target);
	dump->time = (uint64_t)time(NULL);
	dump->native = dumper->options->native;
	dump->command_line = intern_text(dump->strings, target_command_line(dumper->target));
	dump->executable = intern_text(dump->strings, target_executable(dumper->target));
	if (!runtime)
		return;
	dump->python_version = intern_text(dump->strings, python_runtime_version(runtime));
	dump->python_executable = intern_text(dump->strings, target_executable(dumper->target));
}

static bool prepare(struct dumper *dumper, struct dump *dump, struct error *error)
{
	struct decoder *decoder = &dumper->decoder;
	if (!module_table_refresh(&decoder->modules, dumper->target, NULL, error))
		return false;
	decoder->refreshed_ns = clock_now_ns();
	struct error problem;
	if (!decoder_open_python(decoder, target_memory(dumper->target), &problem)) {
		if (problem.kind == ERROR_DENIED || problem.kind == ERROR_GONE) {
			*error = problem;
			return false;
		}
		dump->python_problem = intern_text(dump->strings, problem.message);
	}
	dumper->taker.target = dumper->target;
	dumper->taker.options = dumper->options;
	dumper->taker.runtime = decoder_runtime(decoder);
	dumper->taker.main_stack_end = decoder_main_stack_end(decoder);
	join_init(&dumper->taker.join, dumper->options->join);
	if (dumper->options->nonblocking)
		dumper->taker.unstopped = unstopped_new();
	dumper->taker.patience =
		(struct patience){.tries = 1000, .for_whole = 1000, .ns = 500000000};
	slots_init(&dumper->slots);
	return slots_refresh(&dumper->slots, dumper->target, dumper->options, error) &&
	       slots_check_wanted(&dumper->slots, dumper->target, dumper->options, error);
}

/* Not earlier: threads that are to stop would have to share their CPUs with it. The few that are
 * looked at once more do. */
static void read_ahead(struct dumper *dumper)
{
	const struct python_runtime *runtime = decoder_runtime(&dumper->decoder);
	if (dumper->options->native && runtime)
		resolver_read_ahead(dumper->resolver, python_runtime_module(runtime));
}

static bool look_at_all(struct dumper *dumper, struct dump *dump, bool *partial,
			struct error *error)
{
	dumper->look_count = dumper->slots.count;
	dumper->looks = alloc_zeroed(dumper->look_count + 1, sizeof(*dumper->looks));
	for (size_t i = 0; i < dumper->look_count; i++)
		dumper->looks[i] = (struct look){.slot = dumper->slots.slots[i], .again = true};
	dumper->kept = alloc_zeroed(dumper->look_count + 1, sizeof(struct look *));
	bool again = true, well = true;
	for (unsigned pass = 0; pass < MAX_PASSES && again && well; pass++) {
		well = run_pass(dumper, pass, error);
		if (pass == 0 && well)
			read_ahead(dumper);
		again = well && decode_pass(dumper);
	}
	if (well)
		fill_dump(dumper, dump, partial);
	return well;
}

static void release(struct dumper *dumper)
{
	resolver_free(dumper->resolver);
	for (size_t i = 0; i < dumper->look_count; i++)
		raw_sample_free(dumper->looks[i].raw);
	free(dumper->looks);
	free(dumper->kept);
	slots_release(&dumper->slots);
	join_release(&dumper->taker.join);
	python_known_codes_free(dumper->taker.known);
	unstopped_free(dumper->taker.unstopped);
	decoder_release(&dumper->decoder);
	target_free(dumper->target);
}

bool dump_process(pid_t pid, const struct session_options *options, struct interner *strings,
		  struct dump *dump, bool *partial, struct error *error)
{
	struct dumper dumper = {.options = options};
	memset(dump, 0, sizeof(*dump));
	arena_init(&dump->arena);
	dump->strings = strings;
	*partial = false;
	if (!target_open(pid, &dumper.target, error))
		return false;
	decoder_init(&dumper.decoder, dumper.target, options, strings);
	dumper.decoder.columns = true;
	dumper.decoder.decides_later = true;
	dumper.resolver = resolver_new(dumper.target, strings, options->internals);
	bool well = prepare(&dumper, dump, error);
	if (well) {
		describe(&dumper, dump);
		well = look_at_all(&dumper, dump, partial, error);
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
