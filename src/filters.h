/* SPDX-License-Identifier: MIT */
/* --focus, --ignore, --include and --exclude. */
#ifndef SRC_FILTERS_H
#define SRC_FILTERS_H

#include "profile/profile.h"
#include "src/options.h"

/* Leaves out what they ask for, and says how much is left. */
void filters_apply(const struct options *options, struct profile *profile);

#endif
