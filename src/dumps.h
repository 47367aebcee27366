/* SPDX-License-Identifier: MIT */
/* pdump's work: the processes that were asked for, each looked at and shown. */
#ifndef SRC_DUMPS_H
#define SRC_DUMPS_H

#include "record/record.h"
#include "src/options.h"

/*
 * Looks at all of them, one after the other, and prints each as it is there. Returns the exit
 * status: what came of all of them where that is the same, EXIT_PARTIAL where it is not. With -s,
 * what is not Python is no failure unless there is nothing else.
 */
int dumps_run(const struct options *options, const struct session_options *session);

#endif
