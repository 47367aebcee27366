/* SPDX-License-Identifier: MIT */
/* Arrays that grow at their front. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

/* Items 1 to `count`, the last one at the room's end. */
static void check_items(const uint32_t *items, size_t capacity, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(items[capacity - 1 - i], count - i);
}

static void what_is_kept_in_front_growing_room_stays_at_the_end(void **state)
{
	uint32_t *items = NULL;
	size_t capacity = 0;
	(void)state;
	for (uint32_t count = 1; count < 2000; count += count / 3 + 1) {
		/* Of those that are there, all but the first two are kept. */
		const uint32_t before = (count - 1) * 3 / 4, kept = before > 2 ? before - 2 : 0;
		for (uint32_t i = 0; i < before && capacity > 0; i++)
			items[capacity - 1 - i] = count - i;
		items = alloc_room_in_front(items, &capacity, kept, count, sizeof(*items));
		assert_true(capacity >= count);
		for (uint32_t i = kept; i < count; i++)
			items[capacity - 1 - i] = count - i;
		check_items(items, capacity, count);
	}
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_in_front_growing_room_stays_at_the_end),
	};
	return cmocka_run_group_tests_name("base_alloc", tests, NULL, NULL);
}
