/* SPDX-License-Identifier: MIT */
/* What is shown of a process: of each look its thread's name, state and stack, or why there is
 * none.
 */
#include "dump/internal.h"

#include <stdlib.h>
#include <time.h>

#include "files/far_file.h"
#include "target/core.h"

/* The oldest interpreter first: it has most likely started the thread. */
static bool find_name(const struct dumper *dumper, const struct look *look,
		      const struct python_runtime *runtime, char name[PYTHON_NAME_SIZE])
{
	const struct raw_sample *raw = look->raw;
	for (uint32_t i = raw && runtime ? raw->who.tstate_count : 0; i > 0; i--) {
		/* Not from the list of threads, which lacks all of them when it was torn. */
		struct python_thread own;
		if (!python_thread_read(runtime, target_memory(dumper->process.target),
					raw->who.tstates[i - 1], &own))
			continue;
		if (look->facts.known_to_python)
			own.thread_id = look->facts.thread_id;
		if (thread_name(dumper->process.target, runtime, &own, look->watched->copy.tid,
				name))
			return true;
	}
	return false;
}

/*
 * What Python calls the thread; false: nothing. The main thread has a name always: where none is
 * found, another thread is about to change the dict of them, and may wait for a CPU in there.
 */
static bool name_of(const struct dumper *dumper, const struct look *look,
		    const struct python_runtime *runtime, char name[PYTHON_NAME_SIZE])
{
	enum { TRIES = 20 };
	const struct timespec pause = {.tv_nsec = 1000000};
	const bool main = look->raw && look->raw->who.tstate_count > 0 &&
			  look->watched->copy.tid == target_pid(dumper->process.target);
	for (int i = 0; i < (main ? TRIES : 1); i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		if (find_name(dumper, look, runtime, name))
			return true;
	}
	return false;
}

/* What did not come is needed for what is shown. */
static bool lacks_memory(const struct look *look)
{
	const struct decoded *facts = &look->facts;
	return look->withheld && (!look->seen || facts->truncated || facts->salvaged ||
				  (facts->unwound && facts->end != UNWIND_END_OUTERMOST));
}

static const char *problem_of(const struct look *look, const char *unreadable)
{
	if (lacks_memory(look))
		return "a page of its memory does not come";
	switch (look->result) {
	case COPY_GONE:
		return look->seen ? NULL : "the thread ended";
	case COPY_FAILED:
		return "it cannot be looked at";
	case COPY_UNINTERRUPTIBLE:
		return "uninterruptible";
	case COPY_LATE:
		return "it did not stop in time";
	case COPY_NEXT:
	case COPY_TORN:
	case COPY_OK:
	case COPY_MOVED:
		break;
	}
	if (look->raw && look->raw->shortened)
		return "its innermost frames changed each time they were read";
	return look->seen ? NULL : unreadable;
}

/* In D sleep, now as before, and still in the same call: it could not have been stopped. One that
 * waits for a lock of the kernel's is so for a moment, on a busy machine for longer. */
static bool is_uninterruptible(const struct look *look)
{
	struct target_wait now;
	if (look->result == COPY_UNINTERRUPTIBLE)
		return true;
	return look->watched->state == 'D' && look->raw && !look->raw->stopped &&
	       target_thread_state(look->watched->copy.files) == 'D' &&
	       target_thread_wait(look->watched->copy.files, &now, NULL) && !now.running &&
	       now.number == look->raw->wait.number && now.sp == look->raw->wait.sp;
}

static const struct dump_signal *crash_of(const struct dumper *dumper, struct dump *dump, pid_t tid)
{
	const struct target *target = dumper->process.target;
	struct target_crash crash;
	if (!target_is_core(target) || !target_core_crash(target, tid, &crash))
		return NULL;
	struct dump_signal *signal = arena_alloc(&dump->arena, sizeof(*signal));
	*signal = (struct dump_signal){
		.number = crash.number,
		.code = crash.code,
		.address = crash.address,
		.sender = crash.sender,
	};
	return signal;
}

static void fill_thread(struct dumper *dumper, struct resolver *resolver, struct look *look,
			struct dump *dump, struct dump_thread *thread)
{
	struct watched_thread *watched = look->watched;
	const struct decoded *facts = &look->facts;
	const struct python_runtime *runtime = decoder_runtime(dumper->process.decoder);
	thread->tid = watched->copy.tid;
	thread->state = watched->state;
	thread->activity = look->result == COPY_GONE  ? THREAD_GONE
			   : is_uninterruptible(look) ? THREAD_UNINTERRUPTIBLE
			   : look->active	      ? THREAD_ACTIVE
						      : THREAD_IDLE;
	thread->known_to_python = facts->known_to_python;
	thread->python_id = facts->thread_id;
	thread->holds_gil = facts->holds_gil;
	thread->gc_running = facts->gc_running;
	thread->truncated = facts->truncated;
	thread->problem = problem_of(look, target_is_core(dumper->process.target)
						   ? "it is not whole in the core file"
						   : "it changed while it was read");
	thread->crash = crash_of(dumper, dump, watched->copy.tid);
	char name[PYTHON_NAME_SIZE];
	thread->name = intern_text(dump->strings,
				   name_of(dumper, look, runtime, name) ? name : watched->comm);
	struct frame *frames = NULL;
	size_t count = 0, capacity = 0;
	if (look->seen)
		resolver_stack(resolver, decoder_frames(dumper->process.decoder), look->stack,
			       look->stack_count, &frames, &count, &capacity);
	thread->frames = arena_alloc(&dump->arena, count * sizeof(*frames));
	thread->frame_count = count;
	for (size_t i = 0; i < count; i++)
		thread->frames[i] = frames[count - 1 - i];
	free(frames);
}

/* What could not be read at all is shown, too: it is said so. But not what has ended since the
 * threads were listed, unless it was asked for: the process as it is now has it no more. */
static bool shown(const struct dumper *dumper, const struct look *look)
{
	if (look->result == COPY_GONE && !look->seen)
		return dumper->options->thread_count > 0 ||
		       look->watched->copy.tid == target_pid(dumper->process.target);
	if (look->result != COPY_OK)
		return true;
	if (dumper->options->gil_only && !look->facts.holds_gil)
		return false;
	if (look->facts.known_to_python || !look->seen)
		return true;
	return !decoder_runtime(dumper->process.decoder) || dumper->options->native_threads;
}

void dump_fill(struct dumper *dumper, struct dump *dump, bool *partial)
{
	struct resolver *resolver = dumper->resolver;
	resolver_set_fetch(resolver, dumper->options->fetch);
	resolver_run(resolver, decoder_frames(dumper->process.decoder));
	dump->threads = arena_alloc(&dump->arena, dumper->look_count * sizeof(*dump->threads));
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		dump->has_gil |= look->facts.has_gil;
		if (!shown(dumper, look))
			continue;
		struct dump_thread *thread = &dump->threads[dump->thread_count++];
		fill_thread(dumper, resolver, look, dump, thread);
		*partial |= thread->problem != NULL || thread->activity == THREAD_UNINTERRUPTIBLE;
	}
	*partial |= dumper->unread || far_file_unanswered();
	dump->debug_problems = resolver_problems(resolver);
}

void dump_describe(struct dumper *dumper, struct dump *dump)
{
	const struct python_runtime *runtime = decoder_runtime(dumper->process.decoder);
	dump->pid = target_pid(dumper->process.target);
	dump->time = (uint64_t)time(NULL);
	dump->native = dumper->options->native;
	dump->command_line =
		intern_text(dump->strings, target_command_line(dumper->process.target));
	dump->executable = intern_text(dump->strings, target_executable(dumper->process.target));
	dump->has_rank = target_job_rank(dumper->process.target, &dump->rank);
	if (!runtime)
		return;
	dump->python_version = intern_text(dump->strings, python_runtime_version(runtime));
	dump->python_executable =
		intern_text(dump->strings, target_executable(dumper->process.target));
}
