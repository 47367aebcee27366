/* SPDX-License-Identifier: MIT */
/*
 * From a PC to the rule for stepping out of it, as libunwind's register state. libunwind makes the
 * state (unw_reg_states_iterate) and applies it (unw_apply_reg_state);
 * the cache between the two is ours: unw_step's own takes a lock and masks all signals, twice a
 * frame, and its hash is cut to 8 bits (src/dwarf/Gparser.c, unw_hash_index_t), so that large
 * sizes are chains of hundreds; and unw_step guesses by RBP where there is no information.
 * Relies on frame_index.c for the FDE, on cfi.c for its harmlessness, on space.c for its bytes.
 */
#include "unwind/internal.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

/* At most so many rows are kept; then all are made anew. */
#define ROW_LIMIT 16384

/* ... and so many entries of their table, with row_answer_put's: its size is then 1.5 MB. */
#define INDEX_LIMIT (3 * ROW_LIMIT)

struct wanted {
	struct unwinder *unwinder;
	remote_addr address;
	struct unwind_row *row;
	bool found;
};

/*
 * 184 bytes on x86-64; 328 when libunwind is built for the Microsoft ABI, too. Most of a program's
 * PCs share one of a few hundred states: each is kept once.
 */
static void *keep_state(struct unwinder *unwinder, const void *state, size_t size)
{
	if (!unwinder->states) {
		unwinder->state_size = size;
		unwinder->states = alloc_zeroed(ROW_LIMIT, size);
	}
	if (size != unwinder->state_size)
		return NULL;
	const uint64_t hash = hash_bytes(state, size);
	struct id_search search = id_table_search(&unwinder->state_ids, hash);
	uint32_t id;
	while (id_table_next(&unwinder->state_ids, &search, &id))
		if (memcmp(unwinder->states + id * size, state, size) == 0)
			return unwinder->states + id * size;
	if (unwinder->state_count == ROW_LIMIT)
		return NULL;
	id = unwinder->state_count++;
	id_table_add(&unwinder->state_ids, hash, id);
	return memcpy(unwinder->states + id * size, state, size);
}

static int take_state(void *token, void *state, size_t size, unw_word_t start, unw_word_t end)
{
	struct wanted *const wanted = token;
	if (wanted->address < start || wanted->address >= end)
		return 0;
	wanted->row->state = keep_state(wanted->unwinder, state, size);
	wanted->found = wanted->row->state != NULL;
	return -UNW_ESTOPUNWIND;
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
	return wanted.found;
}

static void make_row(struct unwinder *unwinder, remote_addr address, struct unwind_row *row)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, address);
	const struct cfi_section *section;
	struct cfi_fde fde;
	struct cfi_verdict verdict;
	row->section = NULL;
	row->signal_frame = false;
	row->function = 0;
	row->kind = ROW_UNMAPPED;
	if (!mapping)
		return;
	row->kind = ROW_NOT_CODE;
	if (!(mapping->protection & PROT_EXEC))
		return;
	row->kind = ROW_NO_INFO;
	if (!mapping->module ||
	    !frame_index_find(mapping->module, address - mapping->module->load_bias, &fde,
			      &section))
		return;
	row->kind = ROW_BAD;
	if (!cfi_check(section, &fde, &verdict) ||
	    !make_state(unwinder, section, &fde, &verdict, address, row))
		return;
	row->kind = ROW_FOUND;
	row->function = fde.start;
	row->signal_frame = fde.signal_frame;
	row->section = verdict.expressions ? section : NULL;
}

const struct unwind_row *row_find(struct unwinder *unwinder, remote_addr address)
{
	uint32_t i;
	if (table_find(&unwinder->row_index, address, ROW_KEY_ROW, &i))
		return &unwinder->rows[i];
	if (unwinder->row_count == ROW_LIMIT || unwinder->row_index.count >= INDEX_LIMIT)
		rows_flush(unwinder);
	if (!unwinder->rows)
		unwinder->rows = alloc_zeroed(ROW_LIMIT, sizeof(*unwinder->rows));
	struct unwind_row *const row = &unwinder->rows[unwinder->row_count];
	make_row(unwinder, address, row);
	table_put(&unwinder->row_index, address, ROW_KEY_ROW, unwinder->row_count++);
	return row;
}

void rows_flush(struct unwinder *unwinder)
{
	table_clear(&unwinder->row_index);
	id_table_clear(&unwinder->state_ids);
	unwinder->row_count = unwinder->state_count = 0;
}

void row_answer_put(struct unwinder *unwinder, remote_addr address, uint64_t key, uint32_t answer)
{
	if (unwinder->row_index.count >= INDEX_LIMIT)
		rows_flush(unwinder);
	table_put(&unwinder->row_index, address, key, answer);
}
