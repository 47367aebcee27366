/* SPDX-License-Identifier: MIT */
/*
 * From a function's language-specific data area (LSDA) to where exceptions land in it. Of GCC's
 * form, which C++, C with cleanups, Rust and others share: where landing pads are counted from, an
 * offset to types, then the call sites:
 *
 *     ff 9b 19 01 0c  1c 05 00 00  21 2f 6b 00 ...
 *     |  |  |  |  |   +- from byte 0x1c of the function on 5 bytes: no pad, no action
 *     |  |  |  |  +- bytes of call sites     +- from 0x21 on 0x2f bytes: the pad is at 0x6b
 *     |  |  |  +- the numbers are ULEB128
 *     |  |  +- offset of the types, which nobody needs here
 *     |  +- how types are kept; ff: there are none, and no offset
 *     +- how the place that pads are counted from is kept; ff: it is the function's start
 *
 * All bytes are hostile: sites are bounded, in order and within the function, or none counts.
 * Format: Itanium C++ ABI, "Exception Handling Tables"; Linux Standard Base, "DWARF Extensions".
 */
#include "elf/elf.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "elf/eh.h"

enum { SITES_BYTES = 1 << 18, STEP = 128 };

/* Some bytes at a time: a read may be a system call. */
struct window {
	const struct memory_reader *image;
	uint8_t bytes[STEP];
};

static uint64_t place_of(const struct eh_input *in)
{
	return in->address + in->at;
}

/* As many as there are: a segment may end. */
static void need_more(struct eh_input *in, size_t size)
{
	struct window *const window = in->source;
	if (in->end - in->at >= size)
		return;
	in->address += in->at;
	in->at = 0;
	in->end = STEP;
	while (in->end && !memory_read(window->image, in->address, window->bytes, in->end, NULL))
		in->end /= 2;
}

/* What pads are counted from: clang has it elsewhere where it keeps them in another section. */
static uint64_t take_base(struct eh_input *in, uint64_t start)
{
	const uint8_t encoding = eh_take(in, 1);
	if (encoding == DW_EH_PE_omit)
		return start;
	in->failed |= (encoding & DW_EH_PE_indirect) != 0;
	return eh_take_pointer(in, encoding);
}

/* False: nothing that follows counts. */
static bool take_site(struct eh_input *in, uint8_t encoding, uint64_t size,
		      struct elf_landing *site)
{
	const uint64_t from = eh_take_number(in, encoding);
	const uint64_t length = eh_take_number(in, encoding);
	site->pad = eh_take_number(in, encoding);
	eh_take_uleb(in); /* what is done there */
	site->start = from;
	site->end = from + length;
	return !in->failed && from <= size && length <= size - from;
}

static bool read_sites(struct elf_landings *landings, struct eh_input *in, uint64_t base,
		       uint64_t start, uint64_t size)
{
	const uint8_t encoding = eh_take(in, 1);
	const uint64_t bytes = eh_take_uleb(in);
	const uint64_t end = place_of(in) + bytes;
	uint64_t before = 0;
	struct elf_landing site;
	if (in->failed || bytes > SITES_BYTES)
		return false;
	while (place_of(in) < end) {
		if (!take_site(in, encoding, size, &site) || site.start < before)
			return false;
		before = site.end;
		if (!site.pad || site.start == site.end)
			continue;
		landings->items = alloc_room(landings->items, &landings->capacity,
					     landings->count + 1, sizeof(*landings->items));
		landings->items[landings->count++] =
			(struct elf_landing){start + site.start, start + site.end, base + site.pad};
	}
	return place_of(in) == end;
}

bool elf_landings_read(struct elf_landings *landings, const struct memory_reader *image,
		       uint64_t address, uint64_t start, uint64_t end)
{
	struct window window = {.image = image};
	struct eh_input in = {
		.bytes = window.bytes, .address = address, .need = need_more, .source = &window};
	const uint64_t base = take_base(&in, start);
	if (eh_take(&in, 1) != DW_EH_PE_omit)
		eh_take_uleb(&in); /* where the types are */
	if (end >= start && read_sites(landings, &in, base, start, end - start))
		return true;
	elf_landings_release(landings);
	return false;
}

void elf_landings_release(struct elf_landings *landings)
{
	free(landings->items);
	*landings = (struct elf_landings){0};
}

const struct elf_landing *elf_landings_find(const struct elf_landings *landings, uint64_t address)
{
	const size_t count = upper_bound(landings->items, landings->count, sizeof(*landings->items),
					 offsetof(struct elf_landing, start), address);
	const struct elf_landing *const found = count ? &landings->items[count - 1] : NULL;
	return found && address < found->end ? found : NULL;
}
