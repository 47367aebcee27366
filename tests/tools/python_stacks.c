/* SPDX-License-Identifier: MIT */
/*
 * Stops all threads of a process and prints its Python stacks, for tests to compare with what the
 * program says of itself:
 *
 *   version 3.11.7
 *   thread 139637 gil,gc MainThread     "no-gil": this build has none now; "-": nothing to say
 *   function TAB file TAB line TAB end line TAB column TAB end column      innermost first
 *
 * With -r the number of reads of each touch is printed on stderr. Stacks are read from a copy of
 * exactly what python_stack_touch read, as the profiler does.
 *
 * With -s COUNT the main thread is stopped COUNT times while it runs; each stack is one line,
 * outermost first: functions joined by ",", activations by "|", or "error KIND ...". The last
 * line on stderr counts records.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "python/python.h"
#include "target/tracer.h"

/* Records every range read, and serves ranges inside of recorded ones. */
struct piece {
	remote_addr address;
	size_t size;
	uint8_t *bytes;
};

struct recorder {
	struct memory_reader reader;
	const struct memory_reader *target; /* NULL: serve only */
	struct piece *pieces;
	size_t count, capacity, reads, bytes;
};

static bool serve(const struct recorder *recorder, remote_addr address, void *buffer, size_t size)
{
	for (size_t i = 0; i < recorder->count; i++) {
		const struct piece *piece = &recorder->pieces[i];
		if (address >= piece->address && size <= piece->size &&
		    address - piece->address <= piece->size - size) {
			memcpy(buffer, piece->bytes + (address - piece->address), size);
			return true;
		}
	}
	return false;
}

static bool recorder_read(const struct memory_reader *reader, remote_addr address, void *buffer,
			  size_t size, struct error *error)
{
	struct recorder *recorder = (struct recorder *)reader;
	if (serve(recorder, address, buffer, size))
		return true;
	if (!recorder->target)
		return error_set(error, ERROR_ABSENT, "%zu bytes at %#llx are not in the copy",
				 size, (unsigned long long)address);
	if (!memory_read(recorder->target, address, buffer, size, error))
		return false;
	recorder->pieces = alloc_room(recorder->pieces, &recorder->capacity, recorder->count + 1,
				      sizeof(*recorder->pieces));
	struct piece *piece = &recorder->pieces[recorder->count++];
	*piece = (struct piece){address, size, alloc_zeroed(size, 1)};
	memcpy(piece->bytes, buffer, size);
	recorder->reads++;
	recorder->bytes += size;
	return true;
}

static void recorder_release(struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->count; i++)
		free(recorder->pieces[i].bytes);
	free(recorder->pieces);
	recorder->pieces = NULL;
	recorder->count = recorder->capacity = recorder->reads = recorder->bytes = 0;
}

static int fail(const char *what, const struct error *error)
{
	fprintf(stderr, "python_stacks: %s: %s\n", what, error->message);
	return 1;
}

static bool stop_all(const struct target *target, struct tracer *tracer, struct error *error)
{
	struct target_thread *threads;
	struct registers registers;
	size_t count;
	if (!target_threads(target, &threads, &count, error))
		return false;
	bool ok = true;
	for (size_t i = 0; ok && i < count; i++) {
		struct error problem = {0};
		ok = (tracer_seize(tracer, threads[i].tid, &problem) &&
		      tracer_stop(tracer, threads[i].tid, 1000000, &registers, &problem)) ||
		     problem.kind == ERROR_GONE; /* it has ended meanwhile */
		if (!ok)
			*error = problem;
	}
	free(threads);
	return ok;
}

static void print_stack(const struct python_runtime *runtime, const struct python_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++) {
		const struct python_frame *frame = &stack->frames[i];
		struct python_position at = python_frame_position(runtime, frame);
		printf("%s\t%s\t%d\t%d\t%d\t%d\n", frame->code->name, frame->code->file,
		       frame->line, at.end_line, at.column, at.end_column);
	}
}

static const char *state_of(const struct python_stack *stack)
{
	if (!stack->has_gil)
		return stack->gc_running ? "no-gil,gc" : "no-gil";
	if (stack->holds_gil)
		return stack->gc_running ? "gil,gc" : "gil";
	return stack->gc_running ? "gc" : "-";
}

static bool show_thread(const struct python_runtime *runtime, const struct memory_reader *memory,
			const struct python_thread *thread, struct interner *interner, bool reads,
			struct error *error)
{
	struct recorder recorder = {{recorder_read, NULL}, memory, NULL, 0, 0, 0, 0};
	struct python_known_codes *known = python_known_codes_new();
	struct python_code_cache *codes = python_code_cache_new(interner);
	struct python_stack stack;
	python_stack_init(&stack);
	bool ok = python_stack_touch(runtime, &recorder.reader, thread->tstate, NULL, known, error);
	size_t first = recorder.reads;
	recorder.target = NULL;
	ok = ok && python_stack_read(runtime, &recorder.reader, thread->tstate, NULL, 0, codes,
				     &stack, error);
	if (ok) {
		char name[PYTHON_NAME_SIZE];
		const bool named = python_thread_name(runtime, memory, thread, name);
		printf("thread %llu %s %s\n", (unsigned long long)thread->thread_id,
		       state_of(&stack), named ? name : "(no name)");
		print_stack(runtime, &stack);
	}
	recorder_release(&recorder);
	recorder.target = memory;
	if (ok && reads) {
		ok = python_stack_touch(runtime, &recorder.reader, thread->tstate, NULL, known,
					error);
		fprintf(stderr,
			"%s: %zu frames, %zu activations, %zu reads at first, then %zu of %zu "
			"bytes\n",
			python_runtime_version(runtime), stack.count, stack.activation_count, first,
			recorder.reads, recorder.bytes);
	}
	recorder_release(&recorder);
	python_stack_release(&stack);
	python_code_cache_free(codes);
	python_known_codes_free(known);
	return ok;
}

/* ---- sampling ---- */

struct sampler {
	struct recorder recorder;
	struct python_known_codes *known;
	struct python_code_cache *codes;
	struct python_stack stack;
	size_t skipped, rebuilt;
};

static void print_sample(const struct python_stack *stack)
{
	for (size_t i = stack->activation_count; i-- > 0;) {
		const struct python_activation *activation = &stack->activations[i];
		for (size_t j = activation->count; j-- > 0;)
			printf("%s%s", stack->frames[activation->first + j].code->name,
			       j ? "," : "");
		printf("%s", i ? "|" : "");
	}
	printf("\n");
}

/* Copies the native stack from the stack pointer on, as much as is there, up to 64 KiB. */
static remote_addr copy_native_stack(struct recorder *recorder, remote_addr sp)
{
	static uint8_t bytes[64 << 10];
	for (size_t size = sizeof(bytes); size >= 256; size -= 256)
		if (recorder_read(&recorder->reader, sp, bytes, size, NULL))
			return sp + size;
	return sp;
}

static bool sample(struct sampler *sampler, const struct python_runtime *runtime,
		   const struct memory_reader *memory, struct tracer *tracer, pid_t tid,
		   remote_addr tstate)
{
	struct registers registers;
	struct error error = {0};
	struct recorder *recorder = &sampler->recorder;
	if (!tracer_stop(tracer, tid, 1000000, &registers, &error))
		return !fail("cannot stop", &error);
	recorder->target = memory;
	remote_addr sp = registers.value[REGISTER_RSP];
	/* All of it, as no unwinder has seen it. */
	const struct python_native_frame slice = {
		.sp = sp, .cfa = copy_native_stack(recorder, sp), .guessed = true};
	bool ok = python_stack_touch(runtime, &recorder->reader, tstate, NULL, sampler->known,
				     &error);
	tracer_resume(tracer, tid);
	recorder->target = NULL;
	const char *stage = ok ? "read" : "touch";
	ok = ok && python_stack_read(runtime, &recorder->reader, tstate, &slice, 1, sampler->codes,
				     &sampler->stack, &error);
	if (ok)
		print_sample(&sampler->stack);
	else
		printf("error %d in %s: %s\n", error.kind, stage, error.message);
	sampler->skipped += sampler->stack.skipped_records;
	sampler->rebuilt += sampler->stack.rebuilt_records;
	recorder_release(recorder);
	return true;
}

static int sample_main_thread(const struct target *target, struct tracer *tracer,
			      const struct python_runtime *runtime, remote_addr tstate, long count)
{
	struct interner *interner = interner_new();
	struct sampler sampler = {.recorder = {.reader = {recorder_read}}};
	sampler.known = python_known_codes_new();
	sampler.codes = python_code_cache_new(interner);
	python_stack_init(&sampler.stack);
	tracer_resume_all(tracer);
	bool ok = true;
	for (long i = 0; ok && i < count; i++) {
		ok = sample(&sampler, runtime, target_memory(target), tracer, target_pid(target),
			    tstate);
		/* So that the moment of the stop is any moment. */
		for (volatile long spin = 0; spin < i * 7919 % 20000; spin++)
			;
	}
	fprintf(stderr, "%zu skipped, %zu rebuilt\n", sampler.skipped, sampler.rebuilt);
	python_stack_release(&sampler.stack);
	python_code_cache_free(sampler.codes);
	python_known_codes_free(sampler.known);
	interner_free(interner);
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	bool reads = argc == 3 && strcmp(argv[1], "-r") == 0;
	long samples = argc == 4 && strcmp(argv[1], "-s") == 0 ? strtol(argv[2], NULL, 10) : 0;
	struct error error;
	struct target *target;
	struct module_table table;
	struct python_runtime *runtime;
	struct python_thread *threads;
	size_t count;
	if (argc < 2 || argc != 2 + reads + 2 * (samples > 0))
		return fprintf(stderr, "usage: python_stacks [-r | -s COUNT] PID\n"), 2;
	if (!target_open((pid_t)strtol(argv[argc - 1], NULL, 10), &target, &error))
		return fail("cannot open the process", &error);
	module_table_init(&table);
	struct tracer *tracer = tracer_new(target);
	if (!stop_all(target, tracer, &error))
		return fail("cannot stop all threads", &error);
	const struct memory_reader *memory = target_memory(target);
	if (!module_table_refresh(&table, target, NULL, &error) ||
	    !python_runtime_open(&table, memory, &runtime, &error))
		return fail("no interpreter", &error);
	printf("version %s\n", python_runtime_version(runtime));
	if (!python_threads(runtime, memory, &threads, &count, &error))
		return fail("no threads", &error);
	struct interner *interner = interner_new();
	int status = 0;
	if (samples)
		status = sample_main_thread(target, tracer, runtime, threads[count - 1].tstate,
					    samples);
	for (size_t i = 0; i < count && !samples; i++)
		if (!show_thread(runtime, memory, &threads[i], interner, reads, &error))
			status = fail("a thread", &error);
	free(threads);
	interner_free(interner);
	python_runtime_free(runtime);
	tracer_free(tracer);
	module_table_release(&table);
	target_free(target);
	return status;
}
