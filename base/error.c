/* SPDX-License-Identifier: MIT */
/* Fills in error values. Formats into the caller's memory: may run in the pause. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_message(struct error *error, const char *format, va_list arguments)
{
	vsnprintf(error->message, sizeof(error->message), format, arguments);
}

bool error_set(struct error *error, enum error_kind kind, const char *format, ...)
{
	if (!error)
		return false;
	va_list arguments;
	va_start(arguments, format);
	set_message(error, format, arguments);
	va_end(arguments);
	error->kind = kind;
	error->os_errno = 0;
	return false;
}

static enum error_kind kind_of_errno(int os_errno)
{
	switch (os_errno) {
	case ESRCH:
	case EFAULT:
		return ERROR_GONE;
	case EPERM:
	case EACCES:
		return ERROR_DENIED;
	case ENOENT:
		return ERROR_ABSENT;
	default:
		return ERROR_SYSTEM;
	}
}

/* "operation not permitted": messages are in lower case, the C library's begin with a capital. */
static void add_reason(struct error *error, int os_errno)
{
	char text[100];
	const char *reason = strerror_r(os_errno, text, sizeof(text));
	size_t used = strlen(error->message);
	snprintf(error->message + used, sizeof(error->message) - used, ": %c%s",
		 reason[0] >= 'A' && reason[0] <= 'Z' ? reason[0] + 32 : reason[0],
		 reason[0] ? reason + 1 : "");
}

bool error_set_errno(struct error *error, int os_errno, const char *format, ...)
{
	if (!error)
		return false;
	va_list arguments;
	va_start(arguments, format);
	set_message(error, format, arguments);
	va_end(arguments);
	error->kind = kind_of_errno(os_errno);
	error->os_errno = os_errno;
	add_reason(error, os_errno);
	return false;
}
