/* SPDX-License-Identifier: MIT */
#include "files/given_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "files/broker.h"

int given_file_open(const char *path, int flags)
{
	if (!broker_is_used())
		return open(path, O_RDONLY | O_CLOEXEC | flags);
	struct broker_request request = {.op = BROKER_GIVEN, .flags = (uint32_t)flags | O_CLOEXEC};
	return broker_set_path(&request, path) ? broker_ask(&request, -1, NULL) : -1;
}

static int open_in(const char *folder)
{
	char path[4096];
	const int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	/* A file system that has no such files. */
	if (snprintf(path, sizeof(path), "%s/pdump-XXXXXX", folder) >= (int)sizeof(path))
		return -1;
	const int named = mkostemp(path, O_CLOEXEC);
	if (named >= 0)
		unlink(path);
	return named;
}

/* /tmp is often in memory. */
int given_file_scratch(void)
{
	const struct broker_request request = {.op = BROKER_SCRATCH};
	const char *given = secure_getenv("TMPDIR");
	if (broker_is_used())
		return broker_ask(&request, -1, NULL);
	if (given && *given)
		return open_in(given);
	const int fd = open_in("/var/tmp");
	return fd >= 0 ? fd : open_in("/tmp");
}
