/* SPDX-License-Identifier: MIT */
/* The decoder, and one sample on its way through the passes. */
#ifndef MERGE_DECODER_H
#define MERGE_DECODER_H

#include "merge/internal.h"

enum { DECODER_WALK_CACHES = 8, DECODER_MERGE_CACHES = 4 };

struct interpreter {
	struct python_runtime *runtime;
	struct python_code_cache *codes;
};

/* Code objects, of all interpreters of one version: a program that executes itself again and again
 * has the same ones. */
struct version_codes {
	const char *version; /* interned */
	struct python_code_cache *cache;
};

/* The last one is current. */
struct interpreters {
	struct interpreter *items;
	size_t count, capacity;
	size_t former; /* of these: of the program before */
	struct version_codes *codes;
	size_t codes_count, codes_capacity;
};

/* The native frames as python/ wants them; at the room's end. */
struct native_frames {
	struct python_native_frame *items;
	size_t capacity;
	uint64_t walk; /* that they are of; 0: of none */
};

/* Of one of several thread states, and all activations so far, on their way. */
struct python_part {
	struct python_stack stack;
	struct python_activation *activations;
	size_t capacity;
};

/* Addresses of entry records. */
struct anchors {
	remote_addr *items;
	size_t capacity;
};

/* The result: frame ids, outermost first. */
enum { NUMBERED_ROOTS = 2 };
struct numbered {
	uint32_t *room, *ids; /* NUMBERED_ROOTS behind room */
	size_t count, capacity;
	uint64_t leaf; /* the key of the frame inside of those; NO_LEAF: there is none */
};

struct decoder {
	struct decode_options options;
	const struct decoder_source *source;
	struct interner *strings;
	struct module_table modules;
	struct unwinder *unwinder;
	struct interpreters interpreters;
	struct frame_table frames;
	struct c_functions *c_functions;
	struct unwind_stack native;
	struct python_stack python;
	struct python_part part;
	struct merged_stack merged;
	struct native_frames native_frames;
	struct anchors anchors;
	struct numbered numbered, kept; /* while there is a second try: of the first */
	struct join join;		/* thread ids known, to compare evidence */
	struct eval_code code;		/* of the interpreter opened last */
	struct stack_switch stack_switch;
	const char *marks[MERGED_KIND_COUNT];
	/* Of a thread each, as long as they are few. */
	struct walk_cache *walk_caches[DECODER_WALK_CACHES];
	struct merge_cache *merge_caches[DECODER_MERGE_CACHES];
};

/* One try to decode a sample, as far as the passes have come. */
struct decoding {
	const struct raw_sample *raw;
	struct decoded *out;
	bool distrust_leaf; /* a second try */
	/* unwind_pass */
	const struct unwind_stack *native; /* NULL: none, or not wanted */
	/* read_pass */
	bool python;	 /* the thread has a Python stack: decoder->python */
	uint32_t states; /* of so many thread states */
	/* merge_pass */
	struct merge_input input;
	bool for_collector; /* the native stack was unwound for the place of <gc> alone */
	bool suspects_leaf; /* the innermost frame's unwind information must be wrong */
};

/* ---- native.c ------------------------------------------------------------------------------- */

/* Asks the source for the module table as it is by now; true: it is another one. */
bool decoder_refresh(struct decoder *decoder, enum refresh_reason reason);

/* The native stack, from the pause or from the copy. NULL: none. */
const struct unwind_stack *decoder_unwind(struct decoder *decoder, const struct decoding *decoding);

/*
 * Where the native stack had to be guessed, the entry records of the Python stack say through which
 * frames it leads: unwinds again, so that none of them is stepped over.
 */
const struct unwind_stack *decoder_unwind_by_records(struct decoder *decoder,
						     const struct decoding *decoding,
						     const struct unwind_stack *native);

/*
 * Without --native, too, the place of <gc> among the Python frames is where the collector's native
 * frames are. NULL: no collection is under way, or its place is not known; the Python frames are as
 * they were.
 */
const struct unwind_stack *decoder_unwind_collection(struct decoder *decoder,
						     const struct decoding *decoding);

/* ---- read_python.c -------------------------------------------------------------------------- */

/*
 * The strings of code objects come but once, in the first copy that leads to them; and it may be
 * the native stack that shows frames to be others' than the thread's: a greenlet's that has just
 * gone on. So they are learned as the taker has found them, without it.
 */
void decoder_learn_codes(struct decoder *decoder, const struct raw_sample *raw);

/*
 * Reads the thread's Python stack into decoder->python. Several thread states on one OS thread
 * (sub-interpreters) are put in stack order. Those that belong to another thread are left out;
 * *count: how many are left.
 */
bool decoder_read_python(struct decoder *decoder, const struct raw_sample *raw,
			 const struct unwind_stack *native, uint32_t *count, struct error *error);

/* ---- numbering.c: what is shown of a merged stack ----------------------------------------------
 */

/* What a program can name of the interpreter is in its stack, save outside of the outermost
 * Python frame. */
void decoder_show_c_functions(struct decoder *decoder, const struct python_runtime *runtime,
			      const struct unwind_stack *native);

/* The innermost frame that is shown; NULL: none. */
const struct merged_frame *decoder_leaf(const struct decoder *decoder);

/* Fills in decoder->numbered. `cache`: what the merge was made with, or NULL. */
void decoder_number_frames(struct decoder *decoder, const struct unwind_stack *native,
			   const struct raw_sample *raw, const struct merge_cache *cache);

#endif
