/* SPDX-License-Identifier: MIT */
/* A line of /proc/PID/mountinfo (proc_pid_mountinfo(5)). */
#ifndef TARGET_MOUNTS_H
#define TARGET_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the line, without its end; spaces and the like are written as octal numbers. */
struct mount_word {
	const char *text;
	size_t size;
};

struct mount_line {
	uint64_t device;			      /* st_dev of what is in it */
	struct mount_word root, point, type, options; /* the last ones: the file system's own */
};

/* False: it is no such line. The words are parts of the line. */
bool mount_parse_line(const char *line, struct mount_line *mount);

bool mount_word_is(struct mount_word word, const char *text);

#endif
