/* SPDX-License-Identifier: MIT */
/* Strings of debug information, cut at the end of the section that they are in. */
#include <string.h>

#include "symbolize/internal.h"

/* libdw (0.188) does not see to it that a string ends before its section does. */
void debug_texts_init(struct debug_texts *texts, Elf *elf)
{
	static const char *const names[DEBUG_TEXTS] = {
		".debug_info", ".zdebug_info", ".debug_line_str", ".zdebug_line_str",
		".debug_str",  ".zdebug_str",  ".debug_info.dwo", ".debug_str.dwo",
	};

	for (int i = 0; i < DEBUG_TEXTS; i++)
		elf_section_bytes(elf, names[i], &texts->sections[i]);
}

size_t debug_texts_left(const struct debug_texts *texts, const char *text, size_t limit)
{
	const uintptr_t at = (uintptr_t)text;

	for (int i = 0; i < DEBUG_TEXTS; i++) {
		const uintptr_t start = (uintptr_t)texts->sections[i].data;
		const size_t size = texts->sections[i].size;
		if (at >= start && at - start < size && size - (at - start) < limit)
			limit = size - (at - start);
	}
	return limit;
}

const char *debug_info_string(const struct debug_info *info, const char *text, size_t *size)
{
	size_t limit = NAME_MAX_SIZE;

	if (!text)
		return NULL;
	limit = debug_texts_left(&info->texts, text, limit);
	limit = debug_texts_left(&info->alternate, text, limit);
	if (info->lazy)
		limit = lazy_dwarf_text(info->lazy, text, limit);
	if (info->split_texts)
		limit = debug_texts_left(info->split_texts, text, limit);
	*size = strnlen(text, limit);
	return *size ? text : NULL;
}
