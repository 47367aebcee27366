/* SPDX-License-Identifier: MIT */
/* Processes that a target has started, and those that they have. */
#ifndef TARGET_DESCENDANTS_H
#define TARGET_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct target_other {
	pid_t pid;
	uint64_t start_time; /* with the number it tells processes apart */
	uint64_t cpu_ns;     /* used since it began */
	char command[96];    /* clean UTF-8, cut to fit */
};

/* Its children now, at most `most`; returns how many. */
size_t target_children(pid_t pid, pid_t *found, size_t most);

/* Fills in the numbers of at most `most` descendants that there are now, children first; returns
 * how many. */
size_t target_descendants(pid_t pid, pid_t *found, size_t most);

/* The process itself, and behind each process its children, each followed by its own. */
size_t target_process_tree(pid_t pid, pid_t *found, size_t most);

/* False: this kernel does not list children, and none is found (CONFIG_PROC_CHILDREN). */
bool target_knows_children(void);

/* False: it is gone. */
bool MUST_CHECK target_other_read(pid_t pid, struct target_other *process);

#endif
