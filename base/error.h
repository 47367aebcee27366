/* SPDX-License-Identifier: MIT */
/*
 * One error value for the whole program. A function that can fail returns bool (false: failed)
 * and fills the caller's struct error, which needs no release. Kinds say what the caller does.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

#include "base/types.h"

enum error_kind {
	ERROR_NONE,
	ERROR_GONE,	   /* the thread, process or memory is no longer there: skip it */
	ERROR_TORN,	   /* the target changed while it was read: retry or drop */
	ERROR_DENIED,	   /* not permitted: say how to fix it */
	ERROR_ABSENT,	   /* no such information (no symbol, no debug file): fall back */
	ERROR_UNSUPPORTED, /* a version or a machine we do not know: stop */
	ERROR_CORRUPT,	   /* what was read cannot be right: do not believe any of it */
	ERROR_BUSY,	   /* the thread did not stop in time: it is uninterruptible */
	ERROR_SYSTEM,	   /* input/output or resources */
};

struct error {
	enum error_kind kind;
	int os_errno;	   /* 0: none */
	char message[200]; /* "cannot attach to process 812: operation not permitted" */
};

/*
 * Fills *error (NULL: ignored) and returns false, so that a failure is one statement:
 * return error_set(error, ERROR_CORRUPT, "module %s: no program headers", path);
 * May run in the pause (formats into the caller's value, allocates nothing).
 */
bool error_set(struct error *error, enum error_kind kind, const char *format, ...)
	PRINTF_LIKE(3, 4);

/*
 * The same from an errno value; ": strerror" is appended. The kind follows the number: ESRCH and
 * EFAULT are GONE, EPERM and EACCES DENIED, ENOENT ABSENT, else SYSTEM.
 */
bool error_set_errno(struct error *error, int os_errno, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
