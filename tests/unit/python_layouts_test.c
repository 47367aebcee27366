/* SPDX-License-Identifier: MIT */
/* The rows as data: found by version, inside of the readers' buffers, whole where their enums say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "python/internal.h"

static uint16_t offset_of(const struct python_layout *layout,
			  const struct python_layout_field *field)
{
	uint16_t offset;
	memcpy(&offset, (const char *)layout + field->offset, sizeof(offset));
	return offset;
}

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static void rows_are_found_by_version_and_build(void **state)
{
	(void)state;
	static const struct {
		unsigned major, minor;
		bool free_threaded, there;
	} cases[] = {
		{2, 6, false, false}, {2, 7, false, true},   {2, 8, false, false},
		{3, 2, false, false}, {3, 3, false, true},   {3, 12, false, true},
		{3, 12, true, false}, {3, 13, true, true},   {3, 15, false, true},
		{3, 15, true, true},  {3, 16, false, false}, {4, 7, false, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct python_layout *row =
			python_layout_find(cases[i].major, cases[i].minor, cases[i].free_threaded);
		assert_int_equal(row != NULL, cases[i].there);
		if (row)
			assert_true(row->major == cases[i].major && row->minor == cases[i].minor &&
				    row->free_threaded == cases[i].free_threaded);
	}
	const struct python_layout *row;
	size_t count = 0;
	for (; (row = python_layout_row(count)) != NULL; count++)
		assert_ptr_equal(python_layout_find(row->major, row->minor, row->free_threaded),
				 row);
	assert_int_equal(count, 1 + 13 + 3);
}

/* What is read whole, and the buffer that it is read into; the longest read of a member. */
static const struct {
	const char *record, *size;
	size_t buffer;
} records[] = {
	{"tstate.", "tstate.size", MAX_TSTATE}, {"cframe.", "cframe.size", MAX_RECORD},
	{"frame.", "frame.size", MAX_RECORD},	{"iframe.", "iframe.size", MAX_RECORD},
	{"code.", "code.size", MAX_CODE},	{"chunk.", "chunk.data", MAX_RECORD},
	{"keys.", "keys.indices", MAX_RECORD},
};

static size_t bytes_of(const char *field)
{
	static const char *const bytes[] = {"iframe.owner", "iframe.is_entry",
					    "keys.log2_index_bytes", "keys.kind"};
	static const char *const ints[] = {"frame.lasti", "iframe.tlbc_index", "code.firstlineno",
					   "code.firsttraceable"};
	for (size_t i = 0; i < 4; i++)
		if (strcmp(field, bytes[i]) == 0)
			return 1;
		else if (strcmp(field, ints[i]) == 0)
			return 4;
	return 8;
}

static void expect_records_fit(const struct python_layout *layout)
{
	size_t count;
	const struct python_layout_field *fields = python_layout_fields(&count);
	for (size_t i = 0; i < sizeof(records) / sizeof(*records); i++) {
		size_t size = 0, end = 0;
		for (size_t j = 0; j < count; j++) {
			uint16_t offset = offset_of(layout, &fields[j]);
			const char *name = fields[j].name;
			if (offset == LAYOUT_ABSENT)
				continue;
			if (strcmp(name, records[i].size) == 0)
				size = offset;
			else if (starts_with(name, records[i].record) &&
				 strcmp(name, "code.bytecode") != 0 &&
				 strcmp(name, "tstate.root_cframe") != 0 &&
				 offset + bytes_of(name) > end)
				end = offset + bytes_of(name);
		}
		if (size > records[i].buffer || end > size)
			fail_msg("%u.%u: %s %zu, members to %zu, buffer %zu", layout->major,
				 layout->minor, records[i].size, size, end, records[i].buffer);
	}
	if (layout->string_form != STRINGS_BYTES)
		assert_in_range(layout->unicode_ascii_size, layout->unicode_state + 4, MAX_RECORD);
	assert_in_range(layout->bytes_data, layout->object_var_size + 8, MAX_RECORD);
	assert_true(layout->object_type + 8 <= layout->code_size);
}

static void members_lie_inside_of_what_is_read(void **state)
{
	(void)state;
	const struct python_layout *row;
	for (size_t i = 0; (row = python_layout_row(i)) != NULL; i++) {
		struct python_layout debug = *row;
		expect_records_fit(row);
		python_layout_add_header(&debug, row->trace_refs);
		expect_records_fit(&debug);
	}
}

static void expect_present(const struct python_layout *layout, const uint16_t *offsets,
			   size_t count, const char *what)
{
	for (size_t i = 0; i < count; i++)
		if (offsets[i] == LAYOUT_ABSENT)
			fail_msg("%u.%u: member %zu of %s is absent", layout->major, layout->minor,
				 i, what);
}

#define EXPECT_PRESENT(layout, what, ...)                                                          \
	do {                                                                                       \
		const uint16_t offsets[] = {__VA_ARGS__};                                          \
		expect_present(layout, offsets, sizeof(offsets) / sizeof(*offsets), what);         \
	} while (0)

static void expect_chain(const struct python_layout *l)
{
	switch (l->chain) {
	case CHAIN_FRAMES:
		if (l->minor == 10)
			EXPECT_PRESENT(l, "records", l->tstate_cframe, l->tstate_root_cframe,
				       l->cframe_previous, l->cframe_size);
		EXPECT_PRESENT(l, "frame objects", l->tstate_frame, l->frame_back, l->frame_code,
			       l->frame_lasti, l->frame_size);
		assert_true(l->lasti_unit == 1 || l->lasti_unit == 2);
		return;
	case CHAIN_CFRAME:
	case CHAIN_CFRAME_SHIM:
		EXPECT_PRESENT(l, "records", l->tstate_cframe, l->tstate_root_cframe,
			       l->cframe_current_frame, l->cframe_previous, l->cframe_size);
		break;
	case CHAIN_SHIM:
		EXPECT_PRESENT(l, "chain", l->tstate_current_frame);
		break;
	}
	EXPECT_PRESENT(l, "frames", l->iframe_code, l->iframe_previous, l->iframe_instruction,
		       l->iframe_owner, l->iframe_size, l->code_bytecode, l->code_firsttraceable,
		       l->tstate_datastack_chunk, l->tstate_datastack_top, l->chunk_previous,
		       l->chunk_length, l->chunk_data);
	assert_int_equal(l->chain == CHAIN_CFRAME, l->iframe_is_entry != LAYOUT_ABSENT);
	assert_int_equal(l->chain == CHAIN_CFRAME, l->shim_owner == 0xff);
	assert_int_equal(l->iframe_tlbc_index == LAYOUT_ABSENT, l->code_tlbc == LAYOUT_ABSENT);
}

static void expect_state(const struct python_layout *l)
{
	if (l->root == ROOT_RUNTIME)
		EXPECT_PRESENT(l, "runtime", l->runtime_interpreters_head, l->runtime_finalizing,
			       l->interp_id, l->tstate_id);
	if (l->gil_place == GIL_IN_RUNTIME)
		EXPECT_PRESENT(l, "GIL", l->runtime_gil, l->runtime_tstate_current);
	if (l->gil_place == GIL_BY_INTERPRETER)
		EXPECT_PRESENT(l, "GIL", l->interp_gil, l->gil_last_holder, l->gil_locked);
	assert_int_equal(l->free_threaded, l->gil_enabled != LAYOUT_ABSENT);
	if (l->gc_place != GC_BY_VARIABLE)
		EXPECT_PRESENT(l, "collector",
			       l->gc_place == GC_IN_RUNTIME ? l->runtime_gc_collecting
							    : l->interp_gc_collecting);
	assert_true(l->root && l->lines <= PYTHON_LINES_311 && l->gil_place && l->gc_place);
}

static void expect_names(const struct python_layout *l)
{
	if (l->string_form == STRINGS_BYTES)
		assert_true(l->unicode_width == 4 || l->unicode_width == 2);
	else
		EXPECT_PRESENT(l, "str", l->unicode_state, l->unicode_ascii_size,
			       l->unicode_compact_size);
	EXPECT_PRESENT(l, "str", l->unicode_length, l->unicode_data, l->bytes_data);
	switch (l->keys_form) {
	case KEYS_MASK:
		EXPECT_PRESENT(l, "dict", l->dict_mask, l->dict_table);
		break;
	case KEYS_TABLE_SIZE:
		EXPECT_PRESENT(l, "keys", l->keys_entry_count);
		/* fall through */
	case KEYS_SLOTS:
		EXPECT_PRESENT(l, "keys", l->dict_keys, l->dict_values, l->keys_table_size,
			       l->keys_indices, l->values_first);
		break;
	case KEYS_LOG2_AND_KIND:
		EXPECT_PRESENT(l, "keys", l->dict_keys, l->dict_values, l->keys_log2_index_bytes,
			       l->keys_kind, l->keys_entry_count, l->keys_indices,
			       l->type_cached_keys, l->instance_dict_before);
		break;
	}
	assert_int_equal(l->attributes == ATTRIBUTES_DICT,
			 l->instance_dict_before == LAYOUT_ABSENT);
	assert_int_equal(l->attributes == ATTRIBUTES_DICT_AND_VALUES,
			 l->instance_values_before != LAYOUT_ABSENT);
	assert_int_equal(l->integer_form == INTEGER_PLAIN, l->integer_value != LAYOUT_ABSENT);
	assert_true(l->attributes && l->integer_form && l->thread_name);
}

static void rows_have_all_that_their_behaviours_need(void **state)
{
	(void)state;
	const struct python_layout *row;
	for (size_t i = 0; (row = python_layout_row(i)) != NULL; i++) {
		expect_chain(row);
		expect_state(row);
		expect_names(row);
		EXPECT_PRESENT(row, "all", row->interp_next, row->interp_threads_head,
			       row->interp_modules, row->tstate_next, row->tstate_interp,
			       row->tstate_thread_id, row->tstate_size, row->code_firstlineno,
			       row->code_filename, row->code_name, row->code_linetable,
			       row->code_size, row->object_type, row->object_var_size,
			       row->type_flags, row->type_dictoffset, row->module_dict,
			       row->integer_digits);
	}
}

static void more_header_moves_members_of_objects_alone(void **state)
{
	(void)state;
	size_t count;
	const struct python_layout_field *fields = python_layout_fields(&count);
	const struct python_layout *row;
	for (size_t i = 0; (row = python_layout_row(i)) != NULL; i++) {
		struct python_layout moved = *row;
		python_layout_add_header(&moved, 16);
		assert_int_equal(moved.object_type, row->object_type + 16);
		for (size_t j = 0; j < count; j++) {
			const char *const still[] = {"runtime.", "interp.",  "gil.",	"tstate.",
						     "cframe.",	 "chunk.",   "iframe.", "keys.",
						     "values.",	 "instance."};
			uint16_t more = offset_of(row, &fields[j]) == LAYOUT_ABSENT ? 0 : 16;
			for (size_t k = 0; k < sizeof(still) / sizeof(*still); k++)
				if (starts_with(fields[j].name, still[k]))
					more = 0;
			assert_int_equal(offset_of(&moved, &fields[j]),
					 offset_of(row, &fields[j]) + more);
		}
		assert_int_equal(row->trace_refs, row->debug_offsets ? 0 : 16);
	}
}

static void early_micro_versions_differ(void **state)
{
	(void)state;
	const struct python_layout *row;
	for (size_t i = 0; (row = python_layout_row(i)) != NULL; i++)
		for (unsigned micro = 0; micro < 30; micro++) {
			struct python_layout layout = *row, expected = *row;
			python_layout_set_micro(&layout, micro);
			if (row->major == 3 && row->minor == 7 && micro <= 3) {
				expected.runtime_gc_collecting = 544;
				expected.runtime_gil = 1176;
				expected.runtime_tstate_current = 1392;
			}
			assert_memory_equal(&layout, &expected, sizeof(layout));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_found_by_version_and_build),
		cmocka_unit_test(members_lie_inside_of_what_is_read),
		cmocka_unit_test(rows_have_all_that_their_behaviours_need),
		cmocka_unit_test(early_micro_versions_differ),
		cmocka_unit_test(more_header_moves_members_of_objects_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
