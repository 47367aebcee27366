/* SPDX-License-Identifier: MIT */
/*
 * From the code of a module to what its functions tell of one another: which calls which, which
 * jumps into the other, and which texts that may be names each one uses. One pass over all
 * instructions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "symbolize/instruction.h"
#include "symbolize/stated.h"

enum { MAX_INSTRUCTIONS = 32 << 20, MAX_EDGES = 2 << 20, MAX_USES = 1 << 20 };

struct scan {
	struct code_facts *facts;
	const struct elf_image *image;
	uint32_t function;
	const struct interval *range;
	struct constants constants;
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
	static const int registers[] = {REGISTER_RSI, REGISTER_RDX, REGISTER_RCX};
	struct text_use use = {.function = scan->function, .text = text, .callee = callee};

	if (facts->use_count >= MAX_USES)
		return;
	for (int i = 0; callee && i < 3; i++)
		constants_get(&scan->constants, registers[i], &use.arguments[i]);
	facts->uses = alloc_room(facts->uses, &facts->use_capacity, facts->use_count + 1,
				 sizeof(*facts->uses));
	facts->uses[facts->use_count++] = use;
}

/* What OpenMP's runtime libraries, GCC's and clang's, are told to run. */
static void note_parallel(struct scan *scan, const char *name)
{
	uint64_t function = 0;

	if (name && (!strncmp(name, "GOMP_parallel", 13) || !strncmp(name, "GOMP_task", 9)))
		constants_get(&scan->constants, REGISTER_RDI, &function);
	else if (name && !strcmp(name, "__kmpc_fork_call"))
		constants_get(&scan->constants, REGISTER_RDX, &function);
	if (image_is_function(scan->image, function))
		add_edge(scan, function, LINK_PARALLEL);
}

/* PyBytes_FromStringAndSize(NULL, 37796) */
static void note_room(struct scan *scan, const char *name)
{
	struct code_facts *facts = scan->facts;
	struct text_room room = {.function = scan->function};
	uint64_t from;

	if (name && !strcmp(name, "PyBytes_FromStringAndSize") && facts->room_count < MAX_ROOMS &&
	    constants_get(&scan->constants, REGISTER_RDI, &from) && !from &&
	    constants_get(&scan->constants, REGISTER_RSI, &room.size))
		facts->rooms[facts->room_count++] = room;
}

static void note_import(struct scan *scan, uint64_t callee)
{
	const char *name = image_import_at(scan->image, callee);

	note_parallel(scan, name);
	note_room(scan, name);
}

static bool is_name(const struct elf_image *image, uint64_t address)
{
	const char *text = image_text(image, address);

	return text && (is_identifier(text, true) || traceback_is_file(text));
}

static void note(struct scan *scan, const struct instruction *instruction)
{
	uint64_t text;

	switch (instruction->operation) {
	case OPERATION_CALL:
		if (!instruction->value)
			break;
		add_edge(scan, instruction->value, LINK_CALL);
		note_import(scan, instruction->value);
		if (constants_get(&scan->constants, REGISTER_RDI, &text) &&
		    is_name(scan->image, text))
			add_use(scan, text, instruction->value);
		break;
	case OPERATION_BRANCH:
	case OPERATION_JUMP:
		if (instruction->value)
			add_edge(scan, instruction->value,
				 instruction->operation == OPERATION_JUMP ? LINK_JUMP
									  : LINK_BRANCH);
		break;
	case OPERATION_SET:
		if (is_name(scan->image, instruction->value))
			add_use(scan, instruction->value, 0);
		else
			add_edge(scan, instruction->value, LINK_REFERENCE);
		break;
	default:
		break;
	}
}

static void scan_function(struct scan *scan)
{
	size_t size;
	uint64_t at = scan->range->start;
	const uint8_t *bytes = image_bytes(scan->image, at, &size);
	struct instruction instruction;

	if (bytes && size > scan->range->end - at)
		size = scan->range->end - at;
	constants_clear(&scan->constants);
	while (bytes && size && scan->facts->steps < MAX_INSTRUCTIONS &&
	       instruction_read(bytes, size, at, &instruction)) {
		scan->facts->steps++;
		note(scan, &instruction);
		constants_apply(&scan->constants, &instruction);
		if (instruction.operation == OPERATION_JUMP ||
		    instruction.operation == OPERATION_END)
			constants_clear(&scan->constants);
		bytes += instruction.length;
		size -= instruction.length;
		at += instruction.length;
	}
}

void code_facts_read(struct code_facts *facts, const struct elf_image *image)
{
	*facts = (struct code_facts){0};
	for (size_t i = 0; i < image->functions.count; i++) {
		struct scan scan = {.facts = facts,
				    .image = image,
				    .function = (uint32_t)i,
				    .range = &image->functions.items[i]};
		scan_function(&scan);
	}
}

void code_facts_release(struct code_facts *facts)
{
	free(facts->edges);
	free(facts->uses);
	*facts = (struct code_facts){0};
}
