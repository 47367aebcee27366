/* SPDX-License-Identifier: MIT */
/*
 * Which native frame runs which Python frame, in versions without entry records (<= 3.9).
 */
#include "base/alloc.h"
#include "python/internal.h"

void python_find_activations(const struct python_runtime *runtime,
			     const struct memory_reader *memory, const struct python_slice *slices,
			     size_t slice_count, struct walk_room *room)
{
	(void)runtime, (void)memory, (void)slices, (void)slice_count;
	for (size_t i = 0; i < room->frame_count; i++) {
		room->activations =
			alloc_room(room->activations, &room->activation_capacity,
				   room->activation_count + 1, sizeof(*room->activations));
		room->activations[room->activation_count++] =
			(struct python_activation){0, (uint32_t)i, 1};
	}
}
