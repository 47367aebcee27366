/* SPDX-License-Identifier: MIT */
/*
 * Decodes a file of raw samples without the process they came from. The modules' files are used
 * where this machine has them, found by path and build ID, for names above all; what was needed of
 * them is in the file, too. Nothing in it is believed before it is bounded.
 */
#include "replay/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "capture/capture.h"
#include "capture/format.h"
#include "merge/merge.h"
#include "replay/raw_record.h"
#include "replay/threads.h"

struct replay {
	struct capture_reader file;
	struct line_memory lines;
	struct session_options options;
	struct interner *strings;
	struct decoder *decoder;
	struct decoder_source source;
	struct thread_roots roots;
	struct raw_sample *raw;
	struct profile tree; /* with when, where and by what it was recorded */
	struct profile_counts counts;
	struct table modules;	       /* id in the file -> index in the decoder's table */
	struct table records;	       /* id in the file -> index in images */
	struct module_record **images; /* NULL once a module was made of it */
	size_t image_count, image_capacity;
	struct code_log code;
	size_t block_count;
	struct replay_threads threads;
	bool gil_only; /* only the thread that holds the GIL counted */
};

static const char *get_text(struct replay *replay)
{
	size_t size;
	const void *bytes = capture_get_bytes(&replay->file, &size);
	return intern_bytes(replay->strings, bytes, size);
}

static bool cut_short(const struct replay *replay, struct error *error)
{
	return capture_damaged(&replay->file, error);
}

/* To be shown. */
static const char *intern_clean(struct replay *replay, const void *bytes, size_t size)
{
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, bytes, size);
	return intern_bytes(replay->strings, clean.text, clean.size);
}

/* A name, clean; "": none. NULL: it is too long for one. */
static const char *get_name(struct replay *replay)
{
	size_t size;
	const void *bytes = capture_get_bytes(&replay->file, &size);
	return size > CAPTURE_MAX_NAME ? NULL : intern_clean(replay, bytes, size);
}

/* How often it was sampled, and what counted; of older files neither is known. */
static bool read_pace(struct replay *replay, struct error *error)
{
	struct profile *tree = &replay->tree;
	if (replay->file.at == replay->file.size)
		return true;
	const uint64_t period_ns = capture_get(&replay->file, 8);
	const char *mode = get_name(replay);
	if (replay->file.overrun || !mode)
		return cut_short(replay, error);
	tree->rate = period_ns ? 1e9 / (double)period_ns : 0;
	tree->mode = *mode ? mode : NULL;
	replay->gil_only = strcmp(mode, "gil") == 0;
	if (replay->options.timed && tree->rate > 0 && !tree->timed) {
		profile_time(tree);
		timeline_process(&tree->timeline, &(struct profile_process){.command_line = ""});
	}
	return true;
}

/* What follows is of a later version. */
static bool read_made(struct replay *replay, struct error *error)
{
	struct profile *tree = &replay->tree;
	tree->start_time_ns = capture_get(&replay->file, 8);
	const char *host = get_name(replay), *version = get_name(replay);
	if (replay->file.overrun || !host || !version)
		return cut_short(replay, error);
	tree->host = *host ? host : NULL;
	tree->version = *version ? version : NULL;
	return read_pace(replay, error);
}

/* ---- modules ---- */

static bool same_build(const struct module *module, const struct build_id *id)
{
	return id->size == 0 || build_id_equal(&module->build_id, id);
}

/* The file, if this machine has it. */
static bool add_file(struct replay *replay, const char *path, const struct build_id *id,
		     uint64_t load_bias, struct module **module)
{
	if (replay->options.hide_files)
		return false;
	const int fd = foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT}, path);
	if (fd < 0 || !module_table_add(decoder_modules(replay->decoder), path, fd, NULL, 0,
					load_bias, module, NULL))
		return false;
	return same_build(*module, id);
}

/* What was read of it then; false: there was no need of it. */
static bool add_recorded(struct replay *replay, uint32_t number, const char *path,
			 uint64_t load_bias, struct module **module)
{
	uint32_t index;
	if (!table_find(&replay->records, number, 0, &index) || !replay->images[index])
		return false;
	struct module_record *const record = replay->images[index];
	replay->images[index] = NULL;
	return module_table_add_recorded(decoder_modules(replay->decoder), path, record, load_bias,
					 module, NULL);
}

static bool read_module(struct replay *replay, struct error *error)
{
	struct build_id id = {0};
	uint32_t number = (uint32_t)capture_get(&replay->file, 4), known;
	const char *path = get_text(replay);
	size_t size, image_size;
	const void *bytes = capture_get_bytes(&replay->file, &size);
	id.size = (uint8_t)(size <= sizeof(id.bytes) ? size : 0);
	memcpy(id.bytes, bytes, id.size);
	uint64_t load_bias = capture_get(&replay->file, 8);
	const void *image = capture_get_bytes(&replay->file, &image_size);
	struct module *module;
	if (replay->file.overrun)
		return cut_short(replay, error);
	if (table_find(&replay->modules, number, 0, &known)) {
		struct module_table *table = decoder_modules(replay->decoder);
		module = table->modules[known];
		if (module->load_bias == load_bias)
			return true;
		unwinder_forget(decoder_unwinder(replay->decoder));
		module_table_place(table, module, load_bias);
		return true;
	}
	if (image_size) {
		if (!module_table_add(decoder_modules(replay->decoder), path, -1, image, image_size,
				      load_bias, &module, error))
			return false;
	} else if (!add_file(replay, path, &id, load_bias, &module) &&
		   !add_recorded(replay, number, path, load_bias, &module)) {
		return true;
	}
	table_put(&replay->modules, number, 0, module->id);
	return true;
}

static void read_mapping(struct replay *replay, struct mapping *mapping)
{
	mapping->start = capture_get(&replay->file, 8);
	mapping->end = capture_get(&replay->file, 8);
	mapping->offset = capture_get(&replay->file, 8);
	mapping->protection = (uint32_t)capture_get(&replay->file, 4);
	uint32_t number = (uint32_t)capture_get(&replay->file, 4), index;
	mapping->path = get_text(replay);
	if (table_find(&replay->modules, number, 0, &index))
		mapping->module = decoder_modules(replay->decoder)->modules[index];
}

static bool read_modules(struct replay *replay, struct error *error)
{
	uint64_t modules = capture_get(&replay->file, 4);
	for (uint64_t i = 0; i < modules && i < CAPTURE_MAX_MODULES; i++)
		if (!read_module(replay, error))
			return false;
	uint64_t count = capture_get(&replay->file, 4);
	if (count > CAPTURE_MAX_MAPPINGS)
		return cut_short(replay, error);
	struct mapping *mappings = alloc_zeroed(count, sizeof(*mappings));
	for (uint64_t i = 0; i < count && !replay->file.overrun; i++)
		read_mapping(replay, &mappings[i]);
	module_table_set_mappings(decoder_modules(replay->decoder), mappings, count);
	free(mappings);
	return !replay->file.overrun || cut_short(replay, error);
}

/* ---- what was read of modules, and code of no file ---- */

static bool read_blocks(struct replay *replay, struct blocks *blocks, struct error *error)
{
	while (replay->file.at < replay->file.size && !replay->file.overrun) {
		const uint64_t start = capture_get(&replay->file, 8),
			       count = capture_get(&replay->file, 4);
		replay->block_count += count;
		if (replay->block_count > CAPTURE_MAX_BLOCKS || start % BLOCKS_STEP ||
		    start > UINT64_MAX - count * BLOCKS_STEP)
			return cut_short(replay, error);
		for (uint64_t i = 0; i < count; i++) {
			const void *bytes = capture_take(&replay->file, BLOCKS_STEP);
			if (!bytes)
				break;
			blocks_put(blocks, start + i * BLOCKS_STEP, bytes);
		}
	}
	return !replay->file.overrun || cut_short(replay, error);
}

/* malloc'ed; NULL: the record is damaged. */
static struct module_place *read_places(struct replay *replay, size_t *count)
{
	enum { PLACE_BYTES = 20 };
	*count = capture_get(&replay->file, 4);
	if (*count > CAPTURE_MAX_PLACES ||
	    *count > (replay->file.size - replay->file.at) / PLACE_BYTES)
		return NULL;
	struct module_place *places = alloc_zeroed(*count + 1, sizeof(*places));
	for (size_t i = 0; i < *count; i++) {
		places[i].vaddr = capture_get(&replay->file, 8);
		places[i].size = capture_get(&replay->file, 8);
		places[i].name = (uint32_t)capture_get(&replay->file, 4);
		places[i].found = true;
	}
	return places;
}

static bool read_answers(struct replay *replay, struct module_record *record, struct error *error)
{
	const uint64_t answers = capture_get(&replay->file, 4);
	struct module_place *places;
	size_t count;
	if (answers > CAPTURE_MAX_ANSWERS)
		return cut_short(replay, error);
	for (uint64_t i = 0; i < answers && !replay->file.overrun; i++) {
		const uint64_t question = capture_get(&replay->file, 8);
		places = read_places(replay, &count);
		if (!places)
			return cut_short(replay, error);
		module_record_add(record, question, places, count);
		free(places);
	}
	places = read_places(replay, &count);
	if (!places)
		return cut_short(replay, error);
	for (size_t i = 0; i < count; i++)
		module_record_function(record, &places[i]);
	free(places);
	return !replay->file.overrun || cut_short(replay, error);
}

/* The image comes before. */
static bool read_names(struct replay *replay, bool symbols, struct error *error)
{
	uint32_t index;
	const bool known = table_find(&replay->records, capture_get(&replay->file, 4), 0, &index);
	size_t size;
	const void *bytes = capture_get_bytes(&replay->file, &size);
	if (replay->file.overrun || !known)
		return cut_short(replay, error);
	struct module_record *record = replay->images[index];
	void **const names = symbols ? &record->kept : &record->stated;
	if (*names)
		return cut_short(replay, error);
	*names = alloc_zeroed(1, size + 1);
	memcpy(*names, bytes, size);
	*(symbols ? &record->kept_size : &record->stated_size) = size;
	return true;
}

static bool read_image(struct replay *replay, struct error *error)
{
	const uint32_t number = (uint32_t)capture_get(&replay->file, 4);
	uint32_t index;
	if (replay->file.overrun || table_find(&replay->records, number, 0, &index) ||
	    replay->image_count == CAPTURE_MAX_MODULES)
		return cut_short(replay, error);
	struct module_record *record = alloc_zeroed(1, sizeof(*record));
	replay->images = alloc_room(replay->images, &replay->image_capacity,
				    replay->image_count + 1, sizeof(*replay->images));
	table_put(&replay->records, number, 0, (uint32_t)replay->image_count);
	replay->images[replay->image_count++] = record;
	record->file_size = capture_get(&replay->file, 8);
	return read_answers(replay, record, error) && read_blocks(replay, &record->image, error);
}

/* ---- code made at run time ---- */

static bool read_made_module(struct replay *replay, struct error *error)
{
	const uint32_t number = (uint32_t)capture_get(&replay->file, 4);
	const uint64_t origin = capture_get(&replay->file, 1);
	size_t size;
	const void *bytes = capture_get_bytes(&replay->file, &size);
	struct module *module;
	if (replay->file.overrun || (origin != MODULE_OF_JIT && origin != MODULE_OF_PYTHON))
		return cut_short(replay, error);
	if (!module_table_add_made(decoder_modules(replay->decoder), bytes, size,
				   (enum module_origin)origin, &module, error))
		return false;
	table_put(&replay->modules, number, 0, module->id);
	return true;
}

static void read_made_range(struct replay *replay)
{
	struct mapping mapping = {.protection = PROT_READ | PROT_EXEC, .path = ""};
	uint32_t index;
	mapping.start = capture_get(&replay->file, 8);
	mapping.end = capture_get(&replay->file, 8);
	if (!table_find(&replay->modules, capture_get(&replay->file, 4), 0, &index))
		return;
	mapping.module = decoder_modules(replay->decoder)->modules[index];
	module_table_add_jit(decoder_modules(replay->decoder), &mapping);
}

static bool read_jit(struct replay *replay, struct error *error)
{
	if (capture_get(&replay->file, 1))
		module_table_forget_jit(decoder_modules(replay->decoder));
	const uint64_t modules = capture_get(&replay->file, 4);
	for (uint64_t i = 0; i < modules && i < CAPTURE_MAX_MODULES; i++)
		if (!read_made_module(replay, error))
			return false;
	const uint64_t count = capture_get(&replay->file, 4);
	for (uint64_t i = 0; i < count && !replay->file.overrun; i++)
		read_made_range(replay);
	return !replay->file.overrun || cut_short(replay, error);
}

/* ---- samples ---- */

static bool read_runtime(struct replay *replay, struct error *error)
{
	raw_sample_reset(replay->raw);
	return raw_record_ranges(&replay->file, replay->raw, error) &&
	       decoder_open_python(replay->decoder, &replay->raw->reader, error);
}

/* name NULL: as it was, or not known. */
static uint32_t root_frame(struct replay *replay, struct replay_thread *thread, const char *name)
{
	if (name || thread->root == NO_ROOT)
		return thread_roots_name(&replay->roots, decoder_frames(replay->decoder),
					 replay->strings, &thread->root, thread->tid,
					 name ? name : intern_text(replay->strings, "?"));
	return replay->roots.roots[thread->root].frame;
}

static void read_thread(struct replay *replay)
{
	struct replay_thread *thread =
		replay_thread_of(&replay->threads, (pid_t)capture_get(&replay->file, 4));
	size_t size;
	const void *bytes = capture_get_bytes(&replay->file, &size);
	const char *name = intern_clean(replay, bytes, size);
	root_frame(replay, thread, name);
	replay_thread_name(thread, &replay->tree, name);
}

/* Of a thread that counts; false: what it does is not kept, nor counted as lost. */
static bool is_wanted(const struct replay *replay, const struct decoded *decoded)
{
	if (replay->gil_only && !decoded->holds_gil)
		return false;
	return decoded->known_to_python || replay->options.native_threads;
}

static void decode(struct replay *replay)
{
	const struct raw_sample *raw = replay->raw;
	struct replay_thread *thread = replay_thread_of(&replay->threads, raw->tid);
	struct profile_counts *counts = &replay->counts;
	struct decoded decoded;
	merge_decode(replay->decoder, raw, &decoded);
	thread->count = 0;
	if (decoded.result != DECODE_OK) {
		counts->torn += decoded.result == DECODE_TORN;
		return;
	}
	if (!is_wanted(replay, &decoded))
		return;
	counts->salvaged += decoded.salvaged;
	counts->guessed += decoded.guessed;
	counts->truncated += decoded.truncated;
	thread->known_to_python = decoded.known_to_python;
	thread->native_leaf = decoded.native_leaf;
	thread->ids = alloc_room(thread->ids, &thread->capacity, decoded.stack_count + 1,
				 sizeof(*thread->ids));
	if (replay->options.by_thread)
		thread->ids[thread->count++] = root_frame(replay, thread, NULL);
	memcpy(thread->ids + thread->count, decoded.stack,
	       decoded.stack_count * sizeof(*thread->ids));
	thread->count += decoded.stack_count;
	replay_thread_count(&replay->threads, thread, &replay->tree, raw->time_ns,
			    merge_sample_flags(raw, &decoded));
	counts->samples++;
	counts->native_samples += thread->native_leaf;
}

static void repeat(struct replay *replay)
{
	struct replay_thread *thread =
		replay_thread_of(&replay->threads, (pid_t)capture_get(&replay->file, 4));
	const uint64_t time_ns =
		capture_get(&replay->file, 8); /* 0: an older file, without times */
	if (thread->count == 0)
		return;
	replay_thread_repeat(&replay->threads, thread, &replay->tree, time_ns);
	replay->counts.samples++;
	replay->counts.repeats++;
	replay->counts.native_samples += thread->native_leaf;
}

/* ---- the file ---- */

static bool follow_record(struct replay *replay, uint32_t type, struct error *error)
{
	switch (type) {
	case CAPTURE_MODULES:
		return read_modules(replay, error);
	case CAPTURE_RUNTIME:
		return read_runtime(replay, error);
	case CAPTURE_JIT:
		return read_jit(replay, error);
	case CAPTURE_MADE:
		return read_made(replay, error);
	case CAPTURE_CODE:
		return read_blocks(replay, &replay->code.blocks, error);
	case CAPTURE_IMAGE:
	case CAPTURE_NAMES:
	case CAPTURE_SYMBOLS:
		return true; /* was read before */
	case CAPTURE_THREAD:
		read_thread(replay);
		return true;
	case CAPTURE_SAMPLE:
	case CAPTURE_LINES:
		if (!raw_record_read(&replay->file, &replay->lines,
				     decoder_runtime(replay->decoder), replay->raw, error))
			return false;
		decode(replay);
		return true;
	case CAPTURE_REPEAT:
		repeat(replay);
		return true;
	default:
		return cut_short(replay, error);
	}
}

static bool read_records(struct replay *replay, bool images, struct error *error)
{
	for (;;) {
		if (!capture_reader_next(&replay->file, error))
			return false;
		const uint32_t type = replay->file.type;
		if (type == CAPTURE_END)
			return true;
		if (!images && !follow_record(replay, type, error))
			return false;
		if (images && type == CAPTURE_IMAGE && !read_image(replay, error))
			return false;
		if (images && (type == CAPTURE_NAMES || type == CAPTURE_SYMBOLS) &&
		    !read_names(replay, type == CAPTURE_SYMBOLS, error))
			return false;
	}
}

static bool replay_all(struct replay *replay, struct error *error)
{
	return read_records(replay, true, error) && capture_reader_rewind(&replay->file, error) &&
	       read_records(replay, false, error);
}

static const char *python_version(const struct replay *replay)
{
	const struct python_runtime *runtime = decoder_runtime(replay->decoder);
	return runtime ? intern_text(replay->strings, python_runtime_version(runtime)) : NULL;
}

static void name_all(struct replay *replay, struct profile *profile)
{
	struct resolver *resolver = resolver_new(NULL, replay->strings, replay->options.internals);
	if (replay->options.hide_files)
		resolver_hide_files(resolver);
	resolver_set_symbols(resolver, replay->options.symbols);
	resolver_set_fetch(resolver, replay->options.fetch);
	thread_roots_show(&replay->roots, decoder_frames(replay->decoder), replay->strings,
			  replay->options.by_thread);
	resolver_run(resolver, decoder_frames(replay->decoder));
	if (replay->tree.timed)
		replay->tree.timeline.processes[0].python_version = python_version(replay);
	profile_init(profile, replay->strings);
	resolver_profile(resolver, decoder_frames(replay->decoder), &replay->tree, profile);
	profile->counts = replay->counts;
	profile->debug_problems = resolver_problems(resolver);
	profile->native = replay->options.native;
	profile->counts.threads = replay->threads.count;
	profile->counts.asked = profile->counts.samples + profile->counts.torn;
	profile->mode = replay->tree.mode ? replay->tree.mode : "replay";
	profile->rate = replay->tree.rate;
	profile->command_line = "";
	profile->python_version = python_version(replay);
	profile->host = replay->tree.host;
	profile->version = replay->tree.version;
	profile->start_time_ns = replay->tree.start_time_ns;
	resolver_free(resolver);
}

static void release(struct replay *replay)
{
	capture_reader_close(&replay->file);
	line_memory_release(&replay->lines);
	replay_threads_release(&replay->threads);
	table_release(&replay->modules);
	table_release(&replay->records);
	for (size_t i = 0; i < replay->image_count; i++)
		module_record_free(replay->images[i]);
	free(replay->images);
	profile_release(&replay->tree);
	raw_sample_free(replay->raw);
	thread_roots_release(&replay->roots);
	decoder_free(replay->decoder);
	code_log_release(&replay->code);
}

bool replay_file(const char *path, const struct session_options *options, struct interner *strings,
		 struct profile *profile, struct error *error)
{
	struct replay replay = {.options = *options, .strings = strings};
	if (!capture_reader_open(&replay.file, path, error))
		return false;
	const struct decode_options decoding = {
		.native = options->native,
		.internals = options->internals,
		.rbx = options->join == JOIN_RBX,
		.marks_idle = true,
	};
	code_log_init(&replay.code, NULL);
	line_memory_init(&replay.lines);
	replay.source = (struct decoder_source){.code = &replay.code.reader};
	replay.decoder = decoder_new(&decoding, &replay.source, strings);
	profile_init(&replay.tree, strings);
	replay.raw = raw_sample_new();
	bool well = replay_all(&replay, error);
	if (well)
		name_all(&replay, profile);
	release(&replay);
	return well;
}
