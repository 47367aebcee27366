/* SPDX-License-Identifier: MIT */
/*
 * Line tables of code objects into line numbers. The tables come from the target: every read is
 * bounded by their size, arithmetic wraps instead of overflowing, and nothing here fails.
 */
#include "python/python.h"

struct cursor {
	const uint8_t *next, *end;
};

/*
 * CPython 3.10 Objects/codeobject.c, PyLineTable_NextAddressRange: pairs of bytes {size, delta};
 * {6, 1} {4, -128} {2, -1} with first line 10 are bytes 0-5: line 11, 6-9: no line, 10-11: 10.
 */
static int32_t line_of_310(struct cursor table, uint32_t line, uint32_t instruction)
{
	uint32_t end = 0;
	for (; table.end - table.next >= 2; table.next += 2) {
		int8_t delta = (int8_t)table.next[1];
		end += table.next[0];
		if (delta != -128)
			line += (uint32_t)(int32_t)delta;
		if (instruction < end)
			return delta == -128 ? 0 : (int32_t)line;
	}
	return 0;
}

/* Six bits a byte, lowest first, bit 6: more follow. */
static uint32_t read_varint(struct cursor *table)
{
	uint32_t value = 0;
	for (unsigned shift = 0; table->next < table->end; shift += 6) {
		uint8_t byte = *table->next++;
		if (shift < 32)
			value |= (uint32_t)(byte & 63) << shift;
		if (!(byte & 64))
			break;
	}
	return value;
}

static uint32_t read_svarint(struct cursor *table)
{
	uint32_t value = read_varint(table);
	return value & 1 ? 0 - (value >> 1) : value >> 1;
}

/*
 * CPython 3.11 Objects/locations.md: each entry starts with 1CCCCNNN: N + 1 code units of form C.
 * 0x83 0x2c: form 0, 4 units, columns in one byte; 0xe8 0x05: form 13, 1 unit, line - 2.
 */
static int32_t line_of_311(struct cursor table, uint32_t line, uint32_t instruction)
{
	enum { ONE_LINE = 10, ONE_LINE_LAST = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
	uint32_t end = 0;
	while (table.next < table.end) {
		uint8_t first = *table.next++;
		unsigned form = first >> 3 & 15;
		end += ((first & 7u) + 1) * 2;
		if (form >= ONE_LINE && form <= ONE_LINE_LAST)
			line += form - ONE_LINE;
		else if (form == NO_COLUMNS || form == LONG)
			line += read_svarint(&table);
		if (instruction < end)
			return form == NONE ? 0 : (int32_t)line;
		/* The columns: skipped up to the next entry, which alone has bit 7. */
		while (table.next < table.end && !(*table.next & 0x80))
			table.next++;
	}
	return 0;
}

int32_t python_line_of(enum python_line_format format, const uint8_t *table, size_t size,
		       int32_t first_line, int32_t instruction)
{
	struct cursor cursor = {table, table + size};
	if (instruction < 0)
		return first_line;
	switch (format) {
	case PYTHON_LINES_310:
		return line_of_310(cursor, (uint32_t)first_line, (uint32_t)instruction);
	case PYTHON_LINES_311:
		return line_of_311(cursor, (uint32_t)first_line, (uint32_t)instruction);
	}
	return 0;
}
