/* SPDX-License-Identifier: MIT */
/*
 * From the headers of a core file to its segments, and from an address to bytes. A segment's end
 * that the file lacks is not zero, as it is in a program: it was not written.
 */
#include "elf/core_file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/sorted.h"

enum {
	SEGMENTS_LIMIT = 1 << 20, /* vm.max_map_count is 65,530 by default */
	NOTES_LIMIT = 512 << 20,  /* bytes: some 4 KB a thread with its vector registers */
};

static const uint64_t UNPACKED_LIMIT = UINT64_C(1) << 40;
static const uint64_t HIGHEST = UINT64_C(1) << 62;

/* False: the file ends before. */
static bool read_at(const struct core_file *core, uint64_t offset, void *buffer, size_t size)
{
	size_t done = 0;
	if (offset > core->size || size > core->size - offset)
		return false;
	while (done < size) {
		const ssize_t got =
			pread(core->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

static bool not_a_core(struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "not a core file");
}

static bool check_header(const Elf64_Ehdr *header, struct error *error)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return not_a_core(error);
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return error_set(error, ERROR_UNSUPPORTED, "not a core file of x86-64");
	if (header->e_type != ET_CORE)
		return error_set(error, ERROR_CORRUPT, "not a core file, but a program or library");
	if (header->e_phentsize != sizeof(Elf64_Phdr))
		return not_a_core(error);
	return true;
}

/* More than 65,534: the number is in the first section header. */
static uint64_t count_headers(const struct core_file *core, const Elf64_Ehdr *header)
{
	Elf64_Shdr first;
	if (header->e_phnum != PN_XNUM)
		return header->e_phnum;
	return read_at(core, header->e_shoff, &first, sizeof(first)) ? first.sh_info : 0;
}

static void add_segment(struct core_file *core, const Elf64_Phdr *header)
{
	if (!header->p_memsz || header->p_vaddr > HIGHEST || header->p_memsz > HIGHEST ||
	    header->p_filesz > header->p_memsz || header->p_offset > HIGHEST)
		return;
	uint64_t size = header->p_filesz;
	const uint64_t left = header->p_offset < core->size ? core->size - header->p_offset : 0;
	if (size > left) {
		core->truncated = true;
		size = left;
	}
	core->segments[core->segment_count++] = (struct core_segment){
		.start = header->p_vaddr,
		.end = header->p_vaddr + header->p_memsz,
		.file_offset = header->p_offset,
		.file_size = size,
		.dumped = header->p_filesz,
		.flags = header->p_flags,
	};
}

/* Those behind *end, up to which notes have been read: each once, however many segments have them.
 */
static void read_notes(struct core_file *core, const Elf64_Phdr *header, uint64_t *end)
{
	uint64_t size = header->p_filesz;
	if (header->p_offset >= core->size || header->p_offset < *end)
		return;
	if (size > core->size - header->p_offset) {
		core->truncated = true;
		size = core->size - header->p_offset;
	}
	if (size > NOTES_LIMIT)
		size = NOTES_LIMIT;
	*end = header->p_offset + size;
	_cleanup_free_ uint8_t *notes = alloc_zeroed(1, size + 1);
	if (read_at(core, header->p_offset, notes, size))
		core_notes_read(core, notes, size);
}

static int by_start(const void *left, const void *right)
{
	const struct core_segment *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

/* Those of a process are in order and apart. Of two that are not, the second one is left out. */
static void sort_segments(struct core_file *core)
{
	size_t kept = 0;
	if (core->segment_count)
		qsort(core->segments, core->segment_count, sizeof(*core->segments), by_start);
	for (size_t i = 0; i < core->segment_count; i++)
		if (kept == 0 || core->segments[i].start >= core->segments[kept - 1].end)
			core->segments[kept++] = core->segments[i];
	core->segment_count = kept;
}

static bool read_headers(struct core_file *core, struct error *error)
{
	Elf64_Ehdr header;
	uint64_t notes_end = 0;
	if (!read_at(core, 0, &header, sizeof(header)))
		return not_a_core(error);
	if (!check_header(&header, error))
		return false;
	uint64_t count = count_headers(core, &header);
	if (count > SEGMENTS_LIMIT)
		return not_a_core(error);
	_cleanup_free_ Elf64_Phdr *headers = alloc_zeroed(count + 1, sizeof(*headers));
	while (count && !read_at(core, header.e_phoff, headers, count * sizeof(*headers))) {
		core->truncated = true;
		count /= 2; /* what is left of them */
	}
	core->segments = alloc_zeroed(count + 1, sizeof(*core->segments));
	for (uint64_t i = 0; i < count; i++) {
		if (headers[i].p_type == PT_LOAD)
			add_segment(core, &headers[i]);
		else if (headers[i].p_type == PT_NOTE)
			read_notes(core, &headers[i], &notes_end);
	}
	sort_segments(core);
	return core->thread_count ||
	       error_set(error, ERROR_ABSENT, "the core file %s",
			 core->truncated ? "is cut off before its threads" : "has no threads");
}

bool core_file_open(int fd, struct core_file **out, struct error *error)
{
	struct core_file *core = alloc_zeroed(1, sizeof(*core));
	struct stat status;
	core->fd = fd;
	if (!core_unpack(&core->fd, UNPACKED_LIMIT, &core->truncated, error)) {
		core_file_free(core);
		return false;
	}
	if (fstat(core->fd, &status) < 0 || status.st_size < 0) {
		error_set_errno(error, errno, "cannot read the core file");
		core_file_free(core);
		return false;
	}
	core->size = (uint64_t)status.st_size;
	if (!read_headers(core, error)) {
		core_file_free(core);
		return false;
	}
	*out = core;
	return true;
}

void core_file_free(struct core_file *core)
{
	if (!core)
		return;
	if (core->fd >= 0)
		close(core->fd);
	free(core->segments);
	free(core->mappings);
	free(core->threads);
	free(core->auxv);
	free(core->texts);
	free(core);
}

const struct core_segment *core_file_segment(const struct core_file *core, uint64_t address)
{
	const size_t at = upper_bound(core->segments, core->segment_count, sizeof(*core->segments),
				      offsetof(struct core_segment, end), address);
	return at < core->segment_count && core->segments[at].start <= address ? &core->segments[at]
									       : NULL;
}

const struct core_mapping *core_file_mapping(const struct core_file *core, uint64_t address)
{
	const size_t at = upper_bound(core->mappings, core->mapping_count, sizeof(*core->mappings),
				      offsetof(struct core_mapping, end), address);
	return at < core->mapping_count && core->mappings[at].start <= address ? &core->mappings[at]
									       : NULL;
}

size_t core_file_read(const struct core_file *core, uint64_t address, void *buffer, size_t size)
{
	size_t done = 0;
	while (done < size) {
		const struct core_segment *segment = core_file_segment(core, address + done);
		if (!segment)
			break;
		const uint64_t skip = address + done - segment->start;
		if (skip >= segment->file_size)
			break;
		const uint64_t left = segment->file_size - skip;
		const size_t part = left < size - done ? left : size - done;
		if (!read_at(core, segment->file_offset + skip, (char *)buffer + done, part))
			break;
		done += part;
	}
	return done;
}

bool core_file_auxv(const struct core_file *core, uint64_t type, uint64_t *value)
{
	Elf64_auxv_t entry;
	for (size_t at = 0; at + sizeof(entry) <= core->auxv_size; at += sizeof(entry)) {
		memcpy(&entry, core->auxv + at, sizeof(entry));
		if (entry.a_type == AT_NULL)
			break;
		if (entry.a_type == type) {
			*value = entry.a_un.a_val;
			return true;
		}
	}
	return false;
}
