/* SPDX-License-Identifier: MIT */
/* What the makers of profiles out of others share. */
#ifndef PROFILE_INTERNAL_H
#define PROFILE_INTERNAL_H

#include "profile/profile.h"

/* All that is said of the recording, but its samples, their times and counts. */
void profile_copy_facts(struct profile *to, const struct profile *from);

/* to->frames of each of from's frames; malloc'ed. */
uint32_t *profile_copy_frames(struct profile *to, const struct profile *from);

/* After frames have been changed: they are found as they are now. */
void profile_index_frames(struct profile *profile);

/* `to` takes the place of *profile. */
void profile_replace(struct profile *profile, struct profile *to);

#endif
