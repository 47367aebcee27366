/* SPDX-License-Identifier: MIT */
/*
 * The bytes of .eh_frame, in memory as far as somebody has looked at them: a program has ten
 * megabytes of it, of which a recording needs some hundred KiB. Not by mmap of the file: who
 * truncates that would kill us. A page that cannot be read is zeros, which end the section.
 */
#include "cfi/cfi.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"

enum { PAGE = 4096, PADDING = 16 };

static size_t room(size_t size)
{
	return (size + PADDING + PAGE - 1) / PAGE * PAGE;
}

void section_open(struct cfi_section *section, const struct module *module, uint64_t vaddr,
		  size_t size)
{
	if (size == 0 || size > CFI_SECTION_LIMIT)
		return;
	void *const bytes = mmap(NULL, room(size), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED)
		return;
	section->bytes = bytes;
	section->size = size;
	section->module = module;
	section->vaddr = vaddr;
	section->loaded = alloc_zeroed(room(size) / PAGE, 1);
	/* Bytes that are in no file may be gone later. */
	if (module->bytes)
		section_load(section, 0, size);
}

void section_close(struct cfi_section *section)
{
	if (section->loaded)
		munmap(section->bytes, room(section->size));
	free(section->loaded);
	*section = (struct cfi_section){0};
}

static void load_page(const struct cfi_section *section, size_t page)
{
	const size_t at = page * PAGE;
	const size_t rest = at < section->size ? section->size - at : 0;
	const size_t size = rest < PAGE ? rest : PAGE;
	const struct module module = module_unrecorded(section->module);
	section->loaded[page] = 1;
	/* Of a module that was recorded there is what was needed then: the rest is zeros. */
	if (size > 0 && !module_read(&module, section->vaddr + at, section->bytes + at, size, NULL))
		return;
}

void section_load(const struct cfi_section *section, size_t at, size_t size)
{
	for (size_t page = at / PAGE; page <= (at + size - 1) / PAGE; page++)
		if (!section->loaded[page])
			load_page(section, page);
	if (section->module->record)
		module_note(section->module, section->vaddr + at, size);
}

static void need_section(struct eh_input *in, size_t size)
{
	if (in->end - in->at >= size)
		section_load(in->source, in->at, size);
}

struct eh_input section_input(const struct cfi_section *section, size_t at, size_t end)
{
	return (struct eh_input){.bytes = section->bytes,
				 .at = at,
				 .end = end,
				 .address = section->start,
				 .need = section->loaded ? need_section : NULL,
				 .source = (void *)section};
}
