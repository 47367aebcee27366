/* SPDX-License-Identifier: MIT */
/*
 * Gives up for good what parsing does not need: users, capabilities, system calls. Of the calling
 * thread, and of the threads and processes that it makes from then on.
 */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include <stdbool.h>
#include <sys/types.h>

enum sandbox_kind {
	SANDBOX_NO_FILES, /* opens none, executes nothing, makes no socket: what is allowed is
			     listed */
	SANDBOX_FETCHES,  /* downloads: files and sockets as our user; what is refused is listed */
};

struct sandbox_user {
	uid_t user; /* who root becomes; without root nothing changes */
	gid_t group;
};

/*
 * Whoever shares our memory keeps his own rights. What the kernel or a container refuses is said
 * with -v, and done without. False: nothing was given up (a build that watches its own memory).
 */
bool sandbox_enter(enum sandbox_kind kind, struct sandbox_user user);

#endif
