/* SPDX-License-Identifier: MIT */
/* The bytes of a function, read by pages: a read may be a system call. */
#include "x86/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void code_pages_init(struct code_pages *pages, const struct x86_code *code)
{
	*pages = (struct code_pages){.code = code, .lowest = UINT64_MAX};
}

void code_pages_release(struct code_pages *pages)
{
	for (size_t i = 0; i < pages->count; i++)
		free(pages->pages[i]);
	free(pages->pages);
	free(pages->instructions);
	pages->pages = NULL;
	pages->instructions = NULL;
	pages->count = pages->capacity = 0;
}

/* As many bytes as there are: a segment may end in the middle of a page. */
static size_t read_most(const struct memory_reader *reader, uint64_t address, uint8_t *bytes,
			size_t size)
{
	size_t done = 0;
	for (size_t step = size; step > 0; step /= 2)
		while (step <= size - done &&
		       memory_read(reader, address + done, bytes + done, step, NULL))
			done += step;
	return done;
}

static struct code_page *load_page(struct code_pages *pages, uint64_t address)
{
	struct code_page *const page = alloc_zeroed(1, sizeof(*page));
	const uint64_t from = address < pages->code->start ? pages->code->start : address;
	const uint64_t end = address + CODE_PAGE;
	const uint64_t until = end < pages->code->end ? end : pages->code->end;
	page->address = address;
	/* Below the code's start are zeros, which nobody decodes. */
	if (until > from)
		page->size = from - address +
			     read_most(pages->code->reader, from, page->bytes + (from - address),
				       until - from);
	pages->pages =
		alloc_room(pages->pages, &pages->capacity, pages->count + 1, sizeof(*pages->pages));
	pages->last = pages->count++;
	return pages->pages[pages->last] = page;
}

static struct code_page *find_page(struct code_pages *pages, uint64_t address)
{
	if (pages->count && pages->pages[pages->last]->address == address)
		return pages->pages[pages->last];
	for (size_t i = 0; i < pages->count; i++)
		if (pages->pages[i]->address == address)
			return pages->pages[pages->last = i];
	return pages->count < CODE_PAGES ? load_page(pages, address) : NULL;
}

static bool decode(struct code_pages *pages, const struct code_page *page, uint64_t address,
		   struct x86_instruction *instruction)
{
	const size_t offset = address - page->address;
	const uint8_t *bytes = page->bytes + offset;
	size_t size = page->size - offset;
	uint8_t both[2 * X86_LENGTH];
	if (size < X86_LENGTH && page->size == CODE_PAGE) {
		memcpy(both, bytes, size);
		const struct code_page *const next = find_page(pages, page->address + CODE_PAGE);
		const size_t more = !next ? 0 : next->size < X86_LENGTH ? next->size : X86_LENGTH;
		if (more)
			memcpy(both + size, next->bytes, more);
		bytes = both;
		size += more;
	}
	return x86_decoder_read(pages->code->decoder, bytes, size, address, instruction);
}

bool code_pages_decode(struct code_pages *pages, uint64_t address,
		       struct x86_instruction *instruction)
{
	const size_t offset = address % CODE_PAGE;
	if (address < pages->code->start || address >= pages->code->end)
		return false;
	struct code_page *const page = find_page(pages, address - offset);
	if (!page || offset >= page->size)
		return false;
	if (page->ids[offset]) {
		*instruction = pages->instructions[page->ids[offset] - 1];
		return true;
	}
	if (!decode(pages, page, address, instruction))
		return false;
	pages->instructions = alloc_room(pages->instructions, &pages->instruction_capacity,
					 pages->decoded + 1, sizeof(*pages->instructions));
	pages->instructions[pages->decoded++] = *instruction;
	page->ids[offset] = (uint32_t)pages->decoded;
	if (address < pages->lowest)
		pages->lowest = address;
	if (address + instruction->length > pages->highest)
		pages->highest = address + instruction->length;
	return true;
}

bool code_read_i32(const struct x86_code *code, uint64_t address, int32_t *value)
{
	return memory_read(code->reader, address, value, sizeof(*value), NULL);
}
