/* SPDX-License-Identifier: MIT */
/* What the files of dump/ share: one look at a process, from pass to pass. */
#ifndef DUMP_INTERNAL_H
#define DUMP_INTERNAL_H

#include "base/guard.h"
#include "dump/dump.h"
#include "record/internal.h"
#include "record/process.h"

enum { MAX_PASSES = 4 };

/* What is known of one thread at the end of a pass. */
struct look {
	struct watched_thread *watched;
	struct raw_sample *raw; /* NULL: not read (yet) */
	bool again;		/* read it in the next pass */
	bool stopped_now;
	bool active;
	bool withheld; /* a page did not come as it was read last */
	enum copy_result result;
	struct decoded facts; /* of the stack, if there is any */
	bool seen;
	uint32_t *stack; /* raw frame ids, outermost first */
	size_t stack_count, stack_capacity;
};

struct dumper {
	struct process process;
	struct copy_means means;
	const struct session_options *options;
	struct resolver *resolver;
	struct look *looks;
	size_t look_count;
	struct look **kept; /* what the pass has copied, in that order */
	size_t kept_count;
	uint64_t settled_ns; /* until then a pass waits for those that the one before stopped */
	struct guard guard;
	struct look *current; /* is read; NULL: none */
	uint64_t withheld;    /* reads that were refused before */
	unsigned stuck, late; /* how often; and how often a page has come later */
	bool unread;	      /* whether it is Python: that is in a page that does not come */
	struct error error;
	bool failed;
	bool rivalled;		 /* another one traces some thread ... */
	uint64_t rival_until_ns; /* ... until then nothing is stopped */
};

/* ---- passes.c ---- */

/*
 * Copies those whose look asks for it (`again`), in a process of its own: dumper->kept has what was
 * copied. `pass` counts from 0; a later one has more patience. DENIED or SYSTEM.
 */
bool MUST_CHECK dump_take_pass(struct dumper *dumper, unsigned pass, struct error *error);

/* Decodes what the pass has copied. True when some thread must be read again, in the next one. */
bool dump_decode_pass(struct dumper *dumper);

/* ---- fill.c ---- */

/* What is known of the process before its threads are looked at. */
void dump_describe(struct dumper *dumper, struct dump *dump);

/* What the passes have found: threads, their names and stacks, and what could not be read of them,
 * which sets *partial. The last pass is decoded; the target may still run. */
void dump_fill(struct dumper *dumper, struct dump *dump, bool *partial);

#endif
