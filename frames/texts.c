/* SPDX-License-Identifier: MIT */
/* Texts of the target as frames show them, each made once. */
#include "frames/resolve.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "frames/short_file.h"

const char *resolver_shorten(struct resolver *resolver, const char *path)
{
	uint32_t index;
	if (table_find(&resolver->short_files, (uint64_t)(uintptr_t)path, 0, &index))
		return resolver->short_texts[index];
	resolver->short_texts =
		alloc_room(resolver->short_texts, &resolver->short_capacity,
			   resolver->short_count + 1, sizeof(*resolver->short_texts));
	index = (uint32_t)resolver->short_count++;
	resolver->short_texts[index] =
		intern_text(resolver->strings, short_file(resolver->target, path));
	table_put(&resolver->short_files, (uint64_t)(uintptr_t)path, 0, index);
	return resolver->short_texts[index];
}

const char *resolver_clean(struct resolver *resolver, const char *text)
{
	_cleanup_strbuf_ struct strbuf buffer;
	strbuf_init(&buffer);
	utf8_add_clean(&buffer, text, strlen(text));
	return intern_text(resolver->strings, buffer.text);
}
