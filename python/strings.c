/* SPDX-License-Identifier: MIT */
/*
 * str objects of the target into clean UTF-8. CPython Include/cpython/unicodeobject.h: text is
 * kept in 1, 2 or 4 bytes a code point, behind a header whose size depends on whether
 * it is all ASCII, or elsewhere behind a pointer (not compact).
 */
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "python/internal.h"

/* PyASCIIObject.state, 3.3 to 3.13 and 3.14 with a GIL. */
enum { KIND_SHIFT = 2, KIND_MASK = 7, COMPACT = 1 << 5, ASCII = 1 << 6 };

struct text_place {
	remote_addr data;
	size_t size; /* bytes, a multiple of kind */
	unsigned kind;
};

static bool find_text(const struct python_layout *layout, const struct memory_reader *memory,
		      remote_addr object, struct text_place *place, struct error *error)
{
	uint8_t header[MAX_RECORD];
	if (!memory_read(memory, object, header, layout->unicode_ascii_size, error))
		return false;
	uint64_t length = field_u64(header, layout->unicode_length);
	uint32_t state = field_u32(header, layout->unicode_state);
	unsigned kind = state >> KIND_SHIFT & KIND_MASK;
	if (kind != 1 && kind != 2 && kind != 4)
		return error_set(error, ERROR_CORRUPT, "not a string at %#llx",
				 (unsigned long long)object);
	place->kind = kind;
	place->size = length > MAX_STRING / kind ? MAX_STRING : length * kind;
	if ((state & COMPACT) && (state & ASCII))
		place->data = object + layout->unicode_ascii_size;
	else if (state & COMPACT)
		place->data = object + layout->unicode_compact_size;
	else
		return memory_read_u64(memory, object + layout->unicode_data, &place->data, error);
	return true;
}

static uint32_t code_point_at(const uint8_t *bytes, unsigned kind)
{
	return kind == 1   ? bytes[0]
	       : kind == 2 ? bytes[0] | (uint32_t)bytes[1] << 8
			   : bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
				     (uint32_t)bytes[3] << 24;
}

bool python_string_read(const struct python_layout *layout, const struct memory_reader *memory,
			remote_addr object, struct strbuf *text, struct error *error)
{
	struct text_place place;
	if (!find_text(layout, memory, object, &place, error))
		return false;
	if (place.size == 0)
		return true;
	_cleanup_strbuf_ struct strbuf raw;
	strbuf_init(&raw);
	uint8_t small[512];
	_cleanup_free_ uint8_t *large = NULL;
	uint8_t *bytes = small;
	if (place.size > sizeof(small))
		bytes = large = alloc_zeroed(place.size, 1);
	if (!memory_read(memory, place.data, bytes, place.size, error))
		return false;
	for (size_t i = 0; i < place.size; i += place.kind)
		utf8_add_code_point(&raw, code_point_at(bytes + i, place.kind));
	utf8_add_clean(text, raw.text, raw.size);
	return true;
}
