/* SPDX-License-Identifier: MIT */
/*
 * Bytes of a module, by offset in its file and by ELF address. The file is read by pread, never
 * mapped: a file that is truncated under us must give an error, not SIGBUS.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "files/far_file.h"
#include "modules/internal.h"

/* Of all modules together a hundred times less is needed. */
enum { BLOCKS_LIMIT = (64 << 20) / BLOCKS_STEP };

static bool read_fd(const struct module *module, uint64_t offset, void *buffer, size_t size,
		    struct error *error)
{
	uint8_t *to = buffer;
	for (ssize_t got; size > 0; to += got, offset += (size_t)got, size -= (size_t)got) {
		got = module->far ? far_file_read(module->far, to, size, (off_t)offset)
				  : far_file_read_here(module->fd, to, size, (off_t)offset);
		if (got < 0)
			return error_set_errno(error, errno, "cannot read %s", module->path);
		if (got == 0)
			return error_set(error, ERROR_CORRUPT, "%s ends too early", module->path);
	}
	return true;
}

static bool read_record(const struct module *module, uint64_t offset, void *buffer, size_t size,
			struct error *error)
{
	const struct module_record *const record = module->record;
	if (offset > record->file_size || size > record->file_size - offset)
		return error_set(error, ERROR_CORRUPT, "%s ends too early", module->path);
	return blocks_read(&record->image, offset, buffer, size) ||
	       error_set(error, ERROR_ABSENT, "%s: nobody has read 0x%llx", module->path,
			 (unsigned long long)offset);
}

bool module_read_file(const struct module *module, uint64_t offset, void *buffer, size_t size,
		      struct error *error)
{
	if (module->record && module->record->replayed)
		return read_record(module, offset, buffer, size, error);
	if (offset > INT64_MAX || size > INT64_MAX - offset)
		return error_set(error, ERROR_CORRUPT, "%s: offset 0x%llx is outside of the file",
				 module->path, (unsigned long long)offset);
	if (module->fd >= 0) {
		if (!read_fd(module, offset, buffer, size, error))
			return false;
		module_note_file(module, offset, size);
		return true;
	}
	if (offset > module->bytes_size || size > module->bytes_size - offset)
		return error_set(error, ERROR_CORRUPT, "%s ends too early", module->path);
	memcpy(buffer, (const char *)module->bytes + offset, size);
	return true;
}

static const struct module_segment *segment_at(const struct module *module, uint64_t vaddr)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->memory_size)
			return segment;
	}
	return NULL;
}

bool module_contains(const struct module *module, uint32_t flags, uint64_t vaddr, uint64_t size)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		if ((segment->flags & flags) && vaddr >= segment->vaddr &&
		    vaddr - segment->vaddr < segment->memory_size &&
		    size <= segment->memory_size - (vaddr - segment->vaddr))
			return true;
	}
	return false;
}

bool module_read(const struct module *module, uint64_t vaddr, void *buffer, size_t size,
		 struct error *error)
{
	char *out = buffer;
	while (size > 0) {
		const struct module_segment *segment = segment_at(module, vaddr);
		if (!segment)
			return error_set(error, ERROR_CORRUPT, "%s: no segment holds 0x%llx",
					 module->path, (unsigned long long)vaddr);
		uint64_t into = vaddr - segment->vaddr;
		bool in_file = into < segment->file_size;
		uint64_t room = (in_file ? segment->file_size : segment->memory_size) - into;
		size_t step = size < room ? size : (size_t)room;
		if (!in_file)
			memset(out, 0, step);
		else if (!module_read_file(module, segment->file_offset + into, out, step, error))
			return false;
		out += step;
		vaddr += step;
		size -= step;
	}
	return true;
}

bool module_returned_variable(const struct module *module, uint64_t function,
			      struct elf_returned *returned)
{
	uint8_t code[32];
	return module_read(module, function, code, sizeof(code), NULL) &&
	       elf_returned_variable(code, sizeof(code), function, module->headers.fixed,
				     returned) &&
	       (returned->is_member || module_contains(module, PF_W, returned->variable, 8));
}

/* ---- what was read, for a capture ---- */

void module_note_file(const struct module *module, uint64_t offset, size_t size)
{
	struct module_record *const record = module->record;
	const struct module plain = module_unrecorded(module);
	if (!record || record->replayed)
		return;
	for (uint64_t at = block_of(offset); at < offset + size; at += BLOCKS_STEP) {
		uint8_t bytes[BLOCKS_STEP] = {0};
		if (record->image.count == BLOCKS_LIMIT)
			return;
		if (blocks_has(&record->image, at))
			continue;
		/* The file's last block is not whole. */
		size_t have =
			record->file_size - at < BLOCKS_STEP ? record->file_size - at : BLOCKS_STEP;
		if (at < record->file_size && module_read_file(&plain, at, bytes, have, NULL))
			blocks_put(&record->image, at, bytes);
	}
}

void module_note(const struct module *module, uint64_t vaddr, size_t size)
{
	if (!module->record || module->record->replayed)
		return;
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *const segment = &module->segments[i];
		const uint64_t into = vaddr - segment->vaddr;
		if (vaddr < segment->vaddr || into >= segment->file_size)
			continue;
		if (size > segment->file_size - into)
			size = segment->file_size - into;
		module_note_file(module, segment->file_offset + into, size);
		return;
	}
}

static bool read_image(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	return module_read(((const struct module_image *)reader)->module, address, buffer, size,
			   error);
}

struct module_image module_image(const struct module *module)
{
	return (struct module_image){{read_image, NULL}, module};
}
