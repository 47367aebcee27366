/* SPDX-License-Identifier: MIT */
/*
 * From the code of a module to what its functions tell of one another: which calls which, which
 * jumps into the other, and which texts that may be names each one uses. One pass over all
 * instructions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "stripped/internal.h"
#include "x86/x86.h"

enum { MAX_INSTRUCTIONS = 32 << 20, MAX_EDGES = 2 << 20, MAX_USES = 1 << 20 };

struct scan {
	struct code_facts *facts;
	const struct elf_image *image;
	uint32_t function;
	const struct interval *range;
	struct x86_decoder *decoder;
	struct x86_constants constants;
};

static void add_edge(struct scan *scan, uint64_t target, enum code_link link)
{
	struct code_facts *facts = scan->facts;
	const struct interval_list *functions = &scan->image->functions;

	if (target >= scan->range->start && target < scan->range->end)
		return;
	const ssize_t to = interval_find(functions, target, functions->count);
	if (to < 0 || facts->edge_count >= MAX_EDGES)
		return;
	const bool start = functions->items[to].start == target;
	if (!start && (link == LINK_CALL || link == LINK_REFERENCE))
		return;
	facts->edges = alloc_room(facts->edges, &facts->edge_capacity, facts->edge_count + 1,
				  sizeof(*facts->edges));
	facts->edges[facts->edge_count++] =
		(struct code_edge){scan->function, (uint32_t)to, start ? link : LINK_BRANCH};
}

static void add_use(struct scan *scan, uint64_t text, uint64_t callee)
{
	struct code_facts *facts = scan->facts;
	static const int registers[] = {X86_RSI, X86_RDX, X86_RCX};
	struct text_use use = {.function = scan->function, .text = text, .callee = callee};

	if (facts->use_count >= MAX_USES)
		return;
	for (int i = 0; callee && i < 3; i++)
		x86_constants_get(&scan->constants, registers[i], &use.arguments[i]);
	facts->uses = alloc_room(facts->uses, &facts->use_capacity, facts->use_count + 1,
				 sizeof(*facts->uses));
	facts->uses[facts->use_count++] = use;
}

/* What OpenMP's runtime libraries, GCC's and clang's, are told to run. */
static void note_parallel(struct scan *scan, const char *name)
{
	uint64_t function = 0;

	if (name && (strncmp(name, "GOMP_parallel", 13) == 0 || strncmp(name, "GOMP_task", 9) == 0))
		x86_constants_get(&scan->constants, X86_RDI, &function);
	else if (name && strcmp(name, "__kmpc_fork_call") == 0)
		x86_constants_get(&scan->constants, X86_RDX, &function);
	if (image_is_function(scan->image, function))
		add_edge(scan, function, LINK_PARALLEL);
}

/* PyBytes_FromStringAndSize(NULL, 37796) */
static void note_room(struct scan *scan, const char *name)
{
	struct code_facts *facts = scan->facts;
	struct text_room room = {.function = scan->function};
	uint64_t from;

	if (name && strcmp(name, "PyBytes_FromStringAndSize") == 0 &&
	    facts->room_count < MAX_ROOMS && x86_constants_get(&scan->constants, X86_RDI, &from) &&
	    !from && x86_constants_get(&scan->constants, X86_RSI, &room.size))
		facts->rooms[facts->room_count++] = room;
}

static void note_import(struct scan *scan, uint64_t callee)
{
	const char *name = image_import_at(scan->image, scan->decoder, callee);

	note_parallel(scan, name);
	note_room(scan, name);
}

static bool is_name(const struct elf_image *image, uint64_t address)
{
	const char *text = image_text(image, address);

	return text && (is_identifier(text, true) || traceback_is_file(text));
}

static void note_call(struct scan *scan, uint64_t callee)
{
	uint64_t text;

	add_edge(scan, callee, LINK_CALL);
	note_import(scan, callee);
	if (x86_constants_get(&scan->constants, X86_RDI, &text) && is_name(scan->image, text))
		add_use(scan, text, callee);
}

static void note(struct scan *scan, const struct x86_instruction *instruction)
{
	if (instruction->effect == X86_SET) {
		if (is_name(scan->image, instruction->value))
			add_use(scan, instruction->value, 0);
		else
			add_edge(scan, instruction->value, LINK_REFERENCE);
	}
	if (!instruction->target)
		return;
	if (instruction->flow == X86_CALL)
		note_call(scan, instruction->target);
	else
		add_edge(scan, instruction->target,
			 instruction->flow == X86_JUMP ? LINK_JUMP : LINK_BRANCH);
}

static void scan_function(struct scan *scan)
{
	size_t size;
	uint64_t at = scan->range->start;
	const uint8_t *bytes = image_bytes(scan->image, at, &size);
	struct x86_instruction instruction;

	if (bytes && size > scan->range->end - at)
		size = scan->range->end - at;
	x86_constants_clear(&scan->constants);
	while (bytes && size && scan->facts->steps < MAX_INSTRUCTIONS &&
	       x86_decoder_read(scan->decoder, bytes, size, at, &instruction)) {
		scan->facts->steps++;
		note(scan, &instruction);
		x86_constants_apply(&scan->constants, &instruction, false);
		if (instruction.flow == X86_JUMP || x86_is_end(&instruction))
			x86_constants_clear(&scan->constants);
		bytes += instruction.length;
		size -= instruction.length;
		at += instruction.length;
	}
}

void code_facts_read(struct code_facts *facts, const struct elf_image *image)
{
	struct x86_decoder *decoder = x86_decoder_new();

	*facts = (struct code_facts){0};
	for (size_t i = 0; i < image->functions.count; i++) {
		struct scan scan = {.facts = facts,
				    .decoder = decoder,
				    .image = image,
				    .function = (uint32_t)i,
				    .range = &image->functions.items[i]};
		scan_function(&scan);
	}
	x86_decoder_free(decoder);
}

void code_facts_release(struct code_facts *facts)
{
	free(facts->edges);
	free(facts->uses);
	*facts = (struct code_facts){0};
}
