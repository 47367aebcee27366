/* SPDX-License-Identifier: MIT */
/* Folders in which something is kept for the next time: ours, and nobody else's to write to. */
#ifndef FILES_CACHE_FOLDER_H
#define FILES_CACHE_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether it is of that type (S_IFDIR, ...), ours, and nobody else's to write to. */
bool cache_is_ours(int fd, mode_t type);

/*
 * Opens our folder of that name, made if need be, in $XDG_CACHE_HOME or ~/.cache. -1: there is no
 * place that is ours.
 */
int cache_folder_open(const char *name);

/* The same within a folder (-1: none), which is closed. */
int cache_folder_below(int parent, const char *name);

/* The same at a path that a person has chosen. */
int cache_folder_at(const char *path);

#endif
