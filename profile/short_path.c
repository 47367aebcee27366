/* SPDX-License-Identifier: MIT */
/*
 * "/usr/lib/python3.11/json/decoder.py" -> "json/decoder.py", "/opt/site-packages/numpy/linalg.py"
 * -> "numpy/linalg.py": what is installed, as an import statement has it.
 */
#include <string.h>

#include "profile/profile.h"

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

const char *short_path_installed(const char *path)
{
	static const char *const roots[] = {"/site-packages/", "/dist-packages/"};
	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		const char *at = strstr(path, roots[i]);
		if (at)
			return at + strlen(roots[i]);
	}
	return in_standard_library(path);
}

bool short_path_is_library(const char *path)
{
	return strncmp(path, "<frozen ", strlen("<frozen ")) == 0 || short_path_installed(path);
}
