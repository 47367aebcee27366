/* SPDX-License-Identifier: MIT */
/* Which Python thread is this OS thread? */
#ifndef COPY_JOIN_H
#define COPY_JOIN_H

#include "base/table.h"
#include "copy/options.h"
#include "copy/raw_sample.h"
#include "python/python.h"

struct copy_state;

struct join {
	enum join_method method;
	struct python_thread *threads;
	size_t count;
	/* (number, 0), (number, 1) ... -> indices of threads: an OS thread may have several. */
	struct table by_tid; /* as the method has it, in the target's namespace */
	struct table by_thread_id;
	/* States of sub-interpreters, newest first, which any thread may run: see claim.c. */
	remote_addr roaming[RAW_MAX_TSTATES];
	uint32_t roaming_count;
	uint64_t stamp;	 /* python_threads_stamp when it was read */
	bool tids_known; /* of all threads listed, the kernel's ids */
	bool valid;
};

void join_init(struct join *join, enum join_method method);
void join_release(struct join *join);

/* Reads the thread lists anew. Not in the pause. */
bool MUST_CHECK join_refresh(struct join *join, const struct python_runtime *runtime,
			     const struct target *target, struct error *error);

/* Fills the state's thread states by what is known without stopping it. */
void join_thread(const struct join *join, struct copy_state *state);

/* The thread states of a pthread_self() value; returns how many. May run in the pause. */
uint32_t join_by_thread_id(const struct join *join, uint64_t thread_id,
			   remote_addr tstates[RAW_MAX_TSTATES]);

/* The known thread_id among the RBX values of the outermost three frames; 0: none. */
uint64_t join_rbx(const struct join *join, const struct unwind_stack *native);

#endif
