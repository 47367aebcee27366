/* SPDX-License-Identifier: MIT */
/*
 * Code without symbols and unwind information, from one address to another: where functions seem to
 * begin. A quarter of a megabyte takes some ms, and who guesses asks for one site after the other:
 * what was found from an address on is kept, and goes on where it ended. It says what to try, not
 * what is true.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "base/table.h"
#include "x86/x86.h"

enum { MOST_SWEEPS = 4096, MOST_STARTS = 1 << 18 };

/* From one address on. */
struct sweep {
	uint64_t at;	/* what is next */
	uint64_t first; /* see struct x86_starts */
	bool ended, began;
	uint64_t *starts; /* in order */
	size_t count, capacity;
};

struct x86_sweeps {
	struct x86_decoder *decoder;
	struct table ids; /* (start, ended) -> index */
	struct sweep *items;
	size_t count, capacity;
	size_t starts; /* of all of them */
	struct x86_starts answer;
};

struct x86_sweeps *x86_sweeps_new(struct x86_decoder *decoder)
{
	struct x86_sweeps *const sweeps = alloc_zeroed(1, sizeof(*sweeps));
	sweeps->decoder = decoder;
	return sweeps;
}

void x86_sweeps_free(struct x86_sweeps *sweeps)
{
	if (!sweeps)
		return;
	x86_sweeps_clear(sweeps);
	table_release(&sweeps->ids);
	free(sweeps->items);
	free(sweeps);
}

void x86_sweeps_clear(struct x86_sweeps *sweeps)
{
	for (size_t i = 0; i < sweeps->count; i++)
		free(sweeps->items[i].starts);
	table_clear(&sweeps->ids);
	sweeps->count = sweeps->starts = 0;
}

/* What the linker or the assembler puts between functions. */
static bool is_padding(const struct x86_instruction *instruction, const uint8_t *bytes)
{
	static const uint8_t zeros[2];
	return instruction->is_nop || bytes[0] == 0xcc || memcmp(bytes, zeros, 2) == 0;
}

static void note(struct x86_sweeps *sweeps, struct sweep *sweep)
{
	sweep->starts = alloc_room(sweep->starts, &sweep->capacity, sweep->count + 1,
				   sizeof(*sweep->starts));
	sweep->starts[sweep->count++] = sweep->at;
	sweeps->starts++;
}

/* Until the site was looked at, too. */
static void go_on(struct x86_sweeps *sweeps, struct sweep *sweep, const struct memory_reader *code,
		  uint64_t site)
{
	uint8_t bytes[256 + X86_LENGTH];
	size_t have = 0, at = 0;
	while (sweep->at <= site) {
		struct x86_instruction instruction;
		if (have - at < X86_LENGTH) {
			have = sizeof(bytes);
			while (have && !memory_read(code, sweep->at, bytes, have, NULL))
				have /= 2;
			at = 0;
			if (have < 2)
				return;
		}
		if (!x86_decoder_read(sweeps->decoder, bytes + at, have - at, sweep->at,
				      &instruction)) {
			sweep->at++;
			at++;
			sweep->ended = true;
			continue;
		}
		if (!is_padding(&instruction, bytes + at)) {
			if (sweep->ended && (sweep->at % 16 == 0 || !sweep->began))
				note(sweeps, sweep);
			if (sweep->ended && !sweep->began)
				sweep->first = sweep->at;
			sweep->began = true;
			sweep->ended = x86_is_end(&instruction) || instruction.flow == X86_JUMP;
		}
		sweep->at += instruction.length;
		at += instruction.length;
	}
}

static struct sweep *need_sweep(struct x86_sweeps *sweeps, uint64_t start, bool ended)
{
	uint32_t index;
	if (table_find(&sweeps->ids, start, ended, &index))
		return &sweeps->items[index];
	if (sweeps->count == MOST_SWEEPS || sweeps->starts > MOST_STARTS)
		x86_sweeps_clear(sweeps);
	sweeps->items = alloc_room(sweeps->items, &sweeps->capacity, sweeps->count + 1,
				   sizeof(*sweeps->items));
	table_put(&sweeps->ids, start, ended, (uint32_t)sweeps->count);
	sweeps->items[sweeps->count] = (struct sweep){.at = start, .ended = ended};
	return &sweeps->items[sweeps->count++];
}

const struct x86_starts *x86_sweeps_find(struct x86_sweeps *sweeps,
					 const struct memory_reader *code, uint64_t start,
					 uint64_t site, bool ended)
{
	struct sweep *const sweep = need_sweep(sweeps, start, ended);
	struct x86_starts *const answer = &sweeps->answer;
	*answer = (struct x86_starts){0};
	go_on(sweeps, sweep, code, site);
	const size_t until =
		upper_bound(sweep->starts, sweep->count, sizeof(*sweep->starts), 0, site);
	for (size_t i = 0; i < X86_STARTS && i < until; i++)
		answer->last[i] = sweep->starts[until - 1 - i];
	if (sweep->first <= site)
		answer->first = sweep->first;
	answer->complete = sweep->at > site;
	return answer;
}
