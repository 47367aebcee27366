/* SPDX-License-Identifier: MIT */
/*
 * From registers and a copy of the stack to the native activations of one thread, by the ELF
 * files' call frame information. Called from one thread of ours only.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include "base/error.h"
#include "base/memory_reader.h"
#include "modules/module.h"

enum unwind_pc_kind {
	UNWIND_PC_EXACT,  /* the leaf, or interrupted by a signal: the instruction itself */
	UNWIND_PC_RETURN, /* a return address: the call is at PC-1 */
};

enum unwind_saved {
	UNWIND_RBX,
	UNWIND_RBP,
	UNWIND_R12,
	UNWIND_R13,
	UNWIND_R14,
	UNWIND_R15,
	UNWIND_SAVED_COUNT
};

struct unwind_frame {
	remote_addr pc;	 /* not decremented */
	remote_addr sp;	 /* this activation owns [sp, cfa) */
	remote_addr cfa; /* the caller's sp; 0: not known (outermost) */
	remote_addr
		function; /* where the code that its unwind information covers begins; 0: none */
	uint64_t saved[UNWIND_SAVED_COUNT]; /* callee-saved registers as they are in this frame */
	uint8_t saved_known;		    /* bit N: saved[N] holds */
	uint8_t pc_kind;		    /* enum unwind_pc_kind */
	bool guessed;			    /* reached without unwind information */
	bool analysed;	   /* no FDE covers it: `function` is what analysis of the code found */
	bool trampoline;   /* code in no file that does nothing but go to another function */
	bool signal_frame; /* the kernel's sigreturn trampoline: the next frame's PC is exact */
};

/* Within the instruction that the frame is in: a return address follows it. */
static inline remote_addr unwind_frame_site(const struct unwind_frame *frame)
{
	return frame->pc - (frame->pc_kind == UNWIND_PC_RETURN);
}

enum unwind_end {
	UNWIND_END_OUTERMOST,  /* the unwind information says that nobody called this */
	UNWIND_END_UNMAPPED,   /* a PC in no known mapping: refresh the module table, try again */
	UNWIND_END_NO_INFO,    /* no unwind information, and no guess held */
	UNWIND_END_STACK_COPY, /* needs stack bytes that were not copied */
	UNWIND_END_REGISTER,   /* needs a register that is not known (blocked thread), nor found */
	UNWIND_END_LIMIT,      /* too many frames */
	UNWIND_END_BAD,	       /* SP did not grow, or corrupt unwind information */
};

/* Frames innermost first. The array is kept and reused from call to call. */
struct unwind_stack {
	struct unwind_frame *frames;
	size_t count, capacity;
	enum unwind_end end;
	size_t guessed; /* number of guessed frames */
	size_t unread;	/* reads that have failed, and may not fail the next time */
	uint64_t walk;	/* that it is of, by the unwinder's count; 0: of none */
	/* The outermost frames, which are those of the walk `reused_from`; 0: none are. */
	size_t reused;
	uint64_t reused_from;
};

void unwind_stack_init(struct unwind_stack *stack);
void unwind_stack_release(struct unwind_stack *stack);

struct unwinder;

/* The table is used, not owned, and must outlive the unwinder. */
struct unwinder *unwinder_new(struct module_table *table);

/*
 * The second backend: libunwind-ptrace's own accessors and table lookup on a thread that the
 * calling thread of ours traces and has stopped. For --unwinder=ptrace and as an oracle; runs in
 * the pause by its nature, and makes no guesses. Of a request it needs `tid` alone.
 */
struct unwinder *unwinder_new_ptrace(void);
void unwinder_free(struct unwinder *unwinder); /* NULL accepted; frees modules' unwind_cache */

/* The modules may be at other places from now on: their unwind_cache is freed, too. */
void unwinder_forget(struct unwinder *unwinder);

struct walk_cache;

/* One stack to unwind. What it points to is used, not owned; what is not known is zero. */
struct unwind_request {
	const struct registers *registers;
	/* The stack's bytes from 128 below SP on (other addresses may fail with ABSENT): in an
	 * epilogue the unwind information still says that registers are in the words just popped.
	 */
	const struct memory_reader *memory;
	/* Reads code that no file has (kernels and trampolines made at run time). What such code
	 * does is followed as that of files is. */
	const struct memory_reader *code;
	/* Addresses that lie in activations of code with unwind information (the entry records of
	 * an interpreter), in any order: a guess does not step over one of them. */
	const remote_addr *anchors;
	size_t anchor_count;
	/* Functions, by the addresses at which they start, that begin a stack: outside of them is
	 * another one. */
	const remote_addr *roots;
	size_t root_count;
	struct walk_cache *cache;
	/* Takes the innermost frame for one without unwind information: what it has led nowhere.
	 * (LLVM leaves the CFA as it was where it moves instructions into an epilogue.) */
	bool distrust_leaf;
	pid_t tid;
};

/*
 * Unwinds from the given registers. At least the leaf's frame is given. The stack so far and its
 * `end` are given also when unwinding could not go on: that is not a failure. Fails with CORRUPT,
 * GONE or SYSTEM only.
 */
bool MUST_CHECK unwind_thread(struct unwinder *unwinder, const struct unwind_request *request,
			      struct unwind_stack *stack, struct error *error);

/*
 * What a walk has found, for a later one: where the stack's bytes and the registers in a frame are
 * the same again, the frames outside of it are not walked once more. The result is the same as
 * without. It may be any earlier walk in the same process; a thread's own last one helps. A walk
 * keeps in it what it finds.
 */
struct walk_cache *walk_cache_new(void);
void walk_cache_free(struct walk_cache *cache); /* NULL accepted */

#endif
