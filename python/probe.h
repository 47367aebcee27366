/* SPDX-License-Identifier: MIT */
/* A thread that runs while it is read. */
#ifndef PYTHON_LOOK_H
#define PYTHON_LOOK_H

#include "python/python.h"

/*
 * What looks at a thread's frame objects (CPython up to 3.10) remember: those that were the
 * innermost ones lately, the last one first, and the outermost one. Zeroed at first.
 */
enum { PYTHON_RECENT = 23 };
struct python_recent {
	remote_addr frames[PYTHON_RECENT];
	size_t count;
	remote_addr outermost, other; /* other: what it was in the last looks instead */
	unsigned others;	      /* how many looks in a row */
};

/* Whose frames are looked at, through which memory. */
struct python_view {
	const struct python_runtime *runtime;
	const struct memory_reader *memory;
	remote_addr tstate;
	struct python_known_codes *known;
	struct python_recent *recent;
};

/*
 * A thread state's frames as one look shows them. The thread changes them meanwhile, so nothing of
 * it is true until another look has shown the same: python_probes_agree.
 */
struct python_probe;
struct python_probe *python_probe_new(void);
void python_probe_free(struct python_probe *look); /* NULL accepted */

/*
 * Follows the frames as python_stack_touch does, and reads what it reads of code objects, but makes
 * none of them known. Fails as that does; then the look still has what was seen until then.
 * Allocates nothing once the depth has been seen, but for unknown code objects.
 */
bool MUST_CHECK python_probe_take(struct python_probe *look, const struct python_view *view,
				  struct error *error);

/* The view's last look, at a copy that is kept: its code objects are known from now on, and what
 * else python_stack_read needs is read. */
bool MUST_CHECK python_probe_keep(const struct python_probe *look, const struct python_view *view,
				  struct error *error);

size_t python_probe_frames(const struct python_probe *look);

/* A number that changes, most likely, when any frame or its instruction does; never 0. */
uint64_t python_probe_stamp(const struct python_probe *look);

/*
 * Where the innermost frames and what leads to them change, by what the look, also a failed one,
 * has seen: at most `size` ranges, the thread state's own first. Returns how many.
 */
size_t python_probe_top(const struct python_probe *look, const struct python_recent *recent,
			struct target_range *ranges, size_t size);

/*
 * For a look in which these ranges were newer than the rest of the memory, of which `base` is a
 * look: true when what lies outside of them stood still, that is, when its frames there are base's,
 * and at least one more is, which is inside.
 */
bool python_probe_rests_on(const struct python_probe *look, const struct python_probe *base,
			   const struct target_range *ranges, size_t count);

/*
 * Up to 3.10 each frame is an object of its own, freed when it is left, and a look that meets a
 * freed one has seen nothing. So a look begins at a frame that can be believed: one that the thread
 * state names both before and after it is read. *ranges are to be read in this order, by one call;
 * false: there is none to begin with (other versions, no frame seen so far).
 */
enum { PYTHON_START_RANGES = 3, PYTHON_START_SIZE = 1024 };
bool python_probe_start(const struct python_view *view,
			struct target_range ranges[PYTHON_START_RANGES]);

/* Whether what was read so was the innermost frame; if not, what is tried next is noted. */
bool python_probe_started(const struct python_view *view,
			  const struct target_range ranges[PYTHON_START_RANGES],
			  const uint8_t *bytes);

/* The words that make frames[innermost] the innermost one, written into a copy that shows the look.
 */
struct python_patch {
	remote_addr address;
	uint64_t value;
};
struct python_cut {
	size_t kept; /* frames that are left, the outermost ones */
	struct python_patch patches[2];
	size_t patch_count;
};
void python_probe_cut(const struct python_probe *look, size_t innermost, struct python_cut *cut);

/*
 * Compares two looks, one taken after the other. *cut is what leaves of the later one the part that
 * both have, and that therefore was the thread's stack at a moment between them.
 */
enum python_agreement {
	PYTHON_LOOKS_AGREE,  /* it is all that one of the two shows */
	PYTHON_LOOKS_SHARE,  /* each shows more: inner frames were left and entered meanwhile */
	PYTHON_LOOKS_DIFFER, /* there is none */
};
enum python_agreement python_probes_agree(const struct python_probe *earlier,
					  const struct python_probe *later, struct python_cut *cut);

#endif
