/* SPDX-License-Identifier: MIT */
/* The target's child processes, which are not recorded: those that are busy are named at the end.
 */
#ifndef SRC_CHILDREN_H
#define SRC_CHILDREN_H

#include "target/descendants.h"

enum { CHILDREN_MOST = 256 };

struct child {
	struct target_other seen; /* last */
	uint64_t cpu_before;	  /* what it had used when the recording began */
};

/* All zero at first. */
struct children {
	struct child list[CHILDREN_MOST];
	size_t count;
	uint64_t begun_ns, looked_ns, next_ns, wait_ns;
};

/* A first look, as the recording begins; then one whenever it is due, which is ever more seldom,
 * and one at the end. */
void children_begin(struct children *children, pid_t pid);
void children_look_if_due(struct children *children, pid_t pid);
void children_look(struct children *children, pid_t pid);

/* Names those that used a tenth of a CPU or more all the while, the busiest first. */
void children_report(struct children *children);

#endif
