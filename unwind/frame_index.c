/* SPDX-License-Identifier: MIT */
/*
 * From an ELF address to the frame description entry that covers it: one index for each module,
 * made on first use and kept in its unwind_cache. Uses .eh_frame_hdr's sorted table as the linker
 * made it; where there is none that we can read, walks .eh_frame once and sorts; then the same
 * with .debug_frame. Every find is checked against the entry itself, so a wrong table can hide an
 * entry but not invent one. All bytes are hostile; sections are bounded by CFI_SECTION_LIMIT.
 */
#include "unwind/internal.h"

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

struct header_entry { /* .eh_frame_hdr, DW_EH_PE_datarel | DW_EH_PE_sdata4 */
	int32_t code, fde;
};

struct frame_index {
	struct cfi_section eh_frame, debug_frame;
	uint64_t eh_frame_vaddr;
	uint8_t *header;
	struct header_entry *table; /* inside header, or NULL: walked holds the index */
	size_t table_count;
	struct index walked, debug;
	bool debug_loaded;
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

/* An allocated section from the image, padded with zeros for libunwind's whole-word reads. */
static uint8_t *load_image(const struct module *module, uint64_t vaddr, size_t size)
{
	if (size == 0 || size > CFI_SECTION_LIMIT)
		return NULL;
	uint8_t *const bytes = alloc_zeroed(size + 16, 1);
	if (module_read(module, vaddr, bytes, size, NULL))
		return bytes;
	free(bytes);
	return NULL;
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
	const uint64_t size = module->eh_frame_hdr_size;
	int32_t distance;
	uint32_t count;
	*eh_frame = 0;
	if (size < 8)
		return;
	index->header = load_image(module, module->eh_frame_hdr, size);
	if (!index->header || index->header[0] != 1 ||
	    index->header[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
		return;
	memcpy(&distance, index->header + 4, sizeof(distance));
	*eh_frame = module->eh_frame_hdr + 4 + (int64_t)distance;
	if (size < 12 || index->header[2] != DW_EH_PE_udata4 ||
	    index->header[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return;
	memcpy(&count, index->header + 8, sizeof(count));
	if (count > (size - 12) / sizeof(struct header_entry))
		return;
	index->table = (struct header_entry *)(index->header + 12);
	index->table_count = count;
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
	if (!index->table)
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
	free(index->header);
	free(index->walked.entries);
	free(index->debug.entries);
	free(index);
}

/* The last entry that begins at or below the address. */
static bool find_in_table(const struct frame_index *index, const struct module *module,
			  uint64_t vaddr, struct cfi_fde *fde)
{
	const int64_t wanted = (int64_t)(vaddr - module->eh_frame_hdr);
	size_t low = 0, high = index->table_count, next;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (index->table[middle].code <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	const uint64_t at = module->eh_frame_hdr + (int64_t)index->table[low - 1].fde;
	return cfi_read(&index->eh_frame, at - index->eh_frame_vaddr, fde, &next) == CFI_FDE;
}

static bool find_in_index(const struct index *index, const struct cfi_section *section,
			  remote_addr pc, struct cfi_fde *fde)
{
	size_t next;
	const size_t until =
		sorted_count_until(index->entries, index->count, sizeof(*index->entries),
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
	return index->table ? find_in_table(index, module, vaddr, fde)
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

bool unwind_function_start(struct unwinder *unwinder, struct module *module, uint64_t vaddr,
			   uint64_t *start, uint64_t *size)
{
	const struct cfi_section *section;
	struct cfi_fde fde;
	(void)unwinder;
	if (!frame_index_find(module, vaddr, &fde, &section))
		return false;
	*start = fde.start - module->load_bias;
	if (size)
		*size = fde.end - fde.start;
	return true;
}
