/* SPDX-License-Identifier: MIT */
/*
 * From .gnu_debugdata, an ELF file compressed by xz inside of a stripped one (Fedora's "mini debug
 * information"), to the symbol table in it. What it inflates to and what that takes is bounded: a
 * few bytes of it can stand for gigabytes.
 */
#include <stdlib.h>
#ifdef HAVE_LIBLZMA
#include <lzma.h>
#endif

#include "base/alloc.h"
#include "symbolize/internal.h"

#ifdef HAVE_LIBLZMA
/* Fedora's are far below 10 MB, compressed with a window of 8 MB or less. */
enum { SIZE_LIMIT = 32 << 20, WINDOW_LIMIT = 72 << 20, STEP = 256 << 10 };

static bool inflate_all(lzma_stream *stream, struct mini_debug *mini)
{
	lzma_ret status = LZMA_OK;
	size_t capacity = 0;

	while (status == LZMA_OK && mini->size < SIZE_LIMIT) {
		mini->bytes = alloc_room(mini->bytes, &capacity, mini->size + STEP, 1);
		stream->next_out = mini->bytes + mini->size;
		stream->avail_out = STEP;
		status = lzma_code(stream, LZMA_FINISH);
		mini->size += STEP - stream->avail_out;
	}
	return status == LZMA_STREAM_END;
}

static bool inflate_section(const struct elf_bytes *section, struct mini_debug *mini)
{
	lzma_stream stream = LZMA_STREAM_INIT;

	if (lzma_stream_decoder(&stream, WINDOW_LIMIT, 0) != LZMA_OK)
		return false;
	stream.next_in = section->data;
	stream.avail_in = section->size;
	const bool well = inflate_all(&stream, mini);
	lzma_end(&stream);
	return well;
}
#endif

bool mini_debug_open(struct mini_debug *mini, Elf *elf, enum debug_problem *problem)
{
	struct elf_bytes section;

	*mini = (struct mini_debug){.elf = NULL};
	if (!elf_section_bytes(elf, ".gnu_debugdata", &section))
		return true;
#ifdef HAVE_LIBLZMA
	*problem = DEBUG_PROBLEM_DAMAGED;
	if (inflate_section(&section, mini))
		mini->elf = elf_memory((char *)mini->bytes, mini->size);
	if (mini->elf && elf_kind(mini->elf) == ELF_K_ELF)
		return true;
	mini_debug_close(mini);
#else
	*problem = DEBUG_PROBLEM_LZMA;
#endif
	return false;
}

void mini_debug_close(struct mini_debug *mini)
{
	elf_end(mini->elf);
	free(mini->bytes);
	*mini = (struct mini_debug){.elf = NULL};
}
