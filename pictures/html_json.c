/* SPDX-License-Identifier: MIT */
/*
 * JSON for a script element of type application/json: HTML knows no escapes there, and ends it at
 * "</script", so "<" is always written as JSON may, by its number. A page has a million numbers:
 * they are made here, without printf.
 */
#include "base/utf8.h"
#include "pictures/html.h"

void html_put_text(struct strbuf *out, const char *text, size_t size)
{
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, text, size);
	strbuf_add_char(out, '"');
	for (size_t i = 0; i < clean.size; i++) {
		char c = clean.text[i];
		if (c == '<')
			strbuf_add_text(out, "\\u003c");
		else if (c == '"' || c == '\\')
			strbuf_printf(out, "\\%c", c);
		else
			strbuf_add_char(out, c);
	}
	strbuf_add_char(out, '"');
}

void html_put_number(struct strbuf *out, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);
	do
		digits[--at] = (char)('0' + value % 10);
	while (value /= 10);
	strbuf_add(out, digits + at, sizeof(digits) - at);
}

void html_put_signed(struct strbuf *out, int64_t value)
{
	if (value < 0)
		strbuf_add_char(out, '-');
	html_put_number(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}
