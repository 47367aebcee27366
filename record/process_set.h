/* SPDX-License-Identifier: MIT */
/* The processes of a recording: those that were given, and with -s what they start. */
#ifndef RECORD_PROCESS_SET_H
#define RECORD_PROCESS_SET_H

#include "record/process.h"
#include "target/cgroup.h"

enum { PROCESSES_MOST = 4096 }; /* that live at a time */

/*
 * Places are added by the taker and stay; the others see those that are counted. `lock` is held
 * while a place becomes another process's: who looks at targets from outside of taker and worker
 * (fork, names) holds it, too.
 */
struct process_set {
	struct process *places[PROCESSES_MOST]; /* those that were given first */
	_Atomic size_t count;
	pthread_mutex_t lock;
	/* The taker's. */
	size_t live, ended;
	uint64_t empty_ns;			  /* since when none lives */
	size_t first_awake;			  /* the place with which a tick begins */
	size_t next_asleep;			  /* whose sleeping threads have their turn */
	uint64_t owed_ns;			  /* of looks at those: WAKE_NS a look */
	uint64_t asked_tick;			  /* how many samples the last tick asked for */
	uint64_t children_looked_ns, children_ns; /* the last and the next look for children */
	unsigned children_looks;
	struct target_births births;
	const struct target_cgroup *cgroup; /* whose processes they are; NULL: of none */
	struct table refused;		    /* children that may not be traced, by number */
	bool rooted;			    /* each has a root frame */
	_Atomic bool python_found;	    /* in any of them */
	_Atomic uint64_t unread;	    /* processes that could not be looked into */
};

void process_set_init(struct process_set *set);
void process_set_release(struct process_set *set);

/* What is made for each process. */
struct process_making {
	const struct session_options *options;
	struct copy_means *means;
};

/* Opens a process in a place of its own. GONE, DENIED or SYSTEM. */
bool MUST_CHECK process_set_add(struct process_set *set, pid_t pid,
				const struct process_making *making, struct process **process,
				struct error *error);

/* NULL: none that lives. */
struct process *process_set_find(const struct process_set *set, pid_t pid);

/* The place; NULL: it has no process in that state (see process_is). */
struct process *process_set_at(const struct process_set *set, size_t place,
			       enum process_state state);

/* Processes of the set's cgroup that are not in the set and not ours; at most `most`. */
size_t process_set_newcomers(const struct process_set *set, pid_t *found, size_t most);

/* It has ended; its place is free when process_set_settle has found that nothing is left of it. */
void process_set_end(struct process_set *set, struct process *process);
void process_set_settle(struct process_set *set);

static inline size_t process_set_count(const struct process_set *set)
{
	return atomic_load(&set->count);
}

#endif
