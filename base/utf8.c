/* SPDX-License-Identifier: MIT */
/* Any bytes in, valid and visible UTF-8 out (RFC 3629: no overlong forms, no surrogates). */
#include "base/utf8.h"

#include <stdbool.h>
#include <stddef.h>

static const char replacement[] = "\xef\xbf\xbd";

/* Decodes one code point; returns its length in bytes, 0 when the bytes are not valid. */
static size_t decode(const unsigned char *p, size_t left, uint32_t *code_point)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = p[0] < 0x80   ? 1
			: p[0] < 0xc2 ? 0
			: p[0] < 0xe0 ? 2
			: p[0] < 0xf0 ? 3
			: p[0] < 0xf5 ? 4
				      : 0;
	if (length == 0 || length > left)
		return 0;
	uint32_t value = length == 1 ? p[0] : p[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (p[i] & 0x3f);
	}
	if (value < smallest[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
		return 0;
	*code_point = value;
	return length;
}

static bool is_control(uint32_t code_point)
{
	return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
	       code_point == 0x2028 || code_point == 0x2029;
}

/*
 * What nobody sees, though it makes two names differ or shows one in another order: Unicode's
 * Default_Ignorable_Code_Point and Bidi_Control (DerivedCoreProperties.txt, PropList.txt of 15.0),
 * and the marks of interlinear annotations. Sorted.
 */
static bool is_invisible(uint32_t code_point)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x00ad, 0x00ad},   {0x034f, 0x034f}, {0x061c, 0x061c},	  {0x115f, 0x1160},
		{0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x200b, 0x200f},	  {0x202a, 0x202e},
		{0x2060, 0x206f},   {0x3164, 0x3164}, {0xfe00, 0xfe0f},	  {0xfeff, 0xfeff},
		{0xffa0, 0xffa0},   {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
		{0xe0000, 0xe0fff},
	};
	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		if (code_point <= ranges[i].last)
			return code_point >= ranges[i].first;
	return false;
}

void utf8_add_clean(struct strbuf *out, const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	for (size_t i = 0; i < size;) {
		uint32_t code_point;
		size_t length = decode(p + i, size - i, &code_point);
		if (length == 0 || code_point == 0xfffe || code_point == 0xffff)
			strbuf_add(out, replacement, 3);
		else if (is_control(code_point))
			strbuf_add_char(out, ' ');
		else if (is_invisible(code_point))
			strbuf_printf(out, code_point > 0xffff ? "\\U%08x" : "\\u%04x", code_point);
		else
			strbuf_add(out, p + i, length);
		i += length ? length : 1;
	}
}

void utf8_add_code_point(struct strbuf *out, uint32_t c)
{
	char bytes[4];
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
		strbuf_add(out, replacement, 3);
	} else if (c < 0x80) {
		strbuf_add_char(out, (char)c);
	} else if (c < 0x800) {
		bytes[0] = (char)(0xc0 | c >> 6);
		bytes[1] = (char)(0x80 | (c & 0x3f));
		strbuf_add(out, bytes, 2);
	} else if (c < 0x10000) {
		bytes[0] = (char)(0xe0 | c >> 12);
		bytes[1] = (char)(0x80 | (c >> 6 & 0x3f));
		bytes[2] = (char)(0x80 | (c & 0x3f));
		strbuf_add(out, bytes, 3);
	} else {
		bytes[0] = (char)(0xf0 | c >> 18);
		bytes[1] = (char)(0x80 | (c >> 12 & 0x3f));
		bytes[2] = (char)(0x80 | (c >> 6 & 0x3f));
		bytes[3] = (char)(0x80 | (c & 0x3f));
		strbuf_add(out, bytes, 4);
	}
}
