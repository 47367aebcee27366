/* SPDX-License-Identifier: MIT */
#include "files/cache_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/broker.h"
#include "files/cache_folder.h"

enum { LONGEST = 64 };

static bool is_name(const char *name)
{
	const size_t size = strlen(name);
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)name[i]))
			return false;
	errno = EINVAL;
	return size > 0 && size <= LONGEST;
}

static int open_folder(void)
{
	return cache_folder_below(cache_folder_open("pdump"), "names");
}

int cache_file_read(const char *name)
{
	struct broker_request request = {.op = BROKER_CACHE_READ};
	if (!is_name(name))
		return -1;
	if (broker_is_used())
		return broker_set_path(&request, name) ? broker_ask(&request, -1, NULL) : -1;
	_cleanup_close_ int folder = open_folder();
	if (folder < 0)
		return -1;
	const int fd =
		openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || cache_is_ours(fd, S_IFREG))
		return fd;
	close(fd);
	errno = EACCES;
	return -1;
}

static bool ask_for_new(struct cache_file *file, const char *name)
{
	struct broker_request request = {.op = BROKER_CACHE_WRITE};
	struct broker_reply reply;
	if (!broker_set_path(&request, name))
		return false;
	file->fd = broker_ask(&request, -1, &reply);
	file->handle = reply.handle;
	return file->fd >= 0;
}

bool cache_file_new(struct cache_file *file, const char *name)
{
	*file = (struct cache_file){.fd = -1, .folder = -1};
	if (!is_name(name))
		return false;
	if (broker_is_used())
		return ask_for_new(file, name);
	snprintf(file->name, sizeof(file->name), "%s", name);
	snprintf(file->temporary, sizeof(file->temporary), ".%s.%ld", name, (long)getpid());
	file->folder = open_folder();
	if (file->folder < 0)
		return false;
	file->fd = openat(file->folder, file->temporary,
			  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file->fd >= 0)
		return true;
	close(file->folder);
	return false;
}

static bool end_by_broker(const struct cache_file *file, bool keep)
{
	const struct broker_request request = {.op = keep ? BROKER_CACHE_KEEP : BROKER_CACHE_DROP,
					       .handle = file->handle};
	close(file->fd);
	return broker_ask(&request, -1, NULL) >= 0;
}

bool cache_file_end(struct cache_file *file, bool keep)
{
	if (broker_is_used())
		return end_by_broker(file, keep);
	const bool kept =
		keep && renameat(file->folder, file->temporary, file->folder, file->name) == 0;
	const int os_errno = errno;
	if (!kept)
		unlinkat(file->folder, file->temporary, 0);
	close(file->fd);
	close(file->folder);
	errno = os_errno;
	return kept;
}
