/* SPDX-License-Identifier: MIT */
/*
 * One row of offsets and behaviours per CPython version, for x86-64. Facts from CPython's own
 * headers (tests/layouts compiles them anew against every installed interpreter). What
 * a row does not name is LAYOUT_ABSENT, never 0: 0 is a legal offset.
 *
 * 3.13 and later: the row holds what _Py_DebugOffsets lacks, and first values for the rest;
 * runtime.c replaces those by what the target itself says.
 */
#include "python/layout.h"

#define X(struct_, member) .struct_##_##member = LAYOUT_ABSENT,
#define ALL_ABSENT PYTHON_LAYOUT_FIELDS(X)

/* Members that no version from 3.10 to 3.13 has moved. */
#define COMMON                                                                                     \
	.gil_last_holder = 8, .gil_locked = 16, .tstate_next = 8, .tstate_interp = 16,             \
	.object_type = 8, .object_var_size = 16, .type_flags = 168, .type_basicsize = 32,          \
	.type_dictoffset = 288, .bytes_data = 32, .unicode_length = 16, .unicode_state = 32,       \
	.integer_digits = 24, .module_dict = 16, .dict_keys = 32, .dict_values = 40,               \
	.root = ROOT_RUNTIME, .gc_place = GC_BY_INTERPRETER, .string_form = STRINGS_COMPACT,       \
	.thread_name = "_name"

/* Each row starts as ALL_ABSENT, on purpose overridden by what follows. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

static const struct python_layout rows[] = {
	{
		ALL_ABSENT COMMON,
		.major = 3,
		.minor = 10,
		.chain = CHAIN_HEAP_FRAMES,
		.lines = PYTHON_LINES_310,
		.gil_place = GIL_IN_RUNTIME,
		.integer_form = INTEGER_SIGNED_SIZE,
		.keys_form = KEYS_TABLE_SIZE,
		.attributes = ATTRIBUTES_DICT,
		.lasti_unit = 2,
		.shim_owner = 0xff,
		.runtime_interpreters_head = 32,
		.runtime_finalizing = 16,
		.runtime_tstate_current = 568,
		.runtime_gil = 352,
		.interp_next = 0,
		.interp_threads_head = 8,
		.interp_id = 24,
		.interp_modules = 856,
		.interp_gc_collecting = 816,
		.tstate_frame = 24,
		.tstate_cframe = 48,
		.tstate_root_cframe = 264,
		.tstate_thread_id = 176,
		.tstate_id = 256,
		.tstate_size = 280,
		.cframe_previous = 8,
		.cframe_size = 16,
		.frame_back = 24,
		.frame_code = 32,
		.frame_lasti = 96,
		.frame_size = 104,
		.code_firstlineno = 40,
		.code_filename = 104,
		.code_name = 112,
		.code_linetable = 120,
		.code_size = 176,
		.type_cached_keys = 872,
		.unicode_ascii_size = 48,
		.unicode_compact_size = 72,
		.unicode_data = 72,
		.keys_table_size = 8,
		.keys_entry_count = 32,
		.keys_indices = 40,
		.values_first = 0,
	},
	{
		ALL_ABSENT COMMON,
		.major = 3,
		.minor = 11,
		.chain = CHAIN_CFRAME,
		.lines = PYTHON_LINES_311,
		.gil_place = GIL_IN_RUNTIME,
		.integer_form = INTEGER_SIGNED_SIZE,
		.keys_form = KEYS_LOG2_AND_KIND,
		.attributes = ATTRIBUTES_DICT_AND_VALUES,
		.shim_owner = 0xff,
		.runtime_interpreters_head = 40,
		.runtime_finalizing = 24,
		.runtime_tstate_current = 576,
		.runtime_gil = 360,
		.interp_next = 0,
		.interp_threads_head = 16,
		.interp_id = 48,
		.interp_modules = 888,
		.interp_gc_collecting = 848,
		.tstate_cframe = 56,
		.tstate_root_cframe = 336,
		.tstate_thread_id = 152,
		.tstate_native_thread_id = 160,
		.tstate_id = 240,
		.tstate_datastack_chunk = 296,
		.tstate_datastack_top = 304,
		.tstate_size = 360,
		.cframe_current_frame = 8,
		.cframe_previous = 16,
		.cframe_size = 24,
		.chunk_previous = 0,
		.chunk_length = 8,
		.chunk_data = 24,
		.iframe_code = 32,
		.iframe_previous = 48,
		.iframe_instruction = 56,
		.iframe_is_entry = 68,
		.iframe_owner = 69,
		.iframe_size = 80,
		.code_firstlineno = 72,
		.code_filename = 112,
		.code_name = 128,
		.code_linetable = 136,
		.code_bytecode = 184,
		.code_firsttraceable = 168,
		.code_size = 192,
		.type_cached_keys = 872,
		.unicode_ascii_size = 48,
		.unicode_compact_size = 72,
		.unicode_data = 72,
		.keys_log2_index_bytes = 9,
		.keys_kind = 10,
		.keys_entry_count = 24,
		.keys_indices = 32,
		.values_first = 0,
		.instance_dict_before = 24,
		.instance_values_before = 32,
	},
	{
		ALL_ABSENT COMMON,
		.major = 3,
		.minor = 12,
		.chain = CHAIN_CFRAME_SHIM,
		.lines = PYTHON_LINES_311,
		.gil_place = GIL_BY_INTERPRETER,
		.integer_form = INTEGER_TAG,
		.keys_form = KEYS_LOG2_AND_KIND,
		.attributes = ATTRIBUTES_TAGGED_WORD,
		.shim_owner = 3,
		.runtime_interpreters_head = 40,
		.runtime_finalizing = 24,
		.interp_next = 0,
		.interp_threads_head = 72,
		.interp_id = 8,
		.interp_modules = 944,
		.interp_gil = 384,
		.interp_gc_collecting = 312,
		.tstate_cframe = 56,
		.tstate_root_cframe = 272,
		.tstate_thread_id = 136,
		.tstate_native_thread_id = 144,
		.tstate_id = 224,
		.tstate_datastack_chunk = 232,
		.tstate_datastack_top = 240,
		.tstate_size = 288,
		.cframe_current_frame = 0,
		.cframe_previous = 8,
		.cframe_size = 16,
		.chunk_previous = 0,
		.chunk_length = 8,
		.chunk_data = 24,
		.iframe_code = 0,
		.iframe_previous = 8,
		.iframe_instruction = 56,
		.iframe_owner = 70,
		.iframe_size = 80,
		.code_firstlineno = 68,
		.code_filename = 112,
		.code_name = 128,
		.code_linetable = 136,
		.code_bytecode = 192,
		.code_firsttraceable = 176,
		.code_size = 200,
		.type_cached_keys = 880,
		.unicode_ascii_size = 40,
		.unicode_compact_size = 56,
		.unicode_data = 56,
		.keys_log2_index_bytes = 9,
		.keys_kind = 10,
		.keys_entry_count = 24,
		.keys_indices = 32,
		.values_first = 0,
		.instance_dict_before = 24,
	},
	{
		ALL_ABSENT COMMON,
		.major = 3,
		.minor = 13,
		.debug_offsets = true,
		.chain = CHAIN_SHIM,
		.lines = PYTHON_LINES_311,
		.gil_place = GIL_BY_INTERPRETER,
		.integer_form = INTEGER_TAG,
		.keys_form = KEYS_LOG2_AND_KIND,
		.attributes = ATTRIBUTES_INLINE,
		.shim_owner = 3,
		.runtime_interpreters_head = 632,
		.runtime_finalizing = 608,
		.interp_next = 7264,
		.interp_threads_head = 7344,
		.interp_id = 7272,
		.interp_modules = 7656,
		.interp_gil = 16,
		.interp_gc_collecting = 7600,
		.tstate_current_frame = 72,
		.tstate_thread_id = 152,
		.tstate_native_thread_id = 160,
		.tstate_id = 224,
		.tstate_datastack_chunk = 232,
		.tstate_datastack_top = 240,
		.tstate_size = 304,
		.chunk_previous = 0,
		.chunk_length = 8,
		.chunk_data = 24,
		.iframe_code = 0,
		.iframe_previous = 8,
		.iframe_instruction = 56,
		.iframe_owner = 70,
		.iframe_size = 80,
		.code_firstlineno = 68,
		.code_filename = 112,
		.code_name = 128,
		.code_linetable = 136,
		.code_bytecode = 200,
		.code_firsttraceable = 184,
		.code_size = 208,
		.type_cached_keys = 880,
		.unicode_ascii_size = 40,
		.unicode_compact_size = 56,
		.unicode_data = 56,
		.keys_log2_index_bytes = 9,
		.keys_kind = 10,
		.keys_entry_count = 24,
		.keys_indices = 32,
		.values_first = 8,
		.instance_dict_before = 24,
	},
};

#pragma GCC diagnostic pop
#undef X

static const struct python_layout_field fields[] = {
#define X(struct_, member)                                                                         \
	{#struct_ "." #member, offsetof(struct python_layout, struct_##_##member)},
	PYTHON_LAYOUT_FIELDS(X)
#undef X
};

const struct python_layout *python_layout_row(size_t index)
{
	return index < sizeof(rows) / sizeof(*rows) ? &rows[index] : NULL;
}

const struct python_layout *python_layout_find(unsigned major, unsigned minor, bool free_threaded)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].major == major && rows[i].minor == minor &&
		    rows[i].free_threaded == free_threaded)
			return &rows[i];
	return NULL;
}

const struct python_layout_field *python_layout_fields(size_t *count)
{
	*count = sizeof(fields) / sizeof(*fields);
	return fields;
}
