/* SPDX-License-Identifier: MIT */
/*
 * _Py_DebugOffsets, at the start of _PyRuntime from 3.13 on, into a layout. CPython
 * Include/internal/pycore_debug_offsets.h: 8 bytes of cookie, then 64-bit words, in groups.
 *
 * The target may say anything, so nothing of it is believed that cannot be checked: most members
 * have never moved within a minor version, and must be where the row has them; those of the
 * interpreter state that do move, move together. So one wrong word is never taken.
 */
#include "python/internal.h"

enum { VERSION_WORD = 1, FREE_THREADED_WORD = 2, MAX_WORDS = 888 / 8, MAX_MOVE = 1024 };

/* The order and number of the words, by minor version. */
enum offsets_table { TABLE_313, TABLE_314, TABLE_315, TABLE_COUNT };

static const struct {
	uint8_t major, minor;
	uint16_t size; /* bytes */
} tables[TABLE_COUNT] = {
	[TABLE_313] = {3, 13, 584},
	[TABLE_314] = {3, 14, 760},
	[TABLE_315] = {3, 15, 888},
};

/* What else moved by as much when a member moved. */
enum group {
	FIXED,
	WITH_THREADS, /* behind PyInterpreterState.ceval, up to the collector's state */
	WITH_MODULES, /* behind the collector's state; 3.14.3 and 3.14.10 differ in its size */
	GROUP_COUNT,
};

/*
 * One member: where the tables have its word (bytes; 0: not in this one), which must be its offset
 * but for the group's move.
 */
struct member {
	uint16_t field; /* offset in struct python_layout */
	int16_t behind; /* the member is so many bytes behind that field */
	enum group group;
	uint16_t at[TABLE_COUNT];
	uint16_t plus[TABLE_COUNT], less[TABLE_COUNT]; /* other words to be added or subtracted */
};

#define FIELD(name) offsetof(struct python_layout, name)

static const struct member members[] = {
	{FIELD(runtime_finalizing), 0, FIXED, {32, 32, 32}, {0}, {0}},
	{FIELD(runtime_interpreters_head), 0, FIXED, {40, 40, 40}, {0}, {0}},
	{FIELD(interp_id), 0, WITH_THREADS, {56, 56, 56}, {0}, {0}},
	{FIELD(interp_next), 0, WITH_THREADS, {64, 64, 64}, {0}, {0}},
	{FIELD(interp_threads_head), 0, WITH_THREADS, {72, 72, 72}, {0}, {0}},
	{FIELD(interp_gc_collecting), 0, WITH_THREADS, {80, 88, 88}, {576, 656, 760}, {0}},
	{FIELD(interp_modules), 0, WITH_MODULES, {88, 96, 96}, {0}, {0}},
	{FIELD(interp_modules), -16, WITH_MODULES, {96, 104, 104}, {0}, {0}}, /* sysdict */
	{FIELD(interp_modules), -8, WITH_MODULES, {104, 112, 112}, {0}, {0}}, /* builtins */
	{FIELD(interp_gil), 0, FIXED, {112, 120, 120}, {0}, {0}},
	/* These are given for the interpreter's own GIL, as a part of the interpreter. */
	{FIELD(gil_locked), 0, FIXED, {136, 144, 144}, {0}, {120, 128, 128}},
	{FIELD(gil_last_holder), 0, FIXED, {144, 152, 152}, {0}, {120, 128, 128}},
	{FIELD(tstate_next), -8, FIXED, {160, 184, 184}, {0}, {0}}, /* prev */
	{FIELD(tstate_next), 0, FIXED, {168, 192, 192}, {0}, {0}},
	{FIELD(tstate_interp), 0, FIXED, {176, 200, 200}, {0}, {0}},
	{FIELD(tstate_current_frame), 0, FIXED, {184, 208, 208}, {0}, {0}},
	{FIELD(tstate_base_frame), 0, FIXED, {0, 0, 216}, {0}, {0}},
	{FIELD(tstate_thread_id), 0, FIXED, {192, 216, 240}, {0}, {0}},
	{FIELD(tstate_native_thread_id), 0, FIXED, {200, 224, 248}, {0}, {0}},
	{FIELD(tstate_datastack_chunk), 0, FIXED, {208, 232, 256}, {0}, {0}},
	{FIELD(iframe_previous), 0, FIXED, {232, 256, 320}, {0}, {0}},
	{FIELD(iframe_code), 0, FIXED, {240, 264, 328}, {0}, {0}},
	{FIELD(iframe_instruction), 0, FIXED, {248, 272, 336}, {0}, {0}},
	{FIELD(iframe_owner), 0, FIXED, {264, 288, 352}, {0}, {0}},
	{FIELD(iframe_tlbc_index), 0, FIXED, {0, 304, 368}, {0}, {0}},
	{FIELD(iframe_size), 0, FIXED, {224, 248, 312}, {0}, {0}},
	{FIELD(code_filename), 0, FIXED, {280, 320, 384}, {0}, {0}},
	{FIELD(code_name), 0, FIXED, {296, 336, 400}, {0}, {0}},
	{FIELD(code_linetable), 0, FIXED, {304, 344, 408}, {0}, {0}},
	{FIELD(code_firstlineno), 0, FIXED, {312, 352, 416}, {0}, {0}},
	{FIELD(code_bytecode), 0, FIXED, {344, 384, 448}, {0}, {0}},
	{FIELD(code_tlbc), 0, FIXED, {0, 392, 456}, {0}, {0}},
	{FIELD(object_type), 0, FIXED, {360, 408, 472}, {0}, {0}},
	{FIELD(object_var_size), 0, FIXED, {520, 600, 696}, {0}, {0}},
	{FIELD(type_flags), 0, FIXED, {392, 440, 504}, {0}, {0}},
	{FIELD(type_basicsize), 0, FIXED, {0, 0, 512}, {0}, {0}},
	{FIELD(type_dictoffset), 0, FIXED, {0, 0, 520}, {0}, {0}},
	{FIELD(type_cached_keys), 0, FIXED, {0, 0, 536}, {0}, {0}},
	{FIELD(dict_keys), 0, FIXED, {456, 536, 632}, {0}, {0}},
	{FIELD(dict_values), 0, FIXED, {464, 544, 640}, {0}, {0}},
	{FIELD(integer_digits), 0, FIXED, {504, 584, 680}, {0}, {0}},
	{FIELD(bytes_data), 0, FIXED, {528, 608, 704}, {0}, {0}},
	{FIELD(unicode_state), 0, FIXED, {544, 624, 720}, {0}, {0}},
	{FIELD(unicode_length), 0, FIXED, {552, 632, 728}, {0}, {0}},
	{FIELD(unicode_ascii_size), 0, FIXED, {560, 640, 736}, {0}, {0}},
	{FIELD(unicode_compact_size), 0, FIXED, {0, 0, 744}, {0}, {0}},
};

static uint16_t *field_of(struct python_layout *layout, uint16_t field)
{
	return (uint16_t *)((char *)layout + field);
}

/*
 * Whether a member can be where the target says: where the row has it, or moved with the others of
 * its group. `moves` are the groups' moves, `known` has a bit for each of which one member has
 * told.
 */
static bool agrees(const struct member *member, uint64_t value, struct python_layout *layout,
		   int64_t moves[GROUP_COUNT], unsigned *known)
{
	const uint16_t offset = *field_of(layout, member->field);
	/* The macros that CPython fills the table with say 0 for a member that a build lacks. */
	if (offset == LAYOUT_ABSENT)
		return value == 0;
	const int64_t move = (int64_t)(value - (uint64_t)(offset + member->behind));
	if (!(*known & 1u << member->group)) {
		moves[member->group] = move;
		*known |= 1u << member->group;
	}
	return move == moves[member->group] && move % 8 == 0 && move >= -MAX_MOVE &&
	       move <= MAX_MOVE;
}

/* The table of the layout's version; TABLE_COUNT: none. */
static enum offsets_table find_table(const struct python_layout *layout)
{
	enum offsets_table table = 0;
	while (table < TABLE_COUNT &&
	       (tables[table].major != layout->major || tables[table].minor != layout->minor))
		table++;
	return table;
}

static bool read_words(const struct python_layout *layout, enum offsets_table table,
		       const struct memory_reader *memory, remote_addr runtime, uint32_t version,
		       uint64_t *words, struct error *error)
{
	if (!memory_read(memory, runtime, words, tables[table].size, error))
		return false;
	if (memcmp(words, "xdebugpy", 8) != 0)
		return error_set(error, ERROR_TORN, "the interpreter is not initialised");
	if (words[VERSION_WORD] != version)
		return error_set(error, ERROR_CORRUPT, "debug offsets of version %#llx, not %#x",
				 (unsigned long long)words[VERSION_WORD], version);
	if (words[FREE_THREADED_WORD] != layout->free_threaded)
		return error_set(error, ERROR_CORRUPT,
				 "debug offsets are of another build of CPython %u.%u",
				 layout->major, layout->minor);
	return true;
}

static uint64_t word_or_0(const uint64_t *words, uint16_t at)
{
	return at ? words[at / 8] : 0;
}

bool python_debug_offsets_apply(struct python_layout *layout, const struct memory_reader *memory,
				remote_addr runtime, uint32_t version, struct error *error)
{
	uint64_t words[MAX_WORDS];
	enum offsets_table table = find_table(layout);
	if (table == TABLE_COUNT)
		return error_set(error, ERROR_UNSUPPORTED,
				 "the debug offsets of CPython %u.%u are not supported",
				 layout->major, layout->minor);
	if (!read_words(layout, table, memory, runtime, version, words, error))
		return false;
	int64_t moves[GROUP_COUNT] = {[FIXED] = 0};
	unsigned known = 1u << FIXED;
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
		const struct member *member = &members[i];
		uint16_t at = member->at[table];
		if (at == 0)
			continue;
		uint64_t value = words[at / 8] + word_or_0(words, member->plus[table]) -
				 word_or_0(words, member->less[table]);
		if (!agrees(member, value, layout, moves, &known))
			return error_set(error, ERROR_UNSUPPORTED,
					 "this build of CPython %u.%u is laid out in a way that is "
					 "not known (debug offset %u is %llu)",
					 layout->major, layout->minor, at,
					 (unsigned long long)words[at / 8]);
	}
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (members[i].behind == 0 && members[i].at[table] != 0 && moves[members[i].group])
			*field_of(layout, members[i].field) += (uint16_t)moves[members[i].group];
	return true;
}
