/* SPDX-License-Identifier: MIT */
/* Messages for the person at the terminal, on stderr: stdout carries the product alone. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/types.h"

enum log_level { LOG_QUIET = -1, LOG_NORMAL = 0, LOG_VERBOSE = 1 };

/* The program's name comes before warnings: "precord: ...". The text must outlive all calls. */
void log_set_program(const char *name);
void log_set_level(enum log_level level);

/* Turns on the debug messages of one area ("unwind", "python", ..., "all"). At most 16 areas. */
void log_enable_area(const char *area);
bool log_area_enabled(const char *area);

/*
 * Never in the pause. One line: a newline is added, and the text is cleaned as by utf8_add_clean(),
 * since much of it is the target's. Nothing of it appears when quiet, errors excepted.
 */
void log_error(const char *format, ...) PRINTF_LIKE(1, 2);
void log_warning(const char *format, ...) PRINTF_LIKE(1, 2);
void log_info(const char *format, ...) PRINTF_LIKE(1, 2);    /* unless quiet; no program name */
void log_verbose(const char *format, ...) PRINTF_LIKE(1, 2); /* with -v */
void log_debug(const char *area, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
