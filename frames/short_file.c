/* SPDX-License-Identifier: MIT */
/*
 * "/usr/lib/python3.11/json/decoder.py" -> "json/decoder.py": a path as the program's author
 * would name it, from the directory that import starts at.
 */
#include "frames/short_file.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static const char *const package_roots[] = {"/site-packages/", "/dist-packages/"};

/* Behind ".../lib/python3.11/", or NULL. */
static const char *in_standard_library(const char *path)
{
	const char *at = path;
	while ((at = strstr(at, "/python")) != NULL) {
		at += strlen("/python");
		size_t digits = strspn(at, "0123456789.");
		if (digits > 0 && (at[digits] == '/' || strncmp(at + digits, "t/", 2) == 0))
			return at + digits + (at[digits] == '/' ? 1 : 2);
	}
	return NULL;
}

bool short_file_is_library(const char *path)
{
	if (path[0] == '<')
		return strncmp(path, "<frozen ", 8) == 0;
	for (size_t i = 0; i < sizeof(package_roots) / sizeof(*package_roots); i++)
		if (strstr(path, package_roots[i]))
			return true;
	return in_standard_library(path) != NULL;
}

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
	for (size_t i = 0; i < sizeof(package_roots) / sizeof(*package_roots); i++) {
		const char *at = strstr(path, package_roots[i]);
		if (at)
			return at + strlen(package_roots[i]);
	}
	const char *standard = in_standard_library(path);
	if (standard)
		return standard;
	const char *start = strrchr(path, '/');
	while (start > path && is_package(target, path, (size_t)(start - path))) {
		const char *up = start - 1;
		while (up > path && *up != '/')
			up--;
		start = up;
	}
	return start + 1;
}
