/* SPDX-License-Identifier: MIT */
/*
 * Profiles out of files: what precord has written (JSON Lines, JSON, folded), and other programs'
 * folded stacks and pprof profiles. Knows no process and needs no privilege. Files are hostile:
 * whatever is in them, the outcome is a profile or an error that says where.
 */
#ifndef READ_READ_H
#define READ_READ_H

#include "base/error.h"
#include "base/intern.h"
#include "profile/profile.h"

/* What is read, by its first bytes. */
enum read_kind {
	READ_FOLDED, /* what is nothing else */
	READ_JSONL,
	READ_JSON,
	READ_PPROF,
	READ_CAPTURE, /* raw samples, which record/replay.c reads */
};

/*
 * Reads a file, gzip or not ("-": stdin), into *profile, initialised here; its strings are interned
 * in `strings`, which must outlive it. It may be a pipe: it is opened and read once. *kind: what it
 * is, as far as it could be opened. *note: NULL, or what a person should know, interned: that the
 * file ends early, and what was read stops there.
 * CORRUPT: it makes no sense, with the line or the byte. UNSUPPORTED: of another version, or a
 * capture. SYSTEM: it cannot be read.
 */
bool MUST_CHECK read_profile(const char *path, struct interner *strings, struct profile *profile,
			     enum read_kind *kind, const char **note, struct error *error);

#endif
