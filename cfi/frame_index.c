/* SPDX-License-Identifier: MIT */
/*
 * From an ELF address to the frame description entry that covers it: one index for each module,
 * made on first use and kept in its unwind_cache. Uses .eh_frame_hdr's sorted table as the linker
 * made it; where there is none that we can read, walks .eh_frame once and sorts; then the same
 * with .debug_frame. Every find is checked against the entry itself, so a wrong table can hide an
 * entry but not invent one. All bytes are hostile; sections are bounded by CFI_SECTION_LIMIT.
 */
#include "cfi/cfi.h"

#include <dwarf.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"

struct index_entry {
	uint64_t start; /* run-time address of the code */
	size_t offset;	/* of the FDE in its section */
};

struct index {
	struct index_entry *entries;
	size_t count, capacity;
};

enum { HEADER_SIZE = 12 }; /* with encodings as linkers choose them */

struct header_entry { /* .eh_frame_hdr, DW_EH_PE_datarel | DW_EH_PE_sdata4 */
	int32_t code, fde;
};

struct frame_index {
	struct cfi_section eh_frame, debug_frame;
	uint64_t eh_frame_vaddr;
	struct cfi_section header; /* .eh_frame_hdr */
	size_t table_count;	   /* of entries in it; 0: walked holds the index */
	struct index walked, debug;
	struct elf_functions functions; /* of the symbol tables */
	bool debug_loaded, functions_loaded, taken_loaded, has_table;
};

static int compare_entries(const void *left, const void *right)
{
	const struct index_entry *const a = left, *const b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

/* All FDEs of a section, sorted by address. */
static void walk_section(const struct cfi_section *section, struct index *index)
{
	struct cfi_fde fde;
	size_t at = 0, next;
	for (enum cfi_kind kind; section->bytes; at = next) {
		kind = cfi_read(section, at, &fde, &next);
		if (kind == CFI_END)
			break;
		if (kind != CFI_FDE)
			continue;
		index->entries = alloc_room(index->entries, &index->capacity, index->count + 1,
					    sizeof(*index->entries));
		index->entries[index->count++] = (struct index_entry){fde.start, at};
	}
	if (index->count)
		qsort(index->entries, index->count, sizeof(*index->entries), compare_entries);
}

/* Bytes from an ELF address to the end of what the file has of its segment. */
static size_t rest_of_segment(const struct module *module, uint64_t vaddr)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *const segment = &module->segments[i];
		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->file_size)
			return segment->file_size - (vaddr - segment->vaddr);
	}
	return 0;
}

/* "01 1b 03 3b", the distance to .eh_frame, the count, then the table. */
static void load_header(struct frame_index *index, const struct module *module, uint64_t *eh_frame)
{
	const uint64_t size = module->headers.eh_frame_hdr_size;
	int32_t distance;
	uint32_t count;
	*eh_frame = 0;
	if (size < 8)
		return;
	section_open(&index->header, module, module->headers.eh_frame_hdr, size);
	const uint8_t *const bytes = index->header.bytes;
	if (!bytes)
		return;
	section_need(&index->header, 0, HEADER_SIZE);
	if (bytes[0] != 1 || bytes[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
		return;
	memcpy(&distance, bytes + 4, sizeof(distance));
	*eh_frame = module->headers.eh_frame_hdr + 4 + (int64_t)distance;
	if (size < HEADER_SIZE || bytes[2] != DW_EH_PE_udata4 ||
	    bytes[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return;
	memcpy(&count, bytes + 8, sizeof(count));
	if (count > (size - HEADER_SIZE) / sizeof(struct header_entry))
		return;
	index->has_table = true;
	index->table_count = count;
}

static struct header_entry entry_at(const struct frame_index *index, size_t number)
{
	const size_t at = HEADER_SIZE + number * sizeof(struct header_entry);
	struct header_entry entry;
	section_need(&index->header, at, sizeof(entry));
	memcpy(&entry, index->header.bytes + at, sizeof(entry));
	return entry;
}

static struct frame_index *frame_index_new(const struct module *module)
{
	struct frame_index *const index = alloc_zeroed(1, sizeof(*index));
	const struct module_section *const section = module_section(module, ".eh_frame");
	uint64_t vaddr, size;
	load_header(index, module, &vaddr);
	size = vaddr ? rest_of_segment(module, vaddr) : 0;
	if (section && section->type != SHT_NOBITS) {
		vaddr = section->vaddr;
		size = section->size;
	} else if (size > CFI_SECTION_LIMIT) {
		size = CFI_SECTION_LIMIT;
	}
	if (vaddr)
		section_open(&index->eh_frame, module, vaddr, size);
	index->eh_frame.start = module->load_bias + vaddr;
	index->eh_frame_vaddr = vaddr;
	if (!index->has_table)
		walk_section(&index->eh_frame, &index->walked);
	return index;
}

void frame_index_free(void *cache)
{
	struct frame_index *const index = cache;
	if (!index)
		return;
	section_close(&index->eh_frame);
	free(index->debug_frame.bytes);
	section_close(&index->header);
	free(index->walked.entries);
	free(index->debug.entries);
	elf_functions_release(&index->functions);
	free(index);
}

/* How many entries begin at or below the address. */
static size_t table_until(const struct frame_index *index, const struct module *module,
			  uint64_t vaddr)
{
	const int64_t wanted = (int64_t)(vaddr - module->headers.eh_frame_hdr);
	size_t low = 0, high = index->table_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (entry_at(index, middle).code <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The last entry that begins at or below the address. */
static bool find_in_table(const struct frame_index *index, const struct module *module,
			  uint64_t vaddr, struct cfi_fde *fde)
{
	const size_t until = table_until(index, module, vaddr);
	size_t next;
	if (until == 0)
		return false;
	const uint64_t at = module->headers.eh_frame_hdr + (int64_t)entry_at(index, until - 1).fde;
	return cfi_read(&index->eh_frame, at - index->eh_frame_vaddr, fde, &next) == CFI_FDE;
}

static bool find_in_index(const struct index *index, const struct cfi_section *section,
			  remote_addr pc, struct cfi_fde *fde)
{
	size_t next;
	const size_t until = upper_bound(index->entries, index->count, sizeof(*index->entries),
					 offsetof(struct index_entry, start), pc);
	return until > 0 &&
	       cfi_read(section, index->entries[until - 1].offset, fde, &next) == CFI_FDE;
}

static struct frame_index *index_of(struct module *module)
{
	if (!module->unwind_cache)
		module->unwind_cache = frame_index_new(module);
	return module->unwind_cache;
}

static bool find_in_eh_frame(struct module *module, uint64_t vaddr, struct cfi_fde *fde)
{
	const struct frame_index *const index = index_of(module);
	return index->has_table ? find_in_table(index, module, vaddr, fde)
				: find_in_index(&index->walked, &index->eh_frame,
						module->load_bias + vaddr, fde);
}

static bool find_in_debug_frame(struct module *module, uint64_t vaddr, struct cfi_fde *fde)
{
	struct frame_index *const index = index_of(module);
	if (!index->debug_loaded) {
		index->debug_loaded = true;
		debug_frame_load(module, &index->debug_frame);
		walk_section(&index->debug_frame, &index->debug);
	}
	return find_in_index(&index->debug, &index->debug_frame, module->load_bias + vaddr, fde);
}

static bool covers(const struct cfi_fde *fde, remote_addr pc)
{
	return pc >= fde->start && pc < fde->end;
}

bool frame_index_find(struct module *module, uint64_t vaddr, struct cfi_fde *fde,
		      const struct cfi_section **section)
{
	const remote_addr pc = module->load_bias + vaddr;
	const struct frame_index *const index = index_of(module);
	*section = &index->eh_frame;
	if (find_in_eh_frame(module, vaddr, fde) && covers(fde, pc))
		return true;
	*section = &index->debug_frame;
	return find_in_debug_frame(module, vaddr, fde) && covers(fde, pc);
}

uint64_t frame_index_gap(struct module *module, uint64_t vaddr)
{
	struct cfi_fde fde;
	uint64_t start = 0;
	if (find_in_eh_frame(module, vaddr, &fde))
		start = fde.end - module->load_bias;
	if (find_in_debug_frame(module, vaddr, &fde) && fde.end - module->load_bias > start)
		start = fde.end - module->load_bias;
	return start;
}

uint64_t frame_index_next(struct module *module, uint64_t vaddr)
{
	const struct frame_index *const index = index_of(module);
	size_t until = table_until(index, module, vaddr);
	uint64_t start = UINT64_MAX;
	if (until < index->table_count)
		start = module->headers.eh_frame_hdr +
			(uint64_t)(int64_t)entry_at(index, until).code;
	until = upper_bound(index->walked.entries, index->walked.count,
			    sizeof(*index->walked.entries), offsetof(struct index_entry, start),
			    module->load_bias + vaddr);
	if (until < index->walked.count &&
	    index->walked.entries[until].start - module->load_bias < start)
		start = index->walked.entries[until].start - module->load_bias;
	return start;
}

struct file_reader {
	struct memory_reader reader;
	const struct module *module;
};

static bool read_file(const struct memory_reader *reader, remote_addr offset, void *buffer,
		      size_t size, struct error *error)
{
	const struct file_reader *const file = (const struct file_reader *)reader;
	return module_read_file(file->module, offset, buffer, size, error);
}

/* What pointers lead to in each of the module's segments of code. */
static void add_pointers(struct frame_index *index, const struct module *module,
			 const struct file_reader *file, const struct module_section *section)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *const segment = &module->segments[i];
		if (segment->flags & PF_X)
			elf_functions_add_pointers(
				&index->functions, &file->reader, section->file_offset,
				section->size, segment->vaddr, segment->vaddr + segment->file_size);
	}
}

static void load_functions(struct frame_index *index, const struct module *module)
{
	const struct file_reader file = {.reader = {.read = read_file}, .module = module};
	for (size_t i = 0; i < module->section_count; i++) {
		const struct module_section *const section = &module->sections[i];
		if (section->type == SHT_SYMTAB || section->type == SHT_DYNSYM)
			elf_functions_add(&index->functions, &file.reader, section->file_offset,
					  section->size);
		else if (section->type == SHT_RELA)
			add_pointers(index, module, &file, section);
	}
}

/* Those that were looked at when the samples were captured. */
static void take_recorded(struct frame_index *index, const struct module_record *record)
{
	for (size_t i = 0; i < record->function_count; i++) {
		const struct module_place *const place = &record->functions[i];
		elf_functions_add_one(&index->functions,
				      &(struct elf_function){place->vaddr, place->size,
							     (enum elf_function_kind)place->name});
	}
}

const struct elf_functions *module_functions(struct module *module)
{
	struct frame_index *const index = index_of(module);
	if (index->functions_loaded)
		return &index->functions;
	index->functions_loaded = true;
	if (module->record && module->record->replayed) {
		take_recorded(index, module->record);
	} else {
		const struct module plain = module_unrecorded(module);
		load_functions(index, &plain);
	}
	elf_functions_sort(&index->functions);
	return &index->functions;
}

static bool read_image(const struct memory_reader *reader, remote_addr vaddr, void *buffer,
		       size_t size, struct error *error)
{
	const struct file_reader *const file = (const struct file_reader *)reader;
	return module_read(file->module, vaddr, buffer, size, error);
}

const struct elf_functions *module_functions_taken(struct module *module)
{
	/* All of the code is no part of a capture: what is looked up is. */
	const struct module plain = module_unrecorded(module);
	const struct file_reader image = {.reader = {.read = read_image}, .module = &plain};
	struct frame_index *const index = index_of(module);
	module_functions(module);
	if (module->record && module->record->replayed)
		return &index->functions;
	for (size_t i = 0; i < module->segment_count && !index->taken_loaded; i++)
		if (module->segments[i].flags & PF_X)
			elf_functions_add_taken(
				&index->functions, &image.reader, module->segments[i].vaddr,
				module->segments[i].vaddr + module->segments[i].file_size);
	if (!index->taken_loaded)
		elf_functions_sort(&index->functions);
	index->taken_loaded = true;
	return &index->functions;
}

const struct elf_function *module_function_before(struct module *module, uint64_t vaddr)
{
	enum { MOST = 64 }; /* without a size, that may be looked at one after the other */
	const struct elf_functions *const functions = module_functions(module);
	const struct elf_function *const found = elf_functions_before(functions, vaddr);
	struct module_record *const record = module->record;
	if (!found || !record || record->replayed)
		return found;
	for (const struct elf_function *one = found; found - one < MOST; one--) {
		module_record_function(record, &(struct module_place){one->start, one->size, true,
								      (uint32_t)one->kind});
		if (one->size || one == functions->items)
			break;
	}
	return found;
}

bool frame_index_function(struct module *module, uint64_t vaddr, uint64_t *start, uint64_t *size)
{
	const struct cfi_section *section;
	struct cfi_fde fde;
	if (!frame_index_find(module, vaddr, &fde, &section))
		return false;
	*start = fde.start - module->load_bias;
	if (size)
		*size = fde.end - fde.start;
	return true;
}
