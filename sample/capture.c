/* SPDX-License-Identifier: MIT */
/* Writes raw samples, and what is needed to decode them without the process, to a file. */
#include "sample/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "sample/capture_format.h"

struct capture {
	gzFile file;
	char *path, *temporary;
	struct strbuf record;
	bool failed;
	/* Of code made at run time: what has been written. */
	uint64_t jit_epoch;
	size_t jit_count;
	uint32_t jit_modules; /* ids below are known to the reader */
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

bool capture_open(const char *path, struct capture **result, struct error *error)
{
	struct strbuf temporary;
	strbuf_init(&temporary);
	strbuf_printf(&temporary, "%s.%d.tmp", path, (int)getpid());
	gzFile file = gzopen(temporary.text, "wb1e");
	if (!file) {
		error_set_errno(error, errno, "cannot write %s", temporary.text);
		strbuf_release(&temporary);
		return false;
	}
	struct capture *capture = alloc_zeroed(1, sizeof(*capture));
	capture->file = file;
	capture->path = alloc_string(path);
	capture->temporary = temporary.text; /* taken over */
	strbuf_init(&capture->record);
	if (gzwrite(file, CAPTURE_MAGIC, sizeof(CAPTURE_MAGIC) - 1) <= 0)
		capture->failed = true;
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

void capture_modules(struct capture *capture, const struct module_table *table)
{
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

static void put_ranges(struct capture *capture, const struct raw_sample *raw)
{
	put_u32(capture, (uint32_t)raw->span_count);
	put_u32(capture, (uint32_t)raw->range_count);
	for (size_t i = 0; i < raw->range_count; i++) {
		put_u64(capture, raw->ranges[i].address);
		put_bytes(capture, raw->bytes + raw->ranges[i].offset, raw->ranges[i].size);
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

void capture_repeat(struct capture *capture, pid_t tid)
{
	put_u32(capture, (uint32_t)tid);
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
	put_u32(capture, (uint32_t)raw->tid);
	put_u64(capture, raw->time_ns);
	put_bytes(capture, &raw->registers, sizeof(raw->registers));
	put_u8(capture, raw->stopped);
	put_u8(capture, raw->unjoined);
	put_bytes(capture, &raw->wait, sizeof(raw->wait));
	put_text(capture, raw->kernel);
	put_u8(capture, raw->runtime != NULL);
	put_u32(capture, raw->tstate_count);
	for (uint32_t i = 0; i < raw->tstate_count; i++)
		put_u64(capture, raw->tstates[i]);
	put_u64(capture, raw->thread_id);
	put_u32(capture, (uint32_t)raw->namespace_tid);
	put_native(capture, raw);
	put_ranges(capture, raw);
	finish(capture, CAPTURE_SAMPLE);
}

bool capture_close(struct capture *capture, struct error *error)
{
	finish(capture, CAPTURE_END);
	bool well = !capture->failed;
	if (gzclose(capture->file) != Z_OK)
		well = false;
	if (well && rename(capture->temporary, capture->path) != 0)
		well = false;
	if (!well) {
		error_set_errno(error, errno, "cannot write %s", capture->path);
		unlink(capture->temporary);
	}
	strbuf_release(&capture->record);
	free(capture->path);
	free(capture->temporary);
	free(capture);
	return well;
}
