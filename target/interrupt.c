/* SPDX-License-Identifier: MIT */
/*
 * Copies of a thread's memory, made in an interrupt of the CPU on which the thread runs. A BPF
 * program for raw tracepoints can be run there at once (bpf(2), BPF_PROG_TEST_RUN with
 * BPF_F_TEST_RUN_ON_CPU, Linux 5.10): it looks whether the interrupted thread is the one that is
 * wanted, and copies its registers (bpf_task_pt_regs, 5.15), the stack from SP on and the ranges
 * that it is told into memory that the kernel shares with us. The thread stands still for the
 * interrupt, and nobody is put in its place: no stop, no context switch, no wake-up on its CPU.
 * The program is short, so it is written in BPF's instructions here; it needs no compiler, and
 * nothing of the kernel's types.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "target/internal.h"

/* Linux arch/x86/include/asm/ptrace.h, struct pt_regs: by eight bytes, R15 first. */
static const uint8_t PLACES[REGISTER_COUNT] = {
	[REGISTER_R15] = 0,  [REGISTER_R14] = 1,  [REGISTER_R13] = 2,  [REGISTER_R12] = 3,
	[REGISTER_RBP] = 4,  [REGISTER_RBX] = 5,  [REGISTER_R11] = 6,  [REGISTER_R10] = 7,
	[REGISTER_R9] = 8,   [REGISTER_R8] = 9,	  [REGISTER_RAX] = 10, [REGISTER_RCX] = 11,
	[REGISTER_RDX] = 12, [REGISTER_RSI] = 13, [REGISTER_RDI] = 14, [REGISTER_RIP] = 16,
	[REGISTER_RSP] = 19,
};

struct shared_range {
	uint64_t address;
	uint32_t size;
	uint32_t offset; /* in bytes */
};

/* What the program reads and writes; the verifier wants each bound to be a mask. */
struct shared {
	uint64_t range_count;
	uint64_t registers[REGISTER_COUNT];
	struct shared_range ranges[INTERRUPT_RANGES];
	uint8_t stack[INTERRUPT_BYTES];
	uint8_t bytes[2 * INTERRUPT_BYTES]; /* at any offset any size */
};

_Static_assert((INTERRUPT_BYTES & (INTERRUPT_BYTES - 1)) == 0, "a mask");
_Static_assert(sizeof(struct shared_range) == 16, "shifted by 4");

/* What the program is told: the arguments of the tracepoint. */
enum { TOLD_TID, TOLD_STACK_END, TOLD_SKIPPED, TOLD_DEVICE, TOLD_INODE, TOLD_COUNT };

/* What it answers; 0: copied. */
enum { ANSWER_ANOTHER = 1, ANSWER_CALL, ANSWER_LARGE, ANSWER_MISSING };

struct interrupter {
	int map, program;
	struct shared *shared;
	uint64_t told[TOLD_COUNT];
};

static long bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

/* ---- the program --------------------------------------------------------------------------- */

enum { R0, R1, R2, R3, R4, R5, TOLD = BPF_REG_6, SHARED, INDEX, RANGE, FRAME };
enum { MOST_INSTRUCTIONS = 128, LICENSE_SIZE = 16 };

struct program {
	struct bpf_insn code[MOST_INSTRUCTIONS];
	int size;
};

static int add(struct program *program, int code, int to, int from, int offset, int constant)
{
	program->code[program->size] = (struct bpf_insn){.code = (uint8_t)code,
							 .dst_reg = (uint8_t)to & 15,
							 .src_reg = (uint8_t)from & 15,
							 .off = (int16_t)offset,
							 .imm = constant};
	return program->size++;
}

static void set(struct program *program, int to, int constant)
{
	add(program, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, constant);
}

static void move(struct program *program, int to, int from)
{
	add(program, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

static void with_constant(struct program *program, int operation, int to, int constant)
{
	add(program, BPF_ALU64 | operation | BPF_K, to, 0, 0, constant);
}

static void with_register(struct program *program, int operation, int to, int from)
{
	add(program, BPF_ALU64 | operation | BPF_X, to, from, 0, 0);
}

static void load(struct program *program, int size, int to, int base, size_t offset)
{
	add(program, BPF_LDX | BPF_MEM | size, to, base, (int)offset, 0);
}

static void call(struct program *program, int helper)
{
	add(program, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

static void answer(struct program *program, int value)
{
	set(program, R0, value);
	add(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* Lets a jump lead to the next instruction. */
static void land(struct program *program, int jump)
{
	program->code[jump].off = (int16_t)(program->size - jump - 1);
}

/* R1: the interrupted thread's number, as our own namespace of process numbers has it; or, where
 * that is the first one, as the kernel has it. */
static void add_thread_number(struct program *program, bool ours)
{
	if (!ours) {
		call(program, BPF_FUNC_get_current_pid_tgid);
		move(program, R1, R0);
		with_constant(program, BPF_LSH, R1, 32);
		with_constant(program, BPF_RSH, R1, 32);
		return;
	}
	const int numbers = -(int)sizeof(struct bpf_pidns_info);
	add(program, BPF_ST | BPF_MEM | BPF_DW, FRAME, 0, numbers, 0);
	load(program, BPF_DW, R1, TOLD, TOLD_DEVICE * sizeof(uint64_t));
	load(program, BPF_DW, R2, TOLD, TOLD_INODE * sizeof(uint64_t));
	move(program, R3, FRAME);
	with_constant(program, BPF_ADD, R3, numbers);
	set(program, R4, sizeof(struct bpf_pidns_info));
	call(program, BPF_FUNC_get_ns_current_pid_tgid);
	/* Of another namespace: all zero. */
	add(program, BPF_LDX | BPF_MEM | BPF_W, R1, FRAME, numbers, 0);
}

/* A copy from the user's R3, R2 bytes, to R1. Returns the jump that is taken when it fails. */
static int add_copy(struct program *program)
{
	call(program, BPF_FUNC_probe_read_user);
	return add(program, BPF_JMP | BPF_JNE | BPF_K, R0, 0, 0, 0);
}

/*
 * Its registers, if it is this thread; else the jumps to `others` are taken. *call_under_way: the
 * jump taken in a system call that is under way, when RAX has not its result yet (Linux
 * arch/x86/entry): in exit or execve the memory may be another thread's or program's already.
 */
static void add_registers(struct program *program, bool ours, int others[2], int *call_under_way)
{
	add_thread_number(program, ours);
	load(program, BPF_DW, R2, TOLD, TOLD_TID * sizeof(uint64_t));
	others[0] = add(program, BPF_JMP | BPF_JNE | BPF_X, R1, R2, 0, 0);
	call(program, BPF_FUNC_get_current_task_btf);
	move(program, R1, R0);
	call(program, BPF_FUNC_task_pt_regs);
	others[1] = add(program, BPF_JMP | BPF_JEQ | BPF_K, R0, 0, 0, 0);
	for (size_t i = 0; i < REGISTER_COUNT; i++) {
		load(program, BPF_DW, R1, R0, PLACES[i] * sizeof(uint64_t));
		add(program, BPF_STX | BPF_MEM | BPF_DW, SHARED, R1,
		    (int)(offsetof(struct shared, registers) + i * sizeof(uint64_t)), 0);
	}
	load(program, BPF_DW, R1, R0, PLACES[REGISTER_RAX] * sizeof(uint64_t));
	*call_under_way = add(program, BPF_JMP | BPF_JEQ | BPF_K, R1, 0, 0, -ENOSYS);
}

/* From what lies below SP to the stack's end. *large: the jump taken when that is too much. */
static int add_stack(struct program *program, int *large)
{
	load(program, BPF_DW, R3, SHARED,
	     offsetof(struct shared, registers) + REGISTER_RSP * sizeof(uint64_t));
	load(program, BPF_DW, R1, TOLD, TOLD_SKIPPED * sizeof(uint64_t));
	with_register(program, BPF_SUB, R3, R1);
	load(program, BPF_DW, R2, TOLD, TOLD_STACK_END * sizeof(uint64_t));
	with_register(program, BPF_SUB, R2, R3);
	*large = add(program, BPF_JMP | BPF_JGT | BPF_K, R2, 0, 0, INTERRUPT_BYTES);
	move(program, R1, SHARED);
	with_constant(program, BPF_ADD, R1, (int)offsetof(struct shared, stack));
	return add_copy(program);
}

/* The ranges, in a loop whose end the verifier sees. */
static int add_ranges(struct program *program)
{
	const size_t ranges = offsetof(struct shared, ranges);
	set(program, INDEX, 0);
	const int loop = program->size;
	load(program, BPF_DW, R1, SHARED, offsetof(struct shared, range_count));
	const int end = add(program, BPF_JMP | BPF_JGE | BPF_X, INDEX, R1, 0, 0);
	const int most = add(program, BPF_JMP | BPF_JGE | BPF_K, INDEX, 0, 0, INTERRUPT_RANGES);
	move(program, RANGE, INDEX);
	with_constant(program, BPF_LSH, RANGE, 4);
	with_register(program, BPF_ADD, RANGE, SHARED);
	load(program, BPF_DW, R3, RANGE, ranges + offsetof(struct shared_range, address));
	load(program, BPF_W, R2, RANGE, ranges + offsetof(struct shared_range, size));
	load(program, BPF_W, R1, RANGE, ranges + offsetof(struct shared_range, offset));
	with_constant(program, BPF_AND, R2, INTERRUPT_BYTES - 1);
	with_constant(program, BPF_AND, R1, INTERRUPT_BYTES - 1);
	with_register(program, BPF_ADD, R1, SHARED);
	with_constant(program, BPF_ADD, R1, (int)offsetof(struct shared, bytes));
	const int failure = add_copy(program);
	with_constant(program, BPF_ADD, INDEX, 1);
	add(program, BPF_JMP | BPF_JA, 0, 0, loop - program->size - 1, 0);
	land(program, end);
	land(program, most);
	return failure;
}

static void write_program(struct program *program, int map, bool ours)
{
	int others[2], call_under_way, large;
	move(program, TOLD, R1);
	add(program, BPF_LD | BPF_DW | BPF_IMM, SHARED, BPF_PSEUDO_MAP_VALUE, 0, map);
	add(program, 0, 0, 0, 0, 0); /* the other half of that constant */
	add_registers(program, ours, others, &call_under_way);
	const int no_stack = add_stack(program, &large);
	const int no_range = add_ranges(program);
	answer(program, 0);
	land(program, others[0]);
	land(program, others[1]);
	answer(program, ANSWER_ANOTHER);
	land(program, call_under_way);
	answer(program, ANSWER_CALL);
	land(program, large);
	answer(program, ANSWER_LARGE);
	land(program, no_stack);
	land(program, no_range);
	answer(program, ANSWER_MISSING);
}

/* ---- its use ------------------------------------------------------------------------------- */

static const size_t SHARED_SIZE =
	(sizeof(struct shared) + TARGET_PAGE - 1) / TARGET_PAGE * TARGET_PAGE;

static bool make_map(struct interrupter *interrupter)
{
	union bpf_attr wanted;
	memset(&wanted, 0, sizeof(wanted)); /* all of it: an initializer need not */
	wanted.map_type = BPF_MAP_TYPE_ARRAY;
	wanted.key_size = sizeof(uint32_t);
	wanted.value_size = sizeof(struct shared);
	wanted.max_entries = 1;
	wanted.map_flags = BPF_F_MMAPABLE;
	interrupter->map = (int)bpf(BPF_MAP_CREATE, &wanted);
	if (interrupter->map < 0)
		return false;
	void *memory = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    interrupter->map, 0);
	if (memory == MAP_FAILED)
		return false;
	interrupter->shared = memory;
	return true;
}

static bool load_program(struct interrupter *interrupter, bool ours)
{
	/* The helpers that read memory are for such programs alone; it is under MIT's, too. */
	static const char license[LICENSE_SIZE] = "Dual MIT/GPL";
	struct program program = {.size = 0};
	write_program(&program, interrupter->map, ours);
	union bpf_attr wanted;
	memset(&wanted, 0, sizeof(wanted));
	wanted.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
	wanted.insns = (uint64_t)(uintptr_t)program.code;
	wanted.insn_cnt = (uint32_t)program.size;
	wanted.license = (uint64_t)(uintptr_t)license;
	interrupter->program = (int)bpf(BPF_PROG_LOAD, &wanted);
	return interrupter->program >= 0;
}

/*
 * From 5.18 to 6.3 copy_from_user_nofault() may take the lock of the kernel's vmalloc areas
 * (upstream d319f344561d, "mm: Fix copy_from_user_nofault()"), which the interrupted thread may
 * hold: that CPU would wait for ever. Whether a distribution has mended it cannot be seen.
 */
static bool kernel_is_safe(void)
{
	struct utsname name;
	unsigned major, minor;
	if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	const unsigned version = major * 1000 + minor;
	return version < 5018 || version > 6003;
}

bool interrupter_new(struct interrupter **out, struct error *error)
{
	/* Linux include/linux/proc_ns.h, PROC_PID_INIT_INO */
	static const ino_t FIRST_NAMESPACE = 0xeffffffc;
	struct interrupter *interrupter = alloc_zeroed(1, sizeof(*interrupter));
	struct stat status;
	interrupter->map = interrupter->program = -1;
	errno = EOPNOTSUPP;
	if (kernel_is_safe() && stat("/proc/self/ns/pid", &status) == 0) {
		interrupter->told[TOLD_DEVICE] = status.st_dev;
		interrupter->told[TOLD_INODE] = status.st_ino;
		if (make_map(interrupter) &&
		    load_program(interrupter, status.st_ino != FIRST_NAMESPACE)) {
			*out = interrupter;
			return true;
		}
	}
	const int os_errno = errno;
	interrupter_free(interrupter);
	return error_set_errno(error, os_errno, "cannot copy in interrupts");
}

void interrupter_free(struct interrupter *interrupter)
{
	if (!interrupter)
		return;
	if (interrupter->shared)
		munmap(interrupter->shared, SHARED_SIZE);
	if (interrupter->program >= 0)
		close(interrupter->program);
	if (interrupter->map >= 0)
		close(interrupter->map);
	free(interrupter);
}

/* False: they are too many or too large. */
static bool tell_ranges(struct shared *shared, const struct target_range *ranges, size_t count)
{
	uint32_t offset = 0;
	if (count > INTERRUPT_RANGES)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (ranges[i].size >= INTERRUPT_BYTES - offset)
			return false;
		shared->ranges[i] =
			(struct shared_range){ranges[i].address, (uint32_t)ranges[i].size, offset};
		offset += (uint32_t)ranges[i].size;
	}
	shared->range_count = count;
	return true;
}

enum interrupt_result interrupter_copy(struct interrupter *interrupter, pid_t tid, int cpu,
				       const struct interrupt_stack *stack,
				       const struct target_range *ranges, size_t count,
				       uint64_t *took_ns)
{
	if (!tell_ranges(interrupter->shared, ranges, count))
		return INTERRUPT_LARGE;
	interrupter->told[TOLD_TID] = (uint64_t)tid;
	interrupter->told[TOLD_STACK_END] = stack->end;
	interrupter->told[TOLD_SKIPPED] = stack->red_zone;
	union bpf_attr run;
	memset(&run, 0, sizeof(run));
	run.test.prog_fd = (uint32_t)interrupter->program;
	run.test.ctx_in = (uint64_t)(uintptr_t)interrupter->told;
	run.test.ctx_size_in = sizeof(interrupter->told);
	run.test.flags = BPF_F_TEST_RUN_ON_CPU;
	run.test.cpu = (uint32_t)cpu;
	const uint64_t before = now_ns();
	const long failed = bpf(BPF_PROG_TEST_RUN, &run);
	*took_ns = now_ns() - before;
	if (failed)
		return INTERRUPT_FAILED;
	static const enum interrupt_result results[] = {
		[0] = INTERRUPT_COPIED,
		[ANSWER_ANOTHER] = INTERRUPT_ANOTHER,
		[ANSWER_CALL] = INTERRUPT_CALL,
		[ANSWER_LARGE] = INTERRUPT_LARGE,
		[ANSWER_MISSING] = INTERRUPT_MISSING,
	};
	return run.test.retval <= ANSWER_MISSING ? results[run.test.retval] : INTERRUPT_FAILED;
}

void interrupter_registers(const struct interrupter *interrupter, struct registers *registers)
{
	*registers = (struct registers){.known = (1u << REGISTER_COUNT) - 1};
	memcpy(registers->value, interrupter->shared->registers, sizeof(registers->value));
}

const uint8_t *interrupter_stack(const struct interrupter *interrupter)
{
	return interrupter->shared->stack;
}

const uint8_t *interrupter_range(const struct interrupter *interrupter, size_t number)
{
	const struct shared *shared = interrupter->shared;
	return shared->bytes + shared->ranges[number].offset;
}
