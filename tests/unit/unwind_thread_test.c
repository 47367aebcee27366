/* SPDX-License-Identifier: MIT */
/*
 * Stacks of real stopped threads, unwound from a copy: one small library built with every layout
 * of unwind tables, and leaves of every kind. The truth: the addresses of the library's functions,
 * which a forked child shares with us, and libunwind-ptrace where its own lookup works.
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
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "unwind/unwind.h"

static const char fixture_source[] =
	"#include <alloca.h>\n"
	"#include <string.h>\n"
	"typedef void (*leaf)(void *);\n"
	"volatile int fixture_sink;\n"
	"__attribute__((noinline)) int fixture_inner(leaf f, void *a)\n"
	"{ volatile char room[100]; room[3] = 1; f(a); return room[3] + fixture_sink; }\n"
	"__attribute__((noinline)) int fixture_middle(leaf f, void *a)\n"
	"{ char *room = alloca(64 + fixture_sink); memset(room, 1, 64);\n"
	"  int r = fixture_inner(f, a); fixture_sink += room[5]; return r + 1; }\n"
	"__attribute__((noinline)) int fixture_outer(leaf f, void *a)\n"
	"{ return fixture_middle(f, a) + fixture_sink; }\n"
	"__attribute__((noinline)) int fixture_deep(leaf f, void *a, int depth)\n"
	"{ return (depth ? fixture_deep(f, a, depth - 1) : fixture_outer(f, a)) + fixture_sink; }\n"
	"void fixture_spin(volatile int *arrived) { for (*arrived = 1;;); }\n"
	/* pause(), with RBP pushed as CFI tells, and changed. */
	"asm(\".text\\n.globl fixture_block\\n.type fixture_block,@function\\nfixture_block:\\n\"\n"
	"    \".cfi_startproc\\npush %rbp\\n.cfi_def_cfa_offset 16\\n.cfi_offset 6,-16\\n\"\n"
	"    \"xor %ebp,%ebp\\nmovl $1,(%rdi)\\n1: mov $34,%eax\\nsyscall\\njmp 1b\\n\"\n"
	"    \".cfi_endproc\\n.size fixture_block,.-fixture_block\\n\");\n"
	/* No call frame information; RBP is pushed, then used for something else. */
	"asm(\".text\\n.globl fixture_assembly\\n.type fixture_assembly,@function\\n\"\n"
	"    \"fixture_assembly:\\npush %rbp\\npush %rbx\\npush %r12\\nsub $72,%rsp\\n\"\n"
	"    \"movl $1,(%rdi)\\n1: mov $-1,%rbp\\nxor %ebx,%ebx\\njmp 1b\\n\"\n"
	"    \".size fixture_assembly,.-fixture_assembly\\n\");\n"
	/* The same, but it calls on; and a sigreturn trampoline, a nop apart from the rest. */
	"asm(\".text\\n.globl fixture_through\\n.type fixture_through,@function\\n\"\n"
	"    \"fixture_through:\\npush %rbp\\nmov $-1,%rbp\\nsub $32,%rsp\\n\"\n"
	"    \"call fixture_spin@PLT\\nud2\\nnop\\n.size fixture_through,.-fixture_through\\n\"\n"
	"    \".globl fixture_restorer\\n.type fixture_restorer,@function\\n\"\n"
	"    \"fixture_restorer: mov $15,%rax\\nsyscall\\n\"\n"
	"    \".size fixture_restorer,.-fixture_restorer\\n\");\n";

struct layout {
	const char *name, *flags;
	bool no_oracle; /* libunwind's own lookup does not work (nor for the vDSO) */
	void *handle;
};

#define DEBUG_FRAME "-fno-asynchronous-unwind-tables -fno-exceptions"

static struct layout layouts[] = {
	{ .name = "plain", .flags = "-O2 -fomit-frame-pointer" },
	{ .name = "frame-pointer", .flags = "-O1 -fno-omit-frame-pointer" },
	{ .name = "unoptimised", .flags = "-O0" },
	{ .name = "lld", .flags = "-O2 -fomit-frame-pointer -fuse-ld=lld", .no_oracle = true },
	{ .name = "lld-one-segment", .flags = "-O2 -fuse-ld=lld -Wl,--no-rosegment",
	  .no_oracle = true },
	{ .name = "noseparate-code", .flags = "-O2 -Wl,-z,noseparate-code" },
	{ .name = "no-header", .flags = "-O2 -Wl,--no-eh-frame-hdr", .no_oracle = true },
	{ .name = "debug-frame", .flags = "-O2 -g " DEBUG_FRAME, .no_oracle = true },
	{ .name = "debug-frame-zlib", .flags = "-O2 -g -gz=zlib " DEBUG_FRAME,
	  .no_oracle = true },
	{ .name = "debug-frame-v4", .flags = "-O2 -g -Wa,--gdwarf-cie-version=4 " DEBUG_FRAME,
	  .no_oracle = true },
	{ .name = "stripped", .flags = "-O2 -Wl,-s" },
};

static char *directory;

static const char *print(char *text, size_t size, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, size, format, arguments);
	va_end(arguments);
	return text;
}

/* A layout that this machine cannot build is left out, and said so. */
static int set_up(void **state)
{
	static char template[] = "/tmp/unwind_thread_test.XXXXXX";
	char command[600], path[300];
	(void)state;
	directory = mkdtemp(template);
	if (!directory)
		return -1;
	FILE *const file = fopen(print(path, sizeof(path), "%s/fixture.c", directory), "w");
	if (!file)
		return -1;
	fputs(fixture_source, file);
	fclose(file);
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		struct layout *const layout = &layouts[i];
		print(path, sizeof(path), "%s/%s.so", directory, layout->name);
		print(command, sizeof(command),
		      "cc -shared -fPIC %s -o %s %s/fixture.c 2>/dev/null", layout->flags, path, directory);
		if (system(command) == 0)
			layout->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!layout->handle)
			printf("left out: cannot build layout %s\n", layout->name);
	}
	return 0;
}

static int tear_down(void **state)
{
	char command[300];
	(void)state;
	return system(print(command, sizeof(command), "rm -r '%s'", directory));
}

/* ---- leaves ---- */

typedef void (*leaf_function)(void *);
typedef int (*outer_function)(leaf_function leaf, void *argument);
typedef int (*deep_function)(leaf_function leaf, void *argument, int depth);

/* Shared with the child: set once it is where it is to be. */
static volatile int *arrived;

static void leaf_spin(void *argument)
{
	(void)argument;
	for (*arrived = 1;;)
		;
}

static void leaf_clock(void *argument)
{
	struct timespec now;
	(void)argument;
	for (*arrived = 1;;)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

/* Code made at run time, as interpreters make it for perf: two kinds of it, one calls the other. */
static void leaf_trampolines(void *argument)
{
	static const uint8_t adds[] = { 0x48, 0x83, 0xec, 8, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,
					0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3 };
	static const uint8_t pops[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,
					0xff, 0xd0, 0x5d, 0xc3 };
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t inner = (uint64_t)(uintptr_t)(code + 64), leaf = (uintptr_t)leaf_spin;
	memcpy(code, adds, sizeof(adds));
	memcpy(code + 6, &inner, sizeof(inner));
	memcpy(code + 64, pops, sizeof(pops));
	memcpy(code + 64 + 6, &leaf, sizeof(leaf));
	((leaf_function)(uintptr_t)code)(argument);
	*arrived = 2;
}

/* Closures' trampolines as libffi writes them; the address that they jump to stands behind each. */
static const struct closure {
	uint8_t code[24];
	size_t size, starts[3], count;
} closures[] = {
	{ { 0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8d, 0x15, 0xf5, 0xff, 0xff, 0xff, 0xff,
	    0x25, 0x07, 0x00, 0x00, 0x00, 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00 },
	  24, { 0, 4, 11 }, 3 },
	{ { 0x4c, 0x8d, 0x15, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x25, 0x03, 0, 0, 0, 0x0f, 0x1f, 0 },
	  16, { 0, 7 }, 2 },
};

static void on_signal(int number)
{
	(void)number;
	leaf_spin(NULL);
}

static void catch_on_other_stack(int number)
{
	const stack_t other = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	sigaltstack(&other, NULL);
	sigaction(number, &action, NULL);
}

static void leaf_signal(void *argument)
{
	(void)argument;
	catch_on_other_stack(SIGUSR1);
	raise(SIGUSR1);
}

static void (*volatile nowhere)(void);

static void leaf_null_call(void *argument)
{
	(void)argument;
	catch_on_other_stack(SIGSEGV);
	nowhere();
	*arrived = 2;
}

static void leaf_bare_restorer(void *argument)
{
	const struct {
		void (*handler)(int);
		uint64_t flags;
		void *restorer;
		uint64_t mask;
	} action = { on_signal, 0x04000000 /* SA_RESTORER */,
		     dlsym(layouts[0].handle, "fixture_restorer"), 0 };
	(void)argument;
	syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, sizeof(action.mask));
	raise(SIGUSR1);
}

/* ---- one stopped child, and a copy of its stack ---- */

struct copy {
	struct memory_reader reader;
	remote_addr start;
	uint8_t *bytes;
	size_t size;
	const struct memory_reader *rest; /* for what was not copied, or NULL */
};

static size_t reads; /* of a copy, since it was set to 0 */

static const void *view_copy(const struct memory_reader *reader, remote_addr address, size_t size)
{
	const struct copy *const copy = (const struct copy *)reader;
	return address >= copy->start && address - copy->start <= copy->size &&
			       size <= copy->size - (address - copy->start)
		       ? copy->bytes + (address - copy->start)
		       : NULL;
}

static bool read_copy(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	const struct copy *const copy = (const struct copy *)reader;
	reads++;
	const void *const there = view_copy(reader, address, size);
	if (there) {
		memcpy(buffer, there, size);
		return true;
	}
	if (copy->rest)
		return memory_read(copy->rest, address, buffer, size, error);
	return error_set(error, ERROR_ABSENT, "not copied");
}

enum { RED_ZONE = 128 };

struct child {
	pid_t pid;
	struct target *target;
	struct tracer *tracer;
	struct module_table table;
	struct unwinder *unwinder;
	struct unwind_stack stack, oracle;
	struct registers registers;
	struct copy copy;
};

static void start(struct child *child, outer_function outer, leaf_function leaf)
{
	memset(child, 0, sizeof(*child));
	*arrived = 0;
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		alarm(60);
		outer(leaf, (void *)arrived);
		_exit(0);
	}
	while (!*arrived)
		;
	assert_true(target_open(child->pid, &child->target, NULL));
	module_table_init(&child->table);
	assert_true(module_table_refresh(&child->table, child->target, NULL, NULL));
	child->tracer = tracer_new(child->target);
	assert_true(tracer_seize(child->tracer, child->pid, NULL));
	child->unwinder = unwinder_new(&child->table);
	unwind_stack_init(&child->stack);
	unwind_stack_init(&child->oracle);
}

static void finish(struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, __WALL);
	unwinder_free(child->unwinder);
	unwind_stack_release(&child->stack);
	unwind_stack_release(&child->oracle);
	tracer_free(child->tracer);
	module_table_release(&child->table);
	target_free(child->target);
	free(child->copy.bytes);
}

static void stop(struct child *child)
{
	struct error error = {0};
	if (!tracer_stop(child->tracer, child->pid, 1000000, &child->registers, &error))
		fail_msg("%s", error.message);
	const remote_addr sp = child->registers.value[REGISTER_RSP] - RED_ZONE;
	const struct mapping *const stack = module_table_find(&child->table, sp);
	assert_non_null(stack);
	free(child->copy.bytes);
	child->copy = (struct copy){ { read_copy, NULL }, sp, NULL, stack->end - sp, NULL };
	child->copy.bytes = alloc_zeroed(child->copy.size, 1);
	assert_true(memory_read(target_memory(child->target), sp, child->copy.bytes,
				child->copy.size, NULL));
}

static void unwind(struct child *child)
{
	struct error error = {0};
	if (!unwind_thread(child->unwinder, &child->registers, &child->copy.reader, &child->stack,
			   &error))
		fail_msg("%s", error.message);
}

/* ---- what must hold ---- */

static void show(const struct unwind_stack *stack)
{
	for (size_t i = 0; i < stack->count && i < 40; i++) {
		const struct unwind_frame *const frame = &stack->frames[i];
		Dl_info info = {0};
		dladdr((void *)(frame->pc - 1), &info);
		printf("  #%zu pc %lx sp %lx cfa %lx%s%s%s %s\n", i, frame->pc, frame->sp,
		       frame->cfa,
		       frame->guessed ? " guessed" : "", frame->signal_frame ? " signal" : "",
		       frame->pc_kind == UNWIND_PC_EXACT ? " exact" : "",
		       info.dli_sname ? info.dli_sname : "?");
	}
	printf("  end %d, %zu frames, %zu guessed\n", stack->end, stack->count, stack->guessed);
}

/* Which of the names (up to the NULL) does this PC lie in the function of? Stripped libraries
 * still have them in .dynsym. */
static bool is_in(remote_addr pc, const struct layout *layout, const char *name)
{
	Dl_info info;
	return dladdr((void *)(pc - 1), &info) && info.dli_saddr == dlsym(layout->handle, name);
}

/* From `first` on outwards: fixture_inner, fixture_middle, fixture_outer. */
static bool has_chain(const struct unwind_stack *stack, const struct layout *layout)
{
	static const char *const names[] = { "fixture_inner", "fixture_middle", "fixture_outer" };
	for (size_t i = 0; i + 3 <= stack->count; i++) {
		size_t n = 0;
		while (n < 3 && is_in(stack->frames[i + n].pc, layout, names[n]))
			n++;
		if (n == 3)
			return true;
	}
	return false;
}

static bool is_sound(const struct unwind_stack *stack)
{
	for (size_t i = 0; i + 1 < stack->count; i++) {
		const struct unwind_frame *const frame = &stack->frames[i];
		if (frame->cfa != stack->frames[i + 1].sp ||
		    (frame->cfa <= frame->sp && !frame->signal_frame))
			return frame->signal_frame;
		if ((stack->frames[i + 1].pc_kind == UNWIND_PC_EXACT) != frame->signal_frame)
			return false;
	}
	return stack->end == UNWIND_END_OUTERMOST;
}

static bool is_right(const struct child *child, const struct layout *layout)
{
	return is_sound(&child->stack) && has_chain(&child->stack, layout);
}

static void assert_same(const struct unwind_stack *ours, const struct unwind_stack *oracle)
{
	bool same = ours->count == oracle->count && ours->end == oracle->end;
	for (size_t i = 0; same && i < ours->count; i++) {
		const struct unwind_frame *const a = &ours->frames[i];
		const struct unwind_frame *const b = &oracle->frames[i];
		same = a->pc == b->pc && a->sp == b->sp && a->cfa == b->cfa &&
		       a->saved_known == b->saved_known && a->signal_frame == b->signal_frame &&
		       a->pc_kind == b->pc_kind &&
		       memcmp(a->saved, b->saved, sizeof(a->saved)) == 0;
	}
	if (same)
		return;
	show(ours);
	show(oracle);
	fail_msg("the two unwinders differ");
}

static void check_layout(const struct layout *layout, leaf_function leaf, int samples)
{
	struct child child;
	if (!layout->handle)
		return;
	start(&child, (outer_function)dlsym(layout->handle, "fixture_outer"), leaf);
	for (int i = 0; i < samples; i++) {
		stop(&child);
		unwind(&child);
		if (!is_right(&child, layout)) {
			show(&child.stack);
			fail_msg("layout %s, sample %d", layout->name, i);
		}
		assert_int_equal(child.stack.guessed, 0);
		if (!layout->no_oracle && i < 3 && leaf != leaf_clock) {
			assert_true(unwind_thread_ptrace(child.pid, &child.oracle, NULL));
			assert_same(&child.stack, &child.oracle);
		}
		tracer_resume(child.tracer, child.pid);
	}
	finish(&child);
}

#define EACH_LAYOUT(layout) \
	for (struct layout *layout = layouts; \
	     layout < layouts + sizeof(layouts) / sizeof(*layouts); layout++)

static void every_layout_of_tables_gives_the_whole_stack(void **state)
{
	(void)state;
	EACH_LAYOUT(layout) check_layout(layout, leaf_spin, 5);
}

static void sp_and_pc_alone_do_where_the_rest_is_saved(void **state)
{
	struct child child;
	(void)state;
	EACH_LAYOUT(layout) {
		if (!layout->handle)
			continue;
		start(&child, (outer_function)dlsym(layout->handle, "fixture_outer"),
		      (leaf_function)dlsym(layout->handle, "fixture_block"));
		stop(&child);
		child.registers.known = 1u << REGISTER_RSP | 1u << REGISTER_RIP;
		unwind(&child);
		assert_true(is_right(&child, layout));
		finish(&child);
	}
}

static void an_unknown_register_that_is_needed_ends_the_walk(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"),
	      (leaf_function)dlsym(layouts[0].handle, "fixture_spin"));
	stop(&child);
	child.registers.known &= ~(1u << REGISTER_RBP);
	unwind(&child);
	/* fixture_middle's CFA is RBP's, which neither fixture_spin nor fixture_inner pushes. */
	assert_int_equal(child.stack.end, UNWIND_END_REGISTER);
	assert_int_equal(child.stack.count, 3);
	assert_true(is_in(child.stack.frames[2].pc, layouts, "fixture_middle"));
	assert_false(child.stack.frames[2].saved_known >> UNWIND_RBP & 1);
	assert_true(child.stack.frames[2].saved_known >> UNWIND_RBX & 1);
	finish(&child);
}

static void the_vdso_is_unwound(void **state)
{
	(void)state;
	check_layout(&layouts[0], leaf_clock, 300);
}

static void a_signal_handler_on_its_own_stack_is_unwound(void **state)
{
	struct child child;
	(void)state;
	assert_non_null(layouts[0].handle);
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_signal);
	stop(&child);
	child.copy.rest = target_memory(child.target);
	unwind(&child);
	size_t signal_frames = 0;
	for (size_t i = 0; i < child.stack.count; i++)
		signal_frames += child.stack.frames[i].signal_frame;
	if (!has_chain(&child.stack, layouts) || signal_frames != 1)
		show(&child.stack);
	assert_true(has_chain(&child.stack, layouts));
	assert_int_equal(child.stack.end, UNWIND_END_OUTERMOST);
	assert_int_equal(signal_frames, 1);
	assert_true(unwind_thread_ptrace(child.pid, &child.oracle, NULL));
	assert_same(&child.stack, &child.oracle);
	finish(&child);
}

static void a_call_through_null_is_guessed(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_null_call);
	stop(&child);
	child.copy.rest = target_memory(child.target);
	unwind(&child);
	if (!has_chain(&child.stack, layouts) || child.stack.guessed != 1)
		show(&child.stack);
	assert_true(has_chain(&child.stack, layouts));
	assert_int_equal(child.stack.end, UNWIND_END_OUTERMOST);
	assert_int_equal(child.stack.guessed, 1);
	finish(&child);
}

static void a_leaf_without_information_is_guessed(void **state)
{
	struct child child;
	(void)state;
	EACH_LAYOUT(layout) {
		if (!layout->handle)
			continue;
		start(&child, (outer_function)dlsym(layout->handle, "fixture_outer"),
		      (leaf_function)dlsym(layout->handle, "fixture_assembly"));
		for (int i = 0; i < 20; i++) {
			stop(&child);
			unwind(&child);
			if (!is_right(&child, layout) || !child.stack.frames[0].guessed) {
				show(&child.stack);
				fail_msg("layout %s", layout->name);
			}
			assert_int_equal(child.stack.guessed, 1);
			assert_int_equal(child.stack.frames[0].cfa - child.stack.frames[0].sp, 104);
			tracer_resume(child.tracer, child.pid);
		}
		finish(&child);
	}
}

static void a_caller_without_information_is_guessed(void **state)
{
	struct child child;
	(void)state;
	EACH_LAYOUT(layout) {
		if (!layout->handle)
			continue;
		start(&child, (outer_function)dlsym(layout->handle, "fixture_outer"),
		      (leaf_function)dlsym(layout->handle, "fixture_through"));
		stop(&child);
		unwind(&child);
		size_t at = 0;
		while (at < child.stack.count && !child.stack.frames[at].guessed)
			at++;
		if (!is_right(&child, layout) || child.stack.guessed != 1 ||
		    !is_in(child.stack.frames[at].pc, layout, "fixture_through")) {
			show(&child.stack);
			fail_msg("layout %s", layout->name);
		}
		finish(&child);
	}
}

static void trampolines_made_at_run_time_are_left(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_trampolines);
	unwinder_set_code(child.unwinder, target_memory(child.target));
	stop(&child);
	unwind(&child);
	if (!has_chain(&child.stack, layouts))
		show(&child.stack);
	assert_true(has_chain(&child.stack, layouts));
	assert_int_equal(child.stack.end, UNWIND_END_OUTERMOST);
	assert_int_equal(child.stack.guessed, 0);
	assert_false(child.stack.frames[0].trampoline);
	assert_true(child.stack.frames[1].trampoline);
	assert_true(child.stack.frames[2].trampoline);
	assert_false(child.stack.frames[3].trampoline);
	finish(&child);
}

/* Whether a stack with that PC for its leaf goes on as if that had jumped to what is there. */
static bool is_left(struct child *child, remote_addr pc)
{
	child->registers.value[REGISTER_RIP] = pc;
	unwind(child);
	return child->stack.frames[0].trampoline && child->stack.guessed == 0 &&
	       child->stack.end == UNWIND_END_OUTERMOST && child->stack.frames[0].pc == pc &&
	       has_chain(&child->stack, layouts);
}

static void closures_are_left_from_each_instruction(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(closures) / sizeof(*closures); i++) {
		const struct closure *const closure = &closures[i];
		struct child child;
		char path[40];
		uint8_t *const code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const remote_addr at = (remote_addr)(uintptr_t)code;
		/* It spins on its caller's stack: as if the closure had just jumped there. */
		void *const leaf = dlsym(layouts[0].handle, "fixture_spin");
		memcpy(code, closure->code, closure->size);
		memcpy(code + closure->size, &leaf, sizeof(leaf));
		start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"),
		      (leaf_function)leaf);
		const int memory = open(print(path, sizeof(path), "/proc/%d/mem", child.pid), O_RDWR);
		unwinder_set_code(child.unwinder, target_memory(child.target));
		stop(&child);
		for (size_t k = 0; k < closure->count; k++)
			assert_true(is_left(&child, at + closure->starts[k]));
		/* In the middle of an instruction, and behind the last one. */
		assert_false(is_left(&child, at + closure->starts[1] + 1));
		assert_false(is_left(&child, at + closure->size));
		assert_false(is_left(&child, at + 4096 - 8));

		/* Its memory is free by now, and its first bytes are used for a list. */
		const uint64_t link = at + 64, none = 0, other = at + 63;
		assert_int_equal(pwrite(memory, &link, 8, (off_t)at), 8);
		assert_true(is_left(&child, at));
		assert_int_equal(pwrite(memory, &none, 8, (off_t)at), 8);
		assert_true(is_left(&child, at + closure->starts[1]));
		assert_int_equal(pwrite(memory, &other, 8, (off_t)at), 8);
		assert_false(is_left(&child, at));

		/* It jumps to what is in no file. */
		assert_int_equal(pwrite(memory, closure->code, 8, (off_t)at), 8);
		assert_true(is_left(&child, at));
		assert_int_equal(pwrite(memory, &link, 8, (off_t)(at + closure->size)), 8);
		assert_false(is_left(&child, at));
		close(memory);
		munmap(code, 4096);
		finish(&child);
	}
}

static void a_leaf_whose_information_is_wrong_is_guessed(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_spin);
	stop(&child);
	unwinder_distrust_leaf(child.unwinder);
	unwind(&child);
	assert_true(child.stack.frames[0].guessed);
	assert_int_equal(child.stack.guessed, 1);
	assert_true(has_chain(&child.stack, layouts));
	/* Once only. */
	unwind(&child);
	assert_int_equal(child.stack.guessed, 0);
	assert_true(has_chain(&child.stack, layouts));
	finish(&child);
}

static void a_bare_sigreturn_is_recognised(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"),
	      leaf_bare_restorer);
	stop(&child);
	unwind(&child);
	size_t at = 0;
	while (at < child.stack.count && !child.stack.frames[at].signal_frame)
		at++;
	if (!has_chain(&child.stack, layouts) || at == child.stack.count)
		show(&child.stack);
	assert_in_range(at, 1, 2);
	assert_true(has_chain(&child.stack, layouts));
	assert_int_equal(child.stack.end, UNWIND_END_OUTERMOST);
	assert_int_equal(child.stack.guessed, 0);
	finish(&child);
}

static void the_start_of_a_function_is_its_entry(void **state)
{
	struct child child;
	static const char *const names[] = { "fixture_inner", "fixture_middle", "fixture_outer" };
	(void)state;
	EACH_LAYOUT(layout) {
		if (!layout->handle)
			continue;
		start(&child, (outer_function)dlsym(layout->handle, "fixture_outer"), leaf_spin);
		for (int i = 0; i < 3; i++) {
			const remote_addr at =
				(remote_addr)(uintptr_t)dlsym(layout->handle, names[i]);
			const struct mapping *const mapping = module_table_find(&child.table, at);
			uint64_t from = 0, size = 0;
			assert_non_null(mapping);
			assert_true(unwind_function_start(child.unwinder, mapping->module,
							  at + 5 - mapping->module->load_bias,
							  &from, &size));
			assert_int_equal(from + mapping->module->load_bias, at);
			assert_in_range(size, 6, 1000);
		}
		const remote_addr bare =
			(remote_addr)(uintptr_t)dlsym(layout->handle, "fixture_assembly");
		struct module *const module = module_table_find(&child.table, bare)->module;
		uint64_t from;
		assert_false(unwind_function_start(child.unwinder, module,
						   bare + 5 - module->load_bias, &from, NULL));
		finish(&child);
	}
}

static void a_short_copy_ends_where_it_ends(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_spin);
	stop(&child);
	unwind(&child);
	const size_t whole = child.stack.count;
	const size_t needed = child.stack.frames[whole - 1].sp - child.copy.start;
	for (size_t size = RED_ZONE; size <= needed; size += 8) {
		child.copy.size = size;
		unwind(&child);
		assert_true(child.stack.count > 0 && child.stack.count <= whole);
		assert_int_equal(child.stack.end, size < needed ? UNWIND_END_STACK_COPY :
							       UNWIND_END_OUTERMOST);
	}
	finish(&child);
}

static void flipped_bytes_do_no_harm(void **state)
{
	struct child child;
	unsigned short seed[3] = { 1, 2, 3 };
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_spin);
	stop(&child);
	unwind(&child);
	const size_t live = child.stack.frames[child.stack.count - 1].sp - child.copy.start;
	const struct registers registers = child.registers;
	for (int i = 0; i < 3000; i++) {
		const size_t at = nrand48(seed) % live;
		const uint8_t byte = child.copy.bytes[at];
		child.copy.bytes[at] ^= 1 << nrand48(seed) % 8;
		child.registers = registers;
		child.registers.value[nrand48(seed) % REGISTER_COUNT] ^=
			i & 1 ? 1ull << nrand48(seed) % 64 : 0;
		unwind(&child);
		assert_true(child.stack.count > 0);
		child.copy.bytes[at] = (i & 15) ? byte : child.copy.bytes[at];
	}
	finish(&child);
}

static void an_unmapped_pc_is_said_so(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_spin);
	stop(&child);
	child.registers.value[REGISTER_RIP] = 0x1234;
	memset(child.copy.bytes + RED_ZONE, 0, 8); /* else it is a call through a bad pointer */
	unwind(&child);
	assert_int_equal(child.stack.end, UNWIND_END_UNMAPPED);
	assert_int_equal(child.stack.count, 1);
	child.registers.known = 0;
	assert_false(unwind_thread(child.unwinder, &child.registers, &child.copy.reader,
				   &child.stack, NULL));
	finish(&child);
}

static int deep(leaf_function leaf, void *argument)
{
	deep_function function = (deep_function)dlsym(layouts[0].handle, "fixture_deep");
	return function(leaf, argument, 60);
}

static void a_frame_costs_about_a_microsecond_or_less(void **state)
{
	struct child child;
	struct timespec before, after;
	enum { ROUNDS = 2000 };
	(void)state;
	start(&child, deep, leaf_spin);
	stop(&child);
	const uint64_t allocated = (unwind(&child), alloc_count());
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	for (int i = 0; i < ROUNDS; i++)
		unwind(&child);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	const double ns = (after.tv_sec - before.tv_sec) * 1e9 + after.tv_nsec - before.tv_nsec;
	const double us_per_frame = ns / 1e3 / ROUNDS / child.stack.count;
	printf("%zu frames, %.3f us a frame\n", child.stack.count, us_per_frame);
	assert_true(child.stack.count > 60);
	assert_int_equal(child.stack.end, UNWIND_END_OUTERMOST);
	assert_int_equal(alloc_count(), allocated);
	assert_true(us_per_frame < 20); /* sanitizers and busy machines */
	finish(&child);
}

/* Unwinds with what a walk over the stack as it was has found, and without. */
static void check_recall(struct child *child, struct unwind_recall *recall,
			 const struct registers *then, uint8_t *word, uint64_t change)
{
	const struct registers now = child->registers;
	uint64_t value;
	child->registers = *then;
	unwinder_set_recall(child->unwinder, recall);
	unwind(child);
	const uint64_t last_walk = child->stack.walk;
	memcpy(&value, word, sizeof(value));
	const uint64_t changed = value ^ change;
	memcpy(word, &changed, sizeof(changed));
	child->registers = now;
	const struct unwind_stack swap = child->stack;
	child->stack = child->oracle;
	unwind(child);
	child->oracle = child->stack;
	child->stack = swap;
	unwinder_set_recall(child->unwinder, recall);
	unwind(child);
	memcpy(word, &value, sizeof(value));
	assert_same(&child->stack, &child->oracle);
	assert_true(child->stack.recalled <= child->stack.count);
	assert_int_equal(child->stack.recalled_from, child->stack.recalled ? last_walk : 0);
}

/* Where the copy can show its bytes, and where it must be asked for them. */
static void check_what_a_walk_has_found(bool view)
{
	static const int saved[] = { REGISTER_RBX, REGISTER_RBP, REGISTER_R12,
				     REGISTER_R13, REGISTER_R14, REGISTER_R15 };
	static const uint64_t changes[] = { 0, 8, UINT64_C(1) << 40, UINT64_MAX };
	struct child child;
	start(&child, deep, leaf_spin);
	stop(&child);
	child.copy.reader.view = view ? view_copy : NULL;
	unwind(&child);
	struct unwind_recall *const recall = unwind_recall_new();
	const struct registers then = child.registers;
	const size_t size = child.stack.frames[child.stack.count - 1].sp - child.copy.start;
	for (size_t at = 0; at < size; at += 8)
		for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++)
			check_recall(&child, recall, &then, child.copy.bytes + at, changes[i]);
	for (size_t i = 0; i < sizeof(saved) / sizeof(*saved); i++) {
		child.registers = then;
		child.registers.value[saved[i]] ^= 16;
		check_recall(&child, recall, &then, child.copy.bytes, 0);
		child.registers.known ^= 1u << saved[i];
		check_recall(&child, recall, &then, child.copy.bytes, 0);
	}
	/* And it is of use: what is the same is not read word by word again. */
	child.registers = then;
	reads = 0;
	unwind(&child);
	const size_t without = reads;
	unwinder_set_recall(child.unwinder, recall);
	unwind(&child);
	reads = 0;
	unwinder_set_recall(child.unwinder, recall);
	unwind(&child);
	assert_true((view || reads > 0) && 10 * reads < without);
	assert_true(child.stack.recalled > child.stack.count / 2);
	unwind_recall_free(recall);
	finish(&child);
}

static void what_a_walk_has_found_changes_no_other(void **state)
{
	(void)state;
	check_what_a_walk_has_found(true);
	check_what_a_walk_has_found(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_layout_of_tables_gives_the_whole_stack),
		cmocka_unit_test(sp_and_pc_alone_do_where_the_rest_is_saved),
		cmocka_unit_test(an_unknown_register_that_is_needed_ends_the_walk),
		cmocka_unit_test(the_vdso_is_unwound),
		cmocka_unit_test(a_signal_handler_on_its_own_stack_is_unwound),
		cmocka_unit_test(a_call_through_null_is_guessed),
		cmocka_unit_test(a_leaf_without_information_is_guessed),
		cmocka_unit_test(a_caller_without_information_is_guessed),
		cmocka_unit_test(trampolines_made_at_run_time_are_left),
		cmocka_unit_test(closures_are_left_from_each_instruction),
		cmocka_unit_test(a_leaf_whose_information_is_wrong_is_guessed),
		cmocka_unit_test(a_bare_sigreturn_is_recognised),
		cmocka_unit_test(the_start_of_a_function_is_its_entry),
		cmocka_unit_test(a_short_copy_ends_where_it_ends),
		cmocka_unit_test(flipped_bytes_do_no_harm),
		cmocka_unit_test(an_unmapped_pc_is_said_so),
		cmocka_unit_test(what_a_walk_has_found_changes_no_other),
		cmocka_unit_test(a_frame_costs_about_a_microsecond_or_less),
	};
	arrived = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arrived == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
