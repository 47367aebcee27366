/* SPDX-License-Identifier: MIT */
/* A growing string, always NUL-terminated. */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include "base/types.h"

struct strbuf {
	char *text;  /* never NULL after init */
	size_t size; /* without the NUL */
	size_t capacity;
};

void strbuf_init(struct strbuf *buffer);
void strbuf_release(struct strbuf *buffer);
void strbuf_reset(struct strbuf *buffer); /* empty again, room kept */

void strbuf_add(struct strbuf *buffer, const void *bytes, size_t size);
void strbuf_add_text(struct strbuf *buffer, const char *text);
void strbuf_add_char(struct strbuf *buffer, char c);
void strbuf_add_number(struct strbuf *buffer, uint64_t number); /* in digits */
void strbuf_printf(struct strbuf *buffer, const char *format, ...) PRINTF_LIKE(2, 3);

static inline void strbuf_cleanup(struct strbuf *buffer)
{
	strbuf_release(buffer);
}
#define _cleanup_strbuf_ __attribute__((cleanup(strbuf_cleanup)))

#endif
