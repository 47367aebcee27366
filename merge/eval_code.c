/* SPDX-License-Identifier: MIT */
/*
 * Which native frames are activations of the eval function. Symbols say so, see python/locate.c.
 * But stripped builds have split theirs, too (PGO), without a name for the parts: there the
 * functions whose frames Python code was seen to run in are the eval function's.
 */
#include "merge/internal.h"

/* Where the innermost Python code runs in a frame of this kind less often, it is a mistake: what
 * was left on a stack that is being switched. Until ENOUGH were seen, one mistake weighs more. */
enum { SELDOM = 64, AT_FIRST = 4, ENOUGH = 64, MOST = 1 << 24 };

void eval_code_learn(struct eval_code *code, const struct unwind_frame *frame)
{
	size_t i = 0, least = 0;
	if (!frame->function || frame->guessed)
		return;
	while (i < code->count && code->learned[i].function != frame->function) {
		if (code->learned[i].count < code->learned[least].count)
			least = i;
		i++;
	}
	if (i == LEARNED_CODE)
		i = least;
	if (i == code->count)
		code->count++;
	if (code->learned[i].function != frame->function)
		code->learned[i] = (struct learned_code){frame->function, 0};
	if (++code->learned[i].count > code->most)
		code->most = code->learned[i].count;
	if (code->most < MOST)
		return;
	code->most /= 2;
	for (i = 0; i < code->count; i++)
		code->learned[i].count /= 2;
}

bool eval_code_settled(const struct eval_code *code)
{
	return code->most >= ENOUGH;
}

bool eval_code_contains(const struct eval_code *code, const struct python_runtime *runtime,
			const struct unwind_frame *frame)
{
	if (python_runtime_evaluates(runtime, unwind_frame_site(frame)))
		return true;
	const uint32_t share = eval_code_settled(code) ? SELDOM : AT_FIRST;
	for (size_t i = 0; i < code->count; i++)
		if (code->learned[i].function == frame->function)
			return frame->function && code->learned[i].count > code->most / share;
	return false;
}
