/* SPDX-License-Identifier: MIT */
/*
 * The notes of a core file: threads with their registers, the signal, the files that were mapped,
 * the auxiliary vector. The kernel writes the thread that ended the process first, its registers
 * and what else there is of it, then what is the process's; gdb does so, too.
 */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#include "base/alloc.h"
#include "elf/core_file.h"
#include "elf/notes.h"

enum {
	THREADS_LIMIT = 4 << 20,
	MAPPINGS_LIMIT = 1 << 20,
	AUXV_LIMIT = 64 << 10,
	SIGINFO_SIZE = 128,
};

/* Of the kernel's siginfo_t on x86-64 (include/uapi/asm-generic/siginfo.h). */
enum { SIGINFO_CODE = 8, SIGINFO_UNION = 16 };

_Static_assert(sizeof(prgregset_t) == CORE_REGISTERS * sizeof(uint64_t), "registers");

static void add_thread(struct core_file *core, const struct elf_note *note, size_t *capacity)
{
	prstatus_t status;
	if (note->size < sizeof(status) || core->thread_count == THREADS_LIMIT)
		return;
	memcpy(&status, note->bytes, sizeof(status));
	if (status.pr_pid <= 0)
		return;
	core->threads =
		alloc_room(core->threads, capacity, core->thread_count + 1, sizeof(*core->threads));
	struct core_thread *thread = &core->threads[core->thread_count++];
	*thread = (struct core_thread){.tid = status.pr_pid, .signal = status.pr_cursig};
	memcpy(thread->registers, &status.pr_reg, sizeof(thread->registers));
}

static void read_process(struct core_file *core, const struct elf_note *note)
{
	prpsinfo_t info;
	if (note->size < sizeof(info))
		return;
	memcpy(&info, note->bytes, sizeof(info));
	core->pid = info.pr_pid > 0 ? info.pr_pid : 0;
	memcpy(core->name, info.pr_fname, sizeof(info.pr_fname));
	memcpy(core->arguments, info.pr_psargs, sizeof(info.pr_psargs));
}

static void read_signal(struct core_file *core, const struct elf_note *note)
{
	if (note->size < SIGINFO_UNION + 8 || core->signal.number)
		return;
	memcpy(&core->signal.number, note->bytes, 4);
	memcpy(&core->signal.code, note->bytes + SIGINFO_CODE, 4);
	memcpy(&core->signal.address, note->bytes + SIGINFO_UNION, 8);
	memcpy(&core->signal.sender, note->bytes + SIGINFO_UNION, 4);
}

static void read_auxv(struct core_file *core, const struct elf_note *note)
{
	if (core->auxv || note->size > AUXV_LIMIT)
		return;
	core->auxv = alloc_zeroed(1, note->size + 1);
	memcpy(core->auxv, note->bytes, note->size);
	core->auxv_size = note->size;
}

/* ---- mapped files ---- */

static uint64_t word_at(const struct elf_note *note, size_t offset)
{
	uint64_t word;
	memcpy(&word, note->bytes + offset, sizeof(word));
	return word;
}

static int by_start(const void *left, const void *right)
{
	const struct core_mapping *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

static int by_path(const void *left, const void *right)
{
	const struct core_mapping *const *a = left, *const *b = right;
	return strcmp((*a)->path, (*b)->path);
}

static void number_files(struct core_file *core)
{
	struct core_mapping **order =
		alloc_zeroed(core->mapping_count + 1, sizeof(struct core_mapping *));
	for (size_t i = 0; i < core->mapping_count; i++)
		order[i] = &core->mappings[i];
	if (core->mapping_count)
		qsort(order, core->mapping_count, sizeof(struct core_mapping *), by_path);
	for (size_t i = 0; i < core->mapping_count; i++)
		order[i]->file = i == 0 ? 1
					: order[i - 1]->file +
						  (strcmp(order[i - 1]->path, order[i]->path) != 0);
	free(order);
}

/* In order and apart; of two that overlap, the second one is left out. */
static void sort_mappings(struct core_file *core)
{
	size_t kept = 0;
	if (core->mapping_count)
		qsort(core->mappings, core->mapping_count, sizeof(*core->mappings), by_start);
	for (size_t i = 0; i < core->mapping_count; i++)
		if (kept == 0 || core->mappings[i].start >= core->mappings[kept - 1].end)
			core->mappings[kept++] = core->mappings[i];
	core->mapping_count = kept;
}

/*
 * Linux fs/binfmt_elf.c, fill_files_note: count, page size; then start, end, offset in pages of
 * each; then their paths, each ended by a NUL.
 */
static void read_files(struct core_file *core, const struct elf_note *note)
{
	enum { HEAD = 16, ENTRY = 24 };
	if (core->mappings || note->size < HEAD)
		return;
	const uint64_t count = word_at(note, 0), page = word_at(note, 8);
	if (count > MAPPINGS_LIMIT || count > (note->size - HEAD) / ENTRY || !page ||
	    page > (1 << 30))
		return;
	const size_t texts = HEAD + count * ENTRY, size = note->size - texts;
	core->texts = alloc_zeroed(1, size + 1);
	memcpy(core->texts, note->bytes + texts, size);
	core->mappings = alloc_zeroed(count + 1, sizeof(*core->mappings));
	const char *path = core->texts, *const end = core->texts + size;
	for (uint64_t i = 0; i < count && path < end; i++) {
		const size_t at = HEAD + i * ENTRY;
		struct core_mapping mapping = {
			.start = word_at(note, at), .end = word_at(note, at + 8), .path = path};
		const uint64_t offset = word_at(note, at + 16);
		path += strlen(path) + 1;
		if (mapping.start >= mapping.end || offset > (UINT64_C(1) << 62) / page)
			continue;
		mapping.offset = offset * page;
		core->mappings[core->mapping_count++] = mapping;
	}
	sort_mappings(core);
	number_files(core);
}

void core_notes_read(struct core_file *core, const uint8_t *notes, size_t size)
{
	size_t at = 0, capacity = core->thread_count;
	struct elf_note note;
	while (elf_note_next(notes, size, &at, &note)) {
		if (!elf_note_is_of(&note, "CORE"))
			continue;
		switch (note.type) {
		case NT_PRSTATUS:
			add_thread(core, &note, &capacity);
			break;
		case NT_PRPSINFO:
			read_process(core, &note);
			break;
		case NT_SIGINFO:
			/* gdb writes one for each thread. */
			if (core->thread_count <= 1)
				read_signal(core, &note);
			break;
		case NT_AUXV:
			read_auxv(core, &note);
			break;
		case NT_FILE:
			read_files(core, &note);
			break;
		default:
			break;
		}
	}
}
