/* SPDX-License-Identifier: MIT */
/*
 * Which frame a thread executes (CPython 3.11+). The eval function makes a frame the current one
 * and links it to the one that it was called from, in the order that the compiler likes: stopped
 * between the two, the frame's `previous` has what the memory was used for last, or nothing in a
 * generator that goes on. Frames that one activation runs are end to end on the data stack, that
 * tells; the frame that was current before is in a register or on the native stack, and is taken
 * only where it fits.
 *
 * Between two activations frames may stand that nobody runs any more. A function that returns is
 * unlinked, then its locals are cleared, and only then is its frame taken off the data stack
 * (CPython 3.11+ Python/ceval.c: _PyEvalFrameClearAndPop; GH-99729). What runs meanwhile, a
 * destructor say, has its frame above that one, and was called from the one below:
 *
 *      [ call_ret ][ ret_local: unlinked ][ __del__ ]  __del__ -> its entry -> call_ret
 */
#include "python/walk.h"

enum {
	MAX_STEPS = 256,      /* generators and entries between two frames of the data stack */
	MAX_HELD = 4 << 10,   /* bytes of the native frame that are looked at */
	MAX_LISTED = 1 << 12, /* frames of a chunk */
	MAX_LEFT = 256,	      /* frames that are being left, between two others */
};

static bool is_on_data_stack(struct walk *walk, remote_addr address)
{
	return walk_find_chunk(walk, address) != NULL;
}

/* Where the first frame of a chunk stands. CPython leaves a word free in the first chunk. */
static remote_addr first_of(const struct walk *walk, const struct raw_chunk *chunk)
{
	const bool root = chunk == &walk->room->chunks.items[walk->room->chunks.count - 1];
	return chunk->address + walk->layout->chunk_data + (root ? sizeof(uint64_t) : 0);
}

static bool is_first(struct walk *walk, remote_addr address)
{
	const struct raw_chunk *chunk = walk_find_chunk(walk, address);
	return chunk && address <= first_of(walk, chunk);
}

/* Where the frame ends; 0: it is none. */
static remote_addr end_of(struct walk *walk, const struct frame_view *frame)
{
	uint32_t index;
	if (!walk_find_code(walk, frame->code, &index, NULL))
		return 0;
	return frame->address + walk->room->codes.items[index].frame_size;
}

/* An entry below the native stack is left over from a call that has returned. */
static bool is_left_over(const struct walk *walk, const struct frame_view *frame)
{
	enum { NEAR = 16 << 10 }; /* farther away it is on another stack, a coroutine's say */
	return frame->is_shim && walk->native_frame_count > 0 &&
	       frame->address < walk->native_frames[0].sp &&
	       walk->native_frames[0].sp - frame->address <= NEAR;
}

/* From a frame outwards to the next one on the data stack. */
struct outward {
	struct frame_view frame; /* that one */
	remote_addr entry;	 /* the first entry on the way; 0: none */
	size_t steps;		 /* what else is on the way */
	bool reached;		 /* there is none, and the chain's end was reached */
};

/* False: there is none. With `generators` nothing else may be on the way. */
static bool find_on_data_stack(struct walk *walk, remote_addr address, bool generators,
			       struct outward *way)
{
	*way = (struct outward){.steps = 0};
	for (; address && way->steps < MAX_STEPS; way->steps++) {
		const struct frame_view *frame = &way->frame;
		if (!walk_view_frame(walk, address, &way->frame, NULL))
			return false;
		if (is_on_data_stack(walk, address))
			return true;
		if (is_left_over(walk, frame))
			return false;
		if (generators && (frame->owner != OWNED_BY_GENERATOR || !end_of(walk, frame)))
			return false;
		if (!way->entry && (frame->is_shim || frame->is_entry))
			way->entry = address;
		address = frame->previous;
	}
	way->reached = address == 0;
	return false;
}

/* ---- frames that nobody runs any more ---- */

/* True for a frame that is past its first instruction: it was linked before that. */
static bool has_begun(struct walk *walk, const struct frame_view *frame)
{
	uint32_t index;
	remote_addr bytecode;
	return walk_find_code(walk, frame->code, &index, NULL) &&
	       walk_find_bytecode(walk, frame, &walk->room->codes.items[index], &bytecode, NULL) &&
	       frame->instruction > bytecode && frame->instruction - bytecode <= MAX_INSTRUCTION;
}

/*
 * An entry is filled in by the eval function that it is a local of: what runs in a frame that has
 * not begun is that function. Where there are records, those have to lead to the same frame.
 */
static bool is_being_entered(const struct walk *walk, remote_addr entry)
{
	const struct python_native_frame *innermost = walk->innermost;
	if (walk->layout->chain != CHAIN_SHIM)
		return true;
	if (!innermost)
		return walk->scan;
	return entry >= innermost->sp && entry - innermost->sp < MAX_HELD;
}

/*
 * True when none of the frames from `start` to `end` is run by the activation of `entry`. If one
 * was, it would have called the frame at `end`, which then is not linked yet.
 */
static bool are_left(struct walk *walk, remote_addr start, remote_addr end, remote_addr entry)
{
	struct frame_view frame;
	struct outward way;
	for (size_t i = 0; i < MAX_LEFT && start < end; i++) {
		if (!walk_view_frame(walk, start, &frame, NULL))
			return false;
		(void)find_on_data_stack(walk, frame.previous, false, &way);
		const remote_addr next = end_of(walk, &frame);
		if (way.entry == entry || frame.address == entry || next <= start)
			return false;
		start = next;
	}
	return start == end;
}

/* True when nothing but frames that are being left is between the frame and the one further
 * out (if there is one), which does not end where it begins. */
static bool is_above_left(struct walk *walk, const struct frame_view *frame,
			  const struct outward *way)
{
	const remote_addr entry = frame->is_entry ? frame->address : way->entry;
	const struct raw_chunk *chunk = walk_find_chunk(walk, frame->address);
	if (!entry)
		return false;
	if (has_begun(walk, frame))
		return true;
	const bool same = chunk == walk_find_chunk(walk, way->frame.address);
	const remote_addr start = same ? end_of(walk, &way->frame) : first_of(walk, chunk);
	return is_being_entered(walk, entry) && are_left(walk, start, frame->address, entry);
}

/* True when what the frame is linked to can be what it was called from. */
static bool is_linked(struct walk *walk, const struct frame_view *frame)
{
	struct outward way;
	if (!is_on_data_stack(walk, frame->address))
		return frame->previous != 0;
	const bool found = find_on_data_stack(walk, frame->previous, false, &way);
	if (!found && !way.reached)
		return false;
	return is_first(walk, frame->address) ||
	       (found && end_of(walk, &way.frame) == frame->address) ||
	       ((found || walk->layout->chain == CHAIN_SHIM) && is_above_left(walk, frame, &way));
}

/* ---- the frame that was current before ---- */

/* How many generators are between the frame at `address` and the one on the data stack that ends
 * at `end`, and 1; 0: it does not fit. */
static size_t fits(struct walk *walk, remote_addr address, remote_addr end)
{
	struct outward way;
	if (!address || !find_on_data_stack(walk, address, true, &way) ||
	    end_of(walk, &way.frame) != end)
		return 0;
	return way.steps + 1;
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
	const struct python_native_frame *native_frame = walk->innermost;
	struct choice best = {0, end, 0};
	for (int i = 0; i < PYTHON_SAVED_COUNT; i++)
		if (native_frame->saved_known & 1u << i)
			consider(walk, &best, native_frame->saved[i]);
	remote_addr at = (native_frame->sp + 7) & ~(remote_addr)7;
	uint64_t word;
	for (size_t i = 0; i < MAX_HELD && at + i < native_frame->cfa; i += sizeof(word))
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
	remote_addr address = first_of(walk, chunk);
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
	if (walk->room->chunks.count == 0)
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
	if (!walk->native_frame_count && !walk->scan)
		return error_set(error, ERROR_TORN, "the newest frame is not linked yet");
	if (walk->innermost)
		*before = find_held(walk, end);
	/* Where a record may be unfilled, what is listed may be what it was left with. */
	const bool shims = walk->layout->chain == CHAIN_SHIM;
	if (!*before && (walk->scan || shims))
		*before = find_listed(walk, end);
	return *before || !shims ||
	       error_set(error, ERROR_TORN, "nothing says who called the newest frame");
}
