/* SPDX-License-Identifier: MIT */
/*
 * str objects of the target into clean UTF-8. CPython 3.3+ Include/cpython/unicodeobject.h: text is
 * kept in 1, 2 or 4 bytes a code point, behind a header whose size depends on whether it is all
 * ASCII, or elsewhere behind a pointer (not compact). 2.7 has str, which is bytes, and unicode, a
 * pointer to code units of 2 or 4 bytes.
 */
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "python/internal.h"

/* What follows the interned state in PyASCIIObject.state, at the bit where the kind begins. */
enum { KIND_MASK = 7, COMPACT = 1 << 3, ASCII = 1 << 4 };

struct text_place {
	remote_addr data;
	size_t size;	/* bytes, a multiple of width */
	unsigned width; /* bytes a code unit */
	bool is_bytes;	/* of an encoding that nobody noted: UTF-8 nearly always */
};

static void set_size(struct text_place *place, uint64_t length, unsigned width)
{
	place->width = width;
	place->size = length > MAX_STRING / width ? MAX_STRING : length * width;
}

static bool no_string(remote_addr object, struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "not a string at %#llx", (unsigned long long)object);
}

uint64_t python_type_flags(const struct python_layout *layout, const struct memory_reader *memory,
			   remote_addr object)
{
	remote_addr type;
	uint64_t flags;
	if (!memory_read_u64(memory, object + layout->object_type, &type, NULL) || !type ||
	    !memory_read_u64(memory, type + layout->type_flags, &flags, NULL))
		return 0;
	return flags;
}

bool python_is_string(const struct python_layout *layout, const struct memory_reader *memory,
		      remote_addr object)
{
	uint64_t kinds = TYPE_UNICODE;
	if (layout->string_form == STRINGS_BYTES)
		kinds |= TYPE_BYTES;
	return python_type_flags(layout, memory, object) & kinds;
}

/* 2.7: the type tells str from unicode. */
static bool find_old_text(const struct python_layout *layout, const struct memory_reader *memory,
			  remote_addr object, struct text_place *place, struct error *error)
{
	remote_addr type;
	uint64_t flags, length;
	if (!memory_read_u64(memory, object + layout->object_type, &type, error) ||
	    !memory_read_u64(memory, type + layout->type_flags, &flags, error))
		return false;
	if (flags & TYPE_BYTES) {
		if (!memory_read_u64(memory, object + layout->object_var_size, &length, error))
			return false;
		set_size(place, length, 1);
		place->data = object + layout->bytes_data;
		place->is_bytes = true;
		return true;
	}
	if (!(flags & TYPE_UNICODE))
		return no_string(object, error);
	if (!memory_read_u64(memory, object + layout->unicode_length, &length, error))
		return false;
	set_size(place, length, layout->unicode_width);
	return memory_read_u64(memory, object + layout->unicode_data, &place->data, error);
}

/* Up to 3.11, text made by an old function of the C API stays wchar_t[] until somebody reads it. */
static bool find_wide_text(const struct python_layout *layout, const struct memory_reader *memory,
			   remote_addr object, struct text_place *place, struct error *error)
{
	uint64_t length;
	if (layout->unicode_wstr == LAYOUT_ABSENT)
		return no_string(object, error);
	if (!memory_read_u64(memory, object + layout->unicode_wstr_length, &length, error) ||
	    !memory_read_u64(memory, object + layout->unicode_wstr, &place->data, error))
		return false;
	set_size(place, length, sizeof(wchar_t));
	return place->data != 0 || no_string(object, error);
}

static bool find_text(const struct python_layout *layout, const struct memory_reader *memory,
		      remote_addr object, struct text_place *place, struct error *error)
{
	uint8_t header[MAX_RECORD];
	place->is_bytes = false;
	if (layout->string_form == STRINGS_BYTES)
		return find_old_text(layout, memory, object, place, error);
	if (!memory_read(memory, object, header, layout->unicode_ascii_size, error))
		return false;
	/* Before the kind stand two bits, or a byte, that say whether it is interned. */
	unsigned interned = layout->string_form == STRINGS_COMPACT_BYTE_STATE ? 8 : 2;
	uint32_t state = field_u32(header, layout->unicode_state) >> interned;
	unsigned kind = state & KIND_MASK;
	if (kind == 0 && !(state & COMPACT))
		return find_wide_text(layout, memory, object, place, error);
	if (kind != 1 && kind != 2 && kind != 4)
		return no_string(object, error);
	set_size(place, field_u64(header, layout->unicode_length), kind);
	if ((state & COMPACT) && (state & ASCII))
		place->data = object + layout->unicode_ascii_size;
	else if (state & COMPACT)
		place->data = object + layout->unicode_compact_size;
	else
		return memory_read_u64(memory, object + layout->unicode_data, &place->data, error);
	return true;
}

static uint32_t code_unit_at(const uint8_t *bytes, unsigned width)
{
	return width == 1   ? bytes[0]
	       : width == 2 ? bytes[0] | (uint32_t)bytes[1] << 8
			    : bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
				      (uint32_t)bytes[3] << 24;
}

/* PEP 383: a byte that is no valid text for the target's locale, as in names of files, is kept as
 * one of U+DC80 to U+DCFF. */
static bool is_escaped_byte(const struct python_layout *layout, uint32_t unit)
{
	return layout->string_form != STRINGS_BYTES && unit - 0xdc80 < 0x80;
}

/* Where code points above U+FFFF are two code units: only in 2.7, if it was built that way. */
static bool is_pair(uint32_t first, uint32_t second)
{
	return (first & 0xfffffc00) == 0xd800 && (second & 0xfffffc00) == 0xdc00;
}

static void add_units(const struct python_layout *layout, const uint8_t *bytes,
		      const struct text_place *place, struct strbuf *out)
{
	const bool pairs = layout->unicode_width == 2;
	for (size_t i = 0; i < place->size; i += place->width) {
		uint32_t unit = code_unit_at(bytes + i, place->width);
		if (pairs && i + 2 < place->size &&
		    is_pair(unit, code_unit_at(bytes + i + 2, place->width))) {
			i += 2;
			unit = 0x10000 + ((unit & 0x3ff) << 10 |
					  (code_unit_at(bytes + i, place->width) & 0x3ff));
		}
		if (is_escaped_byte(layout, unit))
			strbuf_add_char(out, (char)unit);
		else
			utf8_add_code_point(out, unit);
	}
}

static bool read_text(const struct python_layout *layout, const struct memory_reader *memory,
		      const struct text_place *place, struct strbuf *text, struct error *error)
{
	if (place->size == 0)
		return true;
	_cleanup_strbuf_ struct strbuf raw;
	strbuf_init(&raw);
	uint8_t small[512];
	_cleanup_free_ uint8_t *large = NULL;
	uint8_t *bytes = small;
	if (place->size > sizeof(small))
		bytes = large = alloc_zeroed(place->size, 1);
	if (!memory_read(memory, place->data, bytes, place->size, error))
		return false;
	if (place->is_bytes) {
		utf8_add_clean(text, bytes, place->size);
		return true;
	}
	/* Bytes become text here: what is not UTF-8 even so is replaced. */
	add_units(layout, bytes, place, &raw);
	utf8_add_clean(text, raw.text, raw.size);
	return true;
}

bool python_string_read(const struct python_layout *layout, const struct memory_reader *memory,
			remote_addr object, struct strbuf *text, struct error *error)
{
	struct text_place place;
	return find_text(layout, memory, object, &place, error) &&
	       read_text(layout, memory, &place, text, error);
}

bool python_string_is(const struct python_layout *layout, const struct memory_reader *memory,
		      remote_addr object, const char *wanted)
{
	struct text_place place;
	/* The length first: most differ in it, and cost one read then. */
	if (!find_text(layout, memory, object, &place, NULL) ||
	    place.size != strlen(wanted) * place.width || !python_is_string(layout, memory, object))
		return false;
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	return read_text(layout, memory, &place, &text, NULL) && strcmp(text.text, wanted) == 0;
}
