/* SPDX-License-Identifier: MIT */
/* Writes raw samples, and what is needed to decode them without the process, to a file. */
#include "capture/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "capture/format.h"
#include "files/new_file.h"

struct capture {
	gzFile file;
	struct new_file place;
	char *path;
	struct strbuf record;
	bool failed;
	/* Of code made at run time: what has been written. */
	uint64_t jit_epoch;
	size_t jit_count;
	uint32_t jit_modules; /* ids below are known to the reader */
	struct code_log code;
	struct line_memory lines;
	struct module_table *modules; /* whose images are written at the end; NULL: none yet */
	uint64_t generation;	      /* of them, as they were written */
};

static void put_u8(struct capture *capture, uint8_t value)
{
	strbuf_add(&capture->record, &value, sizeof(value));
}

static void put_u32(struct capture *capture, uint32_t value)
{
	strbuf_add(&capture->record, &value, sizeof(value));
}

static void put_u64(struct capture *capture, uint64_t value)
{
	strbuf_add(&capture->record, &value, sizeof(value));
}

static void put_bytes(struct capture *capture, const void *bytes, size_t size)
{
	put_u32(capture, (uint32_t)size);
	strbuf_add(&capture->record, bytes, size);
}

static void put_text(struct capture *capture, const char *text)
{
	put_bytes(capture, text, strlen(text));
}

/* Writes the record put together so far. */
static void finish(struct capture *capture, enum capture_record type)
{
	uint32_t number = type;
	uint64_t size = capture->record.size;
	if (gzwrite(capture->file, &number, sizeof(number)) <= 0 ||
	    gzwrite(capture->file, &size, sizeof(size)) <= 0 ||
	    (size && gzwrite(capture->file, capture->record.text, (unsigned)size) <= 0))
		capture->failed = true;
	strbuf_reset(&capture->record);
}

/* As of now. */
static void put_made(struct capture *capture, const struct capture_pace *pace)
{
	char host[HOST_NAME_MAX + 1] = "";
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	(void)!gethostname(host, sizeof(host) - 1);
	put_u64(capture, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	put_text(capture, host);
	put_text(capture, VERSION);
	put_u64(capture, pace->period_ns);
	put_text(capture, pace->mode);
	finish(capture, CAPTURE_MADE);
}

bool capture_open(const char *path, const struct capture_pace *pace, struct capture **result,
		  struct error *error)
{
	struct new_file place;
	if (!new_file_open(&place, path, error))
		return false;
	/* It closes the descriptor that it is given. */
	const int fd = fcntl(place.fd, F_DUPFD_CLOEXEC, 0);
	gzFile file = fd >= 0 ? gzdopen(fd, "wb1") : NULL;
	if (!file) {
		error_set_errno(error, errno, "cannot write %s", path);
		if (fd >= 0)
			close(fd);
		new_file_drop(&place);
		return false;
	}
	struct capture *capture = alloc_zeroed(1, sizeof(*capture));
	capture->file = file;
	capture->path = alloc_string(path);
	capture->place = place;
	line_memory_init(&capture->lines);
	strbuf_init(&capture->record);
	if (gzwrite(file, CAPTURE_MAGIC, sizeof(CAPTURE_MAGIC) - 1) <= 0)
		capture->failed = true;
	put_made(capture, pace);
	*result = capture;
	return true;
}

static void put_module(struct capture *capture, const struct module *module)
{
	put_u32(capture, module->id);
	put_text(capture, module->path);
	put_bytes(capture, module->build_id.bytes, module->build_id.size);
	put_u64(capture, module->load_bias);
	put_bytes(capture, module->fd < 0 ? module->bytes : "",
		  module->fd < 0 ? module->bytes_size : 0);
}

static uint32_t count_modules(const struct module_table *table, size_t from, bool made)
{
	uint32_t count = 0;
	for (size_t i = from; i < table->module_count; i++)
		count += (table->modules[i]->origin != MODULE_OF_FILE) == made;
	return count;
}

void capture_modules(struct capture *capture, struct module_table *table)
{
	if (capture->modules && capture->generation == table->generation)
		return;
	capture->modules = table;
	capture->generation = table->generation;
	for (size_t i = 0; i < table->module_count; i++)
		if (table->modules[i]->origin == MODULE_OF_FILE)
			module_record_start(table->modules[i]);
	put_u32(capture, count_modules(table, 0, false));
	for (size_t i = 0; i < table->module_count; i++)
		if (table->modules[i]->origin == MODULE_OF_FILE)
			put_module(capture, table->modules[i]);
	put_u32(capture, (uint32_t)table->mapping_count);
	for (size_t i = 0; i < table->mapping_count; i++) {
		const struct mapping *mapping = &table->mappings[i];
		put_u64(capture, mapping->start);
		put_u64(capture, mapping->end);
		put_u64(capture, mapping->offset);
		put_u32(capture, mapping->protection);
		put_u32(capture, mapping->module ? mapping->module->id : UINT32_MAX);
		put_text(capture, mapping->path);
	}
	finish(capture, CAPTURE_MODULES);
}

static void put_made_modules(struct capture *capture, const struct module_table *table)
{
	put_u32(capture, count_modules(table, capture->jit_modules, true));
	for (size_t i = capture->jit_modules; i < table->module_count; i++) {
		const struct module *module = table->modules[i];
		if (module->origin == MODULE_OF_FILE)
			continue;
		put_u32(capture, module->id);
		put_u8(capture, (uint8_t)module->origin);
		put_bytes(capture, module->bytes, module->bytes_size);
	}
	capture->jit_modules = (uint32_t)table->module_count;
}

void capture_jit(struct capture *capture, const struct module_table *table)
{
	uint64_t epoch;
	size_t count;
	const struct mapping *const *met = module_table_jit(table, &epoch, &count);
	const bool anew = epoch != capture->jit_epoch;
	size_t from = anew ? 0 : capture->jit_count;
	if (!anew && from == count)
		return;
	put_u8(capture, anew);
	put_made_modules(capture, table);
	put_u32(capture, (uint32_t)(count - from));
	for (; from < count; from++) {
		put_u64(capture, met[from]->start);
		put_u64(capture, met[from]->end);
		put_u32(capture, met[from]->module->id);
	}
	capture->jit_epoch = epoch;
	capture->jit_count = count;
	finish(capture, CAPTURE_JIT);
}

/* ---- what was read of modules, and code of no file ---- */

static int by_address(const void *left, const void *right, void *context)
{
	const struct blocks *blocks = context;
	const uint64_t a = blocks->addresses[*(const uint32_t *)left];
	const uint64_t b = blocks->addresses[*(const uint32_t *)right];
	return (a > b) - (a < b);
}

/* These blocks, in order of address, with those end to end as one range. */
static void put_blocks(struct capture *capture, const struct blocks *blocks, uint32_t *order,
		       size_t count)
{
	qsort_r(order, count, sizeof(*order), by_address, (void *)(uintptr_t)blocks);
	for (size_t i = 0, next; i < count; i = next) {
		const uint64_t start = blocks->addresses[order[i]];
		for (next = i + 1; next < count; next++)
			if (blocks->addresses[order[next]] != start + (next - i) * BLOCKS_STEP)
				break;
		put_u64(capture, start);
		put_u32(capture, (uint32_t)(next - i));
		for (size_t k = i; k < next; k++)
			strbuf_add(&capture->record, blocks->bytes + order[k] * (size_t)BLOCKS_STEP,
				   BLOCKS_STEP);
	}
}

static void put_places(struct capture *capture, const struct module_place *places, size_t count)
{
	put_u32(capture, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		put_u64(capture, places[i].vaddr);
		put_u64(capture, places[i].size);
		put_u32(capture, places[i].name);
	}
}

static void put_image(struct capture *capture, const struct module *module)
{
	const struct module_record *record = module->record;
	const size_t count = record->image.count;
	uint32_t *order = alloc_zeroed(count, sizeof(*order));
	put_u32(capture, module->id);
	put_u64(capture, record->file_size);
	put_u32(capture, (uint32_t)record->answer_count);
	for (size_t i = 0; i < record->answer_count; i++) {
		put_u64(capture, record->answers[i].question);
		put_places(capture, record->answers[i].places, record->answers[i].count);
	}
	put_places(capture, record->functions, record->function_count);
	for (size_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	put_blocks(capture, &record->image, order, count);
	finish(capture, CAPTURE_IMAGE);
	free(order);
}

static void put_names(struct capture *capture, const struct module *module,
		      enum capture_record type, const void *bytes, size_t size)
{
	if (!size)
		return;
	put_u32(capture, module->id);
	put_bytes(capture, bytes, size);
	finish(capture, type);
}

static void put_images(struct capture *capture)
{
	const struct module_table *table = capture->modules;
	for (size_t i = 0; table && i < table->module_count; i++) {
		const struct module *module = table->modules[i];
		if (!module_record_is_used(module->record))
			continue;
		put_image(capture, module);
		put_names(capture, module, CAPTURE_NAMES, module->record->stated,
			  module->record->stated_size);
		put_names(capture, module, CAPTURE_SYMBOLS, module->record->kept,
			  module->record->kept_size);
	}
}

static void put_code(struct capture *capture)
{
	struct code_log *log = &capture->code;
	if (!log->fresh_count)
		return;
	put_blocks(capture, &log->blocks, log->fresh, log->fresh_count);
	code_log_written(log);
	finish(capture, CAPTURE_CODE);
}

const struct memory_reader *capture_code(struct capture *capture, const struct memory_reader *live)
{
	code_log_init(&capture->code, live);
	return &capture->code.reader;
}

static void put_ranges(struct capture *capture, const struct raw_sample *raw)
{
	put_u32(capture, (uint32_t)raw->store.span_count);
	put_u32(capture, (uint32_t)raw->store.range_count);
	for (size_t i = 0; i < raw->store.range_count; i++) {
		put_u64(capture, raw->store.ranges[i].address);
		put_bytes(capture, raw->store.bytes + raw->store.ranges[i].offset,
			  raw->store.ranges[i].size);
	}
}

void capture_runtime(struct capture *capture, const struct raw_sample *memory)
{
	put_ranges(capture, memory);
	finish(capture, CAPTURE_RUNTIME);
}

void capture_thread(struct capture *capture, pid_t tid, const char *name)
{
	put_u32(capture, (uint32_t)tid);
	put_text(capture, name);
	finish(capture, CAPTURE_THREAD);
}

void capture_repeat(struct capture *capture, pid_t tid, uint64_t time_ns)
{
	put_u32(capture, (uint32_t)tid);
	put_u64(capture, time_ns);
	finish(capture, CAPTURE_REPEAT);
}

static void put_native(struct capture *capture, const struct raw_sample *raw)
{
	size_t count = raw->has_native ? raw->native.count : 0;
	put_u8(capture, raw->has_native);
	put_u32(capture, raw->native.end);
	put_bytes(capture, raw->native.frames, count * sizeof(*raw->native.frames));
}

void capture_sample(struct capture *capture, const struct raw_sample *raw)
{
	put_code(capture);
	put_u32(capture, (uint32_t)raw->tid);
	put_u64(capture, raw->time_ns);
	put_bytes(capture, &raw->registers, sizeof(raw->registers));
	put_u8(capture, raw->stopped);
	put_u8(capture, raw->who.maybe_python);
	put_bytes(capture, &raw->wait, sizeof(raw->wait));
	put_text(capture, raw->kernel);
	put_u8(capture, raw->runtime != NULL);
	put_u32(capture, raw->who.tstate_count);
	for (uint32_t i = 0; i < raw->who.tstate_count; i++)
		put_u64(capture,
			raw->who.tstates[i] | (raw->who.claimed >> i & 1)); /* they are even */
	put_u64(capture, raw->who.thread_id);
	put_u32(capture, (uint32_t)raw->who.namespace_tid);
	put_native(capture, raw);
	line_memory_write(&capture->lines, &raw->store, &capture->record);
	finish(capture, CAPTURE_LINES);
}

bool capture_close(struct capture *capture, struct error *error)
{
	put_images(capture);
	finish(capture, CAPTURE_END);
	bool well = !capture->failed;
	if (gzclose(capture->file) != Z_OK)
		well = false;
	if (well) {
		well = new_file_commit(&capture->place, capture->path, error);
	} else {
		error_set_errno(error, errno, "cannot write %s", capture->path);
		new_file_drop(&capture->place);
	}
	code_log_release(&capture->code);
	line_memory_release(&capture->lines);
	strbuf_release(&capture->record);
	free(capture->path);
	free(capture);
	return well;
}
