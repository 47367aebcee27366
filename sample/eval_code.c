/* SPDX-License-Identifier: MIT */
/*
 * Code of the interpreter that the merge has to know: the eval function's, of which each native
 * frame is an activation, and the collector's. Symbols tell, with all the parts that compilers
 * make of a function. Stripped builds split theirs, too (PGO), without a name for the parts: there
 * the functions whose frames Python code was seen to run in are the eval function's.
 */
#include "sample/internal.h"

#include <string.h>

/* Where the innermost Python code runs in a frame of this kind less often, it is a mistake: what
 * was left on a stack that is being switched. */
enum { SELDOM = 64, ENOUGH = 64, MOST = 1 << 24 };

static void add_range(struct code_ranges *ranges, remote_addr start, uint64_t size)
{
	if (ranges->count < CODE_RANGES)
		ranges->list[ranges->count++] = (struct code_range){start, start + size};
}

void eval_code_find(struct eval_code *code, const struct module *module)
{
	enum { OLD_EVAL = 1, OF_EVAL = 2 };
	static const char *const names[] = {"_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx",
					    "gc_collect_main",		"gc_collect_generations",
					    "gc_collect_with_callback", "gc_collect_young",
					    "gc_collect_increment",	"collect",
					    "_PyGC_CollectNoFail"};
	struct module_place parts[2 * CODE_RANGES];
	size_t count = module_find_parts(module, names, sizeof(names) / sizeof(*names), parts,
					 2 * CODE_RANGES);
	bool has_default = false;
	memset(code, 0, sizeof(*code));
	for (size_t i = 0; i < count; i++)
		has_default |= parts[i].name == 0;
	for (size_t i = 0; i < count; i++) {
		if (has_default && parts[i].name == OLD_EVAL)
			continue; /* a mere wrapper since 3.6 */
		add_range(parts[i].name < OF_EVAL ? &code->eval : &code->collector,
			  module->load_bias + parts[i].vaddr, parts[i].size);
	}
}

bool code_ranges_hold(const struct code_ranges *ranges, remote_addr address)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (address >= ranges->list[i].start && address < ranges->list[i].end)
			return true;
	return false;
}

void eval_code_learn(struct eval_code *code, const struct unwind_frame *frame)
{
	size_t i = 0, least = 0;
	if (!frame->function || frame->guessed)
		return;
	while (i < code->learned_count && code->learned[i].function != frame->function) {
		if (code->learned[i].count < code->learned[least].count)
			least = i;
		i++;
	}
	if (i == CODE_RANGES)
		i = least;
	if (i == code->learned_count)
		code->learned_count++;
	if (code->learned[i].function != frame->function)
		code->learned[i] = (struct learned_code){frame->function, 0};
	if (++code->learned[i].count > code->learned_most)
		code->learned_most = code->learned[i].count;
	if (code->learned_most < MOST)
		return;
	code->learned_most /= 2;
	for (i = 0; i < code->learned_count; i++)
		code->learned[i].count /= 2;
}

bool eval_code_holds(const struct eval_code *code, const struct unwind_frame *frame)
{
	if (code_ranges_hold(&code->eval, frame->pc - (frame->pc_kind == UNWIND_PC_RETURN)))
		return true;
	for (size_t i = 0; i < code->learned_count && code->learned_most >= ENOUGH; i++)
		if (code->learned[i].function == frame->function)
			return frame->function &&
			       code->learned[i].count > code->learned_most / SELDOM;
	return false;
}

bool eval_code_known(const struct eval_code *code)
{
	return code->eval.count > 0 || code->learned_most >= ENOUGH;
}
