/* SPDX-License-Identifier: MIT */
/*
 * From an address to the function and the calls inlined into it, innermost first, each with its
 * file and line. The innermost line is that of the line table; each further out is the place of
 * the call (DW_AT_call_file, DW_AT_call_line) that the next level in has.
 */
#include <dwarf.h>
#include <string.h>

#include "symbolize/internal.h"

enum { MAX_DEPTH = 256 };

struct chain {
	Dwarf_Die dies[SYMBOLIZE_MAX_INLINE + 1]; /* outermost first; one more for its call site */
	size_t count;
};

/* Inlined calls may be within it, though it is none. */
static bool is_block(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

/* Follows the children that hold pc. True: something was found there. */
static bool descend(struct debug_info *info, Dwarf_Die *parent, uint64_t pc, struct chain *chain,
		    int depth)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || chain->count > SYMBOLIZE_MAX_INLINE || dwarf_child(parent, &die))
		return false;
	do {
		const int tag = dwarf_tag(&die);
		bool any = false;
		if (!debug_info_spend(info))
			return false;
		const bool inlined = tag == DW_TAG_inlined_subroutine;
		if (!inlined && !is_block(tag))
			continue;
		const bool inside = debug_info_has_pc(info, &die, pc, &any);
		if (inlined && inside) {
			chain->dies[chain->count++] = die;
			descend(info, &die, pc, chain, depth + 1);
			return true;
		}
		/* A block without ranges of its own may still hold inlined calls that have some. */
		if ((inside || (!inlined && !any)) && descend(info, &die, pc, chain, depth + 1))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

struct place {
	struct debug_info *info;
	struct interner *interner;
	const char *directory; /* DW_AT_comp_dir, as it is */
	size_t directory_size;
	const char *unit_name; /* DW_AT_name of the unit */
};

static struct place place_of_unit(struct debug_info *info, struct interner *interner,
				  struct unit *unit)
{
	struct place place = {.info = info, .interner = interner};
	Dwarf_Attribute attribute;
	size_t size;

	place.directory = debug_info_string(
		info, dwarf_formstring(dwarf_attr(&unit->die, DW_AT_comp_dir, &attribute)),
		&place.directory_size);
	place.unit_name = debug_info_string(
		info, dwarf_formstring(dwarf_attr(debug_info_root(unit), DW_AT_name, &attribute)),
		&size);
	if (place.unit_name && size == NAME_MAX_SIZE)
		place.unit_name = NULL;
	return place;
}

/*
 * libdw joins relative names with the unit's directory: "/build" and "pkg/mod.pyx" come as
 * "/build/pkg/mod.pyx". What DWARF has is wanted, so that directory goes again, unless the unit
 * itself was named so.
 */
static const char *file_name(const struct place *place, const char *file)
{
	const size_t size = place->directory ? place->directory_size : 0;

	if (!file)
		return NULL;
	const size_t file_size = strnlen(file, NAME_MAX_SIZE);
	if (!size || file_size <= size + 1 || memcmp(file, place->directory, size) ||
	    file[size] != '/' ||
	    (place->unit_name && strncmp(file, place->unit_name, file_size) == 0))
		return intern_clean(place->interner, file, file_size);
	return intern_clean(place->interner, file + size + 1, file_size - size - 1);
}

static void fill_line(const struct place *place, struct unit *unit, uint64_t pc,
		      struct symbolize_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, pc);
	int number;

	if (!line)
		return;
	frame->file = file_name(place, dwarf_linesrc(line, NULL, NULL));
	if (!dwarf_lineno(line, &number) && number > 0)
		frame->line = number;
}

/* Where the inlined call is in the code one level further out. */
static void fill_call_site(const struct place *place, struct unit *unit, Dwarf_Die *inlined,
			   struct symbolize_frame *frame)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number;
	Dwarf_Files *files;
	size_t count;

	if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) &&
	    !dwarf_getsrcfiles(&unit->die, &files, &count) && number < count)
		frame->file = file_name(place, dwarf_filesrc(files, number, NULL, NULL));
	if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &number) &&
	    number <= INT32_MAX)
		frame->line = (int)number;
}

static void fill_declared(const struct place *place, Dwarf_Die *function,
			  struct symbolize_frame *frame)
{
	int number;

	if (frame->file && !dwarf_decl_line(function, &number) && number > 0 &&
	    file_name(place, dwarf_decl_file(function)) == frame->file)
		frame->declared = number;
}

/* Frames of one unit; false: nothing of it is known there. */
static bool fill_frames(const struct place *place, struct unit *unit, uint64_t pc,
			Dwarf_Die *function, struct symbolize_result *result)
{
	struct chain chain = {.count = 0};

	if (function) {
		chain.dies[chain.count++] = *function;
		descend(place->info, function, pc, &chain, 0);
	}
	size_t count = chain.count ? chain.count : 1;
	const bool cut = count > SYMBOLIZE_MAX_INLINE;
	count -= cut;
	for (size_t i = 0; i < count; i++) {
		struct symbolize_frame *frame = &result->frames[i];
		*frame = (struct symbolize_frame){.inlined = i + 1 < count};
		if (place->directory)
			frame->directory = intern_clean(place->interner, place->directory,
							place->directory_size);
		if (i || cut)
			fill_call_site(place, unit, &chain.dies[count - i], frame);
		else
			fill_line(place, unit, pc, frame);
		if (!chain.count)
			continue;
		die_name_fill(place->info, place->interner, unit, &chain.dies[count - 1 - i],
			      frame);
		fill_declared(place, &chain.dies[count - 1 - i], frame);
	}
	result->count = count;
	return chain.count || result->frames[0].file;
}

/* By the unit that .debug_aranges names. Without a function there the index may know better. */
static bool resolve_hinted(struct debug_info *info, struct interner *interner, uint64_t pc,
			   struct symbolize_result *result)
{
	struct unit *unit = debug_info_hinted(info, pc);
	Dwarf_Die function;

	if (!unit || !debug_info_function(info, unit, pc, &function))
		return false;
	const struct place place = place_of_unit(info, interner, unit);
	fill_frames(&place, unit, pc, &function, result);
	return true;
}

void inline_chain_resolve(struct debug_info *info, struct interner *interner, uint64_t pc,
			  struct symbolize_result *result)
{
	size_t position = SIZE_MAX;
	struct unit *unit, *line_unit = NULL;

	result->count = 0;
	debug_info_refill(info);
	if (resolve_hinted(info, interner, pc, result))
		return;
	/* Where units overlap, one that has a function there is the better witness. */
	for (int i = 0; i < 8 && (unit = debug_info_unit(info, pc, &position)); i++) {
		const struct place place = place_of_unit(info, interner, unit);
		Dwarf_Die function;
		if (debug_info_function(info, unit, pc, &function)) {
			fill_frames(&place, unit, pc, &function, result);
			return;
		}
		if (!line_unit)
			line_unit = unit;
	}
	if (line_unit) {
		const struct place place = place_of_unit(info, interner, line_unit);
		if (!fill_frames(&place, line_unit, pc, NULL, result))
			result->count = 0;
	}
}
