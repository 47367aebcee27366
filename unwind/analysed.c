/* SPDX-License-Identifier: MIT */
/*
 * From an activation of code without unwind information to its caller, by what the code does: x86/
 * follows the function from its entry to the PC, or the code from the PC on to a return. Exact
 * where the entry is proven (a symbol, the end of the information before it, the target of a call,
 * the start of a buffer) and a call that may lead to it is before the return address. Where no
 * symbol is, the entry is looked for: see entries.c. Code of no file is read from the target: its
 * bytes are compared each time, as it may have been replaced.
 */
#include "unwind/internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/table.h"
#include "unwind/rows.h"

enum {
	FUNCTION_LIMIT = 1024,
	ANSWER_LIMIT = 8192,
	COMPARED_BYTES = 64 << 10, /* of code that may be replaced */
};

struct analysed_function {
	remote_addr entry;
	struct code_bounds bounds;
	uint64_t hash; /* of the bytes, where they may be replaced */
	bool partial;  /* not all of these could be read: to be analysed anew */
	struct x86_function *function;
};

/* What was found for a PC. */
struct answer {
	struct code_entry entry; /* address 0: by the returns that follow */
	remote_addr named;	 /* the function's entry, then; 0: not known */
	unsigned known;		 /* the registers that it was looked for with */
	bool found;
	struct x86_row row;
};

struct analysis {
	struct x86_decoder *decoder;
	struct x86_sweeps *sweeps;
	struct table function_ids; /* (entry, end) -> index */
	struct analysed_function *functions;
	size_t function_count, function_capacity;
	struct table answer_ids; /* (PC, is it a return address) -> index */
	struct answer *answers;
	size_t answer_count, answer_capacity;
};

void analysis_flush(struct unwinder *unwinder)
{
	struct analysis *const analysis = unwinder->analysis;
	if (!analysis)
		return;
	for (size_t i = 0; i < analysis->function_count; i++)
		x86_function_free(analysis->functions[i].function);
	analysis->function_count = analysis->answer_count = 0;
	table_clear(&analysis->function_ids);
	table_clear(&analysis->answer_ids);
	x86_sweeps_clear(analysis->sweeps);
}

void analysis_free(struct unwinder *unwinder)
{
	struct analysis *const analysis = unwinder->analysis;
	if (!analysis)
		return;
	analysis_flush(unwinder);
	table_release(&analysis->function_ids);
	table_release(&analysis->answer_ids);
	x86_sweeps_free(analysis->sweeps);
	x86_decoder_free(analysis->decoder);
	free(analysis->functions);
	free(analysis->answers);
	free(analysis);
	unwinder->analysis = NULL;
}

/* The activation whose caller is looked for. */
struct walk_place {
	const struct registers *registers;
	const struct module *module; /* NULL: code of no file */
	remote_addr pc;
	bool exact;
};

/* ---- the bytes ---- */

struct code_source {
	struct memory_reader reader;
	struct module *module;		  /* NULL: code of no file */
	const struct memory_reader *live; /* for that */
	struct unwinder *unwinder;
};

static bool read_code(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	const struct code_source *const source = (const struct code_source *)reader;
	if (source->module)
		return module_read(source->module, address - source->module->load_bias, buffer,
				   size, error);
	return row_read(source->unwinder, source->live, address, buffer, size, error);
}

static struct x86_code code_of(const struct code_source *source, const struct code_bounds *bounds)
{
	return (struct x86_code){.reader = &source->reader,
				 .start = bounds->start,
				 .end = bounds->end,
				 .decoder = source->unwinder->analysis->decoder};
}

static uint64_t hash_code(const struct code_source *source, uint64_t start, uint64_t end)
{
	if (end - start > COMPARED_BYTES)
		end = start + COMPARED_BYTES;
	uint8_t *const bytes = alloc_zeroed(end - start + 1, 1);
	const uint64_t hash = memory_read(&source->reader, start, bytes, end - start, NULL)
				      ? hash_bytes(bytes, end - start)
				      : 0;
	free(bytes);
	return hash;
}

/* ---- functions and rows ---- */

/* False: no unwind information begins at the entry, and so nothing says where exceptions land. */
static bool find_landings(const struct code_source *source, remote_addr entry,
			  struct landings *landings)
{
	const struct cfi_section *section;
	struct cfi_fde fde;
	if (!source->module ||
	    !frame_index_find(source->module, entry - source->module->load_bias, &fde, &section) ||
	    fde.start != entry)
		return false;
	landings_read(landings, &source->reader, section, &fde);
	return true;
}

static void analyse(struct analysed_function *function, const struct code_source *source)
{
	struct x86_code code = code_of(source, &function->bounds);
	struct landings landings = {0};
	const size_t unread = source->unwinder->unread;
	uint64_t start, end;
	if (find_landings(source, function->entry, &landings)) {
		code.lands = landings_find;
		code.context = &landings;
	}
	function->function = x86_function_new(&code, function->entry);
	landings_release(&landings);
	x86_function_range(function->function, &start, &end);
	if (!source->module)
		function->hash = hash_code(source, start, end);
	function->partial = source->unwinder->unread != unread;
}

static bool is_replaced(const struct analysed_function *function, const struct code_source *source)
{
	uint64_t start, end;
	if (source->module)
		return false;
	x86_function_range(function->function, &start, &end);
	return hash_code(source, start, end) != function->hash;
}

/* What was known of code that has been replaced is forgotten, with all the rest. */
static const struct analysed_function *find_function(struct unwinder *unwinder,
						     const struct code_source *source,
						     const struct code_entry *entry)
{
	struct analysis *const analysis = unwinder->analysis;
	uint32_t i;
	if (table_find(&analysis->function_ids, entry->address, entry->bounds.end, &i)) {
		struct analysed_function *const known = &analysis->functions[i];
		if (known->partial) {
			x86_function_free(known->function);
			analyse(known, source);
			return known;
		}
		if (!is_replaced(known, source))
			return known;
		analysis_flush(unwinder);
	}
	if (analysis->function_count == FUNCTION_LIMIT)
		analysis_flush(unwinder);
	analysis->functions =
		alloc_room(analysis->functions, &analysis->function_capacity,
			   analysis->function_count + 1, sizeof(*analysis->functions));
	i = (uint32_t)analysis->function_count++;
	analysis->functions[i] =
		(struct analysed_function){.entry = entry->address, .bounds = entry->bounds};
	analyse(&analysis->functions[i], source);
	table_put(&analysis->function_ids, entry->address, entry->bounds.end, i);
	return &analysis->functions[i];
}

/* Preferably by what is known in every frame. */
static bool row_of_function(const struct analysed_function *item, const struct code_source *source,
			    const struct walk_place *place, struct x86_row *row)
{
	const struct x86_code code = code_of(source, &item->bounds);
	const unsigned known = row_registers(place->registers);
	const unsigned kept = known & (X86_CALLEE_SAVED | X86_BIT(X86_RSP));
	return x86_function_row(item->function, &code, place->pc, !place->exact, kept, row) ||
	       (known != kept &&
		x86_function_row(item->function, &code, place->pc, !place->exact, known, row));
}

/* ---- calls before a return address ---- */

bool live_call_before(const struct unwinder *unwinder, remote_addr address)
{
	enum { LONGEST = 8 };
	uint8_t bytes[CODE_LIVE_BYTES];
	struct x86_instruction instruction;
	if (code_read_live(unwinder, address - LONGEST, bytes) < LONGEST)
		return false;
	for (size_t length = 2; length <= LONGEST; length++)
		if (x86_decode(bytes + LONGEST - length, length, address - length, &instruction) &&
		    instruction.length == length && instruction.flow == X86_CALL)
			return true;
	return false;
}

/* A call is before the return address, and it may have led to this function. */
static bool may_have_called(struct unwinder *unwinder, const struct walk_place *place,
			    remote_addr address, const struct code_entry *entry, bool *calls_entry)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, address - 1);
	remote_addr target = 0;
	*calls_entry = false;
	if (!mapping || !(mapping->protection & PROT_EXEC))
		return false;
	if (!mapping->module)
		return live_call_before(unwinder, address);
	switch (call_site_find(unwinder, place->module, address, &target)) {
	case CALL_UNKNOWN:
		return true;
	case CALL_TO:
		*calls_entry =
			target == entry->address ||
			(!entry->address && target >= entry->bounds.start && target <= place->pc);
		return *calls_entry || entry->stub || call_target_jumps(unwinder, target);
	case CALL_AWAY:
		return entry->stub;
	default:
		return false;
	}
}

/* ---- the entries, one after the other ---- */

struct search {
	struct unwinder *unwinder;
	struct code_source source;
	struct walk_place place;
	bool has_row;  /* an entry was found from which the code leads to the PC */
	size_t unread; /* reads that had failed before */
	struct analysed *result;
};

/* From the entry the code comes to the PC, with the return address where it was found. */
static bool agrees(struct search *search, const struct code_entry *entry, struct x86_row *row,
		   struct registers *caller)
{
	const struct analysed_function *const function =
		find_function(search->unwinder, &search->source, entry);
	return row_of_function(function, &search->source, &search->place, row) &&
	       row_apply(search->unwinder, row, search->place.registers, caller) &&
	       caller->value[REGISTER_RSP] == search->result->caller.value[REGISTER_RSP];
}

/*
 * Assembly has functions with several entries, of which padding shows the first, and functions
 * behind others without padding: from where the call before the return address leads to, the code
 * comes to the PC as well, with the return address in the same place. `entry`: the one that padding
 * shows, which is the function's name, or without an address.
 */
static bool try_called_entry(struct search *search, const struct code_entry *entry)
{
	struct analysed *const result = search->result;
	const remote_addr returns_to = result->caller.value[REGISTER_RIP];
	struct code_entry other = *entry;
	struct registers caller;
	struct x86_row row;
	if (!search->place.module ||
	    call_site_find(search->unwinder, search->place.module, returns_to, &other.address) !=
		    CALL_TO ||
	    other.address <= entry->address || other.address > search->place.pc ||
	    !agrees(search, &other, &row, &caller))
		return false;
	result->caller = caller;
	result->entry = entry->address ? entry->address : other.address;
	result->proven = true;
	result->only = false;
	return true;
}

static bool try_row(struct search *search, const struct code_entry *entry,
		    const struct x86_row *row)
{
	struct analysed *const result = search->result;
	bool calls_entry;
	search->has_row = true;
	if (!row_apply(search->unwinder, row, search->place.registers, &result->caller))
		return false;
	const bool may_have =
		may_have_called(search->unwinder, &search->place,
				result->caller.value[REGISTER_RIP], entry, &calls_entry);
	if (entry->address && !calls_entry && !(may_have && entry->proven) &&
	    try_called_entry(search, entry))
		return true;
	if (!may_have)
		return false;
	result->entry = entry->address;
	result->proven = entry->proven || calls_entry;
	result->only = entry->only && !entry->sizeless;
	return true;
}

static struct answer *find_answer(struct search *search)
{
	const struct analysis *const analysis = search->unwinder->analysis;
	uint32_t i;
	return table_find(&analysis->answer_ids, search->place.pc, search->place.exact, &i)
		       ? &analysis->answers[i]
		       : NULL;
}

static void keep_answer(struct search *search, const struct answer *answer)
{
	struct analysis *const analysis = search->unwinder->analysis;
	struct answer *const old = find_answer(search);
	if (old) {
		*old = *answer;
		return;
	}
	if (analysis->answer_count == ANSWER_LIMIT) {
		table_clear(&analysis->answer_ids);
		analysis->answer_count = 0;
	}
	analysis->answers = alloc_room(analysis->answers, &analysis->answer_capacity,
				       analysis->answer_count + 1, sizeof(*analysis->answers));
	analysis->answers[analysis->answer_count] = *answer;
	table_put(&analysis->answer_ids, search->place.pc, search->place.exact,
		  (uint32_t)analysis->answer_count++);
}

/* A read that failed may have decided. */
static bool is_certain(const struct search *search)
{
	return search->unwinder->unread == search->unread;
}

/* Preferably one that is proven. */
static bool try_entry(struct search *search, const struct code_entry *entry, bool proven)
{
	struct answer answer = {
		.entry = *entry, .known = row_registers(search->place.registers), .found = true};
	const struct analysed_function *const function =
		find_function(search->unwinder, &search->source, entry);
	if (!row_of_function(function, &search->source, &search->place, &answer.row))
		return false;
	const bool holds = try_row(search, entry, &answer.row);
	/* Where there can be no other it is kept, whatever is on the stack. */
	if (holds ? search->result->proven == proven && (entry->only || is_certain(search))
		  : entry->only)
		keep_answer(search, &answer);
	return holds && search->result->proven == proven;
}

/* Where the function begins of which the returns have told the caller, for its name; and where the
 * caller calls just that, what it leaves as it is. */
static void name_entry(struct search *search, const struct code_entries *entries,
		       struct x86_row *told)
{
	bool calls_entry;
	for (size_t i = 0; i < entries->count; i++) {
		struct x86_row row;
		struct registers caller;
		if (!agrees(search, &entries->items[i], &row, &caller))
			continue;
		search->result->entry = entries->items[i].address;
		if (!may_have_called(search->unwinder, &search->place, caller.value[REGISTER_RIP],
				     &entries->items[i], &calls_entry) ||
		    !calls_entry)
			return;
		told->kept = row.kept;
		search->result->caller = caller;
		return;
	}
}

/* Where padding shows no entry, the call before the return address may: this sample's, so that
 * nothing is kept. */
static void name_by_call(struct search *search, const struct code_bounds *around)
{
	if (!search->result->entry)
		(void)try_called_entry(search, &(struct code_entry){.bounds = *around});
}

static bool try_epilogue(struct search *search, const struct code_entries *entries)
{
	const struct code_bounds *const bounds = &entries->around;
	const struct x86_code code = code_of(&search->source, bounds);
	struct answer answer = {.entry = {.bounds = *bounds, .proven = true},
				.known = row_registers(search->place.registers),
				.found = true};
	if (!x86_epilogue_row(&code, search->place.pc, answer.known, &answer.row) ||
	    !try_row(search, &answer.entry, &answer.row))
		return false;
	name_entry(search, entries, &answer.row);
	answer.named = search->result->entry;
	if (search->source.module && is_certain(search))
		keep_answer(search, &answer);
	name_by_call(search, bounds);
	return true;
}

static bool search_entries(struct search *search, const struct mapping *mapping)
{
	const remote_addr site = search->place.pc - !search->place.exact;
	struct code_entries entries;
	const struct entry_source code = {&search->source.reader,
					  search->unwinder->analysis->sweeps};
	entries_find(mapping, &code, site, &entries);
	for (size_t i = 0; i < entries.count; i++)
		if (try_entry(search, &entries.items[i], true))
			return true;
	if (try_epilogue(search, &entries))
		return true;
	for (size_t i = 0; i < entries.count; i++)
		if (try_entry(search, &entries.items[i], false))
			return true;
	return false;
}

/* What was found for this PC before; false: nothing is known, or it does not hold here. *final:
 * nothing else will. */
static bool try_answer(struct search *search, bool *final)
{
	const struct answer *answer = find_answer(search);
	const unsigned known = row_registers(search->place.registers);
	*final = answer && !answer->found && !(known & ~answer->known);
	if (!answer || !answer->found || answer->known & ~known)
		return false;
	const struct code_entry entry = answer->entry;
	const struct x86_row row = answer->row;
	const remote_addr named = answer->named;
	/* Forgets the answer where the code has been replaced. */
	if (entry.address)
		find_function(search->unwinder, &search->source, &entry);
	if (!find_answer(search))
		return false;
	*final = entry.only;
	if (!try_row(search, &entry, &row))
		return false;
	if (!entry.address) {
		search->result->entry = named;
		name_by_call(search, &entry.bounds);
	}
	return true;
}

/* The mapping that the PC is in; NULL: no code, or none that can be read. */
static const struct mapping *begin_search(struct unwinder *unwinder,
					  const struct registers *registers, bool exact,
					  struct analysed *result, struct search *search)
{
	const remote_addr pc = registers->value[REGISTER_RIP];
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc - !exact);
	if (!mapping || !(mapping->protection & PROT_EXEC) ||
	    (!mapping->module && !unwinder->request.code))
		return NULL;
	if (!unwinder->analysis) {
		unwinder->analysis = alloc_zeroed(1, sizeof(*unwinder->analysis));
		unwinder->analysis->decoder = x86_decoder_new();
		unwinder->analysis->sweeps = x86_sweeps_new(unwinder->analysis->decoder);
	}
	*search = (struct search){
		.unwinder = unwinder,
		.source = {.reader = {.read = read_code},
			   .module = mapping->module,
			   .live = unwinder->request.code,
			   .unwinder = unwinder},
		.unread = unwinder->unread,
		.place = {.registers = registers,
			  .module = mapping->module,
			  .pc = pc,
			  .exact = exact},
		.result = result,
	};
	return mapping;
}

bool analysed_return(struct unwinder *unwinder, const struct registers *registers, bool exact,
		     remote_addr end, struct analysed *result)
{
	struct search search;
	struct x86_row row;
	const struct mapping *const mapping =
		begin_search(unwinder, registers, exact, result, &search);
	if (!mapping)
		return false;
	const struct code_bounds bounds = {search.place.pc, end};
	const struct x86_code code = code_of(&search.source, &bounds);
	*result = (struct analysed){.proven = true, .only = true};
	return x86_epilogue_row(&code, search.place.pc, row_registers(registers), &row) &&
	       row_apply(unwinder, &row, registers, &result->caller);
}

bool analysed_register(struct unwinder *unwinder, const struct registers *registers, bool exact,
		       const struct code_bounds *function, int number, uint64_t *value, bool *frame)
{
	struct search search;
	struct x86_place place;
	struct analysed ignored;
	int x86 = 0;
	*frame = false;
	while (x86 < X86_REGISTERS && row_register_number(x86) != number)
		x86++;
	if (x86 == X86_REGISTERS || !begin_search(unwinder, registers, exact, &ignored, &search))
		return false;
	const struct code_entry entry = {.address = function->start, .bounds = *function};
	const struct x86_code code = code_of(&search.source, function);
	const unsigned kept = row_registers(registers) & (X86_CALLEE_SAVED | X86_BIT(X86_RSP));
	return x86_function_register(find_function(unwinder, &search.source, &entry)->function,
				     &code, search.place.pc, !exact, kept, (unsigned)x86, &place,
				     frame) &&
	       row_value(unwinder, registers, 0, &place, value);
}

bool analysed_may_call(struct unwinder *unwinder, const struct registers *registers, bool exact,
		       const struct code_bounds *function, remote_addr address, bool *calls_entry)
{
	struct search search;
	struct analysed ignored;
	const struct code_entry entry = {.address = function->start, .bounds = *function};
	return begin_search(unwinder, registers, exact, &ignored, &search) &&
	       may_have_called(unwinder, &search.place, address, &entry, calls_entry);
}

bool analysed_from(struct unwinder *unwinder, const struct registers *registers, bool exact,
		   remote_addr entry, struct analysed *result)
{
	struct search search;
	const struct mapping *const mapping =
		begin_search(unwinder, registers, exact, result, &search);
	if (!mapping || entry < mapping->start || entry >= mapping->end)
		return false;
	const struct code_entry given = {
		.address = entry, .bounds = {entry, mapping->end}, .proven = true};
	return try_entry(&search, &given, true);
}

bool analysed_caller(struct unwinder *unwinder, const struct registers *registers, bool exact,
		     struct analysed *result)
{
	struct search search;
	const struct mapping *const mapping =
		begin_search(unwinder, registers, exact, result, &search);
	bool final;
	if (!mapping)
		return false;
	if (try_answer(&search, &final))
		return true;
	if (final)
		return false;
	if (search_entries(&search, mapping))
		return true;
	/* Without a row it stays so; a row may hold on another stack. */
	if (mapping->module && !search.has_row)
		keep_answer(&search, &(struct answer){.known = row_registers(registers)});
	return false;
}
