/* SPDX-License-Identifier: MIT */
/* Prints every offset of every layout, "3.11 tstate.next 8", for tests/layouts to compare. */
#include <stdio.h>
#include <string.h>

#include "python/layout.h"

int main(void)
{
	size_t count;
	const struct python_layout_field *fields = python_layout_fields(&count);
	const struct python_layout *row;
	for (size_t i = 0; (row = python_layout_row(i)) != NULL; i++)
		for (size_t j = 0; j < count; j++) {
			uint16_t offset;
			memcpy(&offset, (const char *)row + fields[j].offset, sizeof(offset));
			if (offset != LAYOUT_ABSENT)
				printf("%u.%u%s %s %u\n", row->major, row->minor,
				       row->free_threaded ? "t" : "", fields[j].name, offset);
		}
	return 0;
}
