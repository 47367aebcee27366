/* SPDX-License-Identifier: MIT */
/* One target, and all that is known of it while it is looked at or recorded. */
#ifndef RECORD_PROCESS_H
#define RECORD_PROCESS_H

#include <pthread.h>

#include "copy/copy.h"
#include "merge/merge.h"
#include "record/internal.h"
#include "modules/module.h"
#include "target/watch.h"

/*
 * What taker and worker report to one another of a process. `epoch` is the taker's to write, and
 * the worker opens the program that runs since; `main_stack_end`, `runtime` and `runtime_epoch` are
 * the worker's, written in that order: a runtime is not used until its epoch is the taker's. The
 * two marks are set by either and cleared by the taker.
 */
struct process_news {
	_Atomic uint64_t epoch;	     /* how often the target has executed another program */
	_Atomic uint64_t epoch_from; /* then: what of the queue was pushed before */
	_Atomic(const struct python_runtime *) runtime; /* as the worker last opened it */
	_Atomic uint64_t runtime_epoch;
	_Atomic remote_addr main_stack_end;
	_Atomic bool join_again;   /* a thread state turned out to be another thread's */
	_Atomic bool forget_codes; /* a sample was dropped: its new code objects are not known */
};

/* Where the taker is with the process's threads, from tick to tick. */
struct process_tick {
	uint64_t joined_ns, watched_ns;
	uint64_t listed_ns; /* of the list of threads that are all traced, or watched */
	size_t first_awake; /* where a tick begins: with those that the last one had no room for */
	size_t next_asleep; /* whose turn it is, as an index in slots */
	uint64_t ran_ns;    /* when a look found one of them that had run */
};

/* What was sampled of it so far, and of those that had its place before: the worker's, or whoever's
 * who asks for a profile, under the recorder's lock. */
struct findings {
	struct resolver *resolver;
	bool fetching;	    /* by that resolver */
	struct profile raw; /* a call tree of raw frame ids */
	struct thread_roots roots;
	struct leaves leaves; /* ... and stacks that end inside of its nodes */
	uint32_t root;	   /* the frame of the process that is there now; PROFILE_NONE: not yet */
	uint32_t timeline; /* its number in the timeline; TIMELINE_NONE: not yet */
};

/*
 * The place of a process that has ended is another one's later, as if that one had been executed
 * there: so thousands of processes cost no more than run at a time. The taker alone changes it; a
 * free one is nobody else's.
 */
enum process_state {
	PROCESS_FREE,
	PROCESS_LIVE,
	PROCESS_ENDED, /* what was taken of it is still on its way */
};

/*
 * A target, with its modules and interpreters (the worker's), its threads and the taker's state.
 * Its address is the source's context: it stays where it is.
 */
struct process {
	struct target *target;
	struct decoder *decoder;      /* NULL: the worker has not made it yet */
	struct decoder_source source; /* the decoder's */
	struct capture *capture;      /* of what the decoder reads; NULL: none */
	/* The worker's: when the module table was read last; which program was opened, and when
	 * that was tried. */
	uint64_t refreshed_ns, worker_epoch, opened_ns;
	uint64_t refreshes_paid_ns; /* until then refreshes have had their part of the time */
	unsigned useless;      /* refreshes for unknown code: those in a row that did not help */
	uint64_t met_ns;       /* when the program was seen first */
	uint64_t open_cost_ns; /* what the last one took */
	bool unready;	       /* its interpreter was not initialised then */
	_Atomic bool ending;   /* the rest is decoded; no file is opened for it */
	struct findings found;
	struct process_news news;
	_Atomic int state;	 /* enum process_state */
	pthread_mutex_t opening; /* held by the worker while it looks into a process that may end */
	bool given;		 /* by the user: it is no child */
	/* The taker's. */
	struct taker taker;
	struct watcher *watcher; /* --nonblocking: instead of a tracer */
	struct watched_threads threads;
	struct process_tick tick;
};

/* What of a session's options is the taker's, but for pdump: it does not name threads so. `means`
 * are used, not owned. */
void process_set_options(struct process *process, const struct session_options *options,
			 struct copy_means *means);

/* GONE, DENIED or SYSTEM. */
bool MUST_CHECK process_open(struct process *process, pid_t pid,
			     const struct decode_options *options, struct interner *strings,
			     struct error *error);
/* The same for a recording: the decoder is made later, by process_need_decoder. */
bool MUST_CHECK process_open_bare(struct process *process, pid_t pid, struct error *error);
void process_need_decoder(struct process *process, const struct decode_options *options,
			  struct interner *strings);
/* Another one takes the place of one that has ended, of whose threads none is left. */
bool MUST_CHECK process_open_again(struct process *process, pid_t pid, struct error *error);
/* The same of a core file; takes the target over. */
void process_open_target(struct process *process, struct target *target,
			 const struct decode_options *options, struct interner *strings);
void process_release(struct process *process); /* one that was not opened, too, if it is zeroed */

/* From now on what the decoder reads of the process is kept; NULL: no longer. */
void process_set_capture(struct process *process, struct capture *capture);

/* The worker's program is not the one that runs: its memory is no more. */
bool process_is_past(const struct process *process);

/* Whether the module table is to be read anew for that reason. Refreshes have the CPU an eighth of
 * the time; what of it was not used lately may be used at once: the first one opens all modules,
 * and libraries may be loaded right after it. */
bool process_refresh_is_due(const struct process *process, enum refresh_reason reason,
			    uint64_t now);
/* One that began then; `cost`: CPU time in nanoseconds, as on a busy machine it waits longer than
 * it works. */
void process_charge_refresh(struct process *process, uint64_t begin, uint64_t cost);
/* `changed`: it found another table than before. */
void process_note_refresh(struct process *process, enum refresh_reason reason, bool changed);

/* Reads the module table anew. */
bool MUST_CHECK process_refresh(struct process *process, struct error *error);

/* The same, but files that may never be had are put off until the next refresh, which is due at
 * once; process_refresh_far is that one, false: there are none. So nobody waits for them whose
 * interpreter is elsewhere. */
bool MUST_CHECK process_refresh_near(struct process *process, struct error *error);
bool MUST_CHECK process_refresh_far(struct process *process);

/* Opens the interpreter (again). */
bool MUST_CHECK process_open_python(struct process *process, struct error *error);

/* Whether the next try may succeed at any moment: the library of a command that has just begun may
 * not be mapped yet, and what is mapped not be initialised. */
bool process_opens_soon(const struct process *process, uint64_t now);

/* How long, in nanoseconds, from one try to do so to the next. Most children that are not Python
 * soon never are; an interpreter that only waits to be initialised is soon. */
uint64_t process_reopen_interval(const struct process *process, uint64_t now);

/* Where the frames of the main thread's stack end, or else the stack; 0: not known. Reads /proc. */
remote_addr process_main_stack_end(const struct process *process);

#endif
