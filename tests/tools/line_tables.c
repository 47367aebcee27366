/* SPDX-License-Identifier: MIT */
/*
 * Compares what python/lines.c makes of line tables with what their interpreter says, on standard
 * input:
 *
 *   code FORMAT FIRST_LINE TABLE NAME       the table in hexadecimal digits, "-" for none
 *   run START END STEP LINE END_LINE COLUMN END_COLUMN    of every STEP-th offset in [START, END)
 *   line OFFSET LINE                        asked in another way
 *
 * 0 is no line, -1 no column. Prints the first mismatches, then "CODES POSITIONS LARGEST WRONG".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "python/python.h"

enum { TOLD = 10 };

struct comparison {
	enum python_line_format format;
	int32_t first_line;
	uint8_t *table;
	size_t size, capacity;
	char name[200];
	unsigned long codes, positions, largest, wrong;
};

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_code(struct comparison *comparison, const char *line)
{
	int format, skipped = 0;
	if (sscanf(line, "code %d %d %n", &format, &comparison->first_line, &skipped) != 2)
		return false;
	const char *text = line + skipped;
	size_t digits = strcspn(text, " "), size = digits / 2;
	/* Of the exact size, so that a sanitizer sees a read past the end. */
	free(comparison->table);
	comparison->table = malloc(size ? size : 1);
	comparison->size = size;
	comparison->format = (enum python_line_format)format;
	for (size_t i = 0; i < size; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		comparison->table[i] = (uint8_t)(high << 4 | low);
	}
	snprintf(comparison->name, sizeof(comparison->name), "%s", text + digits);
	comparison->name[strcspn(comparison->name, "\n")] = '\0';
	comparison->codes++;
	if (size > comparison->largest)
		comparison->largest = size;
	return true;
}

static struct python_position position_at(const struct comparison *comparison, int32_t offset)
{
	return python_position_of(comparison->format, comparison->table, comparison->size,
				  comparison->first_line, offset);
}

static void tell(struct comparison *comparison, int32_t offset, const struct python_position *is,
		 const struct python_position *must)
{
	if (comparison->wrong++ >= TOLD)
		return;
	printf("%s, offset %d: (%d, %d, %d, %d), not (%d, %d, %d, %d)\n", comparison->name, offset,
	       is->line, is->end_line, is->column, is->end_column, must->line, must->end_line,
	       must->column, must->end_column);
}

static bool compare_run(struct comparison *comparison, const char *line)
{
	int32_t start, end, step;
	struct python_position must;
	if (sscanf(line, "run %d %d %d %d %d %d %d", &start, &end, &step, &must.line,
		   &must.end_line, &must.column, &must.end_column) != 7 ||
	    step < 1)
		return false;
	for (int32_t offset = start; offset < end; offset += step) {
		struct python_position is = position_at(comparison, offset);
		comparison->positions++;
		if (is.line != must.line || is.end_line != must.end_line ||
		    is.column != must.column || is.end_column != must.end_column)
			tell(comparison, offset, &is, &must);
	}
	return true;
}

static bool compare_line(struct comparison *comparison, const char *line)
{
	int32_t offset;
	struct python_position must = {0, 0, -1, -1};
	if (sscanf(line, "line %d %d", &offset, &must.line) != 2)
		return false;
	struct python_position is = {
		python_line_of(comparison->format, comparison->table, comparison->size,
			       comparison->first_line, offset),
		0, -1, -1};
	if (is.line != must.line)
		tell(comparison, offset, &is, &must);
	return true;
}

int main(void)
{
	struct comparison comparison = {0};
	char *line = NULL;
	size_t capacity = 0;
	bool ok = true;
	while (ok && getline(&line, &capacity, stdin) > 0)
		ok = line[0] == 'c'   ? read_code(&comparison, line)
		     : line[0] == 'r' ? compare_run(&comparison, line)
				      : compare_line(&comparison, line);
	if (!ok)
		printf("cannot be understood: %.100s\n", line);
	printf("%lu %lu %lu %lu\n", comparison.codes, comparison.positions, comparison.largest,
	       comparison.wrong);
	free(comparison.table);
	free(line);
	return ok && comparison.wrong == 0 ? 0 : 1;
}
