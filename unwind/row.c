/* SPDX-License-Identifier: MIT */
/*
 * From a PC to the rule for stepping out of it, as libunwind's register state. libunwind makes the
 * state (unw_reg_states_iterate), once for all addresses of a function that it holds for, and
 * applies it (unw_apply_reg_state); the cache between the two is ours: unw_step's own takes a lock
 * and masks all signals, twice a frame, and its hash is cut to 8 bits (src/dwarf/Gparser.c,
 * unw_hash_index_t), so that large sizes are chains of hundreds; and unw_step guesses by RBP where
 * there is no information. Relies on frame_index.c for the FDE, on cfi.c for its harmlessness, on
 * space.c for its bytes.
 */
#include "unwind/internal.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "base/table.h"

/* At most so many rows are kept; then all are made anew. */
#define ROW_LIMIT 16384

struct wanted {
	struct unwinder *unwinder;
	remote_addr address;
	struct unwind_row *row;
	remote_addr start, end; /* the addresses that it holds for */
	bool found;
};

/*
 * 184 bytes on x86-64; 328 when libunwind is built for the Microsoft ABI, too. Most of a program's
 * PCs share one of a few hundred states: each is kept once.
 */
static void *keep_state(struct unwinder *unwinder, const void *state, size_t size)
{
	if (!unwinder->store.states) {
		unwinder->store.state_size = size;
		unwinder->store.states = alloc_zeroed(ROW_LIMIT, size);
	}
	if (size != unwinder->store.state_size)
		return NULL;
	const uint64_t hash = hash_bytes(state, size);
	struct id_search search = id_table_search(&unwinder->store.state_ids, hash);
	uint32_t id;
	while (id_table_next(&unwinder->store.state_ids, &search, &id))
		if (memcmp(unwinder->store.states + id * size, state, size) == 0)
			return unwinder->store.states + id * size;
	if (unwinder->store.state_count == ROW_LIMIT)
		return NULL;
	id = unwinder->store.state_count++;
	id_table_add(&unwinder->store.state_ids, hash, id);
	return memcpy(unwinder->store.states + id * size, state, size);
}

static int take_state(void *token, void *state, size_t size, unw_word_t start, unw_word_t end)
{
	struct wanted *const wanted = token;
	if (wanted->address < start || wanted->address >= end)
		return 0;
	wanted->row->state = keep_state(wanted->unwinder, state, size);
	wanted->found = wanted->row->state != NULL;
	wanted->start = start;
	wanted->end = end;
	return -UNW_ESTOPUNWIND;
}

/* How many ranges start at or before the address. */
static size_t ranges_until(const struct unwinder *unwinder, remote_addr address)
{
	return upper_bound(unwinder->store.ranges, unwinder->store.range_count,
			   sizeof(*unwinder->store.ranges), offsetof(struct row_range, start),
			   address);
}

static void add_range(struct unwinder *unwinder, remote_addr start, remote_addr end, uint32_t row)
{
	if (end <= start || end - start > UINT32_MAX || unwinder->store.range_count == ROW_LIMIT)
		return;
	if (!unwinder->store.ranges)
		unwinder->store.ranges = alloc_zeroed(ROW_LIMIT, sizeof(*unwinder->store.ranges));
	const size_t at = ranges_until(unwinder, start);
	struct row_range *const place = &unwinder->store.ranges[at];
	memmove(place + 1, place, (unwinder->store.range_count - at) * sizeof(*place));
	*place = (struct row_range){start, (uint32_t)(end - start), row};
	unwinder->store.range_count++;
}

/* A row of the same FDE that holds for this address, too. */
static bool find_range(const struct unwinder *unwinder, const struct cfi_fde *fde,
		       remote_addr address, uint32_t *row)
{
	const size_t count = ranges_until(unwinder, address);
	const struct row_range *const range = count ? &unwinder->store.ranges[count - 1] : NULL;
	if (!range || address - range->start >= range->size ||
	    unwinder->store.rows[range->row].function != fde->start)
		return false;
	*row = range->row;
	return true;
}

/* Has libunwind run the FDE's program up to the address. */
static bool make_state(struct unwinder *unwinder, const struct cfi_section *section,
		       const struct cfi_fde *fde, const struct cfi_verdict *verdict,
		       remote_addr address, struct unwind_row *row)
{
	struct wanted wanted = {.unwinder = unwinder, .address = address, .row = row};
	const struct registers saved = unwinder->registers;
	unw_cursor_t cursor;
	unwinder->registers.value[REGISTER_RIP] = address;
	unwinder->registers.known |= 1 << REGISTER_RIP | 1 << REGISTER_RSP;
	unwinder->building = section;
	unwinder->building_verdict = verdict;
	unwinder->building_fde = section->start + fde->offset;
	if (unw_init_remote(&cursor, unwinder->space, unwinder) == 0)
		unw_reg_states_iterate(&cursor, take_state, &wanted);
	unwinder->building = NULL;
	unwinder->registers = saved;
	if (wanted.found)
		add_range(unwinder, wanted.start, wanted.end,
			  (uint32_t)(row - unwinder->store.rows));
	return wanted.found;
}

/* ROW_FOUND: *fde, in *section, is the address's; else why there is none. */
static enum row_kind find_fde(const struct unwinder *unwinder, remote_addr address,
			      struct cfi_fde *fde, const struct cfi_section **section)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, address);
	if (!mapping)
		return ROW_UNMAPPED;
	if (!(mapping->protection & PROT_EXEC))
		return ROW_NOT_CODE;
	if (!mapping->module)
		return ROW_NO_INFO;
	const uint64_t vaddr = address - mapping->module->load_bias;
	if (mapping->module->record)
		module_record_pc(mapping->module->record, vaddr);
	return frame_index_find(mapping->module, vaddr, fde, section) ? ROW_FOUND : ROW_NO_INFO;
}

static bool make_row(struct unwinder *unwinder, remote_addr address,
		     const struct cfi_section *section, const struct cfi_fde *fde,
		     struct unwind_row *row)
{
	struct cfi_verdict verdict;
	*row = (struct unwind_row){.kind = ROW_FOUND, .function = fde->start};
	if (!cfi_check(section, fde, &verdict) ||
	    !make_state(unwinder, section, fde, &verdict, address, row))
		return false;
	row->signal_frame = fde->signal_frame;
	row->moves_sp = verdict.moves_sp;
	row->section = verdict.expressions ? section : NULL;
	return true;
}

/* The index of a row, or ROW_LIMIT and why there is none. */
static uint32_t make_answer(struct unwinder *unwinder, remote_addr address)
{
	const struct cfi_section *section;
	struct cfi_fde fde;
	uint32_t i;
	const enum row_kind kind = find_fde(unwinder, address, &fde, &section);
	if (kind != ROW_FOUND)
		return ROW_LIMIT + (uint32_t)kind;
	if (find_range(unwinder, &fde, address, &i))
		return i;
	if (unwinder->store.row_count == ROW_LIMIT)
		rows_flush(unwinder);
	if (!unwinder->store.rows)
		unwinder->store.rows = alloc_zeroed(ROW_LIMIT, sizeof(*unwinder->store.rows));
	i = (uint32_t)unwinder->store.row_count;
	if (!make_row(unwinder, address, section, &fde, &unwinder->store.rows[i]))
		return ROW_LIMIT + ROW_BAD;
	unwinder->store.row_count++;
	return i;
}

const struct unwind_row *row_find(struct unwinder *unwinder, remote_addr address)
{
	static const struct unwind_row none[] = {[ROW_NO_INFO] = {.kind = ROW_NO_INFO},
						 [ROW_NOT_CODE] = {.kind = ROW_NOT_CODE},
						 [ROW_UNMAPPED] = {.kind = ROW_UNMAPPED},
						 [ROW_BAD] = {.kind = ROW_BAD}};
	uint32_t i;
	if (!cache_table_find(&unwinder->answers, address, ANSWER_ROW, &i)) {
		i = make_answer(unwinder, address);
		cache_table_put(&unwinder->answers, address, ANSWER_ROW, i);
	}
	return i < ROW_LIMIT ? &unwinder->store.rows[i] : &none[i - ROW_LIMIT];
}

void rows_flush(struct unwinder *unwinder)
{
	analysis_flush(unwinder);
	cache_table_clear(&unwinder->answers);
	id_table_clear(&unwinder->store.state_ids);
	unwinder->store.row_count = unwinder->store.range_count = unwinder->store.state_count = 0;
}
