/* SPDX-License-Identifier: MIT */
/* Which of a target's file systems may never answer: their files are for far_file_await. */
#ifndef TARGET_FAR_FILES_H
#define TARGET_FAR_FILES_H

#include "target/target.h"

enum { SEEN_DEVICES_MOST = 64 };

/* Of file systems (st_dev): one that is far may never answer. */
struct seen_devices {
	struct seen_device {
		uint64_t device;
		bool far, mounted;
	} devices[SEEN_DEVICES_MOST];
	size_t count;
};

/* Asks nothing of the file system: one that is not known is far, until it has answered. */
bool device_is_far(struct seen_devices *seen, const struct target *target, uint64_t device);
void device_answers(struct seen_devices *seen, uint64_t device);

#endif
