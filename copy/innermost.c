/* SPDX-License-Identifier: MIT */
/* The inner end of a copied native stack, as the interpreter's reader looks at it. Runs in the
 * pause: neither allocates nor prints. */
#include "copy/innermost.h"

/* As far out as the interpreter looks for what its innermost frame holds. */
enum { INNERMOST_SIZE = 4 << 10 };

/* The native frame that the thread stopped in; false: its registers are not known. */
static bool describe_innermost(const struct raw_sample *raw,
			       struct python_native_frame *native_frame)
{
	static const uint8_t saved[PYTHON_SAVED_COUNT] = {REGISTER_RBX, REGISTER_RBP, REGISTER_R12,
							  REGISTER_R13, REGISTER_R14, REGISTER_R15};
	const struct registers *registers = &raw->registers;
	*native_frame = (struct python_native_frame){.sp = registers->value[REGISTER_RSP],
						     .pc = registers->value[REGISTER_RIP]};
	native_frame->cfa = native_frame->sp + INNERMOST_SIZE;
	for (size_t i = 0; i < PYTHON_SAVED_COUNT; i++) {
		native_frame->saved[i] = registers->value[saved[i]];
		native_frame->saved_known |= (registers->known >> saved[i] & 1) << i;
	}
	return raw->stopped && native_frame->saved_known;
}

void raw_sample_native(const struct raw_sample *raw, struct python_native_frame *innermost,
		       struct python_native *native)
{
	const remote_addr sp =
		raw->interrupted_sp ? raw->interrupted_sp : raw->registers.value[REGISTER_RSP];
	*native = (struct python_native){
		.innermost = describe_innermost(raw, innermost) ? innermost : NULL,
		.end = raw_sample_end_of((struct raw_sample *)(uintptr_t)raw, sp),
	};
}
