/* SPDX-License-Identifier: MIT */
/*
 * Which frame a thread executes (CPython 3.11+). The eval function makes a frame the current one
 * and links it to the one that it was called from, in the order that the compiler likes: stopped
 * between the two, the frame's `previous` has what the memory was used for last, or nothing in a
 * generator that goes on. Frames of the data stack stand end to end, that tells; the frame that was
 * current before is in a register or on the native stack, and is taken only where it fits.
 */
#include "python/walk.h"

enum {
	MAX_STEPS = 256,      /* generators and entries between two frames of the data stack */
	MAX_HELD = 4 << 10,   /* bytes of the native frame that are looked at */
	MAX_LISTED = 1 << 12, /* frames of a chunk */
};

static bool is_on_data_stack(struct walk *walk, remote_addr address)
{
	return walk_find_chunk(walk, address) != NULL;
}

/* True for the first frame of its chunk. CPython leaves a word free in the first chunk. */
static bool is_first(struct walk *walk, remote_addr address)
{
	const struct raw_chunk *chunk = walk_find_chunk(walk, address);
	return chunk && address - chunk->address <= walk->layout->chunk_data + sizeof(uint64_t);
}

/* Where the frame ends; 0: it is none. */
static remote_addr end_of(struct walk *walk, const struct frame_view *frame)
{
	uint32_t index;
	if (!walk_find_code(walk, frame->code, &index, NULL))
		return 0;
	return frame->address + walk->room->codes[index].frame_size;
}

/* An entry below the native stack is left over from a call that has returned. */
static bool is_left_over(const struct walk *walk, const struct frame_view *frame)
{
	enum { NEAR = 16 << 10 }; /* farther away it is on another stack, a coroutine's say */
	return frame->is_shim && walk->slice_count > 0 && frame->address < walk->slices[0].sp &&
	       walk->slices[0].sp - frame->address <= NEAR;
}

/*
 * From `address` outwards to the next frame on the data stack. False: there is none; *reached: the
 * chain's end was. With `generators` nothing else may stand before it; *steps counts these.
 */
static bool find_on_data_stack(struct walk *walk, remote_addr address, bool generators,
			       struct frame_view *frame, size_t *steps, bool *reached)
{
	*reached = false;
	for (*steps = 0; address && *steps < MAX_STEPS; ++*steps) {
		if (!walk_view_frame(walk, address, frame, NULL))
			return false;
		if (is_on_data_stack(walk, address))
			return true;
		if (is_left_over(walk, frame))
			return false;
		if (generators && (frame->owner != OWNED_BY_GENERATOR || !end_of(walk, frame)))
			return false;
		address = frame->previous;
	}
	*reached = address == 0;
	return false;
}

/* True when what the frame is linked to can be what it was called from. */
static bool is_linked(struct walk *walk, const struct frame_view *frame)
{
	struct frame_view outer;
	size_t steps;
	bool reached;
	if (!is_on_data_stack(walk, frame->address))
		return frame->previous != 0;
	if (!find_on_data_stack(walk, frame->previous, false, &outer, &steps, &reached))
		return reached && is_first(walk, frame->address);
	return is_first(walk, frame->address) || end_of(walk, &outer) == frame->address;
}

/* ---- the frame that was current before ---- */

/* How many generators stand between the frame at `address` and the one on the data stack that ends
 * at `end`, and 1; 0: it does not fit. */
static size_t fits(struct walk *walk, remote_addr address, remote_addr end)
{
	struct frame_view outer;
	size_t steps;
	bool reached;
	if (!address || !find_on_data_stack(walk, address, true, &outer, &steps, &reached) ||
	    end_of(walk, &outer) != end)
		return 0;
	return steps + 1;
}

struct choice {
	remote_addr address, end;
	size_t fit;
};

static void consider(struct walk *walk, struct choice *best, uint64_t word)
{
	const size_t fit = word == best->address ? 0 : fits(walk, word, best->end);
	if (fit > best->fit) {
		best->fit = fit;
		best->address = word;
	}
}

/* In what the innermost native frame holds: it is the eval function. */
static remote_addr find_held(struct walk *walk, remote_addr end)
{
	const struct python_slice *slice = walk->innermost;
	struct choice best = {0, end, 0};
	for (int i = 0; i < PYTHON_SAVED_COUNT; i++)
		if (slice->saved_known & 1u << i)
			consider(walk, &best, slice->saved[i]);
	remote_addr at = (slice->sp + 7) & ~(remote_addr)7;
	uint64_t word;
	for (size_t i = 0; i < MAX_HELD && at + i < slice->cfa; i += sizeof(word))
		if (memory_read_u64(walk->memory, at + i, &word, NULL))
			consider(walk, &best, word);
	return best.address;
}

/* Among the frames of the chunk, from its first on. Generators are not found so. */
static remote_addr find_listed(struct walk *walk, remote_addr end)
{
	const struct raw_chunk *chunk = walk_find_chunk(walk, end - 1);
	if (!chunk)
		return 0;
	const bool root = chunk == &walk->room->chunks[walk->room->chunk_count - 1];
	remote_addr address =
		chunk->address + walk->layout->chunk_data + (root ? sizeof(uint64_t) : 0);
	struct frame_view frame;
	for (size_t i = 0; i < MAX_LISTED && address < end; i++) {
		if (!walk_view_frame(walk, address, &frame, NULL))
			return 0;
		const remote_addr next = end_of(walk, &frame);
		if (next == end)
			return address;
		if (next <= address)
			return 0;
		address = next;
	}
	return 0;
}

bool walk_is_linked(struct walk *walk, remote_addr address)
{
	struct frame_view frame;
	if (walk->room->chunk_count == 0)
		return true;
	return walk_view_frame(walk, address, &frame, NULL) &&
	       (frame.is_shim || is_linked(walk, &frame));
}

/* True for a frame that may have been made the current one just now. */
static bool may_be_new(struct walk *walk, remote_addr address)
{
	struct frame_view frame;
	if (!walk_view_frame(walk, address, &frame, NULL))
		return false;
	const remote_addr end = end_of(walk, &frame);
	if (!end)
		return false;
	if (!is_on_data_stack(walk, address))
		return frame.owner == OWNED_BY_GENERATOR;
	return address < walk->stack_top && (end == walk->stack_top || !is_linked(walk, &frame));
}

bool walk_frame_before(struct walk *walk, remote_addr address, remote_addr *before,
		       struct error *error)
{
	const remote_addr end = is_on_data_stack(walk, address) ? address : walk->stack_top;
	*before = 0;
	if (!may_be_new(walk, address))
		return true;
	if (!walk->slice_count && !walk->scan)
		return error_set(error, ERROR_TORN, "the newest frame is not linked yet");
	if (walk->innermost)
		*before = find_held(walk, end);
	/* Where a record may be unfilled, what is listed may be what it was left with. */
	const bool shims = walk->layout->chain == CHAIN_SHIM;
	if (!*before && (walk->scan || shims))
		*before = find_listed(walk, end);
	return *before || !shims ||
	       error_set(error, ERROR_TORN, "nothing tells who called the newest frame");
}
