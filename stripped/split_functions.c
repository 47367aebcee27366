/* SPDX-License-Identifier: MIT */
/*
 * From jumps between functions to which of them are but parts of others. GCC moves unlikely code
 * to an FDE of its own ("f.cold"). Such a part is entered by jumps of one function alone, never
 * called, and either it jumps back into the middle of that function or is entered in a way in which
 * compilers do not leave a function for another one.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "stripped/internal.h"

enum { SEVERAL = UINT32_MAX - 1, NOBODY = UINT32_MAX, MAX_DEPTH = 4 };

struct entrance {
	uint32_t from; /* the one function that jumps there; NOBODY, SEVERAL */
	bool called, sure;
};

static void note_edge(struct entrance *entrances, const struct code_edge *edge)
{
	struct entrance *entrance = &entrances[edge->to];

	if (edge->link != LINK_BRANCH && edge->link != LINK_JUMP) {
		entrance->called = true;
		return;
	}
	if (entrance->from == NOBODY)
		entrance->from = edge->from;
	else if (entrance->from != edge->from)
		entrance->from = SEVERAL;
	entrance->sure |= edge->link == LINK_BRANCH;
}

/* A jump from a part back into the middle of its whole makes that one look like a part, too. */
static void note_return(struct entrance *entrances, const struct code_edge *edge)
{
	if (edge->link == LINK_BRANCH && entrances[edge->from].from == edge->to)
		entrances[edge->from].sure = true;
}

/* Where both jump into one another, the smaller one is the part. */
static void settle_pairs(const struct elf_image *image, uint32_t *wholes)
{
	const struct interval *ranges = image->functions.items;

	for (size_t i = 0; i < image->functions.count; i++) {
		const uint32_t other = wholes[i];
		if (other != i && wholes[other] == i &&
		    ranges[i].end - ranges[i].start > ranges[other].end - ranges[other].start)
			wholes[i] = (uint32_t)i;
	}
}

uint32_t *split_functions_find(const struct elf_image *image, const struct code_facts *facts,
			       const struct function_names *functions)
{
	const size_t count = image->functions.count;
	struct entrance *entrances = alloc_zeroed(count + 1, sizeof(*entrances));
	uint32_t *wholes = alloc_zeroed(count + 1, sizeof(*wholes));

	for (size_t i = 0; i < count; i++)
		entrances[i].from = NOBODY;
	for (size_t i = 0; i < facts->edge_count; i++)
		note_edge(entrances, &facts->edges[i]);
	for (size_t i = 0; i < facts->edge_count; i++)
		note_return(entrances, &facts->edges[i]);
	for (size_t i = 0; i < count; i++) {
		const struct entrance *entrance = &entrances[i];
		const bool part = entrance->from < SEVERAL && !entrance->called && entrance->sure &&
				  !functions->items[i].name;
		wholes[i] = part ? entrance->from : (uint32_t)i;
	}
	settle_pairs(image, wholes);
	for (int depth = 0; depth < MAX_DEPTH; depth++)
		for (size_t i = 0; i < count; i++)
			wholes[i] = wholes[wholes[i]];
	free(entrances);
	return wholes;
}
