/* SPDX-License-Identifier: MIT */
/* Files in our own cache folder, pdump/names: read if they are ours, written whole or not at all.
 */
#ifndef FILES_CACHE_FILE_H
#define FILES_CACHE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct cache_file {
	int fd; /* to be written to */
	int folder;
	uint32_t handle; /* of the broker */
	char name[NAME_MAX + 1], temporary[NAME_MAX + 1];
};

/* -1: there is none of that name that nobody else could have written. A name is letters and digits
 * alone. */
int cache_file_read(const char *name);

/* False: there is no folder that is ours alone, or no room. */
bool cache_file_new(struct cache_file *file, const char *name);

/* Keeps it under its name, or not. False with errno: it was not kept. */
bool cache_file_end(struct cache_file *file, bool keep);

#endif
