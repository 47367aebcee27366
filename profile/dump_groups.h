/* SPDX-License-Identifier: MIT */
/*
 * Many dumps as few stacks: which threads, of which processes, are at the same place; the odd ones
 * first. Pure: of the dumps alone, wherever they are from.
 */
#ifndef PROFILE_DUMP_GROUPS_H
#define PROFILE_DUMP_GROUPS_H

#include "profile/profile.h"

/* All zero is an empty one. */
struct dump_list {
	struct dump *dumps;
	size_t count, capacity;
};

/* Takes the dump over. */
void dump_list_add(struct dump_list *list, const struct dump *dump);
void dump_list_release(struct dump_list *list);

/* A thread of one of the dumps, by their places. */
struct dump_member {
	uint32_t dump, thread;
};

/* Threads whose stacks are equal: at least one. */
struct dump_group {
	const struct dump_member *members; /* in the order of the dumps */
	size_t count;
	size_t processes; /* so many dumps are among the members' */
};

/* Where the first threads of some processes are. */
struct dump_place {
	const char *name; /* "all_reduce"; NULL: nothing is known of their stacks */
	size_t processes;
};

struct dump_groups {
	const struct dump_list *list;
	struct dump_group *groups; /* those of the fewest processes first, then of fewest threads */
	size_t count;
	size_t processes;	   /* dumps that have threads */
	struct dump_place *places; /* most processes first */
	size_t place_count;
	struct dump_member *members;
	struct interner *strings;
};

/*
 * Stacks are equal when the texts of their frames are (frame_text with `lines` and `full`), and
 * what is missing of them. The dumps must outlive the groups.
 */
void dump_groups_init(struct dump_groups *groups, const struct dump_list *list, bool lines,
		      bool full);
void dump_groups_release(struct dump_groups *groups);

/*
 * Fills in groups->places (dump_places.c). The way of a process is that of its first thread: the
 * functions of the program's own code, and what the innermost of them has called. Its place is
 * where its way parts from those of the others that go along with it the longest; if no other does,
 * the innermost of the program's own functions. Where all ways are one, it is that, too, with its
 * line if the lines differ.
 */
void dump_places_find(struct dump_groups *groups, bool full);

#endif
