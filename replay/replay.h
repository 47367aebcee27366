/* SPDX-License-Identifier: MIT */
/* A recording of raw samples read back. */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include "base/error.h"
#include "base/intern.h"
#include "record/session.h"

/* Decodes a file of raw samples without the process. ABSENT: a module is not on this machine. */
bool MUST_CHECK replay_file(const char *path, const struct session_options *options,
			    struct interner *strings, struct profile *profile, struct error *error);

#endif
