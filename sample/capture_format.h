/* SPDX-License-Identifier: MIT */
/*
 * The file of raw samples, compressed by zlib: the line "pdraw 1\n", then records
 *     u32 type, u64 size, payload (size bytes)
 * of little-endian numbers; a string is u32 size and its bytes; ranges are u32 spans (so many of
 * them, the first, are in order of address), u32 count, then for each u64 address, u32 size, bytes.
 * The file is for replay by the same version of this program.
 */
#ifndef SAMPLE_CAPTURE_FORMAT_H
#define SAMPLE_CAPTURE_FORMAT_H

#define CAPTURE_MAGIC "pdraw 1\n"

enum capture_record {
	CAPTURE_MODULES = 1, /* modules and mappings as of now */
	CAPTURE_RUNTIME,     /* the memory that python_runtime_open reads */
	CAPTURE_THREAD,	     /* u32 tid, string: what -t shows for it */
	CAPTURE_SAMPLE,
	CAPTURE_REPEAT, /* u32 tid: the thread has not run since its last sample */
	CAPTURE_END,	/* nothing is missing */
	CAPTURE_JIT,	/* code made at run time that was met since the last such record */
};

enum {
	CAPTURE_MAX_RECORD = 512 << 20,
	CAPTURE_MAX_MODULES = 65536,
	CAPTURE_MAX_MAPPINGS = 1 << 20
};

#endif
