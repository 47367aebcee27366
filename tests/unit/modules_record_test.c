/* SPDX-License-Identifier: MIT */
/* A module made from what was read of a file has that, and says so of the rest. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "modules/module.h"

static const char *const names[] = {"main", "no_such_function"};
enum { NAMES = 2, SIZE = 100 };

struct found {
	struct module_place places[NAMES];
	struct module_place part;
	uint8_t code[SIZE];
};

static void look(const struct module *module, struct found *found)
{
	memset(found, 0, sizeof(*found));
	assert_int_equal(module_find_symbols(module, names, NAMES, found->places), 1);
	assert_int_equal(module_find_parts(module, names, NAMES, &found->part, 1), 1);
	assert_true(module_read(module, found->places[0].vaddr, found->code, SIZE, NULL));
}

/* As a capture and its replay do it. */
static struct module_record *copy(const struct module_record *from)
{
	struct module_record *record = alloc_zeroed(1, sizeof(*record));
	record->file_size = from->file_size;
	for (size_t i = 0; i < from->image.count; i++)
		blocks_put(&record->image, from->image.addresses[i],
			   from->image.bytes + i * BLOCKS_STEP);
	for (size_t i = 0; i < from->answer_count; i++)
		module_record_add(record, from->answers[i].question, from->answers[i].places,
				  from->answers[i].count);
	return record;
}

static void what_was_read_is_there_without_the_file(void **state)
{
	struct module_table table;
	struct module *module, *again;
	struct found before, after;
	struct error error;
	uint8_t byte;
	(void)state;
	module_table_init(&table);
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(module_table_add(&table, "/test", fd, NULL, 0, 0x1000, &module, &error));
	module_record_start(module);
	assert_false(module_record_is_used(module->record));
	look(module, &before);
	assert_true(module_record_is_used(module->record));

	assert_true(module_table_add_recorded(&table, "/test", copy(module->record), 0x1000, &again,
					      &error));
	look(again, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(again->segment_count, module->segment_count);
	assert_int_equal(again->section_count, module->section_count);
	assert_true(build_id_equal(&again->build_id, &module->build_id));

	/* Far from that function. */
	assert_false(
		module_read(again, before.places[0].vaddr + 64 * BLOCKS_STEP, &byte, 1, &error));
	assert_int_equal(error.kind, ERROR_ABSENT);
	module_table_release(&table);
}

static void tables_that_are_looked_through_are_not_kept(void **state)
{
	struct module_table table;
	struct module *module;
	struct found found;
	struct error error;
	(void)state;
	module_table_init(&table);
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(module_table_add(&table, "/test", fd, NULL, 0, 0, &module, &error));
	module_record_start(module);
	const size_t headers = module->record->image.count;
	look(module, &found);
	assert_in_range(module->record->image.count, headers + 1, headers + SIZE / BLOCKS_STEP + 2);
	module_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_read_is_there_without_the_file),
		cmocka_unit_test(tables_that_are_looked_through_are_not_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
