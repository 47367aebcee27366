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
	X(runtime, gc_collecting)  /* 3.7, 3.8 */                                                  \
	X(interp, next)                                                                            \
	X(interp, threads_head)                                                                    \
	X(interp, id)                                                                              \
	X(interp, modules)                                                                         \
	X(interp, gil) /* 3.12+: pointer to the GIL */                                             \
	X(interp, gc_collecting)                                                                   \
	X(gil, last_holder)                                                                        \
	X(gil, locked)                                                                             \
	X(gil, enabled) /* free-threaded builds: 0, there is none */                               \
	X(tstate, next)                                                                            \
	X(tstate, interp)                                                                          \
	X(tstate, frame)  /* <= 3.10: the innermost PyFrameObject */                               \
	X(tstate, cframe) /* 3.10 - 3.12: the newest entry record */                               \
	X(tstate, root_cframe)                                                                     \
	X(tstate, current_frame) /* 3.13+ */                                                       \
	X(tstate, base_frame)	 /* 3.15+: a frame that only ends the chain */                     \
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
	X(frame, generator) /* 3.10: whose frame it is */                                          \
	X(frame, lasti)                                                                            \
	X(frame, size)                                                                             \
	X(iframe, code)                                                                            \
	X(iframe, previous)                                                                        \
	X(iframe, instruction) /* prev_instr or instr_ptr */                                       \
	X(iframe, is_entry)                                                                        \
	X(iframe, owner)                                                                           \
	X(iframe, tlbc_index) /* 3.14+, free-threaded: which copy of the instructions */           \
	X(iframe, size)                                                                            \
	X(code, firstlineno)                                                                       \
	X(code, filename)                                                                          \
	X(code, name)	   /* co_qualname where there is one */                                    \
	X(code, linetable) /* co_lnotab before 3.10 */                                             \
	X(code, bytecode)  /* co_code_adaptive: the instructions, in the object itself */          \
	X(code, tlbc)	   /* 3.14+, free-threaded: each thread's copies of the instructions */    \
	X(code, firsttraceable)                                                                    \
	X(code, framesize)   /* 3.12+: words of a frame on the data stack */                       \
	X(code, nlocalsplus) /* 3.11: these, the next and what every frame has make it up */       \
	X(code, stacksize)                                                                         \
	X(code, warmup)	 /* 3.11: changes, as does what is behind it in that word */               \
	X(code, version) /* 3.12+: another one for each code object made */                        \
	X(code, size)	 /* of the header */                                                       \
	X(object, type)                                                                            \
	X(object, var_size)                                                                        \
	X(type, flags)                                                                             \
	X(type, basicsize)                                                                         \
	X(type, dictoffset)                                                                        \
	X(type, cached_keys)                                                                       \
	X(bytes, data)                                                                             \
	X(unicode, hash) /* 2.7: of str, which is bytes */                                         \
	X(unicode, length)                                                                         \
	X(unicode, state)                                                                          \
	X(unicode, ascii_size)                                                                     \
	X(unicode, compact_size)                                                                   \
	X(unicode, data)                                                                           \
	X(unicode, wstr) /* <= 3.11: wchar_t[] of a string that nobody has read yet */             \
	X(unicode, wstr_length)                                                                    \
	X(integer, digits)                                                                         \
	X(integer, value) /* 2.7: of an int, as opposed to a long */                               \
	X(module, dict)                                                                            \
	X(dict, keys)                                                                              \
	X(dict, values)                                                                            \
	X(dict, mask)	    /* 2.7: slots - 1 */                                                   \
	X(dict, table)	    /* 2.7: the slots */                                                   \
	X(keys, table_size) /* <= 3.10: dk_size */                                                 \
	X(keys, log2_index_bytes)                                                                  \
	X(keys, kind)                                                                              \
	X(keys, entry_count)                                                                       \
	X(keys, indices) /* 3.3 - 3.5: the entries themselves */                                   \
	X(values, first)                                                                           \
	X(instance, dict_before)   /* the managed dict is this far before the object */            \
	X(instance, values_before) /* 3.11: the managed values, likewise */

/* Where the lists of interpreters and the facts about all of them start. */
enum python_root {
	ROOT_VARIABLES = 1, /* <= 3.6: variables of their own (interp_head, ...) */
	ROOT_RUNTIME,	    /* _PyRuntime */
};

/* How frames are chained, and what marks the start of an activation of the eval function. */
enum python_chain {
	CHAIN_FRAMES = 1,  /* f_back; the native frame of an activation has its frame's address */
	CHAIN_CFRAME,	   /* record->current_frame ... up to the frame with is_entry */
	CHAIN_CFRAME_SHIM, /* record->current_frame ... up to a shim frame */
	CHAIN_SHIM,	   /* tstate->current_frame ... shim frames between activations */
};

enum python_gil_place {
	GIL_BY_VARIABLE = 1, /* whoever _PyThreadState_Current points to */
	GIL_IN_RUNTIME,
	GIL_BY_INTERPRETER,
};

enum python_gc_place {
	GC_BY_VARIABLE = 1, /* a static int `collecting` */
	GC_IN_RUNTIME,
	GC_BY_INTERPRETER,
};

enum python_string_form {
	STRINGS_BYTES = 1,	    /* 2.7: str is bytes; unicode has a pointer to its text */
	STRINGS_COMPACT,	    /* a word of state bits, text behind the header */
	STRINGS_COMPACT_BYTE_STATE, /* free-threaded 3.14+: the state's first field is a byte */
};

enum python_integer_form {
	INTEGER_PLAIN = 1, /* 2.7: int has its value; long as INTEGER_SIGNED_SIZE */
	INTEGER_SIGNED_SIZE,
	INTEGER_TAG,
};

enum python_keys_form {
	KEYS_MASK = 1,	    /* 2.7: slots {hash, key, value}, found by the dict's own fields */
	KEYS_SLOTS,	    /* 3.3 - 3.5: dk_size slots {hash, key, value} */
	KEYS_TABLE_SIZE,    /* an index table of dk_size, then entries */
	KEYS_LOG2_AND_KIND, /* an index table of 1 << dk_log2_index_bytes, then entries */
};

/* Where an instance keeps its attributes when its type sets Py_TPFLAGS_MANAGED_DICT. */
enum python_attributes {
	ATTRIBUTES_DICT = 1,	    /* no such flag: the dict at tp_dictoffset */
	ATTRIBUTES_DICT_AND_VALUES, /* two words before the object */
	ATTRIBUTES_TAGGED_WORD,	    /* one word: bit 0 set means values */
	ATTRIBUTES_INLINE,	    /* a dict before the object, or values behind it */
};

struct python_layout {
	uint8_t major, minor;
	bool free_threaded; /* rows of such builds are apart */
	bool debug_offsets; /* the target itself says (most of) its offsets */
	enum python_root root;
	enum python_chain chain;
	enum python_line_format lines;
	enum python_gil_place gil_place;
	enum python_gc_place gc_place;
	enum python_string_form string_form;
	enum python_integer_form integer_form;
	enum python_keys_form keys_form;
	enum python_attributes attributes;
	const char *thread_name; /* the attribute of threading.Thread: "_name" */
	uint8_t unicode_width;	 /* 2.7: bytes a code unit of unicode, 4 or 2 */
	uint8_t lasti_unit;	 /* bytes; frames with an instruction pointer have none */
	uint8_t shim_owner;	 /* owners from this on are shims */
	uint8_t tag_mask;	 /* bits of iframe.code that are no part of the address (3.14+) */
	uint8_t trace_refs;	 /* bytes more in every object's header with Py_TRACE_REFS */
#define X(struct_, member) uint16_t struct_##_##member;
	PYTHON_LAYOUT_FIELDS(X)
#undef X
};

/* The row of a version, or NULL when there is none. */
const struct python_layout *python_layout_find(unsigned major, unsigned minor, bool free_threaded);

/* Puts right what a micro version has elsewhere than the later ones of its row. */
void python_layout_set_micro(struct python_layout *layout, unsigned micro);

/*
 * Moves every member of every object by so many bytes of header (a multiple of 8): for a build with
 * Py_TRACE_REFS, which has the row's `trace_refs` more.
 */
void python_layout_add_header(struct python_layout *layout, unsigned bytes);

/* All rows, and the fields by name: for tests and for the list of versions in messages. */
const struct python_layout *python_layout_row(size_t index); /* NULL: no more */
struct python_layout_field {
	const char *name; /* "tstate.next" */
	size_t offset;	  /* of its uint16_t in struct python_layout */
};
const struct python_layout_field *python_layout_fields(size_t *count);

#endif
