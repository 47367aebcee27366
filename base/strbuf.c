/* SPDX-License-Identifier: MIT */
/* A growing string. */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static void make_room(struct strbuf *buffer, size_t more)
{
	buffer->text = alloc_room(buffer->text, &buffer->capacity, buffer->size + more + 1, 1);
}

void strbuf_init(struct strbuf *buffer)
{
	memset(buffer, 0, sizeof(*buffer));
	make_room(buffer, 0);
	buffer->text[0] = '\0';
}

void strbuf_release(struct strbuf *buffer)
{
	free(buffer->text);
	memset(buffer, 0, sizeof(*buffer));
}

void strbuf_reset(struct strbuf *buffer)
{
	buffer->size = 0;
	buffer->text[0] = '\0';
}

void strbuf_add(struct strbuf *buffer, const void *bytes, size_t size)
{
	make_room(buffer, size);
	if (size)
		memcpy(buffer->text + buffer->size, bytes, size);
	buffer->size += size;
	buffer->text[buffer->size] = '\0';
}

void strbuf_add_text(struct strbuf *buffer, const char *text)
{
	strbuf_add(buffer, text, strlen(text));
}

void strbuf_add_char(struct strbuf *buffer, char c)
{
	strbuf_add(buffer, &c, 1);
}

void strbuf_add_number(struct strbuf *buffer, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	strbuf_add(buffer, digits + at, sizeof(digits) - at);
}

/* Once into the room that there is, which nearly always is enough. */
void strbuf_printf(struct strbuf *buffer, const char *format, ...)
{
	va_list arguments;
	const size_t room = buffer->capacity - buffer->size;
	va_start(arguments, format);
	const int size = vsnprintf(buffer->text + buffer->size, room, format, arguments);
	va_end(arguments);
	if (size < 0) {
		buffer->text[buffer->size] = '\0';
		return;
	}
	if ((size_t)size >= room) {
		make_room(buffer, (size_t)size);
		va_start(arguments, format);
		vsnprintf(buffer->text + buffer->size, (size_t)size + 1, format, arguments);
		va_end(arguments);
	}
	buffer->size += (size_t)size;
}
