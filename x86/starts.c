/* SPDX-License-Identifier: MIT */
/*
 * Code without symbols and unwind information, from one address to another: where functions seem to
 * begin. A quarter of a megabyte takes some ms, and who guesses asks for the same again and again,
 * with another stack each time: so the answers are kept. They say what to try, not what is true.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"
#include "x86/x86.h"

enum { KEPT = 4096 };

struct x86_sweeps {
	struct table ids; /* (start, site) -> index */
	struct x86_starts *items;
	size_t count, capacity;
};

struct x86_sweeps *x86_sweeps_new(void)
{
	return alloc_zeroed(1, sizeof(struct x86_sweeps));
}

void x86_sweeps_free(struct x86_sweeps *sweeps)
{
	if (!sweeps)
		return;
	table_release(&sweeps->ids);
	free(sweeps->items);
	free(sweeps);
}

void x86_sweeps_clear(struct x86_sweeps *sweeps)
{
	table_clear(&sweeps->ids);
	sweeps->count = 0;
}

/* What the linker or the assembler puts between functions. */
static bool is_padding(const struct x86_instruction *instruction, const uint8_t *bytes)
{
	static const uint8_t zeros[2];
	return instruction->is_nop || bytes[0] == 0xcc || memcmp(bytes, zeros, 2) == 0;
}

static void note(struct x86_starts *found, uint64_t start, bool first)
{
	memmove(found->last + 1, found->last, (X86_STARTS - 1) * sizeof(*found->last));
	found->last[0] = start;
	if (first)
		found->first = start;
}

static void sweep(const struct memory_reader *code, uint64_t start, uint64_t site, bool ended,
		  struct x86_starts *found)
{
	uint8_t bytes[256 + X86_LENGTH];
	size_t have = 0, at = 0;
	bool began = false;
	while (start <= site) {
		struct x86_instruction instruction;
		if (have - at < X86_LENGTH) {
			have = sizeof(bytes);
			while (have && !memory_read(code, start, bytes, have, NULL))
				have /= 2;
			at = 0;
			if (have < 2)
				return;
		}
		if (!x86_decode(bytes + at, have - at, start, &instruction)) {
			start++;
			at++;
			ended = true;
			continue;
		}
		if (!is_padding(&instruction, bytes + at)) {
			if (ended && (start % 16 == 0 || !began))
				note(found, start, !began);
			began = true;
			ended = x86_is_end(&instruction) || instruction.flow == X86_JUMP;
		}
		start += instruction.length;
		at += instruction.length;
	}
}

const struct x86_starts *x86_sweeps_find(struct x86_sweeps *sweeps,
					 const struct memory_reader *code, uint64_t start,
					 uint64_t site, bool ended)
{
	uint32_t index;
	if (table_find(&sweeps->ids, start ^ ended, site, &index))
		return &sweeps->items[index];
	if (sweeps->count == KEPT)
		x86_sweeps_clear(sweeps);
	sweeps->items = alloc_room(sweeps->items, &sweeps->capacity, sweeps->count + 1,
				   sizeof(*sweeps->items));
	struct x86_starts *const found = &sweeps->items[sweeps->count];
	*found = (struct x86_starts){0};
	sweep(code, start, site, ended, found);
	table_put(&sweeps->ids, start ^ ended, site, (uint32_t)sweeps->count++);
	return found;
}
