/* SPDX-License-Identifier: MIT */
/*
 * A file that takes the place of another one, or of none, once it is whole: until then what was
 * there stays as it was. Links are followed, so that the file behind them is replaced; but not
 * those, nor any file, that another user may have put into a folder that all may write to (as
 * fs.protected_symlinks and fs.protected_regular have it, which may be off). The folder is found
 * once: nothing that is renamed meanwhile leads elsewhere.
 */
#ifndef FILES_NEW_FILE_H
#define FILES_NEW_FILE_H

#include <limits.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

struct new_file {
	int fd;	    /* to be written to; what is no regular file (a pipe, a device) is itself */
	int folder; /* -1: it takes nobody's place */
	char name[NAME_MAX + 1];
	char temporary[NAME_MAX + 1]; /* "": it has no name yet */
	bool replaces;
	struct stat old; /* ... this: it keeps its owner, where we may, and its mode */
	bool lent;	 /* all but the bytes is the broker's to do (files/broker.h) */
	uint32_t handle;
};

/* Whether it could be made: an existing one may be written to, and a folder is there. */
bool MUST_CHECK new_file_check(const char *path, struct error *error);

bool MUST_CHECK new_file_open(struct new_file *file, const char *path, struct error *error);

/* Puts what was written in its place, on the disk. `file` is done with, whatever comes of it. */
bool MUST_CHECK new_file_commit(struct new_file *file, const char *path, struct error *error);

/* Gives it up. */
void new_file_drop(struct new_file *file);

#endif
