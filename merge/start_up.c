/* SPDX-License-Identifier: MIT */
/*
 * Which of the outermost frames are only how a thread came to where its program begins: the C
 * library's (_start, __libc_start_main, clone3, start_thread), the python executable's main. They
 * are hidden; so is what the interpreter does outside of the outermost Python frame. What a host
 * does there (a program with an interpreter inside, a native thread that calls into Python) is its
 * program, and stays.
 */
#include "merge/internal.h"

#include <ctype.h>
#include <string.h>

static const struct unwind_frame *native_at(const struct merge_input *input,
					    const struct merged_stack *merged, size_t i)
{
	const struct merged_frame *frame = &merged->frames[i];
	return frame->kind == MERGED_NATIVE ? &input->native->frames[frame->native] : NULL;
}

/* NULL: a mark, or code in no file. */
static const struct module *module_at(const struct merge_input *input,
				      const struct merged_stack *merged, size_t i)
{
	const struct unwind_frame *frame = native_at(input, merged, i);
	const struct mapping *mapping =
		frame ? module_table_find(input->modules, unwind_frame_site(frame)) : NULL;
	return mapping ? mapping->module : NULL;
}

/* Where a process starts, in the file that it executes or in the dynamic loader. */
static bool is_entry(const struct module *module, const struct unwind_frame *frame)
{
	enum { ENTRY_SIZE = 64 }; /* of glibc's and musl's _start */
	return module && module->headers.entry &&
	       unwind_frame_site(frame) - module->load_bias - module->headers.entry < ENTRY_SIZE;
}

/* "libc.so.6", "libc-2.31.so", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1" */
bool start_up_is_c_library(const struct module *module)
{
	static const char *const starts[] = {"libc.so",	 "libpthread.so", "libpthread-",
					     "ld-linux", "ld-musl",	  "libc.musl"};
	static const char *const versioned[] = {"libc-", "ld-"};
	if (!module)
		return false;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (strncmp(module->name, starts[i], strlen(starts[i])) == 0)
			return true;
	for (size_t i = 0; i < sizeof(versioned) / sizeof(*versioned); i++) {
		const size_t size = strlen(versioned[i]);
		if (strncmp(module->name, versioned[i], size) == 0 &&
		    isdigit((unsigned char)module->name[size]))
			return true;
	}
	return false;
}

/* "python3.11": all that it does is to call its library. */
static bool is_launcher(const struct module *module)
{
	return module && strstr(module->name, "python") && !strstr(module->name, ".so");
}

static bool is_greenlet(const struct module *module)
{
	return module && stack_switch_is_greenlet(module);
}

/* Where the frames begin that are start-up alone, none of them inside of `first`. */
static size_t find_start(const struct merge_input *input, const struct merged_stack *merged,
			 size_t first)
{
	size_t i = merged->count;
	const struct unwind_frame *outermost = i > first ? native_at(input, merged, i - 1) : NULL;
	if (outermost && is_entry(module_at(input, merged, i - 1), outermost))
		i--;
	while (i > first && start_up_is_c_library(module_at(input, merged, i - 1)))
		i--;
	while (i > first && is_launcher(module_at(input, merged, i - 1)))
		i--;
	/* The walk ends there: see stack_switch.c. What greenlet does before and after the function
	 * of a greenlet begins with it, as there is nothing else. */
	if (first > 0 && i > first && i == merged->count &&
	    is_greenlet(module_at(input, merged, i - 1)))
		i--;
	return i;
}

/*
 * Outside of the outermost Python frame there is only greenlet's own code, by which it calls the
 * first function of a greenlet, and the stack of another one: from there on. An activation of the
 * eval function that runs nothing there is the other one's as well.
 */
static size_t find_greenlet(const struct merge_input *input, const struct merged_stack *merged,
			    size_t first, size_t start)
{
	for (size_t i = first; i < start; i++) {
		const struct unwind_frame *frame = native_at(input, merged, i);
		if (frame && eval_code_contains(input->code, input->runtime, frame))
			return first;
		if (is_greenlet(module_at(input, merged, i)))
			return i;
	}
	return start;
}

/* What a host calls of an interpreter in its own module begins with a function of the C API; that
 * one may have jumped on to another, which nothing but the call to it shows. */
static bool enters_interpreter(const struct merge_input *input, const struct merged_stack *merged,
			       size_t i)
{
	const struct unwind_frame *caller =
		i + 1 < merged->count ? native_at(input, merged, i + 1) : NULL;
	return python_runtime_is_api(input->runtime,
				     unwind_frame_site(native_at(input, merged, i))) ||
	       (caller && python_runtime_calls_api(input->runtime, caller->pc));
}

/* Shows the functions of a host that the interpreter is linked into. */
static void show_host(const struct merge_input *input, struct merged_stack *merged, size_t first,
		      size_t start)
{
	if (!input->runtime || !python_runtime_has_host(input->runtime))
		return;
	for (size_t i = start; i-- > first;) {
		struct merged_frame *frame = &merged->frames[i];
		const struct unwind_frame *native = native_at(input, merged, i);
		if (!native || !python_runtime_owns(input->runtime, unwind_frame_site(native)))
			continue;
		/* Nobody else calls the eval function itself. */
		if (i > 0 && merged->frames[i - 1].kind == MERGED_PYTHON)
			return;
		if (enters_interpreter(input, merged, i))
			return;
		frame->hidden = false;
		frame->host = true;
	}
}

/* What the C library, and the kernel's code that it calls, does for a thread that begins or ends
 * says nothing without the start-up. */
static bool shows_any(const struct merge_input *input, const struct merged_stack *merged,
		      size_t end)
{
	for (size_t i = 0; i < end; i++) {
		const struct module *const module = module_at(input, merged, i);
		if (!merged->frames[i].hidden && native_at(input, merged, i) &&
		    !start_up_is_c_library(module) &&
		    !(module && strcmp(module->name, "[vdso]") == 0))
			return true;
	}
	return false;
}

void start_up_hide(const struct merge_input *input, struct merged_stack *merged)
{
	const bool cut = input->python && input->python->cut;
	size_t first = merged->count, start = 0;
	while (first > 0 && merged->frames[first - 1].kind != MERGED_PYTHON)
		first--;
	if (first > 0 && cut)
		start = first; /* nobody knows what these belong to */
	else
		start = find_start(input, merged, first);
	if (first > 0 && !cut)
		start = find_greenlet(input, merged, first, start);
	show_host(input, merged, first, start);
	if (first == 0 && !shows_any(input, merged, start))
		return;
	for (size_t i = start; i < merged->count; i++)
		merged->frames[i].hidden = true;
}
