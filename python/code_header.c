/* SPDX-License-Identifier: MIT */
/* The header of a code object, and what tells it from another one at the same address. */
#include "python/internal.h"
#include "python/walk.h"

/* CPython 3.11 Python/pystate.c, _PyThreadState_PushFrame. */
static uint64_t frame_size(const struct python_layout *layout, const uint8_t *code)
{
	if (layout->code_framesize != LAYOUT_ABSENT)
		return sizeof(uint64_t) * field_u32(code, layout->code_framesize);
	if (layout->code_nlocalsplus == LAYOUT_ABSENT)
		return 0;
	/* struct _PyInterpreterFrame has the first of the variables, too. */
	const uint64_t words = (uint64_t)field_u32(code, layout->code_nlocalsplus) +
			       field_u32(code, layout->code_stacksize) - 1;
	return layout->iframe_size + sizeof(uint64_t) * words;
}

/* Of what stays as it is for the object's life: its type, counts and pointers up to the line table,
 * and co_version where there is one. */
static uint64_t hash_header(const struct python_layout *layout, uint8_t *bytes)
{
	const size_t end = layout->code_linetable + sizeof(uint64_t);
	uint64_t hash = 0;
	if (layout->code_warmup != LAYOUT_ABSENT)
		memset(bytes + layout->code_warmup, 0, sizeof(uint32_t));
	for (size_t at = layout->object_type; at < end; at += sizeof(uint64_t))
		hash = hash_pair(hash, field_u64(bytes, at));
	return hash;
}

/* What the pointers of a header without co_version lead to, in brief: other strings may have been
 * put where those of an object that is no more were. */
static bool hash_content(const struct python_layout *layout, const struct memory_reader *memory,
			 const struct python_code_header *header, uint64_t *hash,
			 struct error *error)
{
	enum { FIRST = sizeof(uint64_t) };
	uint64_t name, size, first;
	uint8_t bytes[MAX_RECORD];
	const size_t start = layout->object_var_size, data = layout->bytes_data - start;
	if (!memory_read_u64(memory, header->name + layout->unicode_hash, &name, error) ||
	    !memory_read(memory, header->line_table + start, bytes, data + FIRST, error))
		return false;
	size = field_u64(bytes, 0);
	if (size < FIRST)
		memset(bytes + data + size, 0, FIRST - size);
	first = field_u64(bytes, data);
	*hash = hash_pair(hash_pair(*hash, name), hash_pair(size, first));
	return true;
}

bool python_code_header_read(const struct python_runtime *runtime,
			     const struct memory_reader *memory, remote_addr address,
			     struct python_code_header *header, struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	uint8_t bytes[MAX_CODE];
	if (address == 0 || address % 8 != 0)
		return error_set(error, ERROR_TORN, "no code object at %#llx",
				 (unsigned long long)address);
	if (!memory_read(memory, address, bytes, layout->code_size, error))
		return false;
	uint64_t type = field_u64(bytes, layout->object_type);
	if (type != runtime->code_type)
		return error_set(error, ERROR_TORN, "no code object at %#llx",
				 (unsigned long long)address);
	header->address = address;
	header->used = false;
	header->code = NULL;
	header->first_line = (int32_t)field_u32(bytes, layout->code_firstlineno);
	header->filename = field_u64(bytes, layout->code_filename);
	header->name = field_u64(bytes, layout->code_name);
	header->line_table = field_u64(bytes, layout->code_linetable);
	header->bytecode = header->first_traceable = header->copies = 0;
	header->frame_size = frame_size(layout, bytes);
	if (layout->code_tlbc != LAYOUT_ABSENT)
		header->copies = field_u64(bytes, layout->code_tlbc);
	if (layout->code_bytecode != LAYOUT_ABSENT) {
		header->bytecode = address + layout->code_bytecode;
		header->first_traceable = 2 * field_u32(bytes, layout->code_firsttraceable);
	}
	header->identity = hash_header(layout, bytes);
	/* CPython Objects/codeobject.c, init_code: it stays 0 once 2^32 have been made. */
	if (layout->code_version != LAYOUT_ABSENT && field_u32(bytes, layout->code_version) != 0)
		return true;
	return hash_content(layout, memory, header, &header->identity, error);
}
