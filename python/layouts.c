/* SPDX-License-Identifier: MIT */
/*
 * One row of offsets and behaviours per CPython version, for x86-64. Facts from CPython's own
 * headers and debug information (tests/layouts compares both anew for every interpreter there is).
 * What a row does not name is LAYOUT_ABSENT, never 0: 0 is a legal offset.
 *
 * Versions share most of a struct's members, so those are in macros, named after the
 * first version that has them so. 3.13 and later: the target itself gives most offsets, too;
 * debug_offsets.c compares them with the row, and takes those that move between micro versions.
 */
#include <string.h>

#include "python/layout.h"

#define X(struct_, member) .struct_##_##member = LAYOUT_ABSENT,
#define ALL_ABSENT PYTHON_LAYOUT_FIELDS(X)

/* Each row starts as ALL_ABSENT, on purpose overridden by what follows. */
#define ROW(major_, minor_)                                                                        \
	ALL_ABSENT.major = (major_), .minor = (minor_), .shim_owner = 0xff,                        \
	.thread_name = "_name", .trace_refs = 16

/* ---- objects; free-threaded builds have 16 more bytes in the header of each ---- */

enum { GIL = 0, NO_GIL = 16 };

#define OBJECTS(more)                                                                              \
	.object_type = 8 + (more), .object_var_size = 16 + (more), .type_flags = 168 + (more),     \
	.type_basicsize = 32 + (more), .type_dictoffset = 288 + (more),                            \
	.integer_digits = 24 + (more), .module_dict = 16 + (more)

#define STRINGS_27                                                                                 \
	.string_form = STRINGS_BYTES, .unicode_width = 4, .bytes_data = 36, .unicode_length = 16,  \
	.unicode_data = 24, .unicode_hash = 24
#define STRINGS_33                                                                                 \
	.string_form = STRINGS_COMPACT, .bytes_data = 32, .unicode_length = 16,                    \
	.unicode_hash = 24, .unicode_state = 32, .unicode_ascii_size = 48,                         \
	.unicode_compact_size = 72, .unicode_data = 72, .unicode_wstr = 40,                        \
	.unicode_wstr_length = 64
#define STRINGS_312(more)                                                                          \
	.string_form = STRINGS_COMPACT, .bytes_data = 32 + (more), .unicode_length = 16 + (more),  \
	.unicode_hash = 24 + (more), .unicode_state = 32 + (more),                                 \
	.unicode_ascii_size = 40 + (more), .unicode_compact_size = 56 + (more),                    \
	.unicode_data = 56 + (more)

#define DICTS_27                                                                                   \
	.keys_form = KEYS_MASK, .attributes = ATTRIBUTES_DICT, .dict_mask = 32, .dict_table = 40
#define DICTS_33                                                                                   \
	.keys_form = KEYS_SLOTS, .attributes = ATTRIBUTES_DICT, .dict_keys = 24,                   \
	.dict_values = 32, .keys_table_size = 8, .keys_indices = 32, .values_first = 0
#define DICTS_36                                                                                   \
	.keys_form = KEYS_TABLE_SIZE, .attributes = ATTRIBUTES_DICT, .dict_keys = 32,              \
	.dict_values = 40, .keys_table_size = 8, .keys_entry_count = 32, .keys_indices = 40,       \
	.values_first = 0
#define DICTS_311(more)                                                                            \
	.keys_form = KEYS_LOG2_AND_KIND, .dict_keys = 32 + (more), .dict_values = 40 + (more),     \
	.keys_log2_index_bytes = 9, .keys_kind = 10, .keys_entry_count = 24, .keys_indices = 32

/* Free-threaded objects have no PyGC_Head between them and their dict: 8 rather than 24. */
#define INSTANCES_313(dict_before, cached_keys)                                                    \
	.attributes = ATTRIBUTES_INLINE, .values_first = 8, .instance_dict_before = (dict_before), \
	.type_cached_keys = (cached_keys)

#define INTEGERS_27                                                                                \
	.integer_form = INTEGER_PLAIN, .integer_value = 16, .thread_name = "_Thread__name"
#define INTEGERS_33 .integer_form = INTEGER_SIGNED_SIZE
#define INTEGERS_312 .integer_form = INTEGER_TAG

/* ---- frames and code objects ---- */

#define FRAMES_27(lasti)                                                                           \
	.chain = CHAIN_FRAMES, .frame_back = 24, .frame_code = 32, .frame_lasti = (lasti),         \
	.frame_size = (lasti) + 8, .lasti_unit = 1

#define CHUNKS .chunk_previous = 0, .chunk_length = 8, .chunk_data = 24

#define IFRAMES_313(owner)                                                                         \
	.chain = CHAIN_SHIM, .lines = PYTHON_LINES_311, .shim_owner = 3, .iframe_code = 0,         \
	.iframe_previous = 8, .iframe_instruction = 56, .iframe_owner = (owner), CHUNKS

#define CODE_27                                                                                    \
	.code_firstlineno = 96, .code_filename = 80, .code_name = 88, .code_linetable = 104,       \
	.code_size = 128, .lines = PYTHON_LINES_UNSIGNED
#define CODE_33                                                                                    \
	.code_firstlineno = 112, .code_filename = 96, .code_name = 104, .code_linetable = 120,     \
	.code_size = 144, .lines = PYTHON_LINES_UNSIGNED
#define CODE_36                                                                                    \
	.code_firstlineno = 36, .code_filename = 96, .code_name = 104, .code_linetable = 112,      \
	.code_size = 144, .lines = PYTHON_LINES_SIGNED
#define CODE_38                                                                                    \
	.code_firstlineno = 40, .code_filename = 104, .code_name = 112, .code_linetable = 120,     \
	.code_size = 176

/* The header ends where the instructions start. */
#define CODE_311(firstlineno, firsttraceable, bytecode, more)                                      \
	.code_firstlineno = (firstlineno) + (more), .code_filename = 112 + (more),                 \
	.code_name = 128 + (more), .code_linetable = 136 + (more),                                 \
	.code_firsttraceable = (firsttraceable) + (more), .code_bytecode = (bytecode) + (more),    \
	.code_size = (bytecode) + (more)

#define CODE_312(more) .code_framesize = 76 + (more), .code_version = 92 + (more)

/* ---- the runtime, interpreters, threads ---- */

#define VARIABLES                                                                                  \
	.root = ROOT_VARIABLES, .gil_place = GIL_BY_VARIABLE, .gc_place = GC_BY_VARIABLE,          \
	.interp_next = 0, .interp_threads_head = 8, .interp_modules = 16

#define RUNTIME(finalizing, interpreters_head)                                                     \
	.root = ROOT_RUNTIME, .runtime_finalizing = (finalizing),                                  \
	.runtime_interpreters_head = (interpreters_head)

#define GIL_37(gil, tstate_current)                                                                \
	.gil_place = GIL_IN_RUNTIME, .runtime_gil = (gil),                                         \
	.runtime_tstate_current = (tstate_current), .gil_last_holder = 8, .gil_locked = 16
#define GIL_312(gil)                                                                               \
	.gil_place = GIL_BY_INTERPRETER, .interp_gil = (gil), .gil_last_holder = 8, .gil_locked = 16
#define GIL_313T                                                                                   \
	.gil_place = GIL_BY_INTERPRETER, .interp_gil = 16, .gil_enabled = 0,                       \
	.gil_last_holder = 16, .gil_locked = 24, .free_threaded = true

#define GC_37(collecting) .gc_place = GC_IN_RUNTIME, .runtime_gc_collecting = (collecting)
#define GC_39(collecting) .gc_place = GC_BY_INTERPRETER, .interp_gc_collecting = (collecting)

#define TSTATE_27                                                                                  \
	.tstate_next = 0, .tstate_interp = 8, .tstate_frame = 16, .tstate_thread_id = 144,         \
	.tstate_size = 152
#define TSTATE_34                                                                                  \
	.tstate_next = 8, .tstate_interp = 16, .tstate_frame = 24, .tstate_thread_id = 152,        \
	.tstate_size = 160
#define TSTATE_37(id)                                                                              \
	.tstate_next = 8, .tstate_interp = 16, .tstate_frame = 24, .tstate_thread_id = 176,        \
	.tstate_id = (id), .tstate_size = (id) + 8
#define TSTATE_311(thread_id, id, datastack_chunk)                                                 \
	.tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = (thread_id),                    \
	.tstate_native_thread_id = (thread_id) + 8, .tstate_id = (id),                             \
	.tstate_datastack_chunk = (datastack_chunk), .tstate_datastack_top = (datastack_chunk) + 8
#define TSTATE_313(thread_id, id)                                                                  \
	TSTATE_311(thread_id, id, (id) + 8), .tstate_current_frame = 72, .tstate_size = (id) + 24

/* ---- 3.13 and later: a build with the GIL and one without differ in few places ---- */

#define ALL_313(more)                                                                              \
	.debug_offsets = true, .trace_refs = 0, RUNTIME(608, 632), .interp_next = 7264,            \
	.interp_id = 7272, .interp_threads_head = 7344, GC_39(7600), TSTATE_313(152, 224),         \
	OBJECTS(more), STRINGS_312(more), INTEGERS_312, DICTS_311(more),                           \
	CODE_311(68, 184, 200, more), CODE_312(more), IFRAMES_313(70), .iframe_size = 80
#define ALL_314(more)                                                                              \
	.debug_offsets = true, .trace_refs = 0, RUNTIME(784, 808), .interp_next = 7272,            \
	.interp_id = 7280, .interp_threads_head = 7344, GC_39(7600), TSTATE_313(152, 224),         \
	OBJECTS(more), STRINGS_312(more), INTEGERS_312, DICTS_311(more), .tag_mask = 3,            \
	CODE_312(more), .iframe_size = 88
#define ALL_315(more)                                                                              \
	.debug_offsets = true, .trace_refs = 0, RUNTIME(912, 936), .interp_next = 7264,            \
	.interp_id = 7272, .interp_threads_head = 7336, .interp_modules = 7592, GC_39(7512),       \
	TSTATE_313(176, 248), OBJECTS(more), STRINGS_312(more), INTEGERS_312, DICTS_311(more),     \
	.tstate_base_frame = 80, .tag_mask = 3, CODE_312(more), .iframe_size = 88
/* 3.14 and later without the GIL: each thread may have its own copy of the instructions. */
#define THREAD_LOCAL_BYTECODE                                                                      \
	CODE_311(68, 192, 216, NO_GIL), .code_tlbc = 224, .iframe_tlbc_index = 72,                 \
					IFRAMES_313(78), .string_form = STRINGS_COMPACT_BYTE_STATE

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

/* clang-format off */
static const struct python_layout rows[] = {
	{
		ROW(2, 7), VARIABLES, TSTATE_27, FRAMES_27(120), CODE_27,
		OBJECTS(GIL), STRINGS_27, INTEGERS_27, DICTS_27,
	},
	{
		ROW(3, 3), VARIABLES, TSTATE_27, FRAMES_27(120), CODE_33,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_33,
	},
	{
		ROW(3, 4), VARIABLES, TSTATE_34, FRAMES_27(120), CODE_33,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_33,
	},
	{
		ROW(3, 5), VARIABLES, TSTATE_34, FRAMES_27(120), CODE_33,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_33,
	},
	{
		ROW(3, 6), VARIABLES, TSTATE_34, FRAMES_27(120), CODE_36,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_36,
	},
	{
		ROW(3, 7), RUNTIME(8, 24), GIL_37(1264, 1480), GC_37(632),
		.interp_next = 0, .interp_threads_head = 8, .interp_id = 16, .interp_modules = 40,
		TSTATE_37(272), FRAMES_27(104), CODE_36,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_36,
	},
	{
		ROW(3, 8), RUNTIME(16, 32), GIL_37(1152, 1368), GC_37(544),
		.interp_next = 0, .interp_threads_head = 8, .interp_id = 16, .interp_modules = 56,
		TSTATE_37(256), FRAMES_27(104), CODE_38, .lines = PYTHON_LINES_SIGNED,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_36,
	},
	{
		ROW(3, 9), RUNTIME(16, 32), GIL_37(352, 568), GC_39(816),
		.interp_next = 0, .interp_threads_head = 8, .interp_id = 24, .interp_modules = 856,
		TSTATE_37(256), FRAMES_27(104), CODE_38, .lines = PYTHON_LINES_SIGNED,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_36,
	},
	{
		ROW(3, 10), RUNTIME(16, 32), GIL_37(352, 568), GC_39(816),
		.interp_next = 0, .interp_threads_head = 8, .interp_id = 24, .interp_modules = 856,
		TSTATE_37(256), .tstate_cframe = 48, .tstate_root_cframe = 264, .tstate_size = 280,
		.cframe_previous = 8, .cframe_size = 16,
		FRAMES_27(96), .frame_generator = 88, .lasti_unit = 2,
		CODE_38, .lines = PYTHON_LINES_310,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_36,
	},
	{
		ROW(3, 11), RUNTIME(24, 40), GIL_37(360, 576), GC_39(848),
		.interp_next = 0, .interp_threads_head = 16, .interp_id = 48, .interp_modules = 888,
		TSTATE_311(152, 240, 296),
		.tstate_cframe = 56, .tstate_root_cframe = 336, .tstate_size = 360,
		.cframe_current_frame = 8, .cframe_previous = 16, .cframe_size = 24,
		.chain = CHAIN_CFRAME, .iframe_code = 32, .iframe_previous = 48,
		.iframe_instruction = 56, .iframe_is_entry = 68, .iframe_owner = 69,
		.iframe_size = 80, CHUNKS,
		CODE_311(72, 168, 184, GIL), .lines = PYTHON_LINES_311,
		.code_nlocalsplus = 76, .code_stacksize = 68, .code_warmup = 52,
		OBJECTS(GIL), STRINGS_33, INTEGERS_33, DICTS_311(GIL),
		.attributes = ATTRIBUTES_DICT_AND_VALUES, .values_first = 0,
		.instance_dict_before = 24, .instance_values_before = 32, .type_cached_keys = 872,
	},
	{
		ROW(3, 12), RUNTIME(24, 40), GIL_312(384), GC_39(312),
		.interp_next = 0, .interp_threads_head = 72, .interp_id = 8, .interp_modules = 944,
		TSTATE_311(136, 224, 232),
		.tstate_cframe = 56, .tstate_root_cframe = 272, .tstate_size = 288,
		.cframe_current_frame = 0, .cframe_previous = 8, .cframe_size = 16,
		.chain = CHAIN_CFRAME_SHIM, .shim_owner = 3, .iframe_code = 0,
		.iframe_previous = 8, .iframe_instruction = 56, .iframe_owner = 70,
		.iframe_size = 80, CHUNKS,
		CODE_311(68, 176, 192, GIL), .lines = PYTHON_LINES_311, CODE_312(GIL),
		OBJECTS(GIL), STRINGS_312(GIL), INTEGERS_312, DICTS_311(GIL),
		.attributes = ATTRIBUTES_TAGGED_WORD, .values_first = 0,
		.instance_dict_before = 24, .type_cached_keys = 880,
	},
	{
		ROW(3, 13), ALL_313(GIL), GIL_312(16), .interp_modules = 7656,
		INSTANCES_313(24, 880),
	},
	{
		ROW(3, 13), ALL_313(NO_GIL), GIL_313T, .interp_modules = 7664,
		INSTANCES_313(8, 896),
	},
	{
		ROW(3, 14), ALL_314(GIL), GIL_312(16), .interp_modules = 7688,
		INSTANCES_313(24, 880), CODE_311(68, 192, 208, GIL), IFRAMES_313(74),
	},
	{
		ROW(3, 14), ALL_314(NO_GIL), GIL_313T, .interp_modules = 7712,
		INSTANCES_313(8, 896), THREAD_LOCAL_BYTECODE,
	},
	{
		ROW(3, 15), ALL_315(GIL), GIL_312(16),
		INSTANCES_313(24, 888), CODE_311(68, 192, 208, GIL), IFRAMES_313(74),
	},
	{
		ROW(3, 15), ALL_315(NO_GIL), GIL_313T,
		INSTANCES_313(8, 904), THREAD_LOCAL_BYTECODE,
	},
};
/* clang-format on */

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

/*
 * Offsets by micro version. Every other release from 2.7.3 to 3.12.6, and of 3.13 and later what
 * the target itself says, is as the rows are.
 */
static const struct {
	uint8_t major, minor, first, last; /* micro versions */
	uint16_t field, offset;
} moved[] = {
	/* 3.7.4 aligned the heads of the collector's lists as a long double (Include/objimpl.h). */
	{3, 7, 0, 3, offsetof(struct python_layout, runtime_gc_collecting), 544},
	{3, 7, 0, 3, offsetof(struct python_layout, runtime_gil), 1176},
	{3, 7, 0, 3, offsetof(struct python_layout, runtime_tstate_current), 1392},
};

void python_layout_set_micro(struct python_layout *layout, unsigned micro)
{
	for (size_t i = 0; i < sizeof(moved) / sizeof(*moved); i++)
		if (moved[i].major == layout->major && moved[i].minor == layout->minor &&
		    micro >= moved[i].first && micro <= moved[i].last)
			memcpy((char *)layout + moved[i].field, &moved[i].offset,
			       sizeof(moved[i].offset));
}

/* Structs of the field list that are objects; keys and values of a dict are not. */
static bool is_in_object(const char *field)
{
	static const char *const objects[] = {"frame.",	  "code.",    "object.", "type.", "bytes.",
					      "unicode.", "integer.", "module.", "dict."};
	for (size_t i = 0; i < sizeof(objects) / sizeof(*objects); i++)
		if (strncmp(field, objects[i], strlen(objects[i])) == 0)
			return true;
	return false;
}

void python_layout_add_header(struct python_layout *layout, unsigned bytes)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		uint16_t *offset = (uint16_t *)((char *)layout + fields[i].offset);
		if (*offset != LAYOUT_ABSENT && is_in_object(fields[i].name))
			*offset = (uint16_t)(*offset + bytes);
	}
}

const struct python_layout_field *python_layout_fields(size_t *count)
{
	*count = sizeof(fields) / sizeof(*fields);
	return fields;
}
