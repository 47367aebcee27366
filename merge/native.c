/* SPDX-License-Identifier: MIT */
/*
 * The native stack of a sample: unwound from the copy, or as it was unwound in the pause. Where
 * code or the end of a stack is not known, the source is asked for the module table as it is by
 * now.
 */
#include "merge/decoder.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

bool decoder_refresh(struct decoder *decoder, enum refresh_reason reason)
{
	const struct decoder_source *source = decoder->source;
	return source->refresh_modules &&
	       source->refresh_modules(source->context, &decoder->modules, reason);
}

/* Any will do: two threads that share one merely help each other seldom. */
static struct walk_cache *walk_cache_of(struct decoder *decoder, pid_t tid)
{
	struct walk_cache **cache = &decoder->walk_caches[(unsigned)tid % DECODER_WALK_CACHES];
	if (!*cache)
		*cache = walk_cache_new();
	return *cache;
}

/* By so many of the anchors. */
static bool unwind(struct decoder *decoder, const struct decoding *decoding, size_t anchor_count)
{
	const struct raw_sample *raw = decoding->raw;
	struct error error;
	stack_switch_follow(&decoder->stack_switch, &decoder->modules);
	const struct unwind_request request = {
		.registers = &raw->registers,
		.memory = &raw->reader,
		.code = decoder->source->code,
		.anchors = decoder->anchors.items,
		.anchor_count = anchor_count,
		.roots = decoder->stack_switch.roots,
		.root_count = decoder->stack_switch.root_count,
		.cache = decoder->options.reuses ? walk_cache_of(decoder, raw->tid) : NULL,
		.distrust_leaf = decoding->distrust_leaf,
	};
	if (!unwind_thread(decoder->unwinder, &request, &decoder->native, &error)) {
		log_debug("unwind", "thread %d: %s", raw->tid, error.message);
		return false;
	}
	return true;
}

/* Code where none was when the mappings were read: a library that was loaded since, or the JIT's.
 */
static bool leads_into_unknown(struct decoder *decoder)
{
	const struct unwind_stack *native = &decoder->native;
	return native->end == UNWIND_END_UNMAPPED || native->end == UNWIND_END_NO_INFO ||
	       (native->count > 0 && native->frames[0].guessed &&
		!module_table_find(&decoder->modules, native->frames[0].pc));
}

/* Where the mapping ends that the stack is in: so much of it is to be copied. */
static remote_addr find_stack_end(struct decoder *decoder, const struct raw_sample *raw)
{
	const remote_addr sp = raw->registers.value[REGISTER_RSP];
	const struct mapping *mapping = module_table_find(&decoder->modules, sp);
	return mapping && !mapping->module && strcmp(mapping->path, "[heap]") != 0 ? mapping->end
										   : 0;
}

const struct unwind_stack *decoder_unwind(struct decoder *decoder, const struct decoding *decoding)
{
	const struct raw_sample *raw = decoding->raw;
	if (raw->has_native)
		return &raw->native;
	if (!unwind(decoder, decoding, 0))
		return NULL;
	if (leads_into_unknown(decoder) && decoder_refresh(decoder, REFRESH_UNKNOWN_CODE) &&
	    !unwind(decoder, decoding, 0))
		return NULL;
	if (decoder->native.end == UNWIND_END_STACK_COPY) {
		decoder_refresh(decoder, REFRESH_STACK_END);
		decoding->out->stack_end = find_stack_end(decoder, raw);
	}
	return &decoder->native;
}

/*
 * Where the native stack had to be guessed, the entry records of the Python stack say through which
 * frames it leads: unwinds again, so that none of them is stepped over.
 */
const struct unwind_stack *decoder_unwind_by_records(struct decoder *decoder,
						     const struct decoding *decoding,
						     const struct unwind_stack *native)
{
	const struct raw_sample *raw = decoding->raw;
	uint32_t states = 0;
	if (!native || raw->has_native || (!native->guessed && native->end != UNWIND_END_NO_INFO))
		return native;
	/* The innermost frame is right in any case: it has what the first may lack. */
	if (!decoder_read_python(decoder, raw, NULL, &states, NULL) &&
	    !decoder_read_python(decoder, raw, native, &states, NULL))
		return native;
	size_t count = states ? decoder->python.activation_count : 0;
	struct anchors *anchors = &decoder->anchors;
	anchors->items =
		alloc_room(anchors->items, &anchors->capacity, count + 1, sizeof(*anchors->items));
	for (size_t i = 0; i < count; i++)
		anchors->items[i] = decoder->python.activations[i].record;
	return unwind(decoder, decoding, count) ? &decoder->native : native;
}

/*
 * Without --native, too, the place of <gc> among the Python frames is where the collector's native
 * frames are. NULL: no collection is under way, or its place is not known; the Python frames are as
 * they were.
 */
const struct unwind_stack *decoder_unwind_collection(struct decoder *decoder,
						     const struct decoding *decoding)
{
	const struct raw_sample *raw = decoding->raw;
	uint32_t states;
	if (decoder->options.native || !raw->registers.known || !decoder->python.gc_running ||
	    !python_runtime_knows_collector(raw->runtime))
		return NULL;
	const struct unwind_stack *native =
		decoder_unwind_by_records(decoder, decoding, decoder_unwind(decoder, decoding));
	if (native && native->end == UNWIND_END_OUTERMOST && !native->guessed &&
	    decoder_read_python(decoder, raw, native, &states, NULL) && states > 0)
		return native;
	if (!decoder_read_python(decoder, raw, NULL, &states, NULL))
		log_debug("python", "thread %d: cannot be read again", raw->tid);
	return NULL;
}
