/* SPDX-License-Identifier: MIT */
/*
 * _Py_DebugOffsets, at the start of _PyRuntime from 3.13 on, into a layout. CPython 3.13
 * Include/internal/pycore_runtime.h: 8 bytes of cookie, then 64-bit words, in groups. The target
 * may say anything, so each value is bounded before any of it is believed.
 */
#include "python/internal.h"

enum { WORDS_313 = 584 / 8, VERSION_WORD = 1, FREE_THREADED_WORD = 2 };

/* Which word gives which offset; `plus` is another word to be added, 0: none. */
struct offset_word {
	uint16_t word, plus;
	uint16_t field; /* offset in struct python_layout */
	uint16_t limit; /* the largest value that can be right */
};

#define FIELD(name) offsetof(struct python_layout, name)
enum {
	INTERPRETER_LIMIT = 60000,
	RECORD_LIMIT = MAX_RECORD - 8,
};

static const struct offset_word words_313[] = {
	{32 / 8, 0, FIELD(runtime_finalizing), MAX_TSTATE - 8},
	{40 / 8, 0, FIELD(runtime_interpreters_head), MAX_TSTATE - 8},
	{56 / 8, 0, FIELD(interp_id), INTERPRETER_LIMIT},
	{64 / 8, 0, FIELD(interp_next), INTERPRETER_LIMIT},
	{72 / 8, 0, FIELD(interp_threads_head), INTERPRETER_LIMIT},
	{80 / 8, 576 / 8, FIELD(interp_gc_collecting), INTERPRETER_LIMIT},
	{88 / 8, 0, FIELD(interp_modules), INTERPRETER_LIMIT},
	{112 / 8, 0, FIELD(interp_gil), INTERPRETER_LIMIT},
	{152 / 8, 0, FIELD(tstate_size), MAX_TSTATE},
	{168 / 8, 0, FIELD(tstate_next), MAX_TSTATE - 8},
	{176 / 8, 0, FIELD(tstate_interp), MAX_TSTATE - 8},
	{184 / 8, 0, FIELD(tstate_current_frame), MAX_TSTATE - 8},
	{192 / 8, 0, FIELD(tstate_thread_id), MAX_TSTATE - 8},
	{200 / 8, 0, FIELD(tstate_native_thread_id), MAX_TSTATE - 8},
	{208 / 8, 0, FIELD(tstate_datastack_chunk), MAX_TSTATE - 8},
	{224 / 8, 0, FIELD(iframe_size), MAX_RECORD},
	{232 / 8, 0, FIELD(iframe_previous), RECORD_LIMIT},
	{240 / 8, 0, FIELD(iframe_code), RECORD_LIMIT},
	{248 / 8, 0, FIELD(iframe_instruction), RECORD_LIMIT},
	{264 / 8, 0, FIELD(iframe_owner), RECORD_LIMIT},
	{280 / 8, 0, FIELD(code_filename), MAX_CODE - 8},
	{296 / 8, 0, FIELD(code_name), MAX_CODE - 8},
	{304 / 8, 0, FIELD(code_linetable), MAX_CODE - 8},
	{312 / 8, 0, FIELD(code_firstlineno), MAX_CODE - 8},
	{344 / 8, 0, FIELD(code_bytecode), MAX_CODE - 8},
	{360 / 8, 0, FIELD(object_type), RECORD_LIMIT},
	{392 / 8, 0, FIELD(type_flags), MAX_TSTATE - 8},
	{456 / 8, 0, FIELD(dict_keys), RECORD_LIMIT},
	{464 / 8, 0, FIELD(dict_values), RECORD_LIMIT},
	{520 / 8, 0, FIELD(object_var_size), RECORD_LIMIT},
	{528 / 8, 0, FIELD(bytes_data), RECORD_LIMIT},
	{544 / 8, 0, FIELD(unicode_state), RECORD_LIMIT},
	{552 / 8, 0, FIELD(unicode_length), RECORD_LIMIT},
	{560 / 8, 0, FIELD(unicode_ascii_size), RECORD_LIMIT},
};

/* Fields must lie inside of what is read of their record. */
static bool fits(const struct python_layout *layout)
{
	const uint16_t tstate[] = {layout->tstate_next,
				   layout->tstate_interp,
				   layout->tstate_current_frame,
				   layout->tstate_thread_id,
				   layout->tstate_native_thread_id,
				   layout->tstate_datastack_chunk,
				   layout->tstate_datastack_top,
				   layout->tstate_id};
	const uint16_t frame[] = {layout->iframe_previous, layout->iframe_code,
				  layout->iframe_instruction};
	const uint16_t code[] = {layout->code_filename,	      layout->code_name,
				 layout->code_linetable,      layout->code_firstlineno,
				 layout->code_firsttraceable, layout->object_type};
	const uint16_t unicode[] = {layout->unicode_length, layout->unicode_state};
	for (size_t i = 0; i < sizeof(tstate) / sizeof(*tstate); i++)
		if (tstate[i] + 8u > layout->tstate_size)
			return false;
	for (size_t i = 0; i < sizeof(frame) / sizeof(*frame); i++)
		if (frame[i] + 8u > layout->iframe_size)
			return false;
	for (size_t i = 0; i < sizeof(code) / sizeof(*code); i++)
		if (code[i] + 8u > layout->code_size)
			return false;
	for (size_t i = 0; i < sizeof(unicode) / sizeof(*unicode); i++)
		if (unicode[i] + 8u > layout->unicode_ascii_size)
			return false;
	return layout->iframe_owner < layout->iframe_size &&
	       layout->object_var_size + 8u <= layout->bytes_data;
}

bool python_debug_offsets_apply(struct python_layout *layout, const struct memory_reader *memory,
				remote_addr runtime, uint32_t version, struct error *error)
{
	uint64_t words[WORDS_313];
	if (!memory_read(memory, runtime, words, sizeof(words), error))
		return false;
	if (memcmp(words, "xdebugpy", 8) != 0)
		return error_set(error, ERROR_TORN, "the interpreter is not initialised");
	if (words[VERSION_WORD] != version)
		return error_set(error, ERROR_CORRUPT, "debug offsets of version %#llx, not %#x",
				 (unsigned long long)words[VERSION_WORD], version);
	if (words[FREE_THREADED_WORD] != 0)
		return error_set(error, ERROR_UNSUPPORTED,
				 "free-threaded CPython %u.%u is not supported yet", layout->major,
				 layout->minor);
	struct python_layout filled = *layout;
	for (size_t i = 0; i < sizeof(words_313) / sizeof(*words_313); i++) {
		const struct offset_word *item = &words_313[i];
		uint64_t value = words[item->word], plus = item->plus ? words[item->plus] : 0;
		if (value > item->limit || plus > item->limit - value)
			return error_set(error, ERROR_CORRUPT, "debug offset %u is out of bounds",
					 item->word * 8u);
		uint16_t offset = (uint16_t)(value + plus);
		memcpy((char *)&filled + item->field, &offset, sizeof(offset));
	}
	/* The header ends where the instructions start. */
	filled.code_size = filled.code_bytecode;
	if (!fits(&filled))
		return error_set(error, ERROR_CORRUPT, "debug offsets do not fit together");
	*layout = filled;
	return true;
}
