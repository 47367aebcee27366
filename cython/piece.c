/* SPDX-License-Identifier: MIT */
/* Pieces of a symbol's text: compared, cut, read as numbers. */
#include "cython/internal.h"

#include <ctype.h>
#include <string.h>

struct piece piece_of(const char *text)
{
	return (struct piece){text, strlen(text)};
}

bool piece_equals(struct piece piece, const char *text)
{
	return piece.size == strlen(text) && memcmp(piece.text, text, piece.size) == 0;
}

bool piece_starts(struct piece piece, const char *prefix)
{
	size_t size = strlen(prefix);
	return piece.size >= size && memcmp(piece.text, prefix, size) == 0;
}

bool piece_ends(struct piece piece, const char *suffix)
{
	size_t size = strlen(suffix);
	return piece.size >= size && memcmp(piece.text + piece.size - size, suffix, size) == 0;
}

struct piece piece_after(struct piece piece, size_t size)
{
	return (struct piece){piece.text + size, piece.size - size};
}

bool piece_skip(struct piece *piece, const char *prefix)
{
	if (!piece_starts(*piece, prefix))
		return false;
	*piece = piece_after(*piece, strlen(prefix));
	return true;
}

bool piece_number(struct piece *piece, uint32_t *number)
{
	uint32_t value = 0;
	size_t digits = 0;
	while (digits < piece->size && isdigit((unsigned char)piece->text[digits])) {
		if (digits == 9)
			return false;
		value = value * 10 + (uint32_t)(piece->text[digits++] - '0');
	}
	if (digits == 0)
		return false;
	*number = value;
	*piece = piece_after(*piece, digits);
	return true;
}

bool piece_is_dunder(struct piece name)
{
	return name.size > 4 && piece_starts(name, "__") && piece_ends(name, "__");
}
