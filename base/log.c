/* SPDX-License-Identifier: MIT */
/* Messages on stderr, each one write so that lines of several threads do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"

enum { MAX_AREAS = 16 };

static const char *program = "pdump";
static enum log_level level = LOG_NORMAL;
static const char *areas[MAX_AREAS];
static size_t area_count;

void log_set_program(const char *name)
{
	program = name;
}

void log_set_level(enum log_level new_level)
{
	level = new_level;
}

void log_enable_area(const char *area)
{
	if (area_count < MAX_AREAS)
		areas[area_count++] = area;
}

bool log_area_enabled(const char *area)
{
	for (size_t i = 0; i < area_count; i++)
		if (strcmp(areas[i], area) == 0 || strcmp(areas[i], "all") == 0)
			return true;
	return false;
}

static void print(const char *before, const char *between, const char *format, va_list arguments)
{
	char text[1024];
	vsnprintf(text, sizeof(text), format, arguments);
	/* Paths, names and versions in it are the target's to choose. */
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, text, strlen(text));
	fprintf(stderr, "%s%s%s\n", before, between, clean.text);
}

#define PRINT_WHEN(condition, before, between)                                                     \
	do {                                                                                       \
		va_list arguments;                                                                 \
		va_start(arguments, format);                                                       \
		if (condition)                                                                     \
			print(before, between, format, arguments);                                 \
		va_end(arguments);                                                                 \
	} while (0)

void log_error(const char *format, ...)
{
	PRINT_WHEN(true, program, ": ");
}

void log_warning(const char *format, ...)
{
	PRINT_WHEN(level >= LOG_NORMAL, program, ": ");
}

void log_info(const char *format, ...)
{
	PRINT_WHEN(level >= LOG_NORMAL, "", "");
}

void log_verbose(const char *format, ...)
{
	PRINT_WHEN(level >= LOG_VERBOSE, program, ": ");
}

void log_debug(const char *area, const char *format, ...)
{
	PRINT_WHEN(log_area_enabled(area), area, ": ");
}
