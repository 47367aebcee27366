/* SPDX-License-Identifier: MIT */
/*
 * Stops a process and reads all that can be read of its interpreter, again and again, each time
 * with one thing wrong:
 *
 *   python_mutations offsets PID    a byte of _Py_DebugOffsets, as the target gives it
 *   python_mutations row PID        a field of the row
 *
 * Prints what came of it, "refused", "same" or "other" (or "crashed": a row is believed). A wrong
 * byte of _Py_DebugOffsets must never give anything other than what is right: exit status 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "python/locate.h"
#include "target/tracer.h"

/* The target's memory, but for one byte. */
struct patched {
	struct memory_reader reader;
	const struct memory_reader *target;
	remote_addr address; /* 0: none */
	uint8_t value;
};

static bool patched_read(const struct memory_reader *reader, remote_addr address, void *buffer,
			 size_t size, struct error *error)
{
	const struct patched *patched = (const struct patched *)reader;
	if (!memory_read(patched->target, address, buffer, size, error))
		return false;
	if (patched->address && patched->address >= address && patched->address - address < size)
		((uint8_t *)buffer)[patched->address - address] = patched->value;
	return true;
}

enum outcome { REFUSED, SAME, OTHER, CRASHED, OUTCOMES };
static const char *const outcome_names[OUTCOMES] = {"refused", "same", "other", "crashed"};

struct mutation {
	struct module_table table;
	struct patched memory;
	struct python_runtime *runtime; /* as it is right */
	struct python_candidate candidate;
	char *right, *text; /* malloc'ed */
	size_t counts[OUTCOMES];
};

/* ---- all that can be read, as text ---- */

static void describe_stack(const struct python_stack *stack, FILE *text)
{
	fprintf(text, "gil %d of %d at %llx, gc %d, thread %llu %llu\n", stack->holds_gil,
		stack->has_gil, (unsigned long long)stack->gil, stack->gc_running,
		(unsigned long long)stack->thread_id, (unsigned long long)stack->native_thread_id);
	for (size_t i = 0; i < stack->count; i++)
		fprintf(text, "%s %s:%d +%d\n", stack->frames[i].code->name,
			stack->frames[i].code->file, stack->frames[i].line,
			stack->frames[i].instruction);
	for (size_t i = 0; i < stack->activation_count; i++)
		fprintf(text, "%u at %llx\n", stack->activations[i].count,
			(unsigned long long)stack->activations[i].record);
}

static bool describe_thread(const struct python_runtime *runtime,
			    const struct memory_reader *memory, const struct python_thread *thread,
			    struct interner *interner, FILE *text, struct error *error)
{
	struct python_code_cache *codes = python_code_cache_new(interner);
	struct python_stack stack;
	python_stack_init(&stack);
	bool ok = python_stack_read(runtime, memory, thread->tstate, NULL, 0, codes, &stack, error);
	if (ok) {
		char name[PYTHON_NAME_SIZE];
		const bool named = python_thread_name(runtime, memory, thread, name);
		fprintf(text, "%s (%llu)\n", named ? name : "no name",
			(unsigned long long)thread->id);
		describe_stack(&stack, text);
	}
	python_stack_release(&stack);
	python_code_cache_free(codes);
	return ok;
}

static bool describe_threads(const struct python_runtime *runtime,
			     const struct memory_reader *memory, FILE *text, struct error *error)
{
	_cleanup_free_ struct python_thread *threads = NULL;
	size_t count;
	if (!python_threads(runtime, memory, &threads, &count, error))
		return false;
	struct interner *interner = interner_new();
	bool ok = count > 0;
	for (size_t i = 0; ok && i < count; i++)
		ok = describe_thread(runtime, memory, &threads[i], interner, text, error);
	interner_free(interner);
	return ok;
}

/* False when any part of it is refused. *text in any case, in place of what it was. */
static bool describe(const struct python_runtime *runtime, const struct memory_reader *memory,
		     char **text, struct error *error)
{
	size_t size;
	free(*text);
	object_index_release(&runtime->last_active->threads);
	memset(runtime->last_active, 0, sizeof(*runtime->last_active));
	FILE *file = open_memstream(text, &size);
	bool ok = file && describe_threads(runtime, memory, file, error);
	return file && fclose(file) == 0 && ok;
}

static enum outcome count(struct mutation *mutation, bool ok)
{
	enum outcome outcome = REFUSED;
	if (ok)
		outcome = strcmp(mutation->text, mutation->right) == 0 ? SAME : OTHER;
	mutation->counts[outcome]++;
	return outcome;
}

/* ---- _Py_DebugOffsets ---- */

static enum outcome open_with(struct mutation *mutation, remote_addr address, uint8_t value)
{
	struct python_runtime *runtime;
	struct error error;
	mutation->memory.address = address;
	mutation->memory.value = value;
	bool ok = python_runtime_open(&mutation->table, &mutation->memory.reader, &runtime, &error);
	if (ok) {
		ok = describe(runtime, &mutation->memory.reader, &mutation->text, &error);
		python_runtime_free(runtime);
	}
	mutation->memory.address = 0;
	return count(mutation, ok);
}

static int change_offsets(struct mutation *mutation)
{
	enum {
		MAX_TABLE = 4096,
		WORD = 8,
		SHOWN = 20,
		LEVEL = 8 /* PY_VERSION_HEX's lowest byte */
	};
	static const size_t sizes[] = {584, 760, 888}; /* 3.13, 3.14, 3.15 */
	const struct python_runtime *runtime = mutation->runtime;
	size_t minor = runtime->layout.minor - 13u, shown = 0;
	uint8_t table[MAX_TABLE];
	struct error error;
	if (!runtime->layout.debug_offsets || minor >= sizeof(sizes) / sizeof(*sizes))
		return fprintf(stderr, "python_mutations: no debug offsets\n"), 2;
	if (!memory_read(&mutation->memory.reader, runtime->address, table, sizes[minor], &error))
		return fprintf(stderr, "python_mutations: %s\n", error.message), 2;
	for (size_t at = 0; at < sizes[minor]; at++) {
		uint8_t right = table[at];
		const uint8_t values[] = {(uint8_t)(right + WORD), (uint8_t)(right - WORD),
					  (uint8_t)(right ^ 1), (uint8_t)(right ^ 128)};
		for (size_t i = 0; i < sizeof(values); i++)
			if (open_with(mutation, runtime->address + at, values[i]) == OTHER &&
			    shown++ < SHOWN)
				printf("byte %zu = %u: other\n%s\n", at, values[i], mutation->text);
	}
	printf("%zu bytes: %zu refused, %zu same, %zu other\n", sizes[minor],
	       mutation->counts[REFUSED], mutation->counts[SAME], mutation->counts[OTHER]);
	/* An alpha or beta of this version, whatever it says of its offsets. */
	bool early = open_with(mutation, runtime->address + LEVEL, 0xa1) != REFUSED ||
		     open_with(mutation, runtime->address + LEVEL, 0xb1) != REFUSED;
	if (early)
		printf("an alpha or beta is not refused\n");
	return early || mutation->counts[OTHER] != 0;
}

/* ---- the row ---- */

static bool read_all_with(struct mutation *mutation, const struct python_layout *layout)
{
	struct python_runtime wrong = *mutation->runtime;
	const struct memory_reader *memory = &mutation->memory.reader;
	struct error error;
	wrong.layout = *layout;
	wrong.head = wrong.current = wrong.collecting = 0;
	wrong.eval.count = 0;
	if (!python_locate(&mutation->candidate, memory, &wrong, &error))
		return false;
	python_runtime_plan(&wrong);
	return describe(&wrong, memory, &mutation->text, &error);
}

/* In a process of its own: rows are believed, and a wrong one may name members that are absent. */
static enum outcome read_with(struct mutation *mutation, const struct python_layout *layout)
{
	int status;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		_exit(count(mutation, read_all_with(mutation, layout)));
	}
	bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
	enum outcome outcome = ended && WEXITSTATUS(status) < CRASHED
				       ? (enum outcome)WEXITSTATUS(status)
				       : CRASHED;
	mutation->counts[outcome]++;
	return outcome;
}

/* The fields that are no offsets, and how many bytes they have. */
static const struct {
	const char *name;
	size_t offset, size;
} behaviours[] = {
#define X(field)                                                                                   \
	{#field, offsetof(struct python_layout, field), sizeof(((struct python_layout *)0)->field)},
	X(root) X(chain) X(lines) X(gil_place) X(gc_place) X(string_form) X(integer_form)
		X(keys_form) X(attributes) X(unicode_width) X(lasti_unit) X(shim_owner) X(tag_mask)
#undef X
};

static void change_behaviours(struct mutation *mutation)
{
	enum { VALUES = 6 };
	for (size_t i = 0; i < sizeof(behaviours) / sizeof(*behaviours); i++)
		for (unsigned value = 0; value < VALUES; value++) {
			struct python_layout wrong = mutation->runtime->layout;
			char *field = (char *)&wrong + behaviours[i].offset;
			const char before = *field;
			*field = (char)value; /* the first byte is the lowest */
			if (before != *field)
				printf("%s %d %u %s\n", behaviours[i].name, (uint8_t)before, value,
				       outcome_names[read_with(mutation, &wrong)]);
		}
}

static void change_members(struct mutation *mutation)
{
	static const int changes[] = {8, -8, 16, 4, 1};
	size_t count;
	const struct python_layout_field *fields = python_layout_fields(&count);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < sizeof(changes) / sizeof(*changes); j++) {
			struct python_layout wrong = mutation->runtime->layout;
			uint16_t *offset = (uint16_t *)((char *)&wrong + fields[i].offset);
			int changed = *offset + changes[j];
			if (*offset == LAYOUT_ABSENT || changed < 0)
				continue;
			uint16_t before = *offset;
			*offset = (uint16_t)changed;
			printf("%s %u %d %s\n", fields[i].name, before, changed,
			       outcome_names[read_with(mutation, &wrong)]);
		}
}

static int change_row(struct mutation *mutation)
{
	change_behaviours(mutation);
	change_members(mutation);
	printf("row: %zu refused, %zu same, %zu other, %zu crashed\n", mutation->counts[REFUSED],
	       mutation->counts[SAME], mutation->counts[OTHER], mutation->counts[CRASHED]);
	return 0;
}

/* ---- the process ---- */

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

static bool open_right(struct mutation *mutation, struct target *target, struct tracer *tracer,
		       struct error *error)
{
	module_table_init(&mutation->table);
	mutation->memory = (struct patched){{patched_read, NULL}, target_memory(target), 0, 0};
	if (!stop_all(target, tracer, error) ||
	    !module_table_refresh(&mutation->table, target, NULL, error) ||
	    !python_runtime_open(&mutation->table, &mutation->memory.reader, &mutation->runtime,
				 error))
		return false;
	return python_candidate_init(&mutation->candidate, mutation->runtime->module) &&
	       describe(mutation->runtime, &mutation->memory.reader, &mutation->right, error);
}

int main(int argc, char **argv)
{
	static struct mutation mutation;
	struct error error = {0};
	struct target *target;
	if (argc != 3)
		return fprintf(stderr, "usage: python_mutations offsets|row PID\n"), 2;
	if (!target_open((pid_t)strtol(argv[2], NULL, 10), &target, &error))
		return fprintf(stderr, "python_mutations: %s\n", error.message), 2;
	struct tracer *tracer = tracer_new(target);
	int status = 2;
	if (!open_right(&mutation, target, tracer, &error))
		fprintf(stderr, "python_mutations: %s\n", error.message);
	else if (strcmp(argv[1], "offsets") == 0)
		status = change_offsets(&mutation);
	else
		status = change_row(&mutation);
	python_runtime_free(mutation.runtime);
	free(mutation.right);
	free(mutation.text);
	module_table_release(&mutation.table);
	tracer_free(tracer);
	target_free(target);
	return status;
}
