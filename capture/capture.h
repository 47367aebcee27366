/* SPDX-License-Identifier: MIT */
/*
 * Raw samples on disk, with all that is read of the process's files and of code that no file has to
 * decode them: where they are replayed there is no such process.
 */
#ifndef CAPTURE_CAPTURE_H
#define CAPTURE_CAPTURE_H

#include <zlib.h>

#include "base/blocks.h"
#include "base/memory_reader.h"
#include "base/strbuf.h"
#include "copy/raw_sample.h"
#include "modules/module.h"

/* ---- capture.c ----------------------------------------------------------------------------------
 */

struct capture;

/* Of all of a recording's samples. */
struct capture_pace {
	uint64_t period_ns; /* from tick to tick */
	const char *mode;   /* of the profile: which threads count */
};

/* Raw samples into a file, from which replay/replay.c decodes them again. */
bool MUST_CHECK capture_open(const char *path, const struct capture_pace *pace,
			     struct capture **capture, struct error *error);
/* Unless they are as they were the last time. What is read of these modules from now on is written
 * at the end: they have to live as long. */
void capture_modules(struct capture *capture, struct module_table *modules);

/* Code made at run time, as far as it was met since the last call. */
void capture_jit(struct capture *capture, const struct module_table *modules);
/* The memory that opening the interpreter reads, so that replay opens it the same way. */
void capture_runtime(struct capture *capture, const struct raw_sample *memory);
void capture_thread(struct capture *capture, pid_t tid, const char *name);
void capture_sample(struct capture *capture, const struct raw_sample *raw);
/* At time_ns (CLOCK_MONOTONIC) the thread had not run since its last sample. */
void capture_repeat(struct capture *capture, pid_t tid, uint64_t time_ns);
/* For code of no file: what is read by it is written with the next sample. */
const struct memory_reader *capture_code(struct capture *capture, const struct memory_reader *live);
bool MUST_CHECK capture_close(struct capture *capture, struct error *error);

/* ---- code_log.c ----------------------------------------------------------------------------- */

/* Code of no file, as it was when it was read last. */
struct code_log {
	struct memory_reader reader;
	const struct memory_reader *live; /* NULL: there is but what was read (replay) */
	struct blocks blocks;
	uint32_t *fresh; /* blocks that are new or have changed since code_log_written */
	size_t fresh_count, fresh_capacity;
	uint8_t *is_fresh; /* by block */
	size_t flag_capacity;
};

void code_log_init(struct code_log *log, const struct memory_reader *live);
void code_log_written(struct code_log *log);
void code_log_release(struct code_log *log);

/* ---- reader.c ------------------------------------------------------------------------------- */

/* One record at a time; path: used, for errors. */
struct capture_reader {
	gzFile file;
	const char *path;
	uint8_t *record; /* the payload of the last one: `at` is what comes next */
	size_t size, at, capacity;
	bool overrun; /* more was taken than there is: what was got is zeros */
	uint32_t type;
	uint64_t number, start, end; /* which record it is, and where, as unpacked */
};

/* ABSENT, DENIED, SYSTEM: it cannot be read; CORRUPT: it is none, or of another version. */
bool MUST_CHECK capture_reader_open(struct capture_reader *reader, const char *path,
				    struct error *error);
void capture_reader_close(struct capture_reader *reader); /* an open one, or all zero */
bool MUST_CHECK capture_reader_rewind(struct capture_reader *reader, struct error *error);

/* The next record. CORRUPT: the file ends before its end, or goes on behind it. */
bool MUST_CHECK capture_reader_next(struct capture_reader *reader, struct error *error);

/* Bytes of the record, NULL: there are not so many; a number of so many bytes; one in LEB128; a u32
 * size and so many bytes. Until the next record. */
const void *capture_take(struct capture_reader *reader, size_t size);
uint64_t capture_get(struct capture_reader *reader, size_t size);
uint64_t capture_number(struct capture_reader *reader);
const void *capture_get_bytes(struct capture_reader *reader, size_t *size /* never NULL */);

/* Sets CORRUPT with the place of this record; returns false. */
bool capture_damaged(const struct capture_reader *reader, struct error *error);

/* ---- lines.c -------------------------------------------------------------------------------- */

/* What the ranges of the samples so far held, by address: some megabytes at most. */
struct line_memory {
	struct table by_address; /* -> index in blocks */
	struct table by_content; /* writing: hash, address -> version of that block */
	struct line_block *blocks;
	size_t block_count, block_capacity;
	uint8_t *bytes;
	size_t line_count, line_capacity;
};

void line_memory_init(struct line_memory *memory);
void line_memory_release(struct line_memory *memory);

/* The ranges of a sample as they differ from those before; read in the order in which they were
 * written. False: what is there makes no sense, or is too much. */
void line_memory_write(struct line_memory *memory, const struct raw_store *store,
		       struct strbuf *out);
bool MUST_CHECK line_memory_read(struct line_memory *memory, struct capture_reader *reader,
				 struct raw_sample *raw);

#endif
