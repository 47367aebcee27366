/* SPDX-License-Identifier: MIT */
/*
 * What the broker gives out: files that who asked for all this may read, that a target's or a core
 * file's user may read, what the command line names, and our own cache. Never a device, a fifo or a
 * file of the kernel's; never what lies out of the root that was asked about.
 */
#ifndef FILES_BROKER_JUDGE_H
#define FILES_BROKER_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct broker_rules {
	uid_t user;	    /* whose rights count where nobody else's do */
	const char **given; /* may be read: paths as given */
	size_t given_count;
	const char **outputs; /* may be written */
	size_t output_count;
	void (*finish)(void *context); /* NULL: nothing */
	void *context;
};

/* Starts one that keeps to them. False with errno. *rules are to live as long as it is used. */
bool broker_judge_start(const struct broker_rules *rules);

#endif
