/* SPDX-License-Identifier: MIT */
/*
 * From DWARF to two indexes: address -> unit, once for each module; address -> subprogram, once
 * for each unit that is asked for. Relies on libdw for the format. Every DIE looked at is paid
 * from a budget, so that no file, however its DIEs are linked, keeps us busy for long; no
 * recursion goes deeper than MAX_DEPTH.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "symbolize/internal.h"

enum { MAX_DEPTH = 256, MAX_UNITS = 1 << 20, MAX_RANGES = 1 << 20 };
/* About 2 s at once, and 0.2 ms more for each look-up, of which a usual one takes 60 DIEs. */
static const uint64_t BUDGET = 20000000, BUDGET_FOR_LOOKUP = 2000;

void debug_info_init(struct debug_info *info, Dwarf *dwarf, Elf *elf, struct lazy_dwarf *lazy,
		     const char *path, struct foreign_root root)
{
	struct elf_bytes bytes;

	*info = (struct debug_info){.dwarf = dwarf,
				    .elf = elf,
				    .lazy = lazy,
				    .path = path,
				    .root = root,
				    .budget = BUDGET};
	if (dwarf)
		debug_texts_init(&info->texts, elf);
	info->has_units = info->texts.sections[0].data || info->texts.sections[1].data;
	if (dwarf && elf_section_bytes(elf, ".debug_aranges", &bytes)) {
		arange_table_add(&info->aranges, &bytes);
		interval_sort(&info->aranges);
	}
}

static void release_unit(struct unit *unit)
{
	interval_list_release(&unit->functions);
	split_unit_free(unit->split);
}

void debug_info_release(struct debug_info *info)
{
	for (size_t i = 0; i < info->unit_count; i++)
		release_unit(&info->units[i]);
	free(info->units);
	interval_list_release(&info->ranges);
	interval_list_release(&info->aranges);
	for (size_t i = 0; i < info->hinted_count; i++)
		release_unit(&info->hinted[i]);
	*info = (struct debug_info){0};
}

void debug_info_refill(struct debug_info *info)
{
	if (info->budget < BUDGET)
		info->budget += BUDGET_FOR_LOOKUP;
}

bool debug_info_spend(struct debug_info *info)
{
	if (!info->budget)
		return false;
	info->budget--;
	return true;
}

/* What is done with each range of a DIE. */
struct range_visit {
	struct interval_list *list; /* NULL: looks for pc */
	uint64_t value, pc;
	bool any, found;
};

/* False: that is enough. */
static bool visit_range(struct range_visit *visit, uint64_t start, uint64_t end)
{
	if (start >= end)
		return true;
	visit->any = true;
	if (visit->list)
		interval_add(visit->list, start, end, visit->value);
	else
		visit->found = visit->pc >= start && visit->pc < end;
	return !visit->found;
}

static void visit_split(struct debug_info *info, Dwarf_Die *die, struct range_visit *visit)
{
	struct split_ranges ranges;
	uint64_t start, end;

	if (!split_ranges_begin(info->split, die, &ranges))
		return;
	for (int i = 0; i < MAX_RANGES && debug_info_spend(info); i++)
		if (!split_ranges_next(&ranges, &start, &end) || !visit_range(visit, start, end))
			return;
}

static void visit_whole(struct debug_info *info, Dwarf_Die *die, struct range_visit *visit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	for (int i = 0; i < MAX_RANGES && debug_info_spend(info); i++) {
		const ptrdiff_t next = dwarf_ranges(die, offset, &base, &start, &end);
		if (next <= 0 || next == offset || !visit_range(visit, start, end))
			return;
		offset = next;
	}
}

/* Adds the DIE's ranges to the list (NULL: none), returns whether one contains pc. */
static bool visit_ranges(struct debug_info *info, Dwarf_Die *die, struct interval_list *list,
			 uint64_t value, uint64_t pc, bool *any)
{
	struct range_visit visit = {.list = list, .value = value, .pc = pc};

	if (info->split && dwarf_cu_getdwarf(die->cu) == split_unit_dwarf(info->split))
		visit_split(info, die, &visit);
	else
		visit_whole(info, die, &visit);
	if (any)
		*any |= visit.any;
	return visit.found;
}

bool debug_info_has_pc(struct debug_info *info, Dwarf_Die *die, uint64_t pc, bool *any)
{
	return visit_ranges(info, die, NULL, 0, pc, any);
}

/* ---- address -> unit ---------------------------------------------------------------------- */

struct missing_unit {
	Dwarf_Off offset;
	size_t index;
};

/* Units without ranges of their own, by .debug_aranges. Both lists are in order of offset. */
static void add_aranges(struct debug_info *info, const struct missing_unit *missing, size_t count)
{
	Dwarf_Aranges *table;
	size_t table_size;

	if (!count || dwarf_getaranges(info->dwarf, &table, &table_size))
		return;
	for (size_t i = 0; i < table_size && i < MAX_RANGES && debug_info_spend(info); i++) {
		Dwarf_Addr start;
		Dwarf_Word length;
		Dwarf_Off offset;
		Dwarf_Arange *range = dwarf_onearange(table, i);
		if (!range || dwarf_getarangeinfo(range, &start, &length, &offset))
			continue;
		size_t low = 0, high = count;
		while (low < high) {
			const size_t middle = low + (high - low) / 2;
			if (missing[middle].offset < offset)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < count && missing[low].offset == offset && start + length > start)
			interval_add(&info->ranges, start, start + length, missing[low].index);
	}
}

static void index_units(struct debug_info *info)
{
	struct missing_unit *missing = NULL;
	size_t missing_count = 0, missing_capacity = 0;
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type;

	info->indexed = true;
	if (info->lazy && !lazy_dwarf_need_heads(info->lazy))
		return;
	/* No sub-DIE is asked for: libdw would look for .dwo files by itself. */
	while (info->unit_count < MAX_UNITS && debug_info_spend(info) &&
	       !dwarf_get_units(info->dwarf, unit, &unit, NULL, &type, &die, NULL)) {
		bool any = false;
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		info->units = alloc_room(info->units, &info->unit_capacity, info->unit_count + 1,
					 sizeof(*info->units));
		info->units[info->unit_count] = (struct unit){.die = die};
		visit_ranges(info, &die, &info->ranges, info->unit_count, 0, &any);
		if (!any) {
			missing = alloc_room(missing, &missing_capacity, missing_count + 1,
					     sizeof(*missing));
			missing[missing_count++] =
				(struct missing_unit){dwarf_dieoffset(&die), info->unit_count};
		}
		info->unit_count++;
	}
	add_aranges(info, missing, missing_count);
	free(missing);
	interval_sort(&info->ranges);
}

/* Where its line table is not there yet, it gets there now. */
static bool need_lines(struct debug_info *info, Dwarf_Die *unit)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset;

	return !info->lazy ||
	       dwarf_formudata(dwarf_attr(unit, DW_AT_stmt_list, &attribute), &offset) ||
	       lazy_dwarf_need_lines(info->lazy, offset);
}

/* Of a unit in the index there may be no more than its head. */
static struct unit *open_indexed(struct debug_info *info, struct unit *unit)
{
	if (info->lazy && !unit->looked_for) {
		const Dwarf_Off offset = dwarf_dieoffset(&unit->die) - dwarf_cuoffset(&unit->die);
		unit->looked_for = true;
		unit->missing = (!lazy_dwarf_need_unit(info->lazy, offset) &&
				 !lazy_dwarf_fill(info->lazy)) ||
				!need_lines(info, &unit->die);
	}
	return unit->missing ? NULL : unit;
}

struct unit *debug_info_unit(struct debug_info *info, uint64_t pc, size_t *position)
{
	if (!info->dwarf)
		return NULL;
	if (!info->indexed)
		index_units(info);
	const ssize_t at = interval_find(&info->ranges, pc, *position);
	if (at < 0)
		return NULL;
	*position = (size_t)at;
	return open_indexed(info, &info->units[info->ranges.items[at].value]);
}

static struct unit *open_hinted(struct debug_info *info, uint64_t offset)
{
	struct unit *unit = &info->hinted[info->hinted_count];
	size_t header;
	Dwarf_Off next;

	*unit = (struct unit){.scanned = false};
	if ((info->lazy && !lazy_dwarf_need_unit(info->lazy, offset)) ||
	    dwarf_next_unit(info->dwarf, offset, &next, &header, NULL, NULL, NULL, NULL, NULL,
			    NULL) ||
	    !dwarf_offdie(info->dwarf, offset + header, &unit->die) ||
	    dwarf_tag(&unit->die) != DW_TAG_compile_unit || !need_lines(info, &unit->die))
		return NULL;
	info->hinted_offsets[info->hinted_count++] = offset;
	return unit;
}

struct unit *debug_info_hinted(struct debug_info *info, uint64_t pc)
{
	if (!info->dwarf || info->indexed)
		return NULL;
	const ssize_t at = interval_find(&info->aranges, pc, info->aranges.count);
	if (at < 0)
		return NULL;
	const uint64_t offset = info->aranges.items[at].value;
	for (size_t i = 0; i < info->hinted_count; i++)
		if (info->hinted_offsets[i] == offset)
			return &info->hinted[i];
	if (info->hinted_count == DEBUG_INFO_HINTS || !debug_info_spend(info))
		return NULL;
	return open_hinted(info, offset);
}

/* ---- address -> subprogram ---------------------------------------------------------------- */

static bool has_methods(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_Mips_Assembler:
		return false;
	default:
		return true;
	}
}

struct scan {
	struct debug_info *info;
	struct unit *unit;
	bool methods; /* look into types */
	bool bodies;  /* look into functions: nested functions */
};

static bool scan_inside(const struct scan *scan, int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
		return true;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return scan->methods;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return scan->bodies;
	default:
		return false;
	}
}

static void scan_functions(const struct scan *scan, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die))
		return;
	do {
		const int tag = dwarf_tag(&die);
		if (!debug_info_spend(scan->info))
			return;
		if (tag == DW_TAG_subprogram)
			visit_ranges(scan->info, &die, &scan->unit->functions,
				     dwarf_dieoffset(&die), 0, NULL);
		if (scan_inside(scan, tag))
			scan_functions(scan, &die, depth + 1);
	} while (!dwarf_siblingof(&die, &die));
}

static bool find_function(struct debug_info *info, const struct unit *unit, uint64_t pc,
			  Dwarf_Die *die)
{
	const ssize_t at = interval_find(&unit->functions, pc, unit->functions.count);
	Dwarf *dwarf = unit->split ? split_unit_dwarf(unit->split) : info->dwarf;

	return at >= 0 && dwarf_offdie(dwarf, unit->functions.items[at].value, die);
}

/* What is looked at from now on is this unit's. */
static void choose_unit(struct debug_info *info, struct unit *unit)
{
	if (!unit->looked_for_split && split_unit_is_skeleton(&unit->die)) {
		if (info->split_count < DEBUG_INFO_SPLITS)
			unit->split = split_unit_open(info, &unit->die);
		info->split_count += unit->split != NULL;
		info->dwo_missing |= !unit->split;
	}
	unit->looked_for_split = true;
	info->split = unit->split;
	info->split_texts = unit->split ? split_unit_texts(unit->split) : NULL;
}

Dwarf_Die *debug_info_root(struct unit *unit)
{
	return unit->split ? split_unit_die(unit->split) : &unit->die;
}

bool debug_info_function(struct debug_info *info, struct unit *unit, uint64_t pc, Dwarf_Die *die)
{
	choose_unit(info, unit);
	Dwarf_Die *root = debug_info_root(unit);
	struct scan scan = {info, unit, has_methods(root), false};

	if (!unit->scanned) {
		unit->scanned = true;
		scan_functions(&scan, root, 0);
		interval_sort(&unit->functions);
	}
	if (find_function(info, unit, pc, die))
		return true;
	if (unit->scanned_bodies)
		return false;
	/* Nested functions (GNU C, OpenMP, Fortran) are inside others: a slower second look. */
	unit->scanned_bodies = scan.bodies = true;
	interval_list_release(&unit->functions);
	scan_functions(&scan, root, 0);
	interval_sort(&unit->functions);
	return find_function(info, unit, pc, die);
}
