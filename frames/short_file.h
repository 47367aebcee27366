/* SPDX-License-Identifier: MIT */
/* Short names of source files. */
#ifndef FRAMES_SHORT_FILE_H
#define FRAMES_SHORT_FILE_H

#include "target/target.h"

/*
 * The tail of `path` from the directory that import starts at: behind site-packages or the
 * standard library's folder, else from the outermost package (looked up in the target's root;
 * NULL target: in ours), else the last component.
 */
const char *short_file(const struct target *target, const char *path);

#endif
