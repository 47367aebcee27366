/* SPDX-License-Identifier: MIT */
/*
 * The file of raw samples, byte by byte in docs/capture.md: compressed by zlib, the line "pdraw
 * 3\n", then records u32 type, u64 size, payload (size bytes) of little-endian numbers; a string is
 * u32 size and its bytes; ranges are u32 spans (so many of them, the first, are in order of
 * address), u32 count, then for each u64 address, u32 size, bytes. What was read of the modules'
 * files is at the end, and has to be read first. Version 2 had CAPTURE_SAMPLE in place of
 * CAPTURE_LINES, and is read, too.
 */
#ifndef CAPTURE_FORMAT_H
#define CAPTURE_FORMAT_H

#define CAPTURE_MAGIC "pdraw 3\n"
#define CAPTURE_MAGIC_2 "pdraw 2\n"
enum { CAPTURE_NAME_SIZE = 6 }; /* of these, what is the same in all versions */

enum capture_record {
	CAPTURE_MODULES = 1, /* modules and mappings as of now */
	CAPTURE_RUNTIME,     /* the memory that python_runtime_open reads */
	CAPTURE_THREAD,	     /* u32 tid, string: what -t shows for it */
	CAPTURE_SAMPLE,	     /* of version 2: with its ranges as they are */
	CAPTURE_REPEAT,	     /* u32 tid, u64 time: the thread has not run since its last sample */
	CAPTURE_END,	     /* nothing is missing */
	CAPTURE_JIT,	     /* code made at run time that was met since the last such record */
	CAPTURE_IMAGE,	     /* of one module: what was read of its file */
	CAPTURE_CODE,	 /* code of no file that was read for the next sample, where it is new */
	CAPTURE_LINES,	 /* a sample whose ranges are given by those before: lines.c */
	CAPTURE_NAMES,	 /* of one module: what its tables state of its functions; as an image */
	CAPTURE_MADE,	 /* when, where and by what it was recorded */
	CAPTURE_SYMBOLS, /* of one module: what its symbols call the addresses that were met */
};

enum {
	CAPTURE_MAX_RECORD = 512 << 20,
	CAPTURE_MAX_MODULES = 65536,
	CAPTURE_MAX_ANSWERS = 1 << 16, /* in one record, as the next */
	CAPTURE_MAX_PLACES = 1 << 20,
	CAPTURE_MAX_BLOCKS = 1 << 22, /* in all */
	CAPTURE_MAX_MAPPINGS = 1 << 20,
	CAPTURE_MAX_NAME = 256 /* of a machine, of a version */
};

#endif
