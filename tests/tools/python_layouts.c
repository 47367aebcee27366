/* SPDX-License-Identifier: MIT */
/*
 * Prints rows, for tests/layouts to compare: "3.13t tstate.next 8".
 *
 *   python_layouts [--header] [--change FIELD]    all; --header: as of builds with Py_TRACE_REFS;
 *                                                 --change: with FIELD 8 more than it is
 *   python_layouts --table FILE ROW               one, completed by the debug offsets in the file
 *   python_layouts --mutate FILE ROW              what comes of it for each byte of the file and
 * each value it may have: refused, or of no effect
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/internal.h"

enum { MAX_TABLE = 4096, RUNTIME = 4096 };

/* Behaviours that have a number, and 0 or 0xff for none. */
static const struct python_layout_field numbers[] = {
	{"unicode_width", offsetof(struct python_layout, unicode_width)},
	{"shim_owner", offsetof(struct python_layout, shim_owner)},
};

static uint16_t *field_of(struct python_layout *layout, const struct python_layout_field *field)
{
	return (uint16_t *)((char *)layout + field->offset);
}

static void print_row(struct python_layout *row)
{
	char name[16];
	size_t count;
	const struct python_layout_field *fields = python_layout_fields(&count);
	snprintf(name, sizeof(name), "%u.%u%s", row->major, row->minor,
		 row->free_threaded ? "t" : "");
	for (size_t i = 0; i < count; i++)
		if (*field_of(row, &fields[i]) != LAYOUT_ABSENT)
			printf("%s %s %u\n", name, fields[i].name, *field_of(row, &fields[i]));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		uint8_t number = *((uint8_t *)row + numbers[i].offset);
		if (number != 0 && number != 0xff)
			printf("%s %s %u\n", name, numbers[i].name, number);
	}
}

static void change(struct python_layout *row, const char *name)
{
	size_t count;
	const struct python_layout_field *fields = python_layout_fields(&count);
	for (size_t i = 0; i < count; i++)
		if (strcmp(fields[i].name, name) == 0)
			*field_of(row, &fields[i]) += 8;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (strcmp(numbers[i].name, name) == 0)
			*((uint8_t *)row + numbers[i].offset) += 8;
}

static int print_rows(bool header, const char *changed)
{
	const struct python_layout *row;
	for (size_t i = 0; (row = python_layout_row(i)) != NULL; i++) {
		struct python_layout copy = *row;
		if (header)
			python_layout_add_header(&copy, row->trace_refs);
		if (changed)
			change(&copy, changed);
		print_row(&copy);
	}
	return 0;
}

/* ---- debug offsets from a file ---- */

struct offsets_table {
	struct memory_reader reader;
	size_t size;
	uint8_t bytes[MAX_TABLE];
};

static bool read_table(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct offsets_table *table = (const struct offsets_table *)reader;
	if (address != RUNTIME || size > table->size)
		return error_set(error, ERROR_GONE, "not in the file");
	memcpy(buffer, table->bytes, size);
	return true;
}

static bool open_table(const char *path, struct offsets_table *table)
{
	FILE *file = fopen(path, "rb");
	if (!file)
		return false;
	table->reader.read = read_table;
	table->size = fread(table->bytes, 1, sizeof(table->bytes), file);
	return fclose(file) == 0 && table->size > 16;
}

static const struct python_layout *row_of(const char *name)
{
	unsigned major, minor;
	if (sscanf(name, "%u.%u", &major, &minor) != 2)
		return NULL;
	return python_layout_find(major, minor, name[strlen(name) - 1] == 't');
}

static bool apply(const struct offsets_table *table, uint32_t version, const char *row,
		  struct python_layout *layout, struct error *error)
{
	*layout = *row_of(row);
	return python_debug_offsets_apply(layout, &table->reader, RUNTIME, version, error);
}

static int print_completed(const struct offsets_table *table, uint32_t version, const char *row)
{
	struct python_layout layout;
	struct error error;
	if (!apply(table, version, row, &layout, &error))
		return fprintf(stderr, "python_layouts: %s\n", error.message), 1;
	print_row(&layout);
	return 0;
}

/* Tells of each wrong byte that changes what is read: there must be none. */
static int mutate(struct offsets_table *table, uint32_t version, const char *row)
{
	struct python_layout sound, layout;
	struct error error;
	size_t refused = 0, harmless = 0, wrong = 0;
	if (!apply(table, version, row, &sound, &error))
		return fprintf(stderr, "python_layouts: %s\n", error.message), 1;
	for (size_t at = 0; at < table->size; at++) {
		uint8_t right = table->bytes[at];
		for (unsigned value = 0; value < 256; value++) {
			if (value == right)
				continue;
			table->bytes[at] = (uint8_t)value;
			if (!apply(table, version, row, &layout, &error))
				refused++;
			else if (memcmp(&layout, &sound, sizeof(layout)) == 0)
				harmless++;
			else if (wrong++ < 20)
				printf("byte %zu = %u is taken\n", at, value);
		}
		table->bytes[at] = right;
	}
	printf("%zu bytes: %zu refused, %zu harmless, %zu wrong\n", table->size, refused, harmless,
	       wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	static struct offsets_table table;
	bool header = argc > 1 && strcmp(argv[1], "--header") == 0;
	bool mutation = argc == 4 && strcmp(argv[1], "--mutate") == 0;
	if (argc == 4 && (mutation || strcmp(argv[1], "--table") == 0)) {
		uint32_t version;
		if (!row_of(argv[3]) || !open_table(argv[2], &table))
			return fprintf(stderr, "python_layouts: no such row or file\n"), 2;
		memcpy(&version, table.bytes + 8, sizeof(version));
		return mutation ? mutate(&table, version, argv[3])
				: print_completed(&table, version, argv[3]);
	}
	int left = argc - 1 - header;
	if (left == 0)
		return print_rows(header, NULL);
	if (left == 2 && strcmp(argv[1 + header], "--change") == 0)
		return print_rows(header, argv[2 + header]);
	return fprintf(stderr, "usage: see tests/tools/python_layouts.c\n"), 2;
}
