/* SPDX-License-Identifier: MIT */
/*
 * Decodes a file of raw samples without the process they came from. The modules are found by
 * path and build ID on this machine; everything else stands in the file. Nothing in it is
 * believed before it is bounded.
 */
#include "sample/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "sample/capture_format.h"

struct replay {
	gzFile file;
	struct session_options options;
	struct interner *strings;
	struct decoder decoder;
	struct raw_sample *raw;
	struct profile tree;
	struct profile_counts counts;
	struct table modules; /* id in the file -> index in the decoder's table */
	struct table threads; /* tid -> index in stacks */
	struct thread_stack {
		uint32_t *ids;
		size_t count, capacity;
	} * stacks;
	size_t stack_count, stack_capacity;
	uint8_t *record; /* the payload being read */
	size_t size, at, capacity;
	bool overrun;
};

static const void *take(struct replay *replay, size_t size)
{
	if (size > replay->size - replay->at) {
		replay->overrun = true;
		return NULL;
	}
	const void *bytes = replay->record + replay->at;
	replay->at += size;
	return bytes;
}

static uint64_t get(struct replay *replay, size_t size)
{
	uint64_t value = 0;
	const void *bytes = take(replay, size);
	if (bytes)
		memcpy(&value, bytes, size);
	return value;
}

static const void *get_bytes(struct replay *replay, size_t *size)
{
	*size = get(replay, 4);
	const void *bytes = take(replay, *size);
	if (!bytes)
		*size = 0;
	return bytes ? bytes : "";
}

static const char *get_text(struct replay *replay)
{
	size_t size;
	const void *bytes = get_bytes(replay, &size);
	return intern_bytes(replay->strings, bytes, size);
}

static void get_struct(struct replay *replay, void *value, size_t size)
{
	size_t got;
	const void *bytes = get_bytes(replay, &got);
	if (got == size)
		memcpy(value, bytes, size);
	else
		replay->overrun = true;
}

static bool cut_short(struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "the file of raw samples is damaged");
}

/* ---- modules ---- */

static bool same_build(const struct module *module, const struct build_id *id)
{
	return id->size == 0 || build_id_equal(&module->build_id, id);
}

static bool add_module(struct replay *replay, const char *path, const struct build_id *id,
		       uint64_t load_bias, const void *bytes, size_t size, struct module **module,
		       struct error *error)
{
	int fd = -1;
	if (size == 0) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd < 0)
			return error_set_errno(error, errno, "cannot open module %s", path);
	}
	if (!module_table_add(&replay->decoder.modules, path, fd, bytes, size, load_bias, module,
			      error))
		return false;
	if (!same_build(*module, id)) {
		char hex[65];
		build_id_hex(id, hex);
		return error_set(error, ERROR_ABSENT, "%s is not the file with build ID %s", path,
				 hex);
	}
	return true;
}

static bool read_module(struct replay *replay, struct error *error)
{
	struct build_id id = {0};
	uint32_t number = (uint32_t)get(replay, 4), known;
	const char *path = get_text(replay);
	size_t size, image_size;
	const void *bytes = get_bytes(replay, &size);
	id.size = (uint8_t)(size <= sizeof(id.bytes) ? size : 0);
	memcpy(id.bytes, bytes, id.size);
	uint64_t load_bias = get(replay, 8);
	const void *image = get_bytes(replay, &image_size);
	if (replay->overrun)
		return cut_short(error);
	if (table_find(&replay->modules, number, 0, &known))
		return true;
	struct module *module;
	if (!add_module(replay, path, &id, load_bias, image, image_size, &module, error))
		return false;
	table_put(&replay->modules, number, 0, module->id);
	return true;
}

static void read_mapping(struct replay *replay, struct mapping *mapping)
{
	mapping->start = get(replay, 8);
	mapping->end = get(replay, 8);
	mapping->offset = get(replay, 8);
	mapping->protection = (uint32_t)get(replay, 4);
	uint32_t number = (uint32_t)get(replay, 4), index;
	mapping->path = get_text(replay);
	if (table_find(&replay->modules, number, 0, &index))
		mapping->module = replay->decoder.modules.modules[index];
}

static bool read_modules(struct replay *replay, struct error *error)
{
	uint64_t modules = get(replay, 4);
	for (uint64_t i = 0; i < modules && i < CAPTURE_MAX_MODULES; i++)
		if (!read_module(replay, error))
			return false;
	uint64_t count = get(replay, 4);
	if (count > CAPTURE_MAX_MAPPINGS)
		return cut_short(error);
	struct mapping *mappings = alloc_zeroed(count, sizeof(*mappings));
	for (uint64_t i = 0; i < count && !replay->overrun; i++)
		read_mapping(replay, &mappings[i]);
	module_table_set_mappings(&replay->decoder.modules, mappings, count);
	free(mappings);
	return !replay->overrun || cut_short(error);
}

/* ---- code made at run time ---- */

static bool read_made_module(struct replay *replay, struct error *error)
{
	const uint32_t number = (uint32_t)get(replay, 4);
	const uint64_t origin = get(replay, 1);
	size_t size;
	const void *bytes = get_bytes(replay, &size);
	struct module *module;
	if (replay->overrun || (origin != MODULE_OF_JIT && origin != MODULE_OF_PYTHON))
		return cut_short(error);
	if (!module_table_add_made(&replay->decoder.modules, bytes, size,
				   (enum module_origin)origin, &module, error))
		return false;
	table_put(&replay->modules, number, 0, module->id);
	return true;
}

static void read_made_range(struct replay *replay)
{
	struct mapping mapping = {.protection = PROT_READ | PROT_EXEC, .path = ""};
	uint32_t index;
	mapping.start = get(replay, 8);
	mapping.end = get(replay, 8);
	if (!table_find(&replay->modules, get(replay, 4), 0, &index))
		return;
	mapping.module = replay->decoder.modules.modules[index];
	module_table_add_jit(&replay->decoder.modules, &mapping);
}

static bool read_jit(struct replay *replay, struct error *error)
{
	if (get(replay, 1))
		module_table_forget_jit(&replay->decoder.modules);
	const uint64_t modules = get(replay, 4);
	for (uint64_t i = 0; i < modules && i < CAPTURE_MAX_MODULES; i++)
		if (!read_made_module(replay, error))
			return false;
	const uint64_t count = get(replay, 4);
	for (uint64_t i = 0; i < count && !replay->overrun; i++)
		read_made_range(replay);
	return !replay->overrun || cut_short(error);
}

/* ---- samples ---- */

static bool read_ranges(struct replay *replay, struct error *error)
{
	uint64_t spans = get(replay, 4);
	uint64_t count = get(replay, 4);
	for (uint64_t i = 0; i < count && !replay->overrun; i++) {
		remote_addr address = get(replay, 8);
		size_t size;
		const void *bytes = get_bytes(replay, &size);
		uint8_t *copy = i < spans ? raw_sample_add_span(replay->raw, address, size)
					  : raw_sample_add(replay->raw, address, size);
		if (!copy)
			return cut_short(error);
		memcpy(copy, bytes, size);
	}
	return !replay->overrun || cut_short(error);
}

static bool read_runtime(struct replay *replay, struct error *error)
{
	raw_sample_reset(replay->raw);
	return read_ranges(replay, error) &&
	       decoder_open_python(&replay->decoder, &replay->raw->reader, error);
}

static struct thread_stack *stack_of(struct replay *replay, pid_t tid)
{
	uint32_t index;
	if (table_find(&replay->threads, (uint64_t)tid, 0, &index))
		return &replay->stacks[index];
	replay->stacks = alloc_room(replay->stacks, &replay->stack_capacity,
				    replay->stack_count + 1, sizeof(*replay->stacks));
	index = (uint32_t)replay->stack_count++;
	replay->stacks[index] = (struct thread_stack){0};
	table_put(&replay->threads, (uint64_t)tid, 0, index);
	return &replay->stacks[index];
}

static void count(struct replay *replay, const struct thread_stack *stack)
{
	replay->counts.samples++;
	profile_add(&replay->tree, stack->ids, stack->count, 1);
}

static void read_native(struct replay *replay)
{
	struct raw_sample *raw = replay->raw;
	raw->has_native = get(replay, 1);
	raw->native.end = (enum unwind_end)get(replay, 4);
	size_t size;
	const void *frames = get_bytes(replay, &size);
	size_t number = size / sizeof(*raw->native.frames);
	raw->native.frames = alloc_room(raw->native.frames, &raw->native.capacity, number + 1,
					sizeof(*raw->native.frames));
	memcpy(raw->native.frames, frames, number * sizeof(*raw->native.frames));
	raw->native.count = number;
}

static bool read_raw(struct replay *replay, struct error *error)
{
	struct raw_sample *raw = replay->raw;
	raw_sample_reset(raw);
	raw->tid = (pid_t)get(replay, 4);
	raw->time_ns = get(replay, 8);
	get_struct(replay, &raw->registers, sizeof(raw->registers));
	raw->stopped = get(replay, 1);
	raw->unjoined = get(replay, 1);
	get_struct(replay, &raw->wait, sizeof(raw->wait));
	snprintf(raw->kernel, sizeof(raw->kernel), "%s", get_text(replay));
	if (get(replay, 1))
		raw->runtime = decoder_runtime(&replay->decoder);
	raw->tstate_count = (uint32_t)get(replay, 4);
	if (raw->tstate_count > RAW_MAX_TSTATES)
		return cut_short(error);
	for (uint32_t i = 0; i < raw->tstate_count; i++)
		raw->tstates[i] = get(replay, 8);
	raw->thread_id = get(replay, 8);
	raw->namespace_tid = (pid_t)get(replay, 4);
	read_native(replay);
	return read_ranges(replay, error);
}

static uint32_t root_frame(struct replay *replay, pid_t tid)
{
	char id[40];
	snprintf(id, sizeof(id), "thread %d", tid);
	return frame_table_mark(&replay->decoder.frames, intern_text(replay->strings, id));
}

static void decode(struct replay *replay)
{
	struct decode_facts facts;
	enum decode_result result = decode_sample(&replay->decoder, replay->raw, &facts);
	if (result != DECODE_OK || (facts.needs_register && !replay->raw->stopped)) {
		replay->counts.torn += result == DECODE_TORN;
		return;
	}
	replay->counts.salvaged += facts.salvaged;
	replay->counts.guessed += facts.guessed;
	replay->counts.truncated += facts.truncated;
	if (!facts.known_to_python && !replay->options.native_threads)
		return;
	struct thread_stack *stack = stack_of(replay, replay->raw->tid);
	const struct decoder *decoder = &replay->decoder;
	stack->ids = alloc_room(stack->ids, &stack->capacity, decoder->stack_count + 1,
				sizeof(*stack->ids));
	stack->count = 0;
	if (replay->options.by_thread)
		stack->ids[stack->count++] = root_frame(replay, replay->raw->tid);
	memcpy(stack->ids + stack->count, decoder->stack,
	       decoder->stack_count * sizeof(*stack->ids));
	stack->count += decoder->stack_count;
	count(replay, stack);
}

/* ---- the file ---- */

static bool read_exactly(struct replay *replay, void *buffer, size_t size)
{
	return gzread(replay->file, buffer, (unsigned)size) == (int)size;
}

/* In steps: what the file says of its size is believed as far as there are bytes. */
static bool read_payload(struct replay *replay, size_t size)
{
	enum { STEP = 1 << 20 };
	replay->size = replay->at = 0;
	replay->record = alloc_room(replay->record, &replay->capacity, 1, 1);
	while (replay->size < size) {
		const size_t left = size - replay->size, step = left < STEP ? left : STEP;
		replay->record =
			alloc_room(replay->record, &replay->capacity, replay->size + step, 1);
		if (!read_exactly(replay, replay->record + replay->size, step))
			return false;
		replay->size += step;
	}
	return true;
}

static bool read_record(struct replay *replay, uint32_t *type, struct error *error)
{
	uint64_t size;
	if (!read_exactly(replay, type, sizeof(*type)) ||
	    !read_exactly(replay, &size, sizeof(size)) || size > CAPTURE_MAX_RECORD)
		return cut_short(error);
	return read_payload(replay, size) || cut_short(error);
}

static bool follow_record(struct replay *replay, uint32_t type, struct error *error)
{
	switch (type) {
	case CAPTURE_MODULES:
		return read_modules(replay, error);
	case CAPTURE_RUNTIME:
		return read_runtime(replay, error);
	case CAPTURE_JIT:
		return read_jit(replay, error);
	case CAPTURE_THREAD: {
		uint32_t root = root_frame(replay, (pid_t)get(replay, 4));
		replay->decoder.frames.frames[root].shown = get_text(replay);
		return true;
	}
	case CAPTURE_SAMPLE:
		if (!read_raw(replay, error))
			return false;
		decode(replay);
		return true;
	case CAPTURE_REPEAT: {
		const struct thread_stack *stack = stack_of(replay, (pid_t)get(replay, 4));
		if (stack->count > 0)
			count(replay, stack);
		return true;
	}
	default:
		return cut_short(error);
	}
}

static bool replay_all(struct replay *replay, struct error *error)
{
	char magic[sizeof(CAPTURE_MAGIC) - 1];
	if (!read_exactly(replay, magic, sizeof(magic)) ||
	    memcmp(magic, CAPTURE_MAGIC, sizeof(magic)) != 0)
		return error_set(error, ERROR_CORRUPT, "this is not a file of raw samples");
	for (;;) {
		uint32_t type;
		if (!read_record(replay, &type, error))
			return false;
		if (type == CAPTURE_END)
			return true;
		if (!follow_record(replay, type, error))
			return false;
	}
}

static void name_all(struct replay *replay, struct profile *profile)
{
	struct resolver *resolver = resolver_new(NULL, replay->strings, replay->options.internals);
	resolver_run(resolver, &replay->decoder.frames, replay->decoder.unwinder);
	profile_init(profile, replay->strings);
	resolver_profile(resolver, &replay->decoder.frames, &replay->tree, profile);
	profile->counts = replay->counts;
	profile->native = replay->options.native;
	profile->mode = "replay";
	profile->command_line = "";
	resolver_free(resolver);
}

static void release(struct replay *replay)
{
	gzclose(replay->file);
	for (size_t i = 0; i < replay->stack_count; i++)
		free(replay->stacks[i].ids);
	free(replay->stacks);
	free(replay->record);
	table_release(&replay->modules);
	table_release(&replay->threads);
	profile_release(&replay->tree);
	raw_sample_free(replay->raw);
	decoder_release(&replay->decoder);
}

bool replay_file(const char *path, const struct session_options *options, struct interner *strings,
		 struct profile *profile, struct error *error)
{
	struct replay replay = {.options = *options, .strings = strings};
	replay.file = gzopen(path, "rbe");
	if (!replay.file)
		return error_set_errno(error, errno, "cannot read %s", path);
	decoder_init(&replay.decoder, NULL, &replay.options, strings);
	replay.decoder.mark_idle = true;
	profile_init(&replay.tree, strings);
	replay.raw = raw_sample_new();
	bool well = replay_all(&replay, error);
	if (well)
		name_all(&replay, profile);
	release(&replay);
	return well;
}
