/* SPDX-License-Identifier: MIT */
/* The merge on synthetic stacks: what owns what is told by addresses alone. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "merge/internal.h"
#include "python/internal.h"

enum { MAX = 16 };

struct stage {
	struct unwind_frame natives[MAX];
	struct python_frame frames[MAX];
	struct python_activation activations[MAX];
	struct python_code codes[MAX];
	struct unwind_stack native;
	struct python_stack python;
	struct module_table modules;
	struct merged_stack merged;
	struct eval_code code;
	struct python_runtime runtime;
	struct module interpreter; /* without code of its own */
	char text[512];
};

/* Native frames of 0x100 bytes each, innermost at 0x1000. */
static void set_natives(struct stage *stage, size_t count, enum unwind_end end)
{
	for (size_t i = 0; i < count; i++)
		stage->natives[i] = (struct unwind_frame){
			.pc = 0x400000 + i, .sp = 0x1000 + i * 0x100, .cfa = 0x1100 + i * 0x100};
	stage->native = (struct unwind_stack){
		.frames = stage->natives, .count = count, .capacity = MAX, .end = end};
}

/* One activation: its record's address and how many frames it runs. */
static void add_activation(struct stage *stage, remote_addr record, uint32_t count)
{
	struct python_stack *python = &stage->python;
	python->activations = stage->activations;
	python->frames = stage->frames;
	stage->activations[python->activation_count++] =
		(struct python_activation){record, (uint32_t)python->count, count};
	for (uint32_t i = 0; i < count; i++, python->count++) {
		stage->codes[python->count].id = (uint32_t)python->count;
		stage->frames[python->count] = (struct python_frame){
			.code = &stage->codes[python->count], .line = (int)python->count + 1};
	}
}

/* "n0 p0 p1 n2": innermost first; hidden frames in parentheses; "_": a gap. */
static const char *merge(struct stage *stage, bool native, enum wait_kind wait)
{
	struct merge_input input = {.native = native ? &stage->native : NULL,
				    .python =
					    stage->python.activation_count ? &stage->python : NULL,
				    .runtime = &stage->runtime,
				    .modules = &stage->modules,
				    .code = &stage->code,
				    .wait = wait};
	merge_stacks(&input, &stage->merged);
	stage->text[0] = '\0';
	for (size_t i = 0; i < stage->merged.count; i++) {
		const struct merged_frame *frame = &stage->merged.frames[i];
		size_t used = strlen(stage->text);
		if (frame->kind == MERGED_GAP) {
			snprintf(stage->text + used, sizeof(stage->text) - used, "%s_",
				 i ? " " : "");
			continue;
		}
		snprintf(stage->text + used, sizeof(stage->text) - used,
			 frame->hidden ? "%s(%c%u)" : "%s%c%u", i ? " " : "",
			 frame->kind == MERGED_PYTHON	     ? 'p'
			 : frame->kind == MERGED_GIL_WAIT    ? 'g'
			 : frame->kind == MERGED_IMPORT_WAIT ? 'i'
			 : frame->kind == MERGED_SIGNAL	     ? 's'
							     : 'n',
			 frame->kind == MERGED_PYTHON ? frame->code->id : frame->native);
	}
	return stage->text;
}

static int set_up(void **state)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	module_table_init(&stage->modules);
	stage->runtime.module = &stage->interpreter;
	*state = stage;
	return 0;
}

static int tear_down(void **state)
{
	struct stage *stage = *state;
	merged_stack_release(&stage->merged);
	module_table_release(&stage->modules);
	free(stage);
	return 0;
}

static void python_frames_replace_the_activation_that_holds_their_record(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 6, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1150, 2); /* in native 1 */
	add_activation(stage, 0x1450, 1); /* in native 4 */
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0 p1 n2 n3 p2 n5");
	assert_false(stage->merged.salvaged);
	assert_false(stage->merged.truncated);
}

static void an_activation_just_entered_vanishes(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 4, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1010, 0);
	add_activation(stage, 0x1210, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n1 p0 n3");
	assert_false(stage->merged.salvaged);
}

/* Python and native frames of different moments: greenlets are being switched. */
static void an_activation_that_runs_nothing_in_mid_stack_is_told(void **state)
{
	struct stage *stage = *state;
	const remote_addr eval = 0x7000;
	set_natives(stage, 8, UNWIND_END_OUTERMOST);
	stage->natives[4].function = stage->natives[6].function = eval;
	add_activation(stage, 0x1650, 2);
	/* Nobody knows yet what the eval function is: the first stack tells. */
	for (unsigned i = 0; i < 100; i++) {
		merge(stage, true, WAIT_NONE);
		assert_true(stage->merged.broken);
	}
	stage->natives[4].function = 0x9000;
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2 n3 n4 n5 p0 p1 n7");
	assert_false(stage->merged.broken);
	/* Outside of the outermost one: of another greenlet, which does not run. */
	stage->natives[7].function = eval;
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2 n3 n4 n5 p0 p1 (n7)");
	assert_false(stage->merged.broken);
	stage->code = (struct eval_code){0};
	merge(stage, true, WAIT_NONE);
	merge(stage, true, WAIT_NONE);
	assert_false(stage->merged.broken);
	/* By its name, from the start. */
	stage->code = (struct eval_code){0};
	stage->runtime.eval = (struct python_ranges){{{0x400003, 0x400005}}, 1};
	merge(stage, true, WAIT_NONE);
	assert_true(stage->merged.broken);
}

/* A signal may come at any moment: also between entering the eval function and linking its frame.
 */
static void a_signal_handler_may_interrupt_an_activation_that_runs_nothing(void **state)
{
	struct stage *stage = *state;
	const remote_addr eval = 0x7000;
	set_natives(stage, 8, UNWIND_END_OUTERMOST);
	stage->natives[3].function = stage->natives[6].function = eval;
	add_activation(stage, 0x1650, 2);
	merge(stage, true, WAIT_NONE);
	assert_true(stage->merged.broken);
	stage->natives[2].signal_frame = true;
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 s0 n3 n4 n5 p0 p1 n7");
	assert_false(stage->merged.broken);
	/* Outside of it alone. */
	stage->natives[2].signal_frame = false;
	stage->natives[4].signal_frame = true;
	merge(stage, true, WAIT_NONE);
	assert_true(stage->merged.broken);
}

/* A first stack that was being switched names the wrong function: those after it outweigh it. */
static void one_mistake_about_the_eval_function_is_soon_forgotten(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 8, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1650, 2);
	stage->natives[6].function = 0x9000;
	merge(stage, true, WAIT_NONE);
	stage->natives[6].function = 0x7000;
	stage->natives[4].function = 0x9000;
	merge(stage, true, WAIT_NONE);
	assert_true(stage->merged.broken);
	for (unsigned i = 0; i < 8; i++)
		merge(stage, true, WAIT_NONE);
	assert_false(stage->merged.broken);
}

static void a_run_without_its_activation_goes_between_its_neighbours(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 5, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1010, 1);
	add_activation(stage, 0, 1); /* no record */
	add_activation(stage, 0x1310, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "p0 n1 n2 p1 p2 n4");
	assert_true(stage->merged.salvaged);
}

static void a_cut_native_stack_keeps_the_outer_python_frames(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 2, UNWIND_END_STACK_COPY);
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0x9010, 3);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0 _ p1 p2 p3");
	assert_true(stage->merged.salvaged);
	assert_true(stage->merged.truncated);
	assert_false(stage->merged.broken);
}

/* However a native stack ends, the Python frames that it does not reach follow. */
static void no_end_of_a_native_stack_loses_its_python_frames(void **state)
{
	static const enum unwind_end ends[] = {
		UNWIND_END_OUTERMOST,  UNWIND_END_UNMAPPED, UNWIND_END_NO_INFO,
		UNWIND_END_STACK_COPY, UNWIND_END_REGISTER, UNWIND_END_LIMIT,
		UNWIND_END_BAD,
	};
	struct stage *stage = *state;
	struct module_segment code = {.vaddr = 0x400000, .memory_size = 2, .flags = PF_X};
	stage->interpreter.segments = &code;
	add_activation(stage, 0x9010, 2);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		set_natives(stage, 2, ends[i]);
		assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 _ p0 p1");
		assert_true(stage->merged.salvaged && stage->merged.truncated);
		assert_false(stage->merged.broken);
		/* Within the interpreter, all of which is hidden. */
		stage->interpreter.segment_count = 1;
		assert_string_equal(merge(stage, true, WAIT_NONE), "(n0) (n1) _ p0 p1");
		assert_true(stage->merged.salvaged);
		assert_false(stage->merged.broken);
		/* A wait that it is known to be in, whatever called it. */
		stage->interpreter.segment_count = 0;
		assert_string_equal(merge(stage, true, WAIT_GIL), "g0 _ p0 p1");
	}
}

static void map(struct stage *stage, remote_addr start, const char *path)
{
	static struct mapping mappings[1];
	mappings[0] = (struct mapping){.start = start, .end = start + 1, .path = path};
	stage->modules.mappings = mappings;
	stage->modules.mapping_count = 1;
}

static void unmap(struct stage *stage)
{
	stage->modules.mappings = NULL;
	stage->modules.mapping_count = 0;
}

/* The JIT gives memory back; where a stack ends with the code that was there, none is to be seen. */
static void code_that_is_gone_is_nobody_s(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 1, UNWIND_END_NO_INFO);
	add_activation(stage, 0x9010, 2);
	assert_string_equal(merge(stage, true, WAIT_NONE), "(n0) _ p0 p1");
	assert_true(stage->merged.salvaged && stage->merged.truncated);
	/* What is made by others is shown; by the interpreter, if it has a JIT, not. */
	map(stage, stage->natives[0].pc, "");
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 _ p0 p1");
	stage->code.jit = JIT_PRESENT;
	assert_string_equal(merge(stage, true, WAIT_NONE), "(n0) _ p0 p1");
	map(stage, stage->natives[0].pc, "[stack]");
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 _ p0 p1");
	unmap(stage);
}

static void the_jit_s_code_is_the_interpreter_s(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 2, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1110, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0");
	map(stage, stage->natives[0].pc, "");
	assert_string_equal(merge(stage, true, WAIT_NONE), "(n0) p0");
	unmap(stage);
}

/* What the interpreter has outside of the outermost Python frame is hidden in any case. */
static void nothing_is_missing_outside_of_all_python_frames(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 2, UNWIND_END_NO_INFO);
	add_activation(stage, 0x1110, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0");
	assert_false(stage->merged.salvaged || stage->merged.truncated);
	/* But of a host, whose frames are shown. */
	set_natives(stage, 3, UNWIND_END_NO_INFO);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0 n2 _");
	assert_true(stage->merged.salvaged && stage->merged.truncated);
	/* But of a chain of Python frames that is known to end too early. */
	set_natives(stage, 3, UNWIND_END_OUTERMOST);
	stage->python.cut = true;
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0 (n2) _");
	assert_string_equal(merge(stage, false, WAIT_NONE), "p0 _");
	assert_true(stage->merged.salvaged && stage->merged.truncated);
}

/* What a guess led to that did not reach the Python frames need not be inside of them. */
static void frames_that_a_guess_led_to_nowhere_are_left_out(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 6, UNWIND_END_UNMAPPED);
	stage->natives[1].guessed = true;
	add_activation(stage, 0x9010, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 _ p0");
	/* It has reached some, which proves it so far; the next one has not. */
	stage->python.activation_count = stage->python.count = 0;
	add_activation(stage, 0x1310, 1);
	add_activation(stage, 0x9010, 1);
	stage->natives[4].guessed = true;
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2 p0 n4 _ p1");
	assert_false(stage->merged.broken);
}

/* An activation that runs nothing in mid-stack: the guess that led there was wrong. */
static void a_guess_that_contradicts_the_python_stack_becomes_a_gap(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 8, UNWIND_END_OUTERMOST);
	stage->runtime.eval = (struct python_ranges){{{0x400003, 0x400005}}, 1};
	stage->natives[1].guessed = true;
	add_activation(stage, 0x1650, 2);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 _ p0 p1 n7");
	assert_true(stage->merged.salvaged && stage->merged.truncated);
	assert_false(stage->merged.broken);
	/* Without a guess the two stacks are of different moments. */
	stage->natives[1].guessed = false;
	merge(stage, true, WAIT_NONE);
	assert_true(stage->merged.broken);
	/* And where the guess is outside of it. */
	stage->natives[5].guessed = true;
	merge(stage, true, WAIT_NONE);
	assert_true(stage->merged.broken);
}

/* Up to 3.10, where which native frame runs which may not be found: an activation of unknown frames
 * may run one of those that are left. */
static void native_frames_outside_of_an_unknown_activation_are_left_out(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 8, UNWIND_END_NO_INFO);
	stage->runtime.eval = (struct python_ranges){{{0x400003, 0x400007}}, 1};
	stage->python.of_objects = true;
	add_activation(stage, 0, 1);
	add_activation(stage, 0, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2 _ p0 p1");
	assert_false(stage->merged.broken);
	/* Those inside of one that is known are. */
	stage->activations[0].record = 0x1410;
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2 n3 p0 _ p1");
}

static void records_on_another_stack_match_nothing_here(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 3, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0x50, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0 n2 _ p1");
	assert_true(stage->merged.salvaged);
}

static void two_records_in_one_frame_keep_their_order(void **state)
{
	/* The eval function inlined into another: both records are its locals. */
	struct stage *stage = *state;
	set_natives(stage, 3, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0x1180, 1);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 p0 p1 n2");
}

static void without_native_frames_python_stands_alone(void **state)
{
	struct stage *stage = *state;
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0, 2);
	assert_string_equal(merge(stage, false, WAIT_NONE), "p0 p1 p2");
	assert_false(stage->merged.salvaged);
}

static void a_gil_waiter_without_native_frames_has_the_mark(void **state)
{
	struct stage *stage = *state;
	add_activation(stage, 0x1110, 1);
	assert_string_equal(merge(stage, false, WAIT_GIL), "g0 p0");
}

static void an_import_waiter_is_marked_inside_of_what_it_imports(void **state)
{
	struct stage *stage = *state;
	add_activation(stage, 0x1110, 1);
	assert_string_equal(merge(stage, false, WAIT_IMPORT_LOCK), "i0 p0");
}

static void a_thread_unknown_to_python_is_all_native(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 3, UNWIND_END_NO_INFO);
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2 _");
	assert_true(stage->merged.truncated);
}

/* ---- what is outside of the outermost Python frame ---- */

/* Module i has the addresses from 0x400000 + 0x1000 * i on. */
static void set_modules(struct stage *stage, struct module *modules, size_t count)
{
	static struct module_segment code = {.memory_size = 0x1000, .flags = 1 /* PF_X */};
	struct mapping mappings[MAX] = {0};
	for (size_t i = 0; i < count; i++) {
		const remote_addr start = 0x400000 + 0x1000 * i;
		modules[i].load_bias = start;
		modules[i].segments = &code;
		modules[i].segment_count = 1;
		mappings[i] = (struct mapping){
			.start = start, .end = start + 0x1000, .module = &modules[i], .path = ""};
	}
	module_table_set_mappings(&stage->modules, mappings, count);
}

/* The native frames are in these modules, innermost first. */
static void place_natives(struct stage *stage, const char *in)
{
	set_natives(stage, strlen(in), UNWIND_END_OUTERMOST);
	for (size_t i = 0; in[i]; i++)
		stage->natives[i].pc = 0x400800 + 0x1000 * (remote_addr)(in[i] - '0') + i;
}

static void a_hosts_frames_stay_and_start_up_is_hidden(void **state)
{
	enum { LIBC, INTERPRETER, PROGRAM, LIBRARY, PYTHON, THREADS, GREENLET, COUNT };
	struct module modules[COUNT] = {
		[LIBC] = {.name = "libc.so.6"},
		[INTERPRETER] = {.name = "libpython3.11.so.1.0"},
		[PROGRAM] = {.name = "server", .headers.entry = 0x800},
		[LIBRARY] = {.name = "libengine.so.1"},
		[PYTHON] = {.name = "python3.11", .headers.entry = 0x800},
		[THREADS] = {.name = "libpthread-2.31.so"},
		[GREENLET] = {.name = "_greenlet.cpython-311-x86_64-linux-gnu.so"},
	};
	static const struct {
		const char *modules, *merged;
	} rows[] = {
		{"11002", "p0 (n1) (n2) (n3) (n4)"}, /* python: main is the interpreter's own */
		{"110022", "p0 (n1) n2 n3 n4 (n5)"}, /* libc and a program: not start-up's end */
		{"112002", "p0 (n1) n2 (n3) (n4) (n5)"},   /* a program's main */
		{"114004", "p0 (n1) (n2) (n3) (n4) (n5)"}, /* python3.11 with a libpython */
		{"1122002", "p0 (n1) n2 n3 (n4) (n5) (n6)"},
		{"113100", "p0 (n1) n2 (n3) (n4) (n5)"}, /* a library in its own thread */
		{"113050", "p0 (n1) n2 (n3) (n4) (n5)"}, /* up to glibc 2.33 */
		{"1131002", "p0 (n1) n2 (n3) (n4) (n5) (n6)"},
		{"116300", "p0 (n1) (n2) (n3) (n4) (n5)"}, /* on the stack of another greenlet */
	};
	struct stage *stage = *state;
	set_modules(stage, modules, COUNT);
	stage->runtime.module = &modules[INTERPRETER];
	add_activation(stage, 0x1050, 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		place_natives(stage, rows[i].modules);
		assert_string_equal(merge(stage, true, WAIT_NONE), rows[i].merged);
	}
	/* Where its outermost frame is missing. */
	stage->python.cut = true;
	place_natives(stage, "113100");
	assert_string_equal(merge(stage, true, WAIT_NONE), "p0 (n1) (n2) (n3) (n4) (n5) _");
	/* Without Python it looks the same; what there is alone is shown. */
	memset(&stage->python, 0, sizeof(stage->python));
	place_natives(stage, "33100");
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 (n2) (n3) (n4)");
	place_natives(stage, "000");
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2");
	place_natives(stage, "066");
	assert_string_equal(merge(stage, true, WAIT_NONE), "n0 n1 n2");
}

/* The interpreter and the program are one file: 0x400100 .. 0x4001ff are functions of the C API. */
static void a_host_in_the_interpreters_module_is_told_by_symbols(void **state)
{
	static const struct {
		uint64_t pcs[5];
		const char *merged;
	} rows[] = {
		{{0x400300, 0x400110, 0x400500, 0x400600}, "p0 (n1) n2 n3"},
		/* not API, but called by what is: outside of it the host's */
		{{0x400300, 0x400510, 0x400120, 0x400600}, "p0 (n1) (n2) n3"},
		/* a function that the API's has jumped to */
		{{0x400300, 0x400700, 0x400510, 0x400305, 0x400600}, "p0 (n1) (n2) n3 n4"},
		{{0x400300, 0x400700, 0x400510, 0x400306, 0x400600}, "p0 (n1) n2 n3 n4"},
	};
	struct module_place api[] = {{0x100, 0x80, true, 0}, {0x180, 0x80, true, 0}};
	static uint8_t code[0x1000];
	/* call 0x100; call 0x600 */
	static const uint8_t to_api[] = {0xe8, 0xfb, 0xfd, 0xff, 0xff};
	memcpy(code + 0x300, to_api, sizeof(to_api));
	struct module_segment segment = {
		.file_size = sizeof(code), .memory_size = sizeof(code), .flags = 1 /* PF_X */};
	struct module server = {.name = "server",
				.fd = -1,
				.bytes = code,
				.bytes_size = sizeof(code),
				.load_bias = 0x400000,
				.segments = &segment,
				.segment_count = 1};
	struct mapping mapping = {
		.start = 0x400000, .end = 0x401000, .module = &server, .path = ""};
	struct stage *stage = *state;
	module_table_set_mappings(&stage->modules, &mapping, 1);
	stage->runtime.module = &server;
	stage->runtime.api = api;
	stage->runtime.api_count = 2;
	add_activation(stage, 0x1050, 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t count = 0;
		while (count < 5 && rows[i].pcs[count])
			count++;
		set_natives(stage, count, UNWIND_END_OUTERMOST);
		for (size_t j = 0; j < count; j++)
			stage->natives[j].pc = rows[i].pcs[j];
		assert_string_equal(merge(stage, true, WAIT_NONE), rows[i].merged);
	}
	/* Without symbols nothing tells. */
	stage->runtime.api_count = 0;
	assert_string_equal(merge(stage, true, WAIT_NONE), "p0 (n1) (n2) (n3) (n4)");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(python_frames_replace_the_activation_that_holds_their_record),
		TEST(an_activation_just_entered_vanishes),
		TEST(an_activation_that_runs_nothing_in_mid_stack_is_told),
		TEST(a_signal_handler_may_interrupt_an_activation_that_runs_nothing),
		TEST(one_mistake_about_the_eval_function_is_soon_forgotten),
		TEST(a_run_without_its_activation_goes_between_its_neighbours),
		TEST(a_cut_native_stack_keeps_the_outer_python_frames),
		TEST(no_end_of_a_native_stack_loses_its_python_frames),
		TEST(code_that_is_gone_is_nobody_s),
		TEST(the_jit_s_code_is_the_interpreter_s),
		TEST(nothing_is_missing_outside_of_all_python_frames),
		TEST(frames_that_a_guess_led_to_nowhere_are_left_out),
		TEST(a_guess_that_contradicts_the_python_stack_becomes_a_gap),
		TEST(native_frames_outside_of_an_unknown_activation_are_left_out),
		TEST(records_on_another_stack_match_nothing_here),
		TEST(two_records_in_one_frame_keep_their_order),
		TEST(without_native_frames_python_stands_alone),
		TEST(a_gil_waiter_without_native_frames_has_the_mark),
		TEST(an_import_waiter_is_marked_inside_of_what_it_imports),
		TEST(a_thread_unknown_to_python_is_all_native),
		TEST(a_hosts_frames_stay_and_start_up_is_hidden),
		TEST(a_host_in_the_interpreters_module_is_told_by_symbols),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
