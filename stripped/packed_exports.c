/* SPDX-License-Identifier: MIT */
/*
 * From the packed texts of a module made by Cython 3.3 to the names of the functions that it
 * exports for other such modules. All its strings are one text, compressed (LZSS); in there stand
 * the types of what it exports, then as many names, in the order of an array of functions:
 *
 *   ...double (double)\0\0float (float)\0__pyx_fuse_1half\0half[double]\0third\200...
 *   {half_1, half_1, third_0, NULL}
 *
 * An empty type is that of the one before. The names end where other constants begin.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "stripped/internal.h"
#include "x86/x86.h"

enum {
	LAYER_BODY = 6, /* as in struct cython_name */
	MAX_TEXT = 1 << 20,
	MAX_TRIES = 32,
	MAX_PIECES = 1 << 16,
	MAX_ARRAYS = 1 << 16,
	SURE_COUNT = 8, /* so many functions in a row are no other array */
};

/* ---- the text ----------------------------------------------------------------------------- */

struct unpacking {
	const uint8_t *source;
	size_t size, at;
	uint8_t *out;
	size_t out_size, done;
};

static uint32_t take(struct unpacking *unpacking)
{
	return unpacking->at < unpacking->size ? unpacking->source[unpacking->at++] : 0;
}

/* How far back from its own end, and how much: two or three bytes. */
static bool copy_match(struct unpacking *unpacking)
{
	const uint32_t first = take(unpacking), second = take(unpacking);
	uint32_t back = first, length = second;

	if (first & 0x80 && second & 0x80) {
		back = 0x80 + ((second & 0x7f) << 7 | (first & 0x7f));
		length = take(unpacking);
	} else if (first & 0x80) {
		back = 0x80 + ((second << 2 & 0x180) | (first & 0x7f));
		length = second & 0x1f;
	}
	length += 3;
	if (back + length > unpacking->done || length > unpacking->out_size - unpacking->done)
		return false;
	memcpy(unpacking->out + unpacking->done, unpacking->out + unpacking->done - back - length,
	       length);
	unpacking->done += length;
	return true;
}

/* Eight flags in a byte, lowest first: 1: a byte as it is, 0: a copy of what is before. */
static bool unpack(struct unpacking *unpacking)
{
	while (unpacking->done < unpacking->out_size && unpacking->at < unpacking->size) {
		uint32_t flags = take(unpacking);
		for (int i = 0; i < 8 && unpacking->done < unpacking->out_size; i++, flags >>= 1) {
			if (flags & 1)
				unpacking->out[unpacking->done++] = (uint8_t)take(unpacking);
			else if (!copy_match(unpacking))
				return false;
		}
	}
	return unpacking->done == unpacking->out_size;
}

/* The text if it is at that address and has the name of the dict in it; NULL: it does not. */
static char *unpack_at(const struct elf_image *image, uint64_t address, size_t size)
{
	static const char dict[] = "__pyx_capi__";
	struct unpacking unpacking = {.out_size = size};

	unpacking.source = image_bytes(image, address, &unpacking.size);
	if (!unpacking.source)
		return NULL;
	unpacking.out = alloc_zeroed(1, size + 1);
	if (unpack(&unpacking) && memmem(unpacking.out, size, dict, sizeof(dict) - 1))
		return (char *)unpacking.out;
	free(unpacking.out);
	return NULL;
}

/* The function that makes room for the text has the address of the packed one. */
static char *unpack_in(const struct elf_image *image, const struct interval *range, size_t size)
{
	struct x86_instruction instruction;
	size_t left;
	uint64_t at = range->start;
	const uint8_t *bytes = image_bytes(image, at, &left);
	char *text = NULL;

	if (bytes && left > range->end - at)
		left = range->end - at;
	for (int tries = 0; bytes && left && tries < MAX_TRIES && !text &&
			    x86_decode(bytes, left, at, &instruction);) {
		if (instruction.effect == X86_SET && instruction.value) {
			text = unpack_at(image, instruction.value, size);
			tries++;
		}
		bytes += instruction.length;
		left -= instruction.length;
		at += instruction.length;
	}
	return text;
}

/* ---- the names in it ---------------------------------------------------------------------- */

struct piece {
	const char *text;
	size_t size;
};

/* "half[double]", "third"; what follows the last one is cut off, and all of it if that is text. */
static bool read_name(const struct piece *piece, struct piece *found, bool *last)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	const size_t size = strnlen(piece->text, piece->size);
	size_t name = strspn(piece->text, letters);

	if (!name || (piece->text[0] >= '0' && piece->text[0] <= '9') || name > size)
		return false;
	if (piece->text[name] == '[') {
		const char *end = memchr(piece->text + name, ']', size - name);
		if (!end)
			return false;
		name = (size_t)(end - piece->text) + 1;
	}
	*last = name < size;
	found->text = piece->text;
	found->size = *last && !((uint8_t)piece->text[name] & 0x80) ? 0 : name;
	return true;
}

static bool ends_type(const struct piece *piece)
{
	return !piece->size || piece->text[piece->size - 1] == ')';
}

/* The names that begin with that piece; how many they are. */
static size_t read_names(const struct piece *pieces, size_t first, size_t count,
			 struct piece *names)
{
	bool last = false;
	size_t at = first;

	while (at < count && !last && read_name(&pieces[at], &names[at - first], &last))
		at++;
	return at - first;
}

/* As many types are before the names. */
static bool has_types(const struct piece *pieces, size_t first, size_t names)
{
	if (!names || names > first || !pieces[first - names].size)
		return false;
	for (size_t i = first - names; i < first; i++)
		if (!ends_type(&pieces[i]))
			return false;
	return true;
}

static size_t split(const char *text, size_t size, struct piece *pieces)
{
	size_t count = 0;

	for (size_t at = 0; at < size && count < MAX_PIECES; count++) {
		const size_t length = strnlen(text + at, size - at);
		pieces[count] = (struct piece){text + at, length};
		at += length + 1;
	}
	return count;
}

#define SEVERAL UINT32_MAX

/* ---- the functions ------------------------------------------------------------------------ */

/* Arrays of functions that 0 ends: by their length, where there is but one of it. */
struct arrays {
	struct table by_length; /* -> index of places, or SEVERAL */
	uint64_t *places;
	size_t count, capacity;
};

static void add_array(struct arrays *arrays, uint64_t place, size_t length)
{
	uint32_t index = (uint32_t)arrays->count;

	if (table_find(&arrays->by_length, length, 0, &index) || arrays->count >= MAX_ARRAYS) {
		table_put(&arrays->by_length, length, 0, SEVERAL);
		return;
	}
	arrays->places = alloc_room(arrays->places, &arrays->capacity, arrays->count + 1,
				    sizeof(*arrays->places));
	arrays->places[arrays->count++] = place;
	table_put(&arrays->by_length, length, 0, index);
}

static void find_arrays_in(struct arrays *arrays, const struct elf_image *image,
			   const struct image_segment *segment)
{
	size_t run = 0;

	for (uint64_t at = segment->start; segment->end - at >= 8; at += 8) {
		const uint64_t pointer = image_pointer(image, at);
		if (pointer && image_is_function(image, pointer)) {
			run++;
			continue;
		}
		if (run && !image_word(image, at))
			add_array(arrays, at - 8 * run, run);
		run = 0;
	}
}

static void find_arrays(struct arrays *arrays, const struct elf_image *image)
{
	*arrays = (struct arrays){.count = 0};
	table_init(&arrays->by_length);
	for (size_t i = 0; i < image->count; i++)
		if (image->segments[i].words)
			find_arrays_in(arrays, image, &image->segments[i]);
}

static void release_arrays(struct arrays *arrays)
{
	table_release(&arrays->by_length);
	free(arrays->places);
}

/* The only one of that length; 0: none, or several. */
static uint64_t array_of(const struct arrays *arrays, size_t length)
{
	uint32_t index;

	if (!table_find(&arrays->by_length, length, 0, &index) || index == SEVERAL)
		return 0;
	return arrays->places[index];
}

static struct function_name *function_at(struct function_names *functions,
					 const struct elf_image *image, uint64_t place)
{
	return &functions->items[interval_lower(&image->functions, image_pointer(image, place))];
}

/* What is known of them already has to agree. */
static bool agrees(struct function_names *functions, const struct elf_image *image,
		   const struct piece *names, size_t count, uint64_t array)
{
	size_t same = 0, other = 0;

	for (size_t i = 0; i < count; i++) {
		const struct function_name *function = function_at(functions, image, array + 8 * i);
		if (!function->name || function->uncertain || !names[i].size)
			continue;
		const size_t size = strcspn(function->name, "[ ");
		if (memmem(names[i].text, names[i].size, function->name, size))
			same++;
		else
			other++;
	}
	return other <= same / 8 && (same || count >= SURE_COUNT);
}

/* "half[float64_t *]" -> "half[float64_t]", "__pyx_fuse_1half" -> "half[1]" */
static const char *shown(struct interner *texts, const struct piece *piece)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text);
	for (size_t i = 0; i < piece->size; i++)
		if (piece->text[i] != '*' && piece->text[i] != ' ')
			strbuf_add_char(&text, piece->text[i]);
	return cython_shown_name(texts, text.text);
}

/* The types of a specialisation tell more than its number. */
static void name_function(struct function_names *functions, struct function_name *function,
			  const struct piece *piece)
{
	const bool typed = piece->size && piece->text[piece->size - 1] == ']';

	if (!piece->size)
		return;
	if (function->name && !function->uncertain &&
	    !(typed && function->evidence == EVIDENCE_EXPORT))
		return;
	*function = (struct function_name){.name = shown(functions->texts, piece),
					   .evidence = EVIDENCE_EXPORT,
					   .layer = LAYER_BODY};
}

/* What the module imports from others is in the text in the same way; but there no array of
 * functions fits. */
static void name_all(struct function_names *functions, const struct elf_image *image,
		     const char *text, size_t size)
{
	struct piece *pieces = alloc_zeroed(2 * MAX_PIECES, sizeof(*pieces));
	struct piece *const names = pieces + MAX_PIECES;
	const size_t count = split(text, size, pieces);

	struct arrays arrays;

	find_arrays(&arrays, image);
	for (size_t first = 1, found; first < count; first += found ? found : 1) {
		found = ends_type(&pieces[first - 1]) ? read_names(pieces, first, count, names) : 0;
		const uint64_t array =
			has_types(pieces, first, found) ? array_of(&arrays, found) : 0;
		if (!array || !agrees(functions, image, names, found, array))
			continue;
		for (size_t i = 0; i < found; i++)
			name_function(functions, function_at(functions, image, array + 8 * i),
				      &names[i]);
	}
	release_arrays(&arrays);
	free(pieces);
}

void packed_exports_add(struct function_names *functions, const struct elf_image *image,
			const struct code_facts *facts)
{
	for (size_t i = 0; i < facts->room_count; i++) {
		const struct text_room *room = &facts->rooms[i];
		if (!room->size || room->size > MAX_TEXT)
			continue;
		char *text = unpack_in(image, &image->functions.items[room->function],
				       (size_t)room->size);
		if (text)
			name_all(functions, image, text, (size_t)room->size);
		free(text);
	}
}
