/* SPDX-License-Identifier: MIT */
/*
 * What is read of a module's file while raw samples are captured, so that they can be decoded on a
 * machine that has no such file: the bytes that were asked for, and what was found in tables that
 * are looked through as a whole, which would be megabytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "modules/internal.h"

void module_record_free(struct module_record *record)
{
	if (!record)
		return;
	blocks_release(&record->image);
	for (size_t i = 0; i < record->answer_count; i++)
		free(record->answers[i].places);
	free(record->answers);
	free(record->functions);
	free(record->stated);
	free(record->pcs);
	free(record->kept);
	table_release(&record->pc_ids);
	table_release(&record->function_ids);
	free(record);
}

struct module module_unrecorded(const struct module *module)
{
	struct module copy = *module;
	if (copy.record && !copy.record->replayed)
		copy.record = NULL;
	return copy;
}

/* ---- answers ---- */

/* The number of a question in the file: FNV-1a of its kind and its names. */
uint64_t module_question(char kind, const char *const names[], size_t count)
{
	uint64_t hash = (UINT64_C(0xcbf29ce484222325) ^ (uint8_t)kind) * UINT64_C(0x100000001b3);
	for (size_t i = 0; i < count; i++)
		for (const char *at = names[i];; at++) {
			hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
			if (!*at)
				break;
		}
	return hash;
}

const struct module_answer *module_record_find(const struct module_record *record,
					       uint64_t question)
{
	for (size_t i = 0; i < record->answer_count; i++)
		if (record->answers[i].question == question)
			return &record->answers[i];
	return NULL;
}

void module_record_add(struct module_record *record, uint64_t question,
		       const struct module_place *places, size_t count)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++)
		found += places[i].found;
	/* Most modules are asked in vain. */
	if (!found || module_record_find(record, question))
		return;
	record->answers = alloc_room(record->answers, &record->answer_capacity,
				     record->answer_count + 1, sizeof(*record->answers));
	struct module_answer *const answer = &record->answers[record->answer_count++];
	*answer = (struct module_answer){.question = question};
	answer->places = alloc_zeroed(found, sizeof(*places));
	for (size_t i = 0; i < count; i++)
		if (places[i].found)
			answer->places[answer->count++] = places[i];
}

void module_record_function(struct module_record *record, const struct module_place *function)
{
	uint32_t index;
	if (table_find(&record->function_ids, function->vaddr, 0, &index))
		return;
	table_put(&record->function_ids, function->vaddr, 0, (uint32_t)record->function_count);
	record->functions = alloc_room(record->functions, &record->function_capacity,
				       record->function_count + 1, sizeof(*record->functions));
	record->functions[record->function_count++] = *function;
}

void module_record_pc(struct module_record *record, uint64_t vaddr)
{
	enum { MOST = 1 << 20 };
	uint32_t index;
	if (record->replayed || record->pc_count == MOST ||
	    table_find(&record->pc_ids, vaddr, 0, &index))
		return;
	table_put(&record->pc_ids, vaddr, 0, (uint32_t)record->pc_count);
	record->pcs = alloc_room(record->pcs, &record->pc_capacity, record->pc_count + 1,
				 sizeof(*record->pcs));
	record->pcs[record->pc_count++] = vaddr;
}

bool module_record_is_used(const struct module_record *record)
{
	return record && (record->image.count > record->header_blocks || record->answer_count ||
			  record->function_count);
}
