/* SPDX-License-Identifier: MIT */
/*
 * "/usr/lib/python3.11/json/decoder.py" -> "json/decoder.py": a path as the program's author
 * would name it, from the directory that import starts at.
 */
#include "frames/short_file.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "profile/profile.h"

static bool is_package(const struct target *target, const char *directory, size_t size)
{
	char path[4096];
	if (size + sizeof("/__init__.py") > sizeof(path))
		return false;
	memcpy(path, directory, size);
	memcpy(path + size, "/__init__.py", sizeof("/__init__.py"));
	const int root = target ? target_files(target).fd : FOREIGN_OUR_ROOT;
	struct stat status;
	_cleanup_close_ int fd = foreign_file_find(root, path);
	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

const char *short_file(const struct target *target, const char *path)
{
	if (path[0] != '/')
		return path;
	const char *installed = short_path_installed(path);
	if (installed)
		return installed;
	const char *start = strrchr(path, '/');
	while (start > path && is_package(target, path, (size_t)(start - path))) {
		const char *up = start - 1;
		while (up > path && *up != '/')
			up--;
		start = up;
	}
	return start + 1;
}
