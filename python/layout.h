/* SPDX-License-Identifier: MIT */
/*
 * What differs between CPython versions, as data: one row per X.Y of byte offsets and of the few
 * behaviours that offsets cannot say. Algorithms switch on the enums, never on a version.
 */
#ifndef PYTHON_LAYOUT_H
#define PYTHON_LAYOUT_H

#include <stdbool.h>

#include "base/types.h"
#include "python/python.h"

enum { LAYOUT_ABSENT = 0xffff };

/*
 * Every offset once, as X(struct, member): the member `struct_member` of struct python_layout, and
 * the name "struct.member" in messages and tests. `size` is the number of bytes that are read.
 */
#define PYTHON_LAYOUT_FIELDS(X)                                                                    \
	X(runtime, interpreters_head)                                                              \
	X(runtime, finalizing)                                                                     \
	X(runtime, tstate_current) /* <= 3.11: the thread state that holds the GIL */              \
	X(runtime, gil)		   /* <= 3.11: the GIL itself */                                   \
	X(interp, next)                                                                            \
	X(interp, threads_head)                                                                    \
	X(interp, id)                                                                              \
	X(interp, modules)                                                                         \
	X(interp, gil) /* 3.12+: pointer to the GIL */                                             \
	X(interp, gc_collecting)                                                                   \
	X(gil, last_holder)                                                                        \
	X(gil, locked)                                                                             \
	X(tstate, next)                                                                            \
	X(tstate, interp)                                                                          \
	X(tstate, frame)  /* 3.10: the innermost PyFrameObject */                                  \
	X(tstate, cframe) /* 3.10 - 3.12: the newest entry record */                               \
	X(tstate, root_cframe)                                                                     \
	X(tstate, current_frame) /* 3.13+ */                                                       \
	X(tstate, thread_id)                                                                       \
	X(tstate, native_thread_id)                                                                \
	X(tstate, id)                                                                              \
	X(tstate, datastack_chunk)                                                                 \
	X(tstate, datastack_top)                                                                   \
	X(tstate, size)                                                                            \
	X(cframe, current_frame)                                                                   \
	X(cframe, previous)                                                                        \
	X(cframe, size)                                                                            \
	X(chunk, previous)                                                                         \
	X(chunk, length)                                                                           \
	X(chunk, data)                                                                             \
	X(frame, back)                                                                             \
	X(frame, code)                                                                             \
	X(frame, lasti)                                                                            \
	X(frame, size)                                                                             \
	X(iframe, code)                                                                            \
	X(iframe, previous)                                                                        \
	X(iframe, instruction) /* prev_instr or instr_ptr */                                       \
	X(iframe, is_entry)                                                                        \
	X(iframe, owner)                                                                           \
	X(iframe, size)                                                                            \
	X(code, firstlineno)                                                                       \
	X(code, filename)                                                                          \
	X(code, name) /* co_qualname where there is one */                                         \
	X(code, linetable)                                                                         \
	X(code, bytecode) /* co_code_adaptive: the instructions, in the object itself */           \
	X(code, firsttraceable)                                                                    \
	X(code, size) /* of the header */                                                          \
	X(object, type)                                                                            \
	X(object, var_size)                                                                        \
	X(type, flags)                                                                             \
	X(type, basicsize)                                                                         \
	X(type, dictoffset)                                                                        \
	X(type, cached_keys)                                                                       \
	X(bytes, data)                                                                             \
	X(unicode, length)                                                                         \
	X(unicode, state)                                                                          \
	X(unicode, ascii_size)                                                                     \
	X(unicode, compact_size)                                                                   \
	X(unicode, data)                                                                           \
	X(integer, digits)                                                                         \
	X(module, dict)                                                                            \
	X(dict, keys)                                                                              \
	X(dict, values)                                                                            \
	X(keys, table_size) /* 3.10: dk_size */                                                    \
	X(keys, log2_index_bytes)                                                                  \
	X(keys, kind)                                                                              \
	X(keys, entry_count)                                                                       \
	X(keys, indices)                                                                           \
	X(values, first)                                                                           \
	X(instance, dict_before)   /* the managed dict stands this far before the object */        \
	X(instance, values_before) /* 3.11: the managed values, likewise */

/* How frames are chained, and what marks the start of an activation of the eval function. */
enum python_chain {
	CHAIN_HEAP_FRAMES = 1, /* f_back; one record (_PyCFrame) an activation, one frame each */
	CHAIN_CFRAME,	       /* record->current_frame ... up to the frame with is_entry */
	CHAIN_CFRAME_SHIM,     /* record->current_frame ... up to a shim frame */
	CHAIN_SHIM,	       /* tstate->current_frame ... shim frames between activations */
};

enum python_gil_place { GIL_IN_RUNTIME = 1, GIL_BY_INTERPRETER };

enum python_integer_form { INTEGER_SIGNED_SIZE = 1, INTEGER_TAG };

enum python_keys_form { KEYS_TABLE_SIZE = 1, KEYS_LOG2_AND_KIND };

/* Where an instance keeps its attributes when its type sets Py_TPFLAGS_MANAGED_DICT. */
enum python_attributes {
	ATTRIBUTES_DICT = 1,	    /* no such flag: the dict at tp_dictoffset */
	ATTRIBUTES_DICT_AND_VALUES, /* two words before the object */
	ATTRIBUTES_TAGGED_WORD,	    /* one word: bit 0 set means values */
	ATTRIBUTES_INLINE,	    /* a dict before the object, or values behind it */
};

struct python_layout {
	uint8_t major, minor;
	bool debug_offsets; /* the target itself tells (most of) its offsets */
	enum python_chain chain;
	enum python_line_format lines;
	enum python_gil_place gil_place;
	enum python_integer_form integer_form;
	enum python_keys_form keys_form;
	enum python_attributes attributes;
	uint8_t lasti_unit; /* bytes; frames with an instruction pointer have none */
	uint8_t shim_owner; /* owners from this on are shims */
#define X(struct_, member) uint16_t struct_##_##member;
	PYTHON_LAYOUT_FIELDS(X)
#undef X
};

/* The row of a version, or NULL when there is none. */
const struct python_layout *python_layout_find(unsigned major, unsigned minor);

/* All rows, and the fields by name: for tests and for the list of versions in messages. */
const struct python_layout *python_layout_row(size_t index); /* NULL: no more */
struct python_layout_field {
	const char *name; /* "tstate.next" */
	size_t offset;	  /* of its uint16_t in struct python_layout */
};
const struct python_layout_field *python_layout_fields(size_t *count);

#endif
