/* SPDX-License-Identifier: MIT */
/*
 * A process that asks debuginfod's servers for those of ours that parse, which have no sockets and
 * no rights (docs/security.md). What it says of a file: how much there is of it, again and again,
 * then how it went, with a descriptor. Who has heard enough closes the end that it listens at.
 */
#ifndef SYMBOLIZE_FETCHER_H
#define SYMBOLIZE_FETCHER_H

#include "elf/elf.h"

enum fetcher_state {
	FETCHER_GOES_ON,
	FETCHER_DONE,	    /* os_errno 0: a descriptor comes along */
	FETCHER_NO_CACHE,   /* no folder that only `user` may write to */
	FETCHER_NO_LIBRARY, /* libdebuginfod.so.1 is not here */
	FETCHER_NO_CLIENT,  /* it does not start */
};

struct fetcher_news {
	uint32_t state; /* enum fetcher_state */
	int32_t os_errno;
	uint32_t user;	      /* whom it works as */
	uint64_t bytes, size; /* that have come; in all, 0: not known */
};

/* Asks for the debug file of that build ID, or for the file itself. Gives the end to listen at,
 * which the caller closes; -1: nobody is there who could be asked. */
int fetcher_ask(const struct build_id *id, bool program);

/*
 * Waits for news at most that long. False with errno: EINTR, ETIMEDOUT; EPIPE: it has ended. *fd:
 * the file, which is the caller's; -1: none came.
 */
bool fetcher_hear(int end, uint64_t limit_ns, struct fetcher_news *news, int *fd);

#endif
