/* SPDX-License-Identifier: MIT */
/*
 * Line tables of code objects into line numbers. The tables come from the target: every read is
 * bounded by their size, arithmetic wraps instead of overflowing, and nothing here fails.
 */
#include "python/python.h"

struct cursor {
	const uint8_t *next, *end;
};

/* No line: the instruction was made by the compiler for itself. */
static const struct python_position NOWHERE = {0, 0, -1, -1};

/* Of a table that has no more than lines. */
static struct python_position on_line(uint32_t line)
{
	return (struct python_position){(int32_t)line, 0, -1, -1};
}

/*
 * CPython 2.7 - 3.9 Objects/lnotab_notes.txt: pairs of bytes {addresses, lines}, the line counted
 * on at each; {6, 1} {8, 2} with first line 10 are bytes 0-5: line 10, 6-13: 11, from 14 on: 13.
 * From 3.6 on lines may go back.
 */
static struct python_position of_lnotab(struct cursor table, uint32_t line, uint32_t instruction,
					bool lines_go_back)
{
	uint32_t start = 0;
	for (; table.end - table.next >= 2; table.next += 2) {
		start += table.next[0];
		if (start > instruction)
			break;
		line += lines_go_back ? (uint32_t)(int32_t)(int8_t)table.next[1] : table.next[1];
	}
	return on_line(line);
}

/*
 * CPython 3.10 Objects/codeobject.c, PyLineTable_NextAddressRange: pairs of bytes {size, delta};
 * {6, 1} {4, -128} {2, -1} with first line 10 are bytes 0-5: line 11, 6-9: no line, 10-11: 10.
 */
static struct python_position of_310(struct cursor table, uint32_t line, uint32_t instruction)
{
	uint32_t end = 0;
	for (; table.end - table.next >= 2; table.next += 2) {
		int8_t delta = (int8_t)table.next[1];
		end += table.next[0];
		if (delta != -128)
			line += (uint32_t)(int32_t)delta;
		if (instruction < end)
			return delta == -128 ? NOWHERE : on_line(line);
	}
	return NOWHERE;
}

static uint32_t read_byte(struct cursor *table)
{
	return table->next < table->end ? *table->next++ : 0;
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

/* An entry's form, 3.11+. */
enum { ONE_LINE = 10, ONE_LINE_LAST = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };

/* What follows an entry's first byte; *line goes on from entry to entry. */
static struct python_position read_entry(struct cursor *table, unsigned form, uint32_t *line)
{
	uint32_t byte;
	if (form == NONE)
		return NOWHERE;
	if (form >= ONE_LINE && form <= ONE_LINE_LAST)
		*line += form - ONE_LINE;
	else if (form == NO_COLUMNS || form == LONG)
		*line += read_svarint(table);
	struct python_position position = {(int32_t)*line, (int32_t)*line, -1, -1};
	if (form < ONE_LINE) {
		byte = read_byte(table);
		position.column = (int32_t)(form << 3 | byte >> 4);
		position.end_column = position.column + (int32_t)(byte & 15);
	} else if (form <= ONE_LINE_LAST) {
		position.column = (int32_t)read_byte(table);
		position.end_column = (int32_t)read_byte(table);
	} else if (form == LONG) {
		position.end_line = (int32_t)(*line + read_varint(table));
		position.column = (int32_t)(read_varint(table) - 1);
		position.end_column = (int32_t)(read_varint(table) - 1);
	}
	return position;
}

/*
 * CPython 3.11 Objects/locations.md: each entry starts with 1CCCCNNN: N + 1 code units of form C.
 * 0x83 0x2c: form 0, 4 units, columns in one byte; 0xe8 0x05: form 13, 1 unit, line - 2.
 */
static struct python_position of_311(struct cursor table, uint32_t line, uint32_t instruction)
{
	uint32_t end = 0;
	while (table.next < table.end) {
		uint8_t first = *table.next++;
		end += ((first & 7u) + 1) * 2;
		struct python_position position = read_entry(&table, first >> 3 & 15, &line);
		if (instruction < end)
			return position;
		/* To the next entry: its first byte alone has bit 7. */
		while (table.next < table.end && !(*table.next & 0x80))
			table.next++;
	}
	return NOWHERE;
}

struct python_position python_position_of(enum python_line_format format, const uint8_t *table,
					  size_t size, int32_t first_line, int32_t instruction)
{
	struct cursor cursor = {table, table + size};
	uint32_t line = (uint32_t)first_line, at = (uint32_t)instruction;
	if (instruction < 0)
		return on_line(line);
	switch (format) {
	case PYTHON_LINES_UNSIGNED:
	case PYTHON_LINES_SIGNED:
		return of_lnotab(cursor, line, at, format == PYTHON_LINES_SIGNED);
	case PYTHON_LINES_310:
		return of_310(cursor, line, at);
	case PYTHON_LINES_311:
		return of_311(cursor, line, at);
	}
	return NOWHERE;
}

int32_t python_line_of(enum python_line_format format, const uint8_t *table, size_t size,
		       int32_t first_line, int32_t instruction)
{
	return python_position_of(format, table, size, first_line, instruction).line;
}
