/* SPDX-License-Identifier: MIT */
/*
 * One ELF file: its headers turned into a struct module, bytes by file offset and by ELF address,
 * and the load bias of a mapping. The file is read by pread, never mapped: a file that is truncated
 * under us must give an error, not SIGBUS. Every number in it is checked before it is used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/notes.h"
#include "files/far_file.h"
#include "files/foreign_file.h"
#include "modules/internal.h"

enum {
	SEGMENTS_LIMIT = 1024,
	SECTIONS_LIMIT = 65536,
	NAMES_LIMIT = 4 * 1024 * 1024,
	NOTES_LIMIT = 64 * 1024,
};

size_t module_path_size(const char *path)
{
	static const char deleted[] = " (deleted)";
	const size_t size = strlen(path), mark = sizeof(deleted) - 1;
	return size > mark && strcmp(path + size - mark, deleted) == 0 ? size - mark : size;
}

struct module *module_new(const char *path)
{
	struct module *module = alloc_zeroed(1, sizeof(*module));
	char *copy = alloc_string(path);
	module->path = copy;
	module->fd = -1;
	char *name = alloc_string(strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	name[module_path_size(name)] = '\0';
	module->name = name;
	return module;
}

void module_release(struct module *module)
{
	far_file_free(module->far);
	if (module->fd >= 0 && !module->far)
		close(module->fd);
	module_record_free(module->record);
	free((void *)module->bytes);
	free(module->segments);
	free(module->sections); /* the names are behind them */
	free((void *)module->path);
	free((void *)module->name);
}

void module_free(struct module *module)
{
	if (!module)
		return;
	module_release(module);
	free(module);
}

/* ---- headers ---- */

static bool corrupt(const struct module *module, const char *what, struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "%s: %s", module->path, what);
}

static bool within(uint64_t offset, uint64_t size, uint64_t limit)
{
	return offset <= limit && size <= limit - offset;
}

static bool check_ident(const struct module *module, const Elf64_Ehdr *header, struct error *error)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return corrupt(module, "not an ELF file", error);
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return corrupt(module, "not for x86-64", error);
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
		return corrupt(module, "neither a program nor a shared library", error);
	return true;
}

static int by_vaddr(const void *a, const void *b)
{
	const struct module_segment *first = a, *second = b;
	return (first->vaddr > second->vaddr) - (first->vaddr < second->vaddr);
}

static bool add_segment(struct module *module, const Elf64_Phdr *header, uint64_t file_size,
			struct error *error)
{
	if (header->p_filesz > header->p_memsz ||
	    !within(header->p_vaddr, header->p_memsz, UINT64_C(1) << 47) ||
	    !within(header->p_offset, header->p_filesz, file_size))
		return corrupt(module, "a segment is outside of the file", error);
	module->segments[module->segment_count++] = (struct module_segment){
		.vaddr = header->p_vaddr,
		.file_offset = header->p_offset,
		.file_size = header->p_filesz,
		.memory_size = header->p_memsz,
		.flags = header->p_flags,
	};
	return true;
}

static void read_notes(struct module *module, uint64_t offset, uint64_t size)
{
	if (module->build_id.size || !size || size > NOTES_LIMIT)
		return;
	uint8_t *notes = alloc_zeroed(1, size);
	if (module_read_file(module, offset, notes, size, NULL))
		module->build_id = elf_notes_build_id(notes, size);
	free(notes);
}

static bool read_segments(struct module *module, const Elf64_Ehdr *header, uint64_t file_size,
			  struct error *error)
{
	size_t count = header->e_phnum;
	if (!count)
		return corrupt(module, "no program headers", error);
	if (count > SEGMENTS_LIMIT || header->e_phentsize != sizeof(Elf64_Phdr) ||
	    !within(header->e_phoff, count * sizeof(Elf64_Phdr), file_size))
		return corrupt(module, "bad program headers", error);
	_cleanup_free_ Elf64_Phdr *headers = alloc_zeroed(count, sizeof(*headers));
	if (!module_read_file(module, header->e_phoff, headers, count * sizeof(*headers), error))
		return false;
	module->segments = alloc_zeroed(count, sizeof(*module->segments));
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr segment = headers[i];
		if (segment.p_type == PT_LOAD && !add_segment(module, &segment, file_size, error))
			return false;
		if (segment.p_type == PT_NOTE)
			read_notes(module, segment.p_offset, segment.p_filesz);
		if (segment.p_type == PT_GNU_EH_FRAME) {
			module->headers.eh_frame_hdr = segment.p_vaddr;
			module->headers.eh_frame_hdr_size = segment.p_memsz;
		}
		if (segment.p_type == PT_DYNAMIC) {
			module->headers.dynamic = segment.p_vaddr;
			module->headers.dynamic_size = segment.p_memsz;
		}
	}
	if (!module->segment_count)
		return corrupt(module, "nothing to load", error);
	qsort(module->segments, module->segment_count, sizeof(*module->segments), by_vaddr);
	return true;
}

/* Where the section headers and their names are; false: none that can be believed. */
struct section_table {
	size_t count;
	uint64_t names, names_size;
};

static bool find_sections(const struct module *module, const Elf64_Ehdr *header, uint64_t file_size,
			  struct section_table *table)
{
	Elf64_Shdr first, names;
	if (!header->e_shoff || header->e_shentsize != sizeof(Elf64_Shdr) ||
	    !within(header->e_shoff, sizeof(first), file_size) ||
	    !module_read_file(module, header->e_shoff, &first, sizeof(first), NULL))
		return false;
	/* More than 65,279 sections: the true numbers are in the first header. */
	uint64_t count = header->e_shnum ? header->e_shnum : first.sh_size;
	uint64_t index = header->e_shstrndx == SHN_XINDEX ? first.sh_link : header->e_shstrndx;
	if (!count || count > SECTIONS_LIMIT || index >= count ||
	    !within(header->e_shoff, count * sizeof(first), file_size) ||
	    !module_read_file(module, header->e_shoff + index * sizeof(names), &names,
			      sizeof(names), NULL))
		return false;
	/* In an image copied from memory, zeros may stand where the headers were. */
	if (names.sh_type != SHT_STRTAB || names.sh_size > NAMES_LIMIT ||
	    !within(names.sh_offset, names.sh_size, file_size))
		return false;
	*table = (struct section_table){count, names.sh_offset, names.sh_size};
	return true;
}

/* A library without section headers is as good as one with: failing here is no failure. */
static void read_sections(struct module *module, const Elf64_Ehdr *header, uint64_t file_size)
{
	struct section_table table;
	if (!find_sections(module, header, file_size, &table))
		return;
	size_t room = table.count * sizeof(*module->sections);
	module->sections = alloc_zeroed(1, room + table.names_size + 1);
	char *names = (char *)module->sections + room;
	_cleanup_free_ Elf64_Shdr *headers = alloc_zeroed(table.count, sizeof(*headers));
	if (!module_read_file(module, table.names, names, table.names_size, NULL) ||
	    !module_read_file(module, header->e_shoff, headers, table.count * sizeof(*headers),
			      NULL))
		return;
	for (size_t i = 0; i < table.count; i++) {
		const Elf64_Shdr section = headers[i];
		bool inside = section.sh_type == SHT_NOBITS ||
			      within(section.sh_offset, section.sh_size, file_size);
		module->sections[module->section_count++] = (struct module_section){
			.name = section.sh_name < table.names_size ? names + section.sh_name : "",
			.vaddr = section.sh_addr,
			.file_offset = inside ? section.sh_offset : 0,
			.size = inside ? section.sh_size : 0,
			.type = section.sh_type,
			.index = (uint32_t)i,
			.flags = section.sh_flags,
		};
	}
	for (size_t i = 0; i < module->section_count; i++)
		if (module->sections[i].type == SHT_NOTE)
			read_notes(module, module->sections[i].file_offset,
				   module->sections[i].size);
}

static bool read_header(const struct module *module, Elf64_Ehdr *header, uint64_t *file_size,
			struct error *error)
{
	struct stat status;
	*file_size = module->far ? module->file.size : module->bytes_size;
	if (module->fd >= 0 && !module->far) {
		if (far_file_status(module->fd, &status) < 0)
			return error_set_errno(error, errno, "cannot read %s", module->path);
		*file_size = (uint64_t)status.st_size;
	}
	if (module->record && module->record->replayed)
		*file_size = module->record->file_size;
	else if (module->record)
		module->record->file_size = *file_size;
	return module_read_file(module, 0, header, sizeof(*header), error) &&
	       check_ident(module, header, error);
}

bool module_read_headers(struct module *module, struct error *error)
{
	Elf64_Ehdr header;
	uint64_t file_size;
	if (!read_header(module, &header, &file_size, error) ||
	    !read_segments(module, &header, file_size, error))
		return false;
	module->headers.fixed = header.e_type == ET_EXEC;
	module->headers.entry = header.e_entry;
	read_sections(module, &header, file_size);
	return true;
}

bool module_read_sections(struct module *module)
{
	Elf64_Ehdr header;
	uint64_t file_size;
	if (!read_header(module, &header, &file_size, NULL))
		return false;
	read_sections(module, &header, file_size);
	return module->section_count > 0;
}

const struct module_section *module_section(const struct module *module, const char *name)
{
	for (size_t i = 0; i < module->section_count; i++)
		if (strcmp(module->sections[i].name, name) == 0)
			return &module->sections[i];
	return NULL;
}

/* ---- load bias ---- */

static uint64_t page_floor(uint64_t value)
{
	return value & ~(uint64_t)(TARGET_PAGE - 1);
}

/*
 * How well a segment explains a mapping of the file at `offset`: 0 not at all; more when it is
 * executable as the mapping is, and when it begins there (a mapping may be a later part of a
 * segment, after mprotect). Neighbours may share a page of the file: lld puts the end of the
 * read-only segment and the start of the text into one page and maps that page twice.
 */
static unsigned fit(const struct module_segment *segment, uint64_t offset, bool executable)
{
	uint64_t first = page_floor(segment->file_offset);
	if ((segment->vaddr ^ segment->file_offset) & (TARGET_PAGE - 1))
		return 0;
	if (!segment->file_size || offset < first ||
	    offset >= segment->file_offset + segment->file_size)
		return 0;
	return 1 + (offset == first) + 2 * (((segment->flags & PF_X) != 0) == executable);
}

size_t module_biases(const struct module *module, remote_addr start, uint64_t offset,
		     bool executable, uint64_t *biases, size_t size)
{
	size_t count = 0;
	for (unsigned wanted = 4; wanted > 0; wanted--) {
		for (size_t i = 0; i < module->segment_count; i++) {
			const struct module_segment *segment = &module->segments[i];
			if (fit(segment, offset, executable) != wanted)
				continue;
			uint64_t bias = start - page_floor(segment->vaddr) -
					(offset - page_floor(segment->file_offset));
			bool known = false;
			for (size_t k = 0; k < count; k++)
				known |= biases[k] == bias;
			if (!known && count < size)
				biases[count++] = bias;
		}
	}
	return count;
}

/* The headers were read before. */
void module_record_start(struct module *module)
{
	if (module->record || module->fd < 0)
		return;
	module->record = alloc_zeroed(1, sizeof(*module->record));
	struct module again = {.path = module->path,
			       .file = module->file,
			       .fd = module->fd,
			       .far = module->far,
			       .record = module->record};
	if (module_read_headers(&again, NULL))
		module->record->file_size = again.record->file_size;
	free(again.segments);
	free(again.sections);
	module->record->header_blocks = module->record->image.count;
}
