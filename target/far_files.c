/* SPDX-License-Identifier: MIT */
/*
 * Which files are on a file system whose answer comes from elsewhere, and may never come: a server,
 * or a process (FUSE; rootless containers live on it). By /proc/PID/mountinfo (proc_pid_mountinfo
 * (5)), as nothing may be asked of the file system itself: statfs waits, too.
 */
#include "target/far_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "target/core.h"
#include "target/mounts.h"

enum { MOUNTS_LIMIT = 1 << 16 };

static bool is_far_type(struct mount_word type)
{
	static const char *const names[] = {
		"nfs",	"nfs4",	  "cifs",  "smb3",   "smbfs",	 "9p",	 "ceph",
		"afs",	"lustre", "gpfs",  "beegfs", "orangefs", "coda", "virtiofs",
		"fuse", "gfs2",	  "ocfs2", "vboxsf", "prl_fs",
	};
	if (type.size > 5 && strncmp(type.text, "fuse.", 5) == 0)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (mount_word_is(type, names[i]))
			return true;
	return false;
}

/* What it is mounted as; false: it is not, in what the target sees (btrfs; a mount that was taken
 * away with what is open in it). */
static bool find_mount(const struct target *target, uint64_t device, bool *far)
{
	const int fd = target_open_proc(target, "mountinfo");
	FILE *file = fd >= 0 ? fdopen(fd, "re") : NULL;
	char *line = NULL;
	size_t capacity = 0;
	bool found = false;
	if (!file) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (size_t i = 0; !found && i < MOUNTS_LIMIT && getline(&line, &capacity, file) > 0; i++) {
		struct mount_line mount;
		found = mount_parse_line(line, &mount) && mount.device == device;
		*far = found && is_far_type(mount.type);
	}
	free(line);
	(void)!fclose(file);
	return found;
}

static struct seen_device *find_seen(struct seen_devices *seen, uint64_t device)
{
	for (size_t i = 0; i < seen->count; i++)
		if (seen->devices[i].device == device)
			return &seen->devices[i];
	return NULL;
}

bool device_is_far(struct seen_devices *seen, const struct target *target, uint64_t device)
{
	bool far = false;
	/* A disk has a number of its own. */
	if (target_is_core(target) || major(device) != 0)
		return false;
	const struct seen_device *known = find_seen(seen, device);
	if (known)
		return known->far;
	const bool mounted = find_mount(target, device, &far);
	if (seen->count < SEEN_DEVICES_MOST)
		seen->devices[seen->count++] =
			(struct seen_device){device, far || !mounted, mounted};
	return far || !mounted;
}

void device_answers(struct seen_devices *seen, uint64_t device)
{
	struct seen_device *known = find_seen(seen, device);
	if (known && !known->mounted)
		known->far = false;
}
