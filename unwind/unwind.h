/* SPDX-License-Identifier: MIT */
/*
 * From registers and a copy of the stack to the native activations of one thread, by the ELF
 * files' call frame information. Called from one thread of ours only.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include "base/error.h"
#include "base/memory_reader.h"
#include "target/target.h"

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
	UNWIND_END_REGISTER,   /* needs a register that is not known (blocked thread): stop it */
	UNWIND_END_LIMIT,      /* too many frames */
	UNWIND_END_BAD,	       /* SP did not grow, or corrupt unwind information */
};

/* Frames innermost first. The array is kept and reused from call to call. */
struct unwind_stack {
	struct unwind_frame *frames;
	size_t count, capacity;
	enum unwind_end end;
	size_t guessed; /* number of guessed frames */
	uint64_t walk;	/* that it is of, by the unwinder's count; 0: of none */
	/* The outermost frames, which are those of the walk `recalled_from`; 0: none are. */
	size_t recalled;
	uint64_t recalled_from;
};

void unwind_stack_init(struct unwind_stack *stack);
void unwind_stack_release(struct unwind_stack *stack);

struct unwinder;

/* The table is used, not owned, and must outlive the unwinder. */
struct unwinder *unwinder_new(struct module_table *table);
void unwinder_free(struct unwinder *unwinder); /* NULL accepted; frees modules' unwind_cache */

/*
 * Unwinds from the given registers. `memory` has the stack bytes from 128 below SP on (other
 * addresses may fail with ABSENT): in an epilogue the unwind information still says that registers
 * are in the words just popped. At least the leaf's frame is given. The stack so far and its `end`
 * are given also when unwinding could not go on: that is not a failure. Fails with CORRUPT or
 * SYSTEM only.
 */
bool MUST_CHECK unwind_thread(struct unwinder *unwinder, const struct registers *registers,
			      const struct memory_reader *memory, struct unwind_stack *stack,
			      struct error *error);

/*
 * Where code is read that no file has (trampolines made at run time); NULL: nowhere. Used, not
 * owned. A frame of such code can be left when nothing but an epilogue follows in it, or when it is
 * a closure's of libffi.
 */
void unwinder_set_code(struct unwinder *unwinder, const struct memory_reader *code);

/*
 * The next unwind_thread alone takes the innermost frame for one without unwind information: what
 * it has led nowhere. (LLVM leaves the CFA as it was where it moves instructions into an epilogue.)
 */
void unwinder_distrust_leaf(struct unwinder *unwinder);

/*
 * Addresses that lie in activations of code with unwind information (the entry records of an
 * interpreter), in any order: a guess does not step over one of them. The array is used, not
 * owned, by the next unwind_thread alone.
 */
void unwinder_set_anchors(struct unwinder *unwinder, const remote_addr *anchors, size_t count);

/*
 * What a walk has found, for a later one: where the stack's bytes and the registers in a frame are
 * the same again, the frames outside of it are not walked once more. The result is the same as
 * without. It may be any earlier walk in the same process; a thread's own last one helps.
 */
struct unwind_recall *unwind_recall_new(void);
void unwind_recall_free(struct unwind_recall *recall); /* NULL accepted */

/* The next unwind_thread alone uses it and keeps in it what it finds. Used, not owned. */
void unwinder_set_recall(struct unwinder *unwinder, struct unwind_recall *recall);

/*
 * The second backend: libunwind-ptrace's own accessors and table lookup on a thread that the
 * calling thread of ours traces and has stopped. For --unwinder=ptrace and as an oracle; runs in
 * the pause by its nature, and makes no guesses.
 */
bool MUST_CHECK unwind_thread_ptrace(pid_t tid, struct unwind_stack *stack, struct error *error);

/*
 * The start (ELF address) of the function that holds this ELF address, from the module's frame
 * description entries; false where no FDE covers it. *size may be NULL.
 */
bool unwind_function_start(struct unwinder *unwinder, struct module *module, uint64_t vaddr,
			   uint64_t *start, uint64_t *size);

#endif
