/* SPDX-License-Identifier: MIT */
/*
 * Turns the punycode (RFC 3492) that Cython 3 writes for names with letters beyond ASCII back
 * into UTF-8. "fnc_hoa" with '_' for the delimiter '-' is "fünc". Works on the symbol alone.
 */
#include "cython/internal.h"

#include <string.h>

#include "base/utf8.h"

/* RFC 3492, section 5. */
enum { BASE = 36, T_MIN = 1, T_MAX = 26, SKEW = 38, DAMP = 700, FIRST_BIAS = 72, FIRST_CODE = 128 };

static uint32_t adapt(uint32_t delta, uint32_t points, bool first)
{
	delta = first ? delta / DAMP : delta / 2;
	delta += delta / points;
	uint32_t k = 0;
	for (; delta > ((BASE - T_MIN) * T_MAX) / 2; k += BASE)
		delta /= BASE - T_MIN;
	return k + (BASE - T_MIN + 1) * delta / (delta + SKEW);
}

static int digit_value(char c)
{
	if (c >= 'a' && c <= 'z')
		return c - 'a';
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= '0' && c <= '9')
		return c - '0' + 26;
	return -1;
}

/* Reads one generalised variable-length integer and adds it to *sum. */
static bool read_delta(const char **at, const char *end, uint32_t bias, uint32_t *sum)
{
	uint32_t weight = 1;
	for (uint32_t k = BASE;; k += BASE) {
		int digit = *at < end ? digit_value(*(*at)++) : -1;
		if (digit < 0)
			return false;
		uint32_t add;
		if (__builtin_mul_overflow((uint32_t)digit, weight, &add) ||
		    __builtin_add_overflow(*sum, add, sum))
			return false;
		uint32_t t = k <= bias ? T_MIN : k >= bias + T_MAX ? T_MAX : k - bias;
		if ((uint32_t)digit < t)
			return true;
		if (__builtin_mul_overflow(weight, BASE - t, &weight))
			return false;
	}
}

bool punycode_decode(const char *text, size_t size, char delimiter, struct strbuf *out)
{
	uint32_t points[PUNYCODE_LIMIT];
	if (size > PUNYCODE_LIMIT)
		return false;
	const char *at = text, *end = text + size;
	const char *last = memrchr(text, delimiter, size);
	uint32_t count = 0;
	if (last) {
		for (; at < last; at++)
			points[count++] = (unsigned char)*at;
		at++;
	}
	uint32_t code = FIRST_CODE, bias = FIRST_BIAS, index = 0;
	while (at < end) {
		uint32_t before = index;
		if (!read_delta(&at, end, bias, &index))
			return false;
		bias = adapt(index - before, count + 1, before == 0);
		code += index / (count + 1);
		index %= count + 1;
		if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
			return false;
		memmove(points + index + 1, points + index, (count - index) * sizeof(*points));
		points[index++] = code;
		count++;
	}
	for (uint32_t i = 0; i < count; i++)
		utf8_add_code_point(out, points[i]);
	return true;
}
