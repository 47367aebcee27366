/* SPDX-License-Identifier: MIT */
/*
 * Split DWARF: from a skeleton unit (lines, and where its code is) to the .dwo file that has its
 * functions. libdw would open that file by itself, by a path that the skeleton names, so it is
 * never asked to: the file is found and checked here and read as one of its own. What the two
 * share, the addresses, is therefore looked up here, too (DWARF 5, 7.26 - 7.28; GCC's form of it
 * for DWARF 4).
 */
#include <dwarf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "symbolize/internal.h"

struct split_unit {
	int fd;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_Die die;
	struct debug_texts texts;
	struct elf_bytes info, lists; /* .debug_info.dwo; .debug_rnglists.dwo */
	struct elf_bytes old_lists;   /* .debug_ranges of the skeleton's file, DWARF 4 */
	struct elf_bytes addresses;   /* .debug_addr of the skeleton's file */
	uint64_t address_base, old_base;
	uint64_t base; /* where the unit's code begins */
};

static uint64_t number_of(Dwarf_Die *die, unsigned name, unsigned gnu_name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	return !dwarf_formudata(dwarf_attr(die, name, &attribute), &value) ||
			       !dwarf_formudata(dwarf_attr(die, gnu_name, &attribute), &value)
		       ? value
		       : 0;
}

/* ---- the file ----------------------------------------------------------------------------- */

static const char *string_of(const struct debug_info *info, Dwarf_Die *die, unsigned name,
			     size_t *size)
{
	Dwarf_Attribute attribute;

	return debug_info_string(info, dwarf_formstring(dwarf_attr(die, name, &attribute)), size);
}

/* The path as the compiler was told it, or else a file of that name beside the module. */
static int open_dwo(const struct debug_info *info, Dwarf_Die *skeleton)
{
	size_t name_size, folder_size = 0;
	char path[PATH_MAX];
	const char *name = string_of(info, skeleton, DW_AT_dwo_name, &name_size);
	const char *folder = string_of(info, skeleton, DW_AT_comp_dir, &folder_size);
	const char *slash = strrchr(info->path, '/');

	if (!name)
		name = string_of(info, skeleton, DW_AT_GNU_dwo_name, &name_size);
	if (!name || name_size >= PATH_MAX || folder_size >= PATH_MAX)
		return -1;
	const bool absolute = name[0] == '/';
	if (snprintf(path, sizeof(path), "%.*s%s%.*s", absolute ? 0 : (int)folder_size,
		     folder ? folder : "", absolute ? "" : "/", (int)name_size,
		     name) < (int)sizeof(path) &&
	    path[0] == '/') {
		const int fd = foreign_file_open(info->root, path);
		if (fd >= 0)
			return fd;
	}
	const char *last = memrchr(name, '/', name_size);
	const int last_size = last ? (int)(name + name_size - last - 1) : (int)name_size;
	if (!slash || snprintf(path, sizeof(path), "%.*s%.*s", (int)(slash + 1 - info->path),
			       info->path, last_size, last ? last + 1 : name) >= (int)sizeof(path))
		return -1;
	return foreign_file_open(info->root, path);
}

/* The unit with the skeleton's ID. */
static bool find_unit(struct split_unit *split, uint64_t id)
{
	enum { MAX_UNITS = 4096 };
	Dwarf_CU *unit = NULL;
	uint8_t type;

	for (int i = 0; i < MAX_UNITS &&
			!dwarf_get_units(split->dwarf, unit, &unit, NULL, &type, &split->die, NULL);
	     i++) {
		uint64_t other;
		if (type == DW_UT_split_compile &&
		    !dwarf_cu_info(unit, NULL, NULL, NULL, NULL, &other, NULL, NULL) && other == id)
			return true;
	}
	return false;
}

static bool open_split(struct split_unit *split, const struct debug_info *info, Dwarf_Die *skeleton)
{
	uint64_t id;
	uint8_t type;

	if (dwarf_cu_info(skeleton->cu, NULL, &type, NULL, NULL, &id, NULL, NULL) ||
	    type != DW_UT_skeleton)
		return false;
	split->fd = open_dwo(info, skeleton);
	if (split->fd >= 0)
		split->elf = elf_begin(split->fd, ELF_C_READ, NULL);
	if (split->elf && elf_kind(split->elf) == ELF_K_ELF)
		split->dwarf = dwarf_begin_elf(split->elf, DWARF_C_READ, NULL);
	return split->dwarf && find_unit(split, id);
}

bool split_unit_is_skeleton(Dwarf_Die *unit)
{
	uint8_t type;

	return !dwarf_cu_info(unit->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) &&
	       type == DW_UT_skeleton;
}

struct split_unit *split_unit_open(const struct debug_info *info, Dwarf_Die *skeleton)
{
	struct split_unit *split = alloc_zeroed(1, sizeof(*split));

	split->fd = -1;
	if (!open_split(split, info, skeleton)) {
		split_unit_free(split);
		return NULL;
	}
	debug_texts_init(&split->texts, split->elf);
	elf_section_bytes(split->elf, ".debug_info.dwo", &split->info);
	elf_section_bytes(split->elf, ".debug_rnglists.dwo", &split->lists);
	elf_section_bytes(info->elf, ".debug_addr", &split->addresses);
	elf_section_bytes(info->elf, ".debug_ranges", &split->old_lists);
	split->address_base = number_of(skeleton, DW_AT_addr_base, DW_AT_GNU_addr_base);
	split->old_base = number_of(skeleton, DW_AT_GNU_ranges_base, DW_AT_GNU_ranges_base);
	if (dwarf_lowpc(skeleton, &split->base))
		split->base = 0;
	return split;
}

void split_unit_free(struct split_unit *split)
{
	if (!split)
		return;
	if (split->dwarf)
		dwarf_end(split->dwarf);
	elf_end(split->elf);
	if (split->fd >= 0)
		close(split->fd);
	free(split);
}

Dwarf *split_unit_dwarf(const struct split_unit *split)
{
	return split->dwarf;
}

Dwarf_Die *split_unit_die(struct split_unit *split)
{
	return &split->die;
}

const struct debug_texts *split_unit_texts(const struct split_unit *split)
{
	return &split->texts;
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* `size` bytes (up to 8) at an offset of a section, as a number. */
static bool number_at(const struct elf_bytes *section, uint64_t at, size_t size, uint64_t *number)
{
	if (!section->data || at > section->size || section->size - at < size)
		return false;
	*number = 0;
	memcpy(number, section->data + at, size);
	return true;
}

static bool take_number(const struct elf_bytes *section, uint64_t *at, size_t size,
			uint64_t *number)
{
	const bool well = number_at(section, *at, size, number);

	*at += size;
	return well;
}

static bool take_uleb(const struct elf_bytes *section, uint64_t *at, uint64_t *number)
{
	uint64_t byte = 0x80;

	*number = 0;
	for (unsigned shift = 0; byte & 0x80; shift += 7) {
		if (!take_number(section, at, 1, &byte))
			return false;
		if (shift < 64)
			*number |= (byte & 0x7f) << shift;
	}
	return true;
}

static bool address_at(const struct split_unit *split, uint64_t index, uint64_t *address)
{
	return index < split->addresses.size / 8 &&
	       number_at(&split->addresses, split->address_base + index * 8, 8, address);
}

/* An attribute's bytes are in .debug_info.dwo: as an offset there; false: they do not. */
static bool place_of(const struct split_unit *split, const Dwarf_Attribute *attribute, uint64_t *at)
{
	const uint8_t *bytes = attribute->valp;

	if (bytes < split->info.data || bytes >= split->info.data + split->info.size)
		return false;
	*at = (uint64_t)(bytes - split->info.data);
	return true;
}

/* An attribute that is an address, by its index or as it is. */
static bool address_of(const struct split_unit *split, Dwarf_Attribute *attribute,
		       uint64_t *address)
{
	uint64_t at, index;

	switch (attribute->form) {
	case DW_FORM_addrx:
	case DW_FORM_GNU_addr_index:
		return place_of(split, attribute, &at) && take_uleb(&split->info, &at, &index) &&
		       address_at(split, index, address);
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
		return place_of(split, attribute, &at) &&
		       number_at(&split->info, at, attribute->form - DW_FORM_addrx1 + 1u, &index) &&
		       address_at(split, index, address);
	default:
		return !dwarf_formaddr(attribute, address);
	}
}

/* ---- ranges ------------------------------------------------------------------------------- */

/* Where the list begins that an index into the table behind the section's header names. */
static bool list_by_index(const struct split_unit *split, uint64_t index, uint64_t *at)
{
	const size_t header = 12; /* length, version, sizes, number of offsets, as 32-bit DWARF */
	uint64_t count, offset;

	if (!number_at(&split->lists, 8, 4, &count) || index >= count ||
	    !number_at(&split->lists, header + index * 4, 4, &offset))
		return false;
	*at = header + offset;
	return true;
}

static bool begin_list(const struct split_unit *split, Dwarf_Die *die, Dwarf_Attribute *attribute,
		       struct split_ranges *ranges)
{
	Dwarf_Half version;
	uint64_t at, index, offset;
	uint8_t size;

	ranges->base = split->base;
	ranges->list = true;
	if (dwarf_cu_info(die->cu, &version, NULL, NULL, NULL, NULL, NULL, &size))
		return false;
	ranges->old = version < 5;
	if (attribute->form == DW_FORM_rnglistx)
		return place_of(split, attribute, &at) && take_uleb(&split->info, &at, &index) &&
		       list_by_index(split, index, &ranges->at);
	/* Not by dwarf_formudata: it looks for the section, which may be in the other file. */
	if (attribute->form != DW_FORM_sec_offset || !place_of(split, attribute, &at) ||
	    !number_at(&split->info, at, size, &offset))
		return false;
	ranges->at = ranges->old ? split->old_base + offset : offset;
	return true;
}

bool split_ranges_begin(const struct split_unit *split, Dwarf_Die *die, struct split_ranges *ranges)
{
	Dwarf_Attribute low, high, list;
	Dwarf_Word size;

	*ranges = (struct split_ranges){.split = split};
	if (dwarf_attr(die, DW_AT_ranges, &list))
		return begin_list(split, die, &list, ranges);
	if (!dwarf_attr(die, DW_AT_low_pc, &low) || !dwarf_attr(die, DW_AT_high_pc, &high) ||
	    !address_of(split, &low, &ranges->start))
		return false;
	if (address_of(split, &high, &ranges->end))
		return true;
	if (dwarf_formudata(&high, &size))
		return false;
	ranges->end = ranges->start + size;
	return true;
}

/* DWARF 4, .debug_ranges: pairs of words; (-1, N): from now on relative to N; (0, 0): the end. */
static bool next_old(struct split_ranges *ranges, uint64_t *start, uint64_t *end)
{
	const struct elf_bytes *lists = &ranges->split->old_lists;

	while (take_number(lists, &ranges->at, 8, start) &&
	       take_number(lists, &ranges->at, 8, end)) {
		if (*start == UINT64_MAX) {
			ranges->base = *end;
			continue;
		}
		if (!*start && !*end)
			return false;
		*start += ranges->base;
		*end += ranges->base;
		return true;
	}
	return false;
}

static bool take_indexed(struct split_ranges *ranges, uint64_t *address)
{
	uint64_t index;

	return take_uleb(&ranges->split->lists, &ranges->at, &index) &&
	       address_at(ranges->split, index, address);
}

/* One entry of .debug_rnglists; *start = *end where it is no range. False: the end.
 * Long: one switch over all kinds. */
static bool take_entry(struct split_ranges *ranges, uint64_t *start, uint64_t *end)
{
	const struct elf_bytes *lists = &ranges->split->lists;
	uint64_t kind, size;

	*start = *end = 0;
	if (!take_number(lists, &ranges->at, 1, &kind))
		return false;
	switch (kind) {
	case DW_RLE_base_addressx:
		return take_indexed(ranges, &ranges->base);
	case DW_RLE_startx_endx:
		return take_indexed(ranges, start) && take_indexed(ranges, end);
	case DW_RLE_startx_length:
		if (!take_indexed(ranges, start) || !take_uleb(lists, &ranges->at, &size))
			return false;
		*end = *start + size;
		return true;
	case DW_RLE_offset_pair:
		if (!take_uleb(lists, &ranges->at, start) || !take_uleb(lists, &ranges->at, end))
			return false;
		*start += ranges->base;
		*end += ranges->base;
		return true;
	case DW_RLE_base_address:
		return take_number(lists, &ranges->at, 8, &ranges->base);
	case DW_RLE_start_end:
		return take_number(lists, &ranges->at, 8, start) &&
		       take_number(lists, &ranges->at, 8, end);
	case DW_RLE_start_length:
		if (!take_number(lists, &ranges->at, 8, start) ||
		    !take_uleb(lists, &ranges->at, &size))
			return false;
		*end = *start + size;
		return true;
	default:
		return false; /* DW_RLE_end_of_list, or nothing we know */
	}
}

bool split_ranges_next(struct split_ranges *ranges, uint64_t *start, uint64_t *end)
{
	if (ranges->over)
		return false;
	if (ranges->list)
		return ranges->old ? next_old(ranges, start, end) : take_entry(ranges, start, end);
	*start = ranges->start;
	*end = ranges->end;
	ranges->over = true;
	return true;
}
