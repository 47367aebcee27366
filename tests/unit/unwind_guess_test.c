/* SPDX-License-Identifier: MIT */
/*
 * Which word on the stack is the caller of code without unwind information? Made-up stacks over
 * real code: a small library whose functions call one another in every way, and whose labels give
 * the return addresses. Each stack has words left over from earlier calls below the true ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unwind/unwind.h"

/* Functions with information have nothing on the stack but their return address. */
#define LABEL(name) ".globl " name "\n" name ":\n"
#define TYPED(name) ".type " name ",@function\n" LABEL(name)
#define CALLER(name, call) \
	TYPED("in_" name) ".cfi_startproc\n" call "\n" LABEL("after_" name) "nop\nret\n.cfi_endproc\n"

static const char near_source[] =
	".text\n"
	/* The thread's start: nobody called it. It may have called any, by what has a part elsewhere. */
	TYPED("in_start") ".cfi_startproc\n.cfi_undefined rip\ncall split_here\n"
	LABEL("after_start") "nop\nret\n.cfi_endproc\n"
	TYPED("plain") ".cfi_startproc\nnop\nnop\nret\n.cfi_endproc\n"
	TYPED("split") ".cfi_startproc\nnop\njne .Lcold\nret\n.cfi_endproc\n"
	TYPED("parts") ".cfi_startproc\nnop\n.Lcold: ud2\n.cfi_endproc\n"
	TYPED("jumper") ".cfi_startproc\nnop\njmp *%rax\n.cfi_endproc\n"
	TYPED("thunk") ".cfi_startproc\njmp .Lleaf\n.cfi_endproc\n"
	CALLER("direct", "call .Lleaf")
	CALLER("direct2", "call .Lleaf")
	CALLER("plt", "call leaf@PLT")
	CALLER("got", "call *leaf@GOTPCREL(%rip)")
	CALLER("thunk", "call thunk_here")
	CALLER("indirect", "call *%rax")
	CALLER("table", "call *0x3e0(%r12)")
	CALLER("plain", "call plain_here")
	CALLER("jumper", "call jumper_here")
	CALLER("import", "call getpid@PLT")
	CALLER("other", "call far_other@PLT")
	CALLER("away", "call far_jumper@PLT")
	CALLER("far", "call far_leaf@PLT")
	CALLER("through", "call .Lthrough")
	CALLER("framed", "call .Lframed")
	CALLER("late", "call .Llate")
	CALLER("moved", "call .Lmoved")
	CALLER("first", "call .Lfirst")
	CALLER("second", "call .Lsecond")
	CALLER("behind", "call .Lbehind")
	".set plain_here, plain\n.set jumper_here, jumper\n.set thunk_here, thunk\n"
	".set split_here, split\n.hidden split_here\n.hidden plain_here\n.hidden jumper_here\n.hidden thunk_here\n"
	/* From here on no information. */
	/* Nor symbols: two entries, and a function behind another one without padding. */
	".p2align 4\nxor %eax,%eax\nret\n.p2align 4\n.Lfirst: xor %eax,%eax\n.Lsecond: xor %ecx,%ecx\n"
	"jne jumper_here\nret\n"
	".p2align 4\nxor %ecx,%ecx\nret\n.Lbehind: xor %eax,%eax\nnop\nret\n"
	TYPED("leaf") ".Lleaf: push %rbx\npush %r12\n" LABEL("leaf_prologue") "sub $24,%rsp\n"
	"xor %eax,%eax\n" LABEL("leaf_body") "nop\nnop\nud2\nadd $24,%rsp\npop %r12\n"
	LABEL("leaf_epilogue") "pop %rbx\nret\n"
	TYPED("through") ".Lthrough: endbr64\nsub $8,%rsp\ncall .Lleaf\n"
	LABEL("after_bare") "add $8,%rsp\nret\n"
	TYPED("framed") ".Lframed: push %rbp\nmov %rsp,%rbp\nand $-64,%rsp\nsub $64,%rsp\n"
	LABEL("framed_body") "nop\nleave\nret\n"
	TYPED("late") ".Llate: ud2\nret\n"
	TYPED("moved") ".Lmoved: sub %rdi,%rsp\n" LABEL("moved_body") "ud2\nadd %rdi,%rsp\nret\n"
	".section .note.GNU-stack,\"\",@progbits\n";

static const char far_source[] =
	".text\n" TYPED("far_other") ".cfi_startproc\nnop\nret\n.cfi_endproc\n"
	TYPED("far_jumper") ".cfi_startproc\nnop\njmp *%rax\n.cfi_endproc\n"
	TYPED("far_leaf") "push %rbx\nsub $16,%rsp\nud2\n" LABEL("far_body") "nop\nret\n"
	".section .note.GNU-stack,\"\",@progbits\n";

struct test_case {
	const char *name;
	const char *pc;
	const char *stack;    /* from SP on: labels, "." for 0, "!" for an address in no mapping,
			       * "@N" for the address of word N */
	const char *expected; /* the callers, innermost first */
	int rbp;              /* word that RBP points at, or 0: not known */
};

static const struct test_case cases[] = {
	{ "nothing is left over", "leaf_body", ". . . . . after_direct after_start", "direct start", 0 },
	/* What is left over leads to the start as well. */
	{ "a call of another function before a direct call", "leaf_body",
	  "after_plain after_start . . . after_direct after_start", "direct start", 0 },
	{ "an import's call before a direct call", "leaf_body",
	  ". after_import after_start . . after_direct after_start", "direct start", 0 },
	{ "a call by register before a direct call", "leaf_body",
	  "after_indirect after_start . . . after_direct after_start", "direct start", 0 },
	{ "a call by table before a call through the PLT", "leaf_body",
	  "after_table after_start . . . after_plt after_start", "plt start", 0 },
	{ "a call that may jump on before a call through the GOT", "leaf_body",
	  "after_jumper after_start . . . after_got after_start", "got start", 0 },
	{ "a call by register before a call of a thunk", "leaf_body",
	  "after_indirect after_start . . . after_thunk after_start", "thunk start", 0 },
	{ "a call of another function before a call by register", "leaf_body",
	  "after_plain after_start . . . after_indirect after_start", "indirect start", 0 },
	{ "a call of another file's function before a call of one that may jump on", "leaf_body",
	  "after_other after_start . . . after_away after_start", "away start", 0 },
	{ "an import's call before a call by table", "leaf_body",
	  "after_import after_start . . . after_table after_start", "table start", 0 },
	{ "a call of another function before one that may jump on", "leaf_body",
	  "after_plain after_start . . . after_jumper after_start", "jumper start", 0 },
	{ "a call of another function before an import that is ours", "far_body",
	  "after_plain after_start . after_far after_start", "far start", 0 },
	/* Of two calls of the leaf, its prologue tells. */
	{ "an earlier call of the same function", "leaf_body",
	  ". after_direct2 after_start . . after_direct after_start", "direct start", 0 },
	{ "an earlier call, seen in the prologue", "leaf_prologue",
	  "after_direct2 after_start after_direct after_start", "direct start", 0 },
	{ "an earlier call, seen at the entry", "leaf",
	  "after_plt after_start after_direct2 after_start", "plt start", 0 },
	{ "an earlier call, told by the frame pointer", "framed_body",
	  "after_framed after_start . . . . . . . after_framed after_start", "framed start", 8 },
	/* Where the prologue does not help, the innermost of the best kind. */
	{ "an epilogue", "leaf_epilogue", ". after_direct after_start . . after_direct2 "
	  "after_start", "direct start", 0 },
	{ "an epilogue, and a call by register", "leaf_epilogue",
	  ". after_indirect after_start . . after_direct after_start", "indirect start", 0 },
	{ "a call of a later function is none of ours", "leaf_body",
	  "after_late after_start . . . after_direct after_start", "direct start", 0 },
	/* A PLT's stubs have no information where lld has linked. */
	{ "in a stub", "stub plt 0", "after_plt after_indirect after_start",
	  "plt indirect start", 0 },
	{ "in the stub of another file's function", "stub away 0",
	  "after_away after_indirect after_plt after_start", "away indirect plt start", 0 },
	/* Lazily bound, as no GOT slot but the PLT's own has its address. */
	{ "in a stub, before its index is pushed", "stub import 6",
	  "after_import after_indirect after_start", "import indirect start", 0 },
	{ "in a stub, after its index is pushed", "stub import 11",
	  ". after_import after_indirect after_start", "import indirect start", 0 },
	{ "in the first stub", "resolver 0", ". after_import after_indirect after_start",
	  "import indirect start", 0 },
	{ "at the first stub's jump", "resolver 6", ". . after_import after_indirect after_start",
	  "import indirect start", 0 },
	/* Every candidate must hold. */
	{ "good evidence that leads nowhere", "moved_body",
	  "after_indirect after_start . . . after_moved !", "indirect start", 0 },
	{ "only the weakest", "leaf_body", ". . . . . after_plain after_start", "plain start", 0 },
	{ "left over from frames of which none has called the other", "moved_body",
	  "after_direct after_plain after_start . . after_moved after_start", "moved start", 0 },
	/* Assembly that calls assembly: each is a frame. */
	{ "two activations without information", "leaf_body",
	  ". . . . . after_bare . after_through after_start", "bare through start", 0 },
	{ "two, and words left over in both", "leaf_body",
	  "after_plain after_start . . . after_bare after_indirect after_through after_start",
	  "bare through start", 0 },
	{ "a walk that passes another activation without information", "leaf_body",
	  "after_indirect after_start . . . after_direct after_bare . after_through after_start",
	  "direct bare through start", 0 },
};

struct array {
	struct memory_reader reader;
	uint64_t words[64];
	size_t count;
};

#define STACK 0x10000

static bool read_array(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct array *const array = (const struct array *)reader;
	if (address < STACK || size > 8 * array->count || address - STACK > 8 * array->count - size)
		return error_set(error, ERROR_ABSENT, "not copied");
	memcpy(buffer, (const uint8_t *)array->words + (address - STACK), size);
	return true;
}

static char directory[] = "/tmp/unwind_guess_test.XXXXXX";
static const char *const links[] = { "-fuse-ld=bfd", "-fuse-ld=lld", "-Wl,-z,now,-s" };
enum { LINKS = sizeof(links) / sizeof(*links) };
static void *libraries[LINKS], *far_library;
static struct target *target;
static struct module_table table;
static struct unwinder *unwinder;
static struct unwind_stack stack;

static void *build(const char *name, const char *source, const char *flags)
{
	char path[200], command[800];
	snprintf(path, sizeof(path), "%s/source.s", directory);
	FILE *const file = fopen(path, "w");
	if (!file)
		return NULL;
	fputs(source, file);
	fclose(file);
	snprintf(command, sizeof(command), "cc -shared -nostdlib %s -o %s/%s %s 2>&1", flags,
		 directory, name, path);
	if (system(command) != 0)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
}

static int set_up(void **state)
{
	char name[20];
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	far_library = build("far.so", far_source, "-Wl,--hash-style=gnu");
	for (int i = 0; i < LINKS; i++) {
		snprintf(name, sizeof(name), "near%d.so", i);
		libraries[i] = build(name, near_source, links[i]);
		if (!libraries[i])
			printf("left out: cannot link with %s: %s\n", links[i], dlerror());
	}
	/* Our own mappings and files; nothing is traced. */
	module_table_init(&table);
	if (!target_open(getpid(), &target, NULL) ||
	    !module_table_refresh(&table, target, NULL, NULL))
		return -1;
	unwinder = unwinder_new(&table);
	unwind_stack_init(&stack);
	return far_library && libraries[0] ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[300];
	(void)state;
	unwinder_free(unwinder);
	unwind_stack_release(&stack);
	module_table_release(&table);
	target_free(target);
	snprintf(command, sizeof(command), "rm -r '%s'", directory);
	return system(command);
}

static remote_addr find_label(void *library, const char *name);

/* What the call or jump leads to whose displacement ends here. */
static remote_addr jump_target(remote_addr end)
{
	int32_t distance;
	memcpy(&distance, (const uint8_t *)(uintptr_t)end - sizeof(distance), sizeof(distance));
	return end + (uint64_t)(int64_t)distance;
}

/* "stub plt 6": 6 bytes into what in_plt calls; "resolver 6": into what in_import's jumps to. */
static remote_addr find_stub(void *library, const char *name)
{
	char label[40] = "after_import";
	unsigned offset;
	if (sscanf(name, "resolver %u", &offset) == 1)
		return jump_target(jump_target(find_label(library, label)) + 16) + offset;
	if (sscanf(name, "stub %20s %u", label + strlen("after_"), &offset) != 2)
		return 0;
	return jump_target(find_label(library, label)) + offset;
}

static remote_addr find_label(void *library, const char *name)
{
	if (strchr(name, ' '))
		return find_stub(library, name);
	void *const at = dlsym(library, name) ? dlsym(library, name) : dlsym(far_library, name);
	if (!at)
		fail_msg("no label %s", name);
	return (remote_addr)(uintptr_t)at;
}

static void fill(void *library, const char *text, struct array *array)
{
	char copy[500], *rest = copy;
	snprintf(copy, sizeof(copy), "%s", text);
	array->reader.read = read_array;
	array->count = 0;
	for (char *word; (word = strsep(&rest, " "));)
		array->words[array->count++] = strcmp(word, ".") == 0 ? 0 :
					       strcmp(word, "!") == 0 ? 0x1234 :
					       find_label(library, word);
}

static void run_at(remote_addr pc, int rbp, struct array *array)
{
	struct registers registers = { .known = 1u << REGISTER_RIP | 1u << REGISTER_RSP };
	registers.value[REGISTER_RIP] = pc;
	registers.value[REGISTER_RSP] = STACK;
	if (rbp) {
		registers.value[REGISTER_RBP] = STACK + 8 * rbp;
		registers.known |= 1u << REGISTER_RBP;
	}
	const struct unwind_request request = { .registers = &registers,
						.memory = &array->reader };
	assert_true(unwind_thread(unwinder, &request, &stack, NULL));
}

static void run(void *library, const struct test_case *test, struct array *array)
{
	run_at(find_label(library, test->pc), test->rbp, array);
}

/* The stack as "direct start". */
static void name_callers(void *library, char *text, size_t size)
{
	static const char *const names[] = {
		"start", "direct", "direct2", "plt", "got", "thunk", "indirect", "table", "plain",
		"jumper", "import", "far", "other", "away", "through", "framed", "late", "bare",
		"moved",
	};
	char label[40];
	size_t at = 0;
	text[0] = '\0';
	for (size_t i = 1; i < stack.count; i++) {
		const char *name = "?";
		for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++) {
			snprintf(label, sizeof(label), "after_%s", names[n]);
			if (find_label(library, label) == stack.frames[i].pc)
				name = names[n];
		}
		at += snprintf(text + at, size - at, "%s%s", i > 1 ? " " : "", name);
	}
}

static void the_call_tells_the_caller_from_what_is_left_over(void **state)
{
	struct array array;
	char got[500];
	int wrong = 0;
	(void)state;
	for (size_t i = 0; i < LINKS * sizeof(cases) / sizeof(*cases); i++) {
		const struct test_case *const test = &cases[i / LINKS];
		void *const library = libraries[i % LINKS];
		if (!library)
			continue;
		fill(library, test->stack, &array);
		run(library, test, &array);
		name_callers(library, got, sizeof(got));
		if (strcmp(got, test->expected) == 0 && stack.end == UNWIND_END_OUTERMOST)
			continue;
		printf("%s (%s): expected %s, got %s, end %d\n", test->name, links[i % LINKS],
		       test->expected, got, stack.end);
		wrong++;
	}
	assert_int_equal(wrong, 0);
}

static void each_activation_that_the_code_does_not_tell_is_marked(void **state)
{
	struct array array;
	const struct test_case test = { .pc = "leaf_body" };
	(void)state;
	fill(libraries[0], ". . . . . after_bare . after_through after_start", &array);
	run(libraries[0], &test, &array);
	assert_int_equal(stack.count, 4);
	assert_int_equal(stack.guessed, 0); /* the code tells */
	assert_int_equal(stack.frames[0].cfa, STACK + 48);
	assert_int_equal(stack.frames[1].cfa, STACK + 64);

	/* What the code does is not all known: a register is added to the stack pointer. */
	const struct test_case guessed = { .pc = "moved_body" };
	fill(libraries[0], ". . after_moved after_start", &array);
	run(libraries[0], &guessed, &array);
	assert_int_equal(stack.count, 3);
	assert_int_equal(stack.guessed, 1);
	assert_true(stack.frames[0].guessed);
	assert_false(stack.frames[1].guessed);
	assert_int_equal(stack.frames[0].cfa, STACK + 24);
}

/* The one that the call leads to: from there the code comes to the PC, too. */
static void a_function_may_have_several_entries(void **state)
{
	enum { ENTRY = 2 }; /* bytes of an instruction, behind which the PC is */
	struct array array;
	const remote_addr second = jump_target(find_label(libraries[0], "after_second"));
	const remote_addr behind = jump_target(find_label(libraries[0], "after_behind"));
	(void)state;
	/* Twice: what is known of the PC by then is used. */
	for (int i = 0; i < 2; i++) {
		fill(libraries[0], "after_first after_start", &array);
		run_at(second + ENTRY, 0, &array);
		assert_int_equal(stack.guessed, 0);
		fill(libraries[0], "after_second after_start", &array);
		run_at(second + ENTRY, 0, &array);
		assert_int_equal(stack.count, 3);
		assert_int_equal(stack.guessed, 0);
		/* It has the name of the one that padding shows. */
		assert_int_equal(stack.frames[0].function, second - ENTRY);
		fill(libraries[0], "after_behind after_start", &array);
		run_at(behind + ENTRY, 0, &array);
		assert_int_equal(stack.count, 3);
		assert_int_equal(stack.guessed, 0);
		assert_int_equal(stack.frames[0].function, behind);
	}
}

/* As many candidates as there is room for, of all kinds, each a dead end or not, in any order. */
static void any_words_end_in_bounded_time(void **state)
{
	static const char *const words[] = {
		"after_bare", "after_direct", "after_through", "after_indirect", "after_plain", "!",
		"after_jumper", "after_far", ".", "leaf_body", "in_plt", "after_framed",
	};
	const struct test_case test = { .pc = "leaf_body" };
	unsigned short seed[3] = { 1, 2, 3 };
	struct array array = { .reader = { .read = read_array } };
	struct timespec before, after;
	uint64_t addresses[12];
	(void)state;
	for (int i = 0; i < 12; i++)
		addresses[i] = words[i][0] == '!' ? 0x1234 : words[i][0] == '.' ? 0 :
			       find_label(libraries[0], words[i]);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	for (int i = 0; i < 1000; i++) {
		array.count = 64;
		for (size_t n = 0; n < array.count; n++)
			array.words[n] = addresses[nrand48(seed) % (i & 1 ? 12 : 6)];
		if (i % 3 == 0)
			for (size_t n = 0; n < array.count; n++)
				if (array.words[n] == 0)
					array.words[n] = 0x1234;
		run(libraries[0], &test, &array);
		assert_true(stack.count > 0);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	const double ms = (after.tv_sec - before.tv_sec) * 1e3 +
			  (after.tv_nsec - before.tv_nsec) / 1e6;
	printf("%.3f ms a stack\n", ms / 1000);
	assert_true(ms / 1000 < 200); /* sanitizers and busy machines */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_call_tells_the_caller_from_what_is_left_over),
		cmocka_unit_test(each_activation_that_the_code_does_not_tell_is_marked),
		cmocka_unit_test(a_function_may_have_several_entries),
		cmocka_unit_test(any_words_end_in_bounded_time),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
