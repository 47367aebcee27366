/* SPDX-License-Identifier: MIT */
/*
 * Stops all threads of a process and prints its Python stacks, for tests to compare with what the
 * program says of itself:
 *
 *   version 3.11.7
 *   thread 139637 main gil
 *   function TAB file TAB line          innermost first
 *
 * With -r the number of reads of each touch is printed on stderr. Stacks are read from a copy of
 * exactly what python_stack_touch read, as the profiler does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "python/python.h"

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
	for (size_t i = 0; ok && i < count; i++)
		ok = tracer_seize(tracer, threads[i].tid, error) &&
		     tracer_stop(tracer, threads[i].tid, 1000000, &registers, error);
	free(threads);
	return ok;
}

static void print_stack(const struct python_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++)
		printf("%s\t%s\t%d\n", stack->frames[i].code->name, stack->frames[i].code->file,
		       stack->frames[i].line);
}

static bool show_thread(const struct python_runtime *runtime, const struct memory_reader *memory,
			const struct python_thread *thread, struct interner *interner, bool reads,
			struct error *error)
{
	struct recorder recorder = {{recorder_read}, memory, NULL, 0, 0, 0, 0};
	struct python_known_codes *known = python_known_codes_new();
	struct python_code_cache *codes = python_code_cache_new(interner);
	struct python_stack stack;
	python_stack_init(&stack);
	bool ok = python_stack_touch(runtime, &recorder.reader, thread->tstate, known, error);
	size_t first = recorder.reads;
	recorder.target = NULL;
	ok = ok && python_stack_read(runtime, &recorder.reader, thread->tstate, NULL, 0, codes,
				     &stack, error);
	if (ok) {
		const char *name = python_thread_name(runtime, memory, thread, interner);
		printf("thread %llu %s%s\n", (unsigned long long)thread->thread_id,
		       name ? name : "(no name)", stack.holds_gil ? " gil" : "");
		print_stack(&stack);
	}
	recorder_release(&recorder);
	recorder.target = memory;
	if (ok && reads) {
		ok = python_stack_touch(runtime, &recorder.reader, thread->tstate, known, error);
		fprintf(stderr,
			"%s: %zu frames, %zu activations, %zu reads at first, then %zu of %zu "
			"bytes\n", python_runtime_version(runtime), stack.count,
			stack.activation_count, first, recorder.reads, recorder.bytes);
	}
	recorder_release(&recorder);
	python_stack_release(&stack);
	python_code_cache_free(codes);
	python_known_codes_free(known);
	return ok;
}

int main(int argc, char **argv)
{
	bool reads = argc == 3 && strcmp(argv[1], "-r") == 0;
	struct error error;
	struct target *target;
	struct module_table table;
	struct python_runtime *runtime;
	struct python_thread *threads;
	size_t count;
	if (argc != 2 + reads)
		return fprintf(stderr, "usage: python_stacks [-r] PID\n"), 2;
	if (!target_open((pid_t)strtol(argv[1 + reads], NULL, 10), &target, &error))
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
	for (size_t i = 0; i < count; i++)
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
