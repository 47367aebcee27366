/* SPDX-License-Identifier: MIT */
/* The raw sample: one pause, copied. */
#ifndef COPY_RAW_SAMPLE_H
#define COPY_RAW_SAMPLE_H

#include "base/memory_reader.h"
#include "python/python.h"
#include "target/target.h"
#include "unwind/unwind.h"

enum {
	RAW_MAX_READS = 524288,	   /* remembered of one sample, to predict the next: two a frame */
	RAW_MAX_RANGES = 524288,   /* 200,000 heap frames, their records and what hangs on them */
	RAW_LARGE = 512,	   /* bytes from which on a range may hold others */
	RAW_MAX_LARGE = 4096,	   /* data-stack chunks of 200,000 frames */
	RAW_SAMPLES_MOST = 1024,   /* in use at one time */
	RAW_SAMPLES_LIMITED = 256, /* likewise where address space is limited */
	RAW_MAX_TSTATES = 64,	   /* sub-interpreters on one OS thread */
	RAW_MAX_STACK = 256 << 20, /* bytes of native stack up to the end of its mapping */
	RAW_MAX_GUESS = 32 << 20,  /* up to an end that may be another stack's */
	RAW_FAR_SHIFT = 32,	   /* an end so far away (4 GiB) is another stack's */
	RAW_UNKNOWN_STACK = 1 << 20, /* copied of a stack whose end is not known yet */
	RAW_MAX_BYTES = RAW_MAX_STACK + (128 << 20),
};

struct raw_range {
	remote_addr address;
	uint32_t size;
	uint32_t offset; /* in bytes */
};

/* Who the thread is, to the kernel and in Python. */
struct raw_identity {
	remote_addr tstates[RAW_MAX_TSTATES];
	uint32_t tstate_count;
	bool maybe_python;   /* a young thread that Python may know by now: see merge/decode.c */
	uint64_t claimed;    /* bit N: it runs tstates[N], whatever ids that has (claim.c) */
	uint64_t thread_id;  /* pthread_self() that each of them must have; 0: not known */
	pid_t namespace_tid; /* likewise native_thread_id, where there is one; 0: any */
	pid_t kernel_tid;    /* what that is to the kernel; 0: not known (replay) */
};

/* The bytes that were copied. */
struct raw_store {
	struct raw_range *ranges; /* the first span_count of them in order of address */
	size_t range_count, range_capacity, span_count, span_hit;
	uint8_t *bytes; /* reserved, touched as needed */
	size_t byte_count, byte_capacity;
	size_t touched;	       /* bytes of our memory that it has in use since raw_sample_trim */
	unsigned small_resets; /* samples in a row that needed far less of it */
	bool compact;	       /* a clone: all in one piece of memory */
	bool brings_codes;     /* code objects that no copy before had, or may */
};

struct raw_slot {
	uint32_t stamp, number;
};

/* Which range an address is in. */
struct raw_lookup {
	struct raw_slot *slots; /* hash of addresses -> number of the range */
	size_t size;
	size_t mask;	 /* what is used of it, less one: little while there are few ranges */
	uint32_t stamp;	 /* slots of another stamp are free */
	uint32_t *large; /* ranges that reads may lie inside of */
	size_t large_count, large_capacity, large_hit;
};

/* What was asked for, in order. */
struct raw_reads {
	struct target_range *items;
	size_t count, capacity;
	size_t late; /* of them, how many nothing had copied before */
};

/*
 * All that is needed to know one thread's stack at one moment, without the process: registers
 * and byte ranges (the native stack is one of them). Also a memory_reader over these ranges;
 * while `live` is set, what is not among them is read from the target and kept.
 */
struct raw_sample {
	struct memory_reader reader; /* first: see raw_sample_read */
	const struct target *live;
	bool no_live_reads;	/* though live, nothing is read any more: it has run on */
	bool prediction_missed; /* some of what was predicted is gone */
	pid_t tid;
	struct raw_identity who;
	uint64_t time_ns; /* CLOCK_MONOTONIC at the stop */
	/* How long the thread was stopped, or was held for the sample before, or until its
	 * interrupt was answered; 0: not known, or none of these. */
	uint64_t pause_ns;
	uint64_t cpu_ns; /* that the thread has used since its sample before; --mode=cpu, else 0 */
	uint32_t allocations; /* made in the pause: none, but for new code objects */
	struct registers registers;
	bool stopped;		 /* false: read as it was, blocked or (wait.running) not */
	bool withheld;		 /* a page that the walk needed did not come: target_memory() */
	bool shortened;		 /* inner frames changed while they were read and are left out */
	uint64_t epoch;		 /* how often the target had executed another program */
	struct target_wait wait; /* of a blocked thread */
	char kernel[TARGET_KERNEL_SIZE]; /* what it waits in, when that is wanted; "": not known */
	char name[PYTHON_NAME_SIZE];	 /* of the thread, where it is new; "": not known */
	bool has_native;		 /* native was filled in the pause (--unwinder=ptrace) */
	struct unwind_stack native;
	const struct python_runtime *runtime; /* the one the records were read with; NULL: none */
	/* SP is on another stack than the thread's (a signal handler's): SP on the one that it has
	 * left, which is copied, too; 0: none is. */
	remote_addr interrupted_sp;
	struct raw_store store;
	struct raw_lookup lookup;
	struct raw_reads reads;
};

/* In so many functions a thread may be whose stack is being replaced (copy.h). */
enum { COPY_SWITCHES = 3 };

/* How many may be in use at one time: fewer where address space is limited (ulimit -v). */
size_t raw_samples_most(void);

/*
 * All memory it will ever need is reserved here: taking a sample allocates nothing. Pages once
 * touched stay, as the next sample of a deep stack needs them again, until samples have been
 * small for a while.
 */
struct raw_sample *raw_sample_new(void);
void raw_sample_free(struct raw_sample *raw); /* NULL accepted */
void raw_sample_reset(struct raw_sample *raw);

/* Bytes of our memory that the sample keeps from being used otherwise; and gives them back, with
 * what was copied. */
size_t raw_sample_footprint(const struct raw_sample *raw);
void raw_sample_trim(struct raw_sample *raw);

/*
 * Copies the ranges, which are in order of address and do not overlap, in as few
 * process_vm_readv as can be; those that cannot be read are left out. Once a sample, first. May
 * run in the pause.
 */
void raw_sample_prefetch(struct raw_sample *raw, const struct target *target,
			 const struct target_range *ranges, size_t count);

/* Copies what there is of a range whose end is a guess, up to the first hole. */
void raw_sample_prefetch_some(struct raw_sample *raw, const struct target *target,
			      const struct target_range *range);

/* True when the range is in the copy. */
bool raw_sample_contains(struct raw_sample *raw, remote_addr address, size_t size);

/* The end of the range in the copy that holds the address; 0: none does. */
remote_addr raw_sample_end_of(struct raw_sample *raw, remote_addr address);

/* Adds a range whose bytes the caller fills in (replay, tests). NULL when there is no room. */
uint8_t *raw_sample_add(struct raw_sample *raw, remote_addr address, size_t size);

/* The same for a prefetched range: they come first, in order of address. */
uint8_t *raw_sample_add_span(struct raw_sample *raw, remote_addr address, size_t size);

/*
 * Writes over what was copied of these bytes, wherever it stands, and adds the range when it is not
 * held as a whole. False: there is no room.
 */
bool MUST_CHECK raw_sample_overwrite(struct raw_sample *raw, remote_addr address, const void *bytes,
				     size_t size);

/* Copies every range again; one that cannot be read any more stays as it is. */
void raw_sample_refresh(struct raw_sample *raw, const struct target *target);

/*
 * Copies of one place at several moments (--nonblocking) may lie in several ranges, and where the
 * last read was found decides which is looked at first: decoding is to start alike, live and in
 * replay.
 */
void raw_sample_rewind(struct raw_sample *raw);

/* A copy with just the memory it needs; only to be read and freed. */
struct raw_sample *raw_sample_clone(const struct raw_sample *raw);

#endif
