/* SPDX-License-Identifier: MIT */
/*
 * What others see of unwind/: an unwinder, and one walk with it. Unwind information and code are
 * followed as far as they lead (snapshot.c), a guess is made where they do not (guess.c), and so
 * on.
 */
#include "unwind/internal.h"
#include "unwind/walk_cache.h"

#include <stdlib.h>

#include "base/alloc.h"

static void free_caches(struct unwinder *unwinder)
{
	for (size_t i = 0; unwinder->modules && i < unwinder->modules->module_count; i++) {
		frame_index_free(unwinder->modules->modules[i]->unwind_cache);
		unwinder->modules->modules[i]->unwind_cache = NULL;
	}
}

void unwinder_forget(struct unwinder *unwinder)
{
	rows_flush(unwinder);
	free_caches(unwinder);
}

void unwinder_free(struct unwinder *unwinder)
{
	if (!unwinder)
		return;
	free_caches(unwinder);
	if (unwinder->space)
		unw_destroy_addr_space(unwinder->space);
	cache_table_release(&unwinder->answers);
	analysis_free(unwinder);
	free(unwinder->store.rows);
	free(unwinder->store.ranges);
	free(unwinder->store.states);
	id_table_release(&unwinder->store.state_ids);
	free(unwinder);
}

static bool unwind_snapshot(struct unwinder *unwinder, const struct unwind_request *request,
			    struct unwind_stack *stack, struct error *error)
{
	struct registers current = *request->registers;
	bool exact = true;
	stack->walk = ++unwinder->walks;
	if (!unwinder->space)
		return error_set(error, ERROR_SYSTEM, "cannot make an address space of libunwind");
	if (~current.known & (1u << REGISTER_RIP | 1u << REGISTER_RSP))
		return error_set(error, ERROR_CORRUPT, "registers without PC or SP");
	if (unwinder->generation != unwinder->modules->generation)
		rows_flush(unwinder);
	unwinder->generation = unwinder->modules->generation;
	unwinder->request = *request;
	unwinder->frame_pointer = 0;
	unwinder->unread = 0;
	unwinder->moves_back = UNWIND_MOVES_BACK_LIMIT;
	unwinder->guess_walks = 2000;
	unwinder->guess_steps = 200000;
	unwinder->guess_words = 1 << 20;
	walk_cache_begin(unwinder, current.value[REGISTER_RSP]);
	do {
		stack->end = snapshot_walk(unwinder, &current, &exact, stack);
	} while (guess_caller(unwinder, &current, &exact, stack, stack->end));
	stack->unread = unwinder->unread;
	walk_cache_learn(unwinder, stack);
	unwinder->request = (struct unwind_request){0};
	return true;
}

struct unwinder *unwinder_new(struct module_table *table)
{
	struct unwinder *const unwinder = alloc_zeroed(1, sizeof(*unwinder));
	unwinder->backend = unwind_snapshot;
	unwinder->modules = table;
	unwinder->generation = table->generation;
	unwinder->space = space_new();
	return unwinder;
}

bool unwind_thread(struct unwinder *unwinder, const struct unwind_request *request,
		   struct unwind_stack *stack, struct error *error)
{
	stack->count = stack->guessed = stack->reused = 0;
	stack->reused_from = 0;
	return unwinder->backend(unwinder, request, stack, error);
}
