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
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cfi/cfi.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "target/tracer.h"
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
	"int (*volatile fixture_pointer)(leaf f, void *a) = fixture_middle;\n"
	"__attribute__((noinline)) int fixture_by_pointer(leaf f, void *a)\n"
	"{ return fixture_pointer(f, a) + fixture_sink; }\n"
	/* An earlier call's frame is left in the room. */
	"void *volatile fixture_room;\n"
	"__attribute__((noinline)) int fixture_with_left(leaf f, void *a)\n"
	"{ void **room = alloca(64 + fixture_sink), **frame = __builtin_frame_address(0);\n"
	"  memcpy(room + 2, frame, 16); fixture_room = room; f(a); return fixture_sink; }\n"
	"int fixture_leaves(leaf f, void *a)\n"
	"{ char *room = alloca(64 + fixture_sink); memset(room, 1, 64);\n"
	"  int r = fixture_with_left(f, a); return r + room[5] + fixture_sink; }\n"
	/* As libffi does: the frame is at the end of a block of the caller's, behind the arguments.
	 */
	"asm(\".text\\n.globl fixture_in_block\\n.type fixture_in_block,@function\\n\"\n"
	"    \"fixture_in_block:\\n.cfi_startproc\\nmov (%rsp),%r10\\nlea (%rdi,%rsi),%rax\\n\"\n"
	"    \"mov %rbp,16(%rax)\\nmov %r10,24(%rax)\\nmov %rax,%rbp\\n.cfi_def_cfa 6,32\\n\"\n"
	"    \".cfi_offset 6,-16\\nmov %rdi,%rsp\\nmov %rcx,%rdi\\ncall *%rdx\\nud2\\n\"\n"
	"    \".cfi_endproc\\n.size fixture_in_block,.-fixture_in_block\\n\");\n"
	"extern int fixture_in_block(void *, long, leaf, void *);\n"
	"__attribute__((noinline)) int fixture_blocks(leaf f, void *a, long size)\n"
	"{ void **block = alloca(size + 32);\n"
	"  for (long i = 0; i < size / 8; i++) block[i] = __builtin_return_address(0);\n"
	"  return fixture_in_block(block, size, f, a) + fixture_sink; }\n"
	"int fixture_no_arguments(leaf f, void *a) { return fixture_blocks(f, a, 0) + fixture_sink; }\n"
	"int fixture_many_arguments(leaf f, void *a) { return fixture_blocks(f, a, 4096) + fixture_sink; }\n"
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
	"    \".size fixture_restorer,.-fixture_restorer\\n\");\n"
	/* It spins where what it calls would come back to when it throws: nothing else leads there. */
	"asm(\".text\\n.globl fixture_lands\\n.type fixture_lands,@function\\nfixture_lands:\\n\"\n"
	"    \".cfi_startproc\\n.cfi_lsda 0x1b,fixture_lsda\\npush %rbx\\n\"\n"
	"    \".cfi_def_cfa_offset 16\\n.cfi_offset 3,-16\\nlea 2f(%rip),%rbx\\nsub $48,%rsp\\n\"\n"
	"    \".cfi_def_cfa_offset 64\\ntest %rdi,%rdi\\nje 1f\\njmp *%rbx\\n\"\n"
	"    \"1: call fixture_spin@PLT\\nud2\\n2: movl $1,(%rdi)\\njmp 2b\\n3: .cfi_endproc\\n\"\n"
	"    \".size fixture_lands,.-fixture_lands\\n.section .gcc_except_table,\\\"a\\\",@progbits\\n\"\n"
	"    \"fixture_lsda: .byte 0xff,0xff,1\\n.uleb128 5f-4f\\n4: .uleb128 1b-fixture_lands\\n\"\n"
	"    \".uleb128 2b-1b\\n.uleb128 2b-fixture_lands\\n.uleb128 0\\n5: .text\\n\");\n";

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

static jmp_buf place;

static void leaf_longjmp(void *argument)
{
	(void)argument;
	*arrived = 1;
	setjmp(place);
	longjmp(place, 1);
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
	struct unwind_request request;
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

static void copy_stack(struct child *child)
{
	const remote_addr sp = child->registers.value[REGISTER_RSP] - RED_ZONE;
	const struct mapping *const stack = module_table_find(&child->table, sp);
	assert_non_null(stack);
	free(child->copy.bytes);
	child->copy = (struct copy){ { read_copy, NULL }, sp, NULL, stack->end - sp, NULL };
	child->copy.bytes = alloc_zeroed(child->copy.size, 1);
	assert_true(memory_read(target_memory(child->target), sp, child->copy.bytes,
				child->copy.size, NULL));
}

static void stop(struct child *child)
{
	struct error error = {0};
	if (!tracer_stop(child->tracer, child->pid, 1000000, &child->registers, &error))
		fail_msg("%s", error.message);
	copy_stack(child);
}

static void unwind(struct child *child)
{
	struct error error = {0};
	child->request.registers = &child->registers;
	child->request.memory = &child->copy.reader;
	if (!unwind_thread(child->unwinder, &child->request, &child->stack, &error))
		fail_msg("%s", error.message);
}

static void ask_oracle(struct child *child)
{
	struct unwinder *const unwinder = unwinder_new_ptrace();
	const struct unwind_request request = {.tid = child->pid};
	assert_true(unwind_thread(unwinder, &request, &child->oracle, NULL));
	unwinder_free(unwinder);
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
		/* The last instructions of longjmp are on the stack that it goes to already. */
		const bool leaf = i == 0 && frame->cfa == frame->sp;
		if (frame->cfa != stack->frames[i + 1].sp ||
		    (frame->cfa <= frame->sp && !frame->signal_frame && !leaf))
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
			ask_oracle(&child);
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

/* One instruction of the stopped child; the registers after it. */
static void step_instruction(struct child *child)
{
	struct user_regs_struct now;
	int status;
	assert_int_equal(ptrace(PTRACE_SINGLESTEP, child->pid, NULL, NULL), 0);
	assert_int_equal(waitpid(child->pid, &status, __WALL), child->pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	assert_int_equal(ptrace(PTRACE_GETREGS, child->pid, NULL, &now), 0);
	const uint64_t values[REGISTER_COUNT] = {
		now.rax, now.rdx, now.rcx, now.rbx, now.rsi, now.rdi, now.rbp, now.rsp, now.r8,
		now.r9,	 now.r10, now.r11, now.r12, now.r13, now.r14, now.r15, now.rip,
	};
	memcpy(child->registers.value, values, sizeof(values));
	copy_stack(child);
}

/* From the instruction on at which longjmp has its target's registers, what called that is shown:
 * at each instruction of it. Where an interruption stops a CPU is its own choice. */
static void longjmp_leads_to_where_it_goes(void **state)
{
	enum { SAMPLES = 400 };
	struct child child;
	(void)state;
	if (!layouts[0].handle)
		return;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_longjmp);
	stop(&child);
	for (int i = 0; i < SAMPLES; i++) {
		step_instruction(&child);
		child.copy.rest = target_memory(child.target); /* jmp_buf is no part of the stack */
		unwind(&child);
		if (child.stack.end != UNWIND_END_OUTERMOST || child.stack.guessed ||
		    !is_right(&child, layouts)) {
			show(&child.stack);
			fail_msg("sample %d", i);
		}
		/* Registers that are in jmp_buf are not needed: where it is may not be copied. */
		child.copy.rest = NULL;
		unwind(&child);
		assert_true(is_right(&child, layouts) || child.stack.end == UNWIND_END_REGISTER);
	}
	finish(&child);
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

/* Of a blocked thread little is known: fixture_middle's CFA is RBP's, which nobody has pushed. */
static void start_blocked(struct child *child, const struct layout *layout, const char *outer)
{
	start(child, (outer_function)dlsym(layout->handle, outer),
	      (leaf_function)dlsym(layout->handle, "fixture_spin"));
	stop(child);
	child->registers.known = 1u << REGISTER_RSP | 1u << REGISTER_RIP;
	unwind(child);
}

static void a_register_that_is_needed_is_found(void **state)
{
	struct child child;
	(void)state;
	EACH_LAYOUT(layout) {
		if (!layout->handle)
			continue;
		start_blocked(&child, layout, "fixture_outer");
		if (!is_right(&child, layout) || child.stack.guessed) {
			show(&child.stack);
			fail_msg("layout %s", layout->name);
		}
		assert_true(child.stack.frames[2].saved_known >> UNWIND_RBP & 1);
		finish(&child);
	}
}

static void a_register_found_behind_a_call_by_a_pointer_is_a_guess(void **state)
{
	struct child child;
	(void)state;
	start_blocked(&child, &layouts[0], "fixture_by_pointer");
	assert_true(is_sound(&child.stack));
	assert_true(is_in(child.stack.frames[2].pc, layouts, "fixture_middle"));
	assert_true(is_in(child.stack.frames[3].pc, layouts, "fixture_by_pointer"));
	assert_true(child.stack.frames[2].guessed);
	assert_int_equal(child.stack.guessed, 1);
	finish(&child);
}

static void one_of_two_calls_that_may_be_it_is_a_guess(void **state)
{
	struct child child;
	(void)state;
	start_blocked(&child, &layouts[0], "fixture_leaves");
	assert_true(is_sound(&child.stack));
	assert_true(is_in(child.stack.frames[1].pc, layouts, "fixture_with_left"));
	assert_true(is_in(child.stack.frames[2].pc, layouts, "fixture_leaves"));
	assert_true(child.stack.frames[1].guessed);
	finish(&child);
}

static void a_frame_behind_the_arguments_of_a_call_is_found(void **state)
{
	static const char *const outer[] = { "fixture_no_arguments", "fixture_many_arguments" };
	struct child child;
	(void)state;
	EACH_LAYOUT(layout) {
		for (size_t i = 0; layout->handle && i < 2; i++) {
			start_blocked(&child, layout, outer[i]);
			if (!is_sound(&child.stack) || child.stack.guessed ||
			    !is_in(child.stack.frames[1].pc, layout, "fixture_in_block") ||
			    !is_in(child.stack.frames[2].pc, layout, "fixture_blocks") ||
			    !is_in(child.stack.frames[3].pc, layout, outer[i])) {
				show(&child.stack);
				fail_msg("layout %s, %s", layout->name, outer[i]);
			}
			finish(&child);
		}
	}
}

static void a_register_that_is_not_found_ends_the_walk(void **state)
{
	struct child child;
	(void)state;
	start_blocked(&child, &layouts[0], "fixture_outer");
	const remote_addr cfa = child.stack.frames[2].cfa;
	child.copy.size = cfa - 16 - child.copy.start;
	unwind(&child);
	assert_int_equal(child.stack.end, UNWIND_END_REGISTER);
	assert_int_equal(child.stack.count, 3);
	assert_true(is_in(child.stack.frames[2].pc, layouts, "fixture_middle"));
	assert_false(child.stack.frames[2].saved_known >> UNWIND_RBP & 1);
	finish(&child);
}

static void nothing_is_outside_of_a_root(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"),
	      (leaf_function)dlsym(layouts[0].handle, "fixture_spin"));
	stop(&child);
	unwind(&child);
	const size_t whole = child.stack.count;
	const remote_addr roots[] = {1, child.stack.frames[2].function};
	child.request.roots = roots;
	child.request.root_count = 1;
	unwind(&child);
	assert_int_equal(child.stack.count, whole);
	child.request.root_count = 2;
	unwind(&child);
	assert_int_equal(child.stack.count, 3);
	assert_int_equal(child.stack.end, UNWIND_END_OUTERMOST);
	child.request.root_count = 0;
	unwind(&child);
	assert_int_equal(child.stack.count, whole);
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
	ask_oracle(&child);
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

static void a_leaf_without_information_is_left_by_its_code(void **state)
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
			if (!is_right(&child, layout) || child.stack.guessed) {
				show(&child.stack);
				fail_msg("layout %s", layout->name);
			}
			assert_int_equal(child.stack.frames[0].cfa - child.stack.frames[0].sp, 104);
			tracer_resume(child.tracer, child.pid);
		}
		finish(&child);
	}
}

static void a_caller_without_information_is_left_by_its_code(void **state)
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
		while (at + 1 < child.stack.count &&
		       !is_in(child.stack.frames[at].pc, layout, "fixture_through"))
			at++;
		if (!is_right(&child, layout) || child.stack.guessed ||
		    child.stack.frames[at].cfa - child.stack.frames[at].sp != 48) {
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
	child.request.code = target_memory(child.target);
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
		child.request.code = target_memory(child.target);
		stop(&child);
		for (size_t k = 0; k < closure->count; k++)
			assert_true(is_left(&child, at + closure->starts[k]));
		/* In the middle of an instruction, and behind the last one. */
		assert_false(is_left(&child, at + closure->starts[1] + 1));
		/* What is there is an address; where it has the byte of a return, it is code as well. */
		if (!memchr((const void *)(uintptr_t)(at + closure->size), 0xc3, 8) &&
		    !memchr((const void *)(uintptr_t)(at + closure->size), 0xc2, 8))
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

static void a_leaf_whose_information_is_wrong_is_left_by_its_code(void **state)
{
	struct child child;
	(void)state;
	start(&child, (outer_function)dlsym(layouts[0].handle, "fixture_outer"), leaf_spin);
	stop(&child);
	child.request.distrust_leaf = true;
	unwind(&child);
	assert_int_equal(child.stack.guessed, 0);
	assert_int_not_equal(child.stack.frames[0].cfa, 0);
	assert_true(has_chain(&child.stack, layouts));
	child.request.distrust_leaf = false;
	unwind(&child);
	assert_int_equal(child.stack.guessed, 0);
	assert_true(has_chain(&child.stack, layouts));
	finish(&child);
}

static void a_landing_pad_is_left_by_its_code(void **state)
{
	struct child child;
	(void)state;
	EACH_LAYOUT(layout) {
		/* .debug_frame does not say where exceptions land. */
		if (!layout->handle || strstr(layout->flags, DEBUG_FRAME))
			continue;
		start(&child, (outer_function)dlsym(layout->handle, "fixture_outer"),
		      (leaf_function)dlsym(layout->handle, "fixture_lands"));
		stop(&child);
		child.request.distrust_leaf = true;
		unwind(&child);
		if (child.stack.guessed || !has_chain(&child.stack, layout))
			show(&child.stack);
		assert_int_equal(child.stack.guessed, 0);
		assert_true(has_chain(&child.stack, layout));
		finish(&child);
	}
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
			assert_true(frame_index_function(mapping->module,
							  at + 5 - mapping->module->load_bias,
							  &from, &size));
			assert_int_equal(from + mapping->module->load_bias, at);
			assert_in_range(size, 6, 1000);
		}
		const remote_addr bare =
			(remote_addr)(uintptr_t)dlsym(layout->handle, "fixture_assembly");
		struct module *const module = module_table_find(&child.table, bare)->module;
		uint64_t from;
		assert_false(frame_index_function(module,
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
	assert_false(unwind_thread(child.unwinder, &child.request, &child.stack, NULL));
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

static void unwind_with(struct child *child, struct walk_cache *cache)
{
	child->request.cache = cache;
	unwind(child);
	child->request.cache = NULL;
}

/* Unwinds with what a walk over the stack as it was has found, and without. */
static void check_recall(struct child *child, struct walk_cache *cache,
			 const struct registers *then, uint8_t *word, uint64_t change)
{
	const struct registers now = child->registers;
	uint64_t value;
	child->registers = *then;
	unwind_with(child, cache);
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
	unwind_with(child, cache);
	memcpy(word, &value, sizeof(value));
	assert_same(&child->stack, &child->oracle);
	assert_true(child->stack.reused <= child->stack.count);
	assert_int_equal(child->stack.reused_from, child->stack.reused ? last_walk : 0);
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
	struct walk_cache *const cache = walk_cache_new();
	const struct registers then = child.registers;
	const size_t size = child.stack.frames[child.stack.count - 1].sp - child.copy.start;
	for (size_t at = 0; at < size; at += 8)
		for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++)
			check_recall(&child, cache, &then, child.copy.bytes + at, changes[i]);
	for (size_t i = 0; i < sizeof(saved) / sizeof(*saved); i++) {
		child.registers = then;
		child.registers.value[saved[i]] ^= 16;
		check_recall(&child, cache, &then, child.copy.bytes, 0);
		child.registers.known ^= 1u << saved[i];
		check_recall(&child, cache, &then, child.copy.bytes, 0);
	}
	/* And it is of use: what is the same is not read word by word again. */
	child.registers = then;
	reads = 0;
	unwind(&child);
	const size_t without = reads;
	unwind_with(&child, cache);
	reads = 0;
	unwind_with(&child, cache);
	assert_true((view || reads > 0) && 10 * reads < without);
	assert_true(child.stack.reused > child.stack.count / 2);
	walk_cache_free(cache);
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
		cmocka_unit_test(longjmp_leads_to_where_it_goes),
		cmocka_unit_test(sp_and_pc_alone_do_where_the_rest_is_saved),
		cmocka_unit_test(a_register_that_is_needed_is_found),
		cmocka_unit_test(a_register_found_behind_a_call_by_a_pointer_is_a_guess),
		cmocka_unit_test(one_of_two_calls_that_may_be_it_is_a_guess),
		cmocka_unit_test(a_frame_behind_the_arguments_of_a_call_is_found),
		cmocka_unit_test(a_register_that_is_not_found_ends_the_walk),
		cmocka_unit_test(nothing_is_outside_of_a_root),
		cmocka_unit_test(the_vdso_is_unwound),
		cmocka_unit_test(a_signal_handler_on_its_own_stack_is_unwound),
		cmocka_unit_test(a_call_through_null_is_guessed),
		cmocka_unit_test(a_leaf_without_information_is_left_by_its_code),
		cmocka_unit_test(a_caller_without_information_is_left_by_its_code),
		cmocka_unit_test(trampolines_made_at_run_time_are_left),
		cmocka_unit_test(closures_are_left_from_each_instruction),
		cmocka_unit_test(a_leaf_whose_information_is_wrong_is_left_by_its_code),
		cmocka_unit_test(a_landing_pad_is_left_by_its_code),
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
