/* SPDX-License-Identifier: MIT */
/* One look at a process, or at what is left of one. */
#ifndef DUMP_DUMP_H
#define DUMP_DUMP_H

#include "record/record.h"

/*
 * One look at all threads of a process. Fills *dump (strings interned in `strings`, which must
 * outlive it). Running threads are stopped together for a moment (unless nonblocking), blocked ones
 * are not touched.
 * Fails with GONE, DENIED or SYSTEM; a process that is not Python, or of an unknown version, is no
 * failure (see dump.python_problem); options->python_only: one that is not Python has no threads
 * then. *partial: some thread could not be read.
 */
bool MUST_CHECK dump_process(pid_t pid, const struct session_options *options,
			     struct interner *strings, struct dump *dump, bool *partial,
			     struct error *error);

/* The same of a core file, which is *partial also when it is cut off; what was not found for it is
 * in dump.core_problems. CORRUPT, ABSENT: it is none, or has no threads. */
struct target_core_options;
bool MUST_CHECK dump_core(const struct target_core_options *core,
			  const struct session_options *options, struct interner *strings,
			  struct dump *dump, bool *partial, struct error *error);
void dump_release(struct dump *dump);

#endif
