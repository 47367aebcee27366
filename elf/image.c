/* SPDX-License-Identifier: MIT */
/*
 * From an ELF file to the memory that the dynamic linker makes of it at load bias 0: words of data
 * with their relocations applied. Works by program headers alone, so that a file without section
 * headers will do. libelf has the bytes; what is writable is copied.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/elf.h"

enum { MAX_DYNAMIC = 512, MAX_RELOCATIONS = 4 << 20 };

static const struct image_segment *segment_of(const struct elf_image *image, uint64_t address,
					      uint64_t size)
{
	for (size_t i = 0; i < image->count; i++) {
		const struct image_segment *segment = &image->segments[i];
		if (address >= segment->start && address < segment->end &&
		    size <= segment->end - address)
			return segment;
	}
	return NULL;
}

static uint64_t read_word(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* The word as it is in the file. */
static uint64_t file_word(const struct elf_image *image, uint64_t address)
{
	const struct image_segment *segment = segment_of(image, address, 8);

	return segment ? read_word(segment->bytes + (address - segment->start)) : 0;
}

const uint8_t *image_bytes(const struct elf_image *image, uint64_t address, size_t *size)
{
	const struct image_segment *segment = segment_of(image, address, 1);

	*size = segment ? segment->end - address : 0;
	return segment ? segment->bytes + (address - segment->start) : NULL;
}

uint64_t image_word_of(const struct image_segment *segment, uint64_t address)
{
	return read_word((segment->words ? segment->words : segment->bytes) +
			 (address - segment->start));
}

uint64_t image_word(const struct elf_image *image, uint64_t address)
{
	const struct image_segment *segment = segment_of(image, address, 8);

	return segment && address % 8 == 0 ? image_word_of(segment, address) : 0;
}

static bool is_pointer(const struct image_segment *segment, uint64_t address)
{
	const uint64_t word = (address - segment->start) / 8;

	return !segment->pointer || (segment->pointer[word / 8] >> word % 8 & 1);
}

uint64_t image_pointer(const struct elf_image *image, uint64_t address)
{
	const struct image_segment *segment = segment_of(image, address, 8);

	return segment && is_pointer(segment, address) ? image_word(image, address) : 0;
}

bool image_is_reference(const struct elf_image *image, uint64_t place)
{
	const uint64_t pointer = image_pointer(image, place);

	return pointer == image_word(image, place) &&
	       (pointer < image->end || pointer == IMAGE_EXTERNAL);
}

const char *image_text(const struct elf_image *image, uint64_t address)
{
	const struct image_segment *segment = segment_of(image, address, 1);

	if (!segment)
		return NULL;
	const char *text = (const char *)segment->bytes + (address - segment->start);
	const size_t size = segment->end - address;
	if (!*text || !memchr(text, '\0', size < IMAGE_TEXT ? size : IMAGE_TEXT))
		return NULL;
	/* Linkers used to put constants into the same segment as code. */
	if (segment->code && interval_find(&image->functions, address, image->functions.count) >= 0)
		return NULL;
	return text;
}

bool image_is_function(const struct elf_image *image, uint64_t address)
{
	const size_t at = interval_lower(&image->functions, address);

	return at < image->functions.count && image->functions.items[at].start == address;
}

bool image_is_function_slot(const struct elf_image *image, uint64_t address)
{
	return !address || address == IMAGE_EXTERNAL || image_is_function(image, address);
}

bool image_is_object(const struct elf_image *image, uint64_t type)
{
	const uint64_t count = image_word(image, type - 8);

	if (!count)
		return image_word(image, type - 16) >> 32 == UINT32_MAX;
	return ((uint32_t)count == 1 || (uint32_t)count >= UINT32_MAX >> 2) &&
	       !(count >> 32 & 0xffff);
}

/* A part of a segment that no function covers: all of one without code. */
struct data_part {
	const struct image_segment *segment;
	size_t function;     /* the next one */
	uint64_t start, end; /* end 0: before the first */
};

static bool next_part(const struct elf_image *image, struct data_part *part)
{
	const struct interval_list *functions = &image->functions;
	const struct image_segment *segment = part->segment;
	uint64_t start = part->end ? part->end : segment->start, end = segment->end;

	for (; segment->code && part->function < functions->count; part->function++) {
		const struct interval *function = &functions->items[part->function];
		if (function->start > start) {
			end = function->start < end ? function->start : end;
			break;
		}
		start = function->reach > start ? function->reach : start;
	}
	part->start = start;
	part->end = end;
	return start < segment->end;
}

/* `start`: below it is nothing. Most words of an executable that is not relocated are no pointers.
 */
static void each_text_of(const struct elf_image *image, const struct data_part *part,
			 uint64_t start, void (*visit)(void *, uint64_t, const char *),
			 void *context)
{
	const struct image_segment *segment = part->segment;
	const uint8_t *words = segment->words ? segment->words : segment->bytes;

	for (uint64_t at = (part->start + 7) & ~UINT64_C(7); at < part->end && part->end - at >= 8;
	     at += 8) {
		if (segment->pointer && at % 512 == segment->start % 512 && part->end - at >= 512 &&
		    !read_word(segment->pointer + (at - segment->start) / 64)) {
			at += 504; /* 64 words without any pointer among them */
			continue;
		}
		const uint64_t word = read_word(words + (at - segment->start));
		if (word < start || word >= image->end || !is_pointer(segment, at))
			continue;
		const char *text = image_text(image, word);
		if (text)
			visit(context, at, text);
	}
}

void image_each_text(const struct elf_image *image,
		     void (*visit)(void *context, uint64_t place, const char *text), void *context)
{
	uint64_t start = UINT64_MAX;

	for (size_t i = 0; i < image->count; i++)
		if (start > image->segments[i].start)
			start = image->segments[i].start;
	for (size_t i = 0; i < image->count; i++)
		for (struct data_part part = {.segment = &image->segments[i]};
		     next_part(image, &part);)
			each_text_of(image, &part, start, visit, context);
}

/* ---- loading ------------------------------------------------------------------------------ */

static void add_segment(struct elf_image *image, Elf *elf, const GElf_Phdr *header, bool relocated)
{
	const uint64_t skip = -header->p_vaddr & 7; /* words are aligned */
	Elf_Data *data =
		elf_getdata_rawchunk(elf, (int64_t)header->p_offset, header->p_filesz, ELF_T_BYTE);

	if (!data || !data->d_buf || data->d_size <= skip)
		return;
	struct image_segment segment = {
		.start = header->p_vaddr + skip,
		.end = header->p_vaddr + data->d_size,
		.bytes = (const uint8_t *)data->d_buf + skip,
		.code = header->p_flags & PF_X,
	};
	const size_t size = segment.end - segment.start;
	if (relocated) {
		segment.pointer = alloc_zeroed(size / 512 + 1, 8);
		segment.words = header->p_flags & PF_W ? alloc_zeroed(size / 8 + 1, 8) : NULL;
		if (segment.words)
			memcpy(segment.words, segment.bytes, size);
	}
	image->segments[image->count++] = segment;
}

static bool load_segments(struct elf_image *image, Elf *elf, bool relocated, GElf_Phdr *dynamic)
{
	uint64_t left = IMAGE_LIMIT;
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count && i < 4096; i++) {
		GElf_Phdr header;
		if (!gelf_getphdr(elf, (int)i, &header))
			return false;
		if (header.p_type == PT_DYNAMIC)
			*dynamic = header;
		if (header.p_type != PT_LOAD || !header.p_filesz)
			continue;
		if (header.p_filesz > left || image->count == IMAGE_SEGMENTS ||
		    header.p_vaddr > IMAGE_HIGHEST || header.p_memsz > IMAGE_HIGHEST)
			return false;
		if (header.p_vaddr + header.p_memsz > image->end)
			image->end = header.p_vaddr + header.p_memsz;
		left -= header.p_filesz;
		add_segment(image, elf, &header, relocated);
	}
	return image->count;
}

void image_release(struct elf_image *image)
{
	for (size_t i = 0; i < image->count; i++) {
		free(image->segments[i].words);
		free(image->segments[i].pointer);
	}
	interval_list_release(&image->functions);
	table_release(&image->imports);
	*image = (struct elf_image){0};
}

/* ---- relocations -------------------------------------------------------------------------- */

struct dynamic {
	uint64_t rela, rela_size, relr, relr_size, jmprel, jmprel_size;
};

static void read_dynamic(struct elf_image *image, const GElf_Phdr *header, struct dynamic *dynamic)
{
	const struct {
		int64_t tag;
		uint64_t *value;
	} wanted[] = {
		{DT_RELA, &dynamic->rela},
		{DT_RELASZ, &dynamic->rela_size},
		{DT_RELR, &dynamic->relr},
		{DT_RELRSZ, &dynamic->relr_size},
		{DT_SYMTAB, &image->symbols},
		{DT_STRTAB, &image->strings},
		{DT_STRSZ, &image->strings_size},
		{DT_JMPREL, &dynamic->jmprel},
		{DT_PLTRELSZ, &dynamic->jmprel_size},
	};

	*dynamic = (struct dynamic){0};
	for (uint64_t i = 0; i < MAX_DYNAMIC && i < header->p_memsz / 16; i++) {
		const uint64_t tag = file_word(image, header->p_vaddr + 16 * i);
		if (!tag)
			break;
		for (size_t j = 0; j < sizeof(wanted) / sizeof(*wanted); j++)
			if ((uint64_t)wanted[j].tag == tag)
				*wanted[j].value = file_word(image, header->p_vaddr + 16 * i + 8);
	}
}

static void set_pointer(struct elf_image *image, uint64_t address, uint64_t value)
{
	const struct image_segment *segment = segment_of(image, address, 8);

	if (!segment || !segment->words || address % 8)
		return;
	const uint64_t offset = address - segment->start;
	memcpy(segment->words + offset, &value, sizeof(value));
	segment->pointer[offset / 64] |= (uint8_t)(1 << offset / 8 % 8);
}

/* struct Elf64_Sym: name and info, section (16 bits), value, size. */
static uint64_t symbol_value(const struct elf_image *image, uint64_t info, uint64_t addend)
{
	const uint64_t address = image->symbols + (info >> 32) * sizeof(Elf64_Sym);
	const uint16_t section = (uint16_t)(file_word(image, address) >> 48);

	if (!image->symbols || section == SHN_UNDEF || section >= SHN_LORESERVE)
		return IMAGE_EXTERNAL;
	return file_word(image, address + 8) + addend;
}

static void apply_rela(struct elf_image *image, uint64_t table, uint64_t size)
{
	const uint64_t count = size / sizeof(Elf64_Rela);

	for (uint64_t i = 0; i < count && i < MAX_RELOCATIONS; i++) {
		const uint64_t address = table + i * sizeof(Elf64_Rela);
		const uint64_t info = file_word(image, address + 8);
		const uint64_t addend = file_word(image, address + 16);
		const uint64_t place = file_word(image, address);
		switch (info & 0xffffffff) {
		case R_X86_64_RELATIVE:
			set_pointer(image, place, addend);
			break;
		case R_X86_64_JUMP_SLOT:
			table_put(&image->imports, place, 0, (uint32_t)(info >> 32));
			break;
		case R_X86_64_GLOB_DAT:
			table_put(&image->imports, place, 0, (uint32_t)(info >> 32));
			/* fall through */
		case R_X86_64_64:
			set_pointer(image, place, symbol_value(image, info, addend));
			break;
		}
	}
}

/* The symbol of the function that the stub of the PLT there jumps to. */
static bool stub_symbol(const struct elf_image *image, struct x86_decoder *decoder,
			uint64_t address, uint32_t *symbol)
{
	size_t size;
	const uint8_t *bytes = image_bytes(image, address, &size);
	uint64_t slot;

	return bytes && plt_slot_at(decoder, bytes, size, address, &slot) &&
	       table_find(&image->imports, slot, 0, symbol);
}

const char *image_import_at(const struct elf_image *image, struct x86_decoder *decoder,
			    uint64_t address)
{
	uint32_t symbol;

	if (!stub_symbol(image, decoder, address, &symbol))
		return NULL;
	return image_text(
		image, image->strings +
			       (uint32_t)file_word(image, image->symbols + symbol * UINT64_C(24)));
}

uint64_t image_through_stub(const struct elf_image *image, struct x86_decoder *decoder,
			    uint64_t address)
{
	uint32_t symbol;

	if (!stub_symbol(image, decoder, address, &symbol))
		return address;
	return symbol_value(image, (uint64_t)symbol << 32, 0);
}

/* An even entry is a place; an odd one says by its bits which of the 63 words after the last
 * place are relocated (generic ABI, "Relative relocation table"). */
static void apply_relr(struct elf_image *image, const struct dynamic *dynamic)
{
	uint64_t place = 0;

	for (uint64_t i = 0; i < dynamic->relr_size / 8 && i < MAX_RELOCATIONS; i++) {
		const uint64_t entry = file_word(image, dynamic->relr + 8 * i);
		if (!(entry & 1)) {
			set_pointer(image, entry, file_word(image, entry));
			place = entry + 8;
			continue;
		}
		for (uint64_t bits = entry >> 1, at = place; bits; bits >>= 1, at += 8)
			if (bits & 1)
				set_pointer(image, at, file_word(image, at));
		place += 63 * 8;
	}
}

static bool in_dynamic_names(const struct elf_image *image, const char *word)
{
	uint64_t left = image->strings_size;
	size_t size;

	/* What rewrites executables puts them across two segments (patchelf). */
	for (uint64_t at = image->strings; left; at += size, left -= size) {
		const uint8_t *strings = image_bytes(image, at, &size);
		if (!strings)
			return false;
		if (size > left)
			size = left;
		if (memmem(strings, size, word, strlen(word)))
			return true;
	}
	return false;
}

static bool in_data(const struct elf_image *image, const char *text)
{
	for (size_t i = 0; i < image->count; i++) {
		const struct image_segment *segment = &image->segments[i];
		for (struct data_part part = {.segment = segment}; next_part(image, &part);)
			if (memmem(segment->bytes + (part.start - segment->start),
				   part.end - part.start, text, strlen(text) + 1))
				return true;
	}
	return false;
}

/* Whether anything of Python's C interface is in the names of the module's dynamic symbols. An
 * executable that is linked statically has none: it may be an interpreter. */
static bool is_for_python(struct elf_image *image)
{
	image->python2 = in_dynamic_names(image, "Py_InitModule");
	return image->python2 || !image->strings || in_dynamic_names(image, "PyModule") ||
	       in_dynamic_names(image, "PyInit_") || in_dynamic_names(image, "PyModExport_");
}

bool image_load_bytes(struct elf_image *image, Elf *elf)
{
	GElf_Phdr dynamic_header = {0};

	*image = (struct elf_image){0};
	return load_segments(image, elf, false, &dynamic_header);
}

bool image_load(struct elf_image *image, Elf *elf)
{
	GElf_Phdr dynamic_header = {0};
	GElf_Ehdr header;
	struct dynamic dynamic;
	struct elf_bytes eh_frame;

	*image = (struct elf_image){0};
	if (!gelf_getehdr(elf, &header) || header.e_machine != EM_X86_64 ||
	    !load_segments(image, elf, header.e_type == ET_DYN, &dynamic_header))
		return false;
	read_dynamic(image, &dynamic_header, &dynamic);
	if (!is_for_python(image) || !elf_eh_frame_bytes(elf, &eh_frame))
		return false;
	apply_rela(image, dynamic.rela, dynamic.rela_size);
	apply_rela(image, dynamic.jmprel, dynamic.jmprel_size);
	apply_relr(image, &dynamic);
	fde_table_add(&image->functions, elf, &eh_frame, true);
	interval_sort(&image->functions);
	image->cython = in_data(image, "cython_runtime");
	image->memoryview = image->cython && in_data(image, "_memoryviewslice");
	return image->functions.count;
}
