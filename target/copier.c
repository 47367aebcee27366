/* SPDX-License-Identifier: MIT */
/*
 * Copies of a thread's memory that the kernel makes, by a BPF program: it looks whether the current
 * thread is the one that is wanted, and copies its registers (bpf_task_pt_regs, Linux 5.15), the
 * stack from SP on and the ranges that it is told into memory that the kernel shares with us. In
 * the thread's own place nothing has to be looked up for that, so it takes a part of the time that
 * process_vm_readv does. The program runs
 *
 *  - in an interrupt of the CPU on which the thread runs, at once (bpf(2), BPF_PROG_TEST_RUN of a
 *    raw tracepoint's program with BPF_F_TEST_RUN_ON_CPU, 5.10): the thread stands still for the
 *    interrupt, and nobody is put in its place: no stop, no context switch, no wake-up on its CPU;
 *  - or as the thread leaves its CPU (PERF_EVENT_IOC_SET_BPF of the event that switch_log.c reads),
 *    within a time that is told beforehand. Whoever sees by the log that it has not run since has a
 *    copy of that moment.
 *
 * The program is short, so it is written in BPF's instructions here; it needs no compiler, and
 * nothing of the kernel's types.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* What the program is told. */
enum request_field {
	TOLD_NUMBER, /* of the request */
	TOLD_TID,
	TOLD_FROM, /* CLOCK_MONOTONIC: before and after that it copies nothing */
	TOLD_UNTIL,
	TOLD_STACK_END,
	TOLD_RED_ZONE,
	TOLD_DEVICE, /* of our namespace of process numbers */
	TOLD_INODE,
	TOLD_RANGES,
	TOLD_COUNT
};

/* What it answers. For another thread it answers nothing. */
enum answer { ANSWER_NONE, ANSWER_COPIED, ANSWER_CALL, ANSWER_LARGE, ANSWER_MISSING, ANSWER_COUNT };
enum { ANSWER_BITS = 3 };

/* What the program reads and writes; the verifier wants each bound to be a mask. */
struct shared {
	uint64_t told[TOLD_COUNT];
	uint64_t busy;	   /* it is being written into */
	uint64_t began;	   /* CLOCK_MONOTONIC: when the program met the thread */
	uint64_t answered; /* the request's number, shifted by ANSWER_BITS, and the answer */
	uint64_t registers[REGISTER_COUNT];
	struct shared_range ranges[COPIER_RANGES];
	uint8_t stack[COPIER_BYTES];
	uint8_t bytes[2 * COPIER_BYTES]; /* at any offset any size */
};

_Static_assert((COPIER_BYTES & (COPIER_BYTES - 1)) == 0, "a mask");
_Static_assert(sizeof(struct shared_range) == 16, "shifted by 4");

enum { LOAD_TRIES = 5 };

struct copier {
	int map, program;
	struct shared *shared;
};

static long bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

/* ---- the program --------------------------------------------------------------------------- */

enum { R0, R1, R2, R3, R4, R5, NUMBER = BPF_REG_6, SHARED, INDEX, RANGE, FRAME };
enum { FROM = RANGE }; /* at first */
enum { MOST_INSTRUCTIONS = 192, LICENSE_SIZE = 16 };
enum { NUMBERS = -8, BEGAN = -16 }; /* on its stack */
_Static_assert(sizeof(struct bpf_pidns_info) == -NUMBERS, "what is between them");

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

static void load(struct program *program, int size, int to, int base, long offset)
{
	add(program, BPF_LDX | BPF_MEM | size, to, base, (int)offset, 0);
}

static void store(struct program *program, int base, int from, long offset)
{
	add(program, BPF_STX | BPF_MEM | BPF_DW, base, from, (int)offset, 0);
}

static void call(struct program *program, int helper)
{
	add(program, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

static void load_told(struct program *program, int to, enum request_field which)
{
	load(program, BPF_DW, to, SHARED, offsetof(struct shared, told) + which * sizeof(uint64_t));
}

/* The kernel logs a switch where the program's result is not 0. */
static void leave(struct program *program)
{
	set(program, R0, 1);
	add(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void answer(struct program *program, enum answer value)
{
	load(program, BPF_DW, R1, FRAME, BEGAN);
	store(program, SHARED, R1, offsetof(struct shared, began));
	with_constant(program, BPF_LSH, NUMBER, ANSWER_BITS);
	with_constant(program, BPF_OR, NUMBER, (int)value);
	store(program, SHARED, NUMBER, offsetof(struct shared, answered));
	if (value != ANSWER_NONE) {
		set(program, R1, 0);
		store(program, SHARED, R1, offsetof(struct shared, busy));
	}
	leave(program);
}

/* Lets a jump lead to the next instruction. */
static void land(struct program *program, int jump)
{
	program->code[jump].off = (int16_t)(program->size - jump - 1);
}

/* R1: the current thread's number, as our own namespace of process numbers has it; or, where
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
	add(program, BPF_ST | BPF_MEM | BPF_DW, FRAME, 0, NUMBERS, 0);
	load_told(program, R1, TOLD_DEVICE);
	load_told(program, R2, TOLD_INODE);
	move(program, R3, FRAME);
	with_constant(program, BPF_ADD, R3, NUMBERS);
	set(program, R4, sizeof(struct bpf_pidns_info));
	call(program, BPF_FUNC_get_ns_current_pid_tgid);
	/* Of another namespace: all zero. */
	load(program, BPF_W, R1, FRAME, NUMBERS);
}

/* Returns the jump that is taken in another thread. */
static int add_thread(struct program *program, bool ours)
{
	add_thread_number(program, ours);
	load_told(program, R2, TOLD_TID);
	return add(program, BPF_JMP | BPF_JNE | BPF_X, R1, R2, 0, 0);
}

/* Not now: the jumps that are taken before and after the time. */
static void add_time(struct program *program, int not_now[2])
{
	call(program, BPF_FUNC_ktime_get_ns);
	store(program, FRAME, R0, BEGAN);
	not_now[0] = add(program, BPF_JMP | BPF_JLT | BPF_X, R0, FROM, 0, 0);
	load_told(program, R1, TOLD_UNTIL);
	not_now[1] = add(program, BPF_JMP | BPF_JGT | BPF_X, R0, R1, 0, 0);
}

/*
 * One writes at a time: who was asked before may still be at it, should its CPU have been taken
 * away from the virtual machine. Returns the jump that is taken then: there is no copy.
 */
static int add_lock(struct program *program)
{
	set(program, R1, 1);
	add(program, BPF_STX | BPF_ATOMIC | BPF_DW, SHARED, R1, offsetof(struct shared, busy),
	    BPF_XCHG);
	return add(program, BPF_JMP | BPF_JNE | BPF_K, R1, 0, 0, 0);
}

/* A copy from the user's R3, R2 bytes, to R1. Returns the jump that is taken when it fails. */
static int add_copy(struct program *program)
{
	call(program, BPF_FUNC_probe_read_user);
	return add(program, BPF_JMP | BPF_JNE | BPF_K, R0, 0, 0, 0);
}

/*
 * Returns the jump that is taken where there are no registers. *call_under_way: the jump taken in a
 * system call that is under way, when RAX has not its result yet (Linux arch/x86/entry): in exit or
 * execve the memory may be another thread's or program's already.
 */
static int add_registers(struct program *program, int *call_under_way)
{
	call(program, BPF_FUNC_get_current_task_btf);
	move(program, R1, R0);
	call(program, BPF_FUNC_task_pt_regs);
	const int none = add(program, BPF_JMP | BPF_JEQ | BPF_K, R0, 0, 0, 0);
	for (size_t i = 0; i < REGISTER_COUNT; i++) {
		load(program, BPF_DW, R1, R0, PLACES[i] * sizeof(uint64_t));
		store(program, SHARED, R1,
		      offsetof(struct shared, registers) + i * sizeof(uint64_t));
	}
	load(program, BPF_DW, R1, R0, PLACES[REGISTER_RAX] * sizeof(uint64_t));
	*call_under_way = add(program, BPF_JMP | BPF_JEQ | BPF_K, R1, 0, 0, -ENOSYS);
	return none;
}

/* From what lies below SP to the stack's end. *large: the jump taken when that is too much. */
static int add_stack(struct program *program, int *large)
{
	load(program, BPF_DW, R3, SHARED,
	     offsetof(struct shared, registers) + REGISTER_RSP * sizeof(uint64_t));
	load_told(program, R1, TOLD_RED_ZONE);
	with_register(program, BPF_SUB, R3, R1);
	load_told(program, R2, TOLD_STACK_END);
	with_register(program, BPF_SUB, R2, R3);
	*large = add(program, BPF_JMP | BPF_JGT | BPF_K, R2, 0, 0, COPIER_BYTES);
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
	load_told(program, R1, TOLD_RANGES);
	const int end = add(program, BPF_JMP | BPF_JGE | BPF_X, INDEX, R1, 0, 0);
	const int most = add(program, BPF_JMP | BPF_JGE | BPF_K, INDEX, 0, 0, COPIER_RANGES);
	move(program, RANGE, INDEX);
	with_constant(program, BPF_LSH, RANGE, 4);
	with_register(program, BPF_ADD, RANGE, SHARED);
	load(program, BPF_DW, R3, RANGE, ranges + offsetof(struct shared_range, address));
	load(program, BPF_W, R2, RANGE, ranges + offsetof(struct shared_range, size));
	load(program, BPF_W, R1, RANGE, ranges + offsetof(struct shared_range, offset));
	with_constant(program, BPF_AND, R2, COPIER_BYTES - 1);
	with_constant(program, BPF_AND, R1, COPIER_BYTES - 1);
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
	int not_now[2], call_under_way, large;
	add(program, BPF_LD | BPF_DW | BPF_IMM, SHARED, BPF_PSEUDO_MAP_VALUE, 0, map);
	add(program, 0, 0, 0, 0, 0); /* the other half of that constant */
	/* In that order: see tell_request. */
	load_told(program, NUMBER, TOLD_NUMBER);
	load_told(program, FROM, TOLD_FROM);
	const int another = add_thread(program, ours);
	add_time(program, not_now);
	const int busy = add_lock(program);
	const int no_registers = add_registers(program, &call_under_way);
	const int no_stack = add_stack(program, &large);
	const int no_range = add_ranges(program);
	answer(program, ANSWER_COPIED);
	land(program, another);
	leave(program);
	land(program, not_now[0]);
	land(program, not_now[1]);
	land(program, busy);
	answer(program, ANSWER_NONE);
	land(program, call_under_way);
	answer(program, ANSWER_CALL);
	land(program, large);
	answer(program, ANSWER_LARGE);
	land(program, no_registers);
	land(program, no_stack);
	land(program, no_range);
	answer(program, ANSWER_MISSING);
}

/* ---- its use ------------------------------------------------------------------------------- */

static const size_t SHARED_SIZE =
	(sizeof(struct shared) + TARGET_PAGE - 1) / TARGET_PAGE * TARGET_PAGE;

static bool make_map(struct copier *copier)
{
	union bpf_attr wanted;
	memset(&wanted, 0, sizeof(wanted)); /* all of it: an initializer need not */
	wanted.map_type = BPF_MAP_TYPE_ARRAY;
	wanted.key_size = sizeof(uint32_t);
	wanted.value_size = sizeof(struct shared);
	wanted.max_entries = 1;
	wanted.map_flags = BPF_F_MMAPABLE;
	copier->map = (int)bpf(BPF_MAP_CREATE, &wanted);
	if (copier->map < 0)
		return false;
	void *memory = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    copier->map, 0);
	if (memory == MAP_FAILED)
		return false;
	copier->shared = memory;
	return true;
}

/* The kernel gives up checking it when a signal has come. */
static int load_checked(union bpf_attr *wanted)
{
	int program = -1;
	for (int i = 0; program < 0 && i < LOAD_TRIES; i++) {
		program = (int)bpf(BPF_PROG_LOAD, wanted);
		if (program < 0 && errno != EAGAIN)
			break;
	}
	return program;
}

static bool load_program(struct copier *copier, enum copier_place place, bool ours)
{
	/* The helpers that read memory are for such programs alone; it is under MIT's, too. */
	static const char license[LICENSE_SIZE] = "Dual MIT/GPL";
	struct program program = {.size = 0};
	write_program(&program, copier->map, ours);
	union bpf_attr wanted;
	memset(&wanted, 0, sizeof(wanted));
	wanted.prog_type =
		place == COPIER_AT_SWITCH ? BPF_PROG_TYPE_PERF_EVENT : BPF_PROG_TYPE_RAW_TRACEPOINT;
	wanted.insns = (uint64_t)(uintptr_t)program.code;
	wanted.insn_cnt = (uint32_t)program.size;
	wanted.license = (uint64_t)(uintptr_t)license;
	copier->program = load_checked(&wanted);
	return copier->program >= 0;
}

/*
 * From 5.18 to 6.3 copy_from_user_nofault() may take the lock of the kernel's vmalloc areas
 * (upstream d319f344561d, "mm: Fix copy_from_user_nofault()"), which the interrupted thread may
 * hold, or one that waits for the lock that a switch holds: that CPU would wait for ever. Whether a
 * distribution has mended it cannot be seen.
 */
static bool kernel_is_safe(void)
{
	struct utsname name;
	unsigned major, minor;
	if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	const unsigned version = major * 1000 + minor;
	return (version >= 5015 && version < 5018) || version > 6003;
}

static bool open_copier(struct copier *copier, enum copier_place place)
{
	/* Linux include/linux/proc_ns.h, PROC_PID_INIT_INO */
	static const ino_t FIRST_NAMESPACE = 0xeffffffc;
	struct stat namespace;
	errno = EOPNOTSUPP;
	if (!kernel_is_safe() || stat("/proc/self/ns/pid", &namespace) < 0 || !make_map(copier))
		return false;
	copier->shared->told[TOLD_DEVICE] = namespace.st_dev;
	copier->shared->told[TOLD_INODE] = namespace.st_ino;
	return load_program(copier, place, namespace.st_ino != FIRST_NAMESPACE);
}

bool copier_new(enum copier_place place, struct copier **out, struct error *error)
{
	struct copier *copier = alloc_zeroed(1, sizeof(*copier));
	copier->map = copier->program = -1;
	if (open_copier(copier, place)) {
		*out = copier;
		return true;
	}
	const int os_errno = errno;
	copier_free(copier);
	return error_set_errno(error, os_errno, "the kernel copies no threads for us");
}

void copier_free(struct copier *copier)
{
	if (!copier)
		return;
	if (copier->shared)
		munmap(copier->shared, SHARED_SIZE);
	if (copier->program >= 0)
		close(copier->program);
	if (copier->map >= 0)
		close(copier->map);
	free(copier);
}

/* False: they are too many or too large. */
static bool tell_ranges(struct shared *shared, const struct target_range *ranges, size_t count)
{
	uint32_t offset = 0;
	if (count > COPIER_RANGES)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (ranges[i].size >= COPIER_BYTES - offset)
			return false;
		shared->ranges[i] =
			(struct shared_range){ranges[i].address, (uint32_t)ranges[i].size, offset};
		offset += (uint32_t)ranges[i].size;
	}
	shared->told[TOLD_RANGES] = count;
	return true;
}

static void tell(struct shared *shared, enum request_field which, uint64_t value)
{
	__atomic_store_n(&shared->told[which], value, __ATOMIC_RELEASE);
}

/*
 * The program may be running, in the thread that was asked for before: it answers with the number
 * that it has read first. If that is this request's, it has seen next that it is not to copy yet,
 * or sees all of it.
 */
static bool tell_request(struct shared *shared, const struct copier_request *request,
			 uint64_t from_ns, uint64_t until_ns)
{
	tell(shared, TOLD_FROM, UINT64_MAX);
	tell(shared, TOLD_NUMBER, shared->told[TOLD_NUMBER] + 1);
	if (!tell_ranges(shared, request->ranges, request->range_count))
		return false;
	shared->told[TOLD_TID] = (uint64_t)request->tid;
	shared->told[TOLD_STACK_END] = request->stack_end;
	shared->told[TOLD_RED_ZONE] = request->red_zone;
	shared->told[TOLD_UNTIL] = until_ns;
	tell(shared, TOLD_FROM, from_ns);
	return true;
}

static enum answer read_answer(const struct shared *shared)
{
	const uint64_t answered = __atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE);
	const uint64_t answer = answered ^ shared->told[TOLD_NUMBER] << ANSWER_BITS;
	return answer < ANSWER_COUNT ? (enum answer)answer : ANSWER_NONE;
}

enum copier_result copier_outcome(const struct copier *copier)
{
	static const enum copier_result results[ANSWER_COUNT] = {
		[ANSWER_NONE] = COPIER_ANOTHER,	   [ANSWER_COPIED] = COPIER_COPIED,
		[ANSWER_CALL] = COPIER_CALL,	   [ANSWER_LARGE] = COPIER_LARGE,
		[ANSWER_MISSING] = COPIER_MISSING,
	};
	return results[read_answer(copier->shared)];
}

uint64_t copier_began_ns(const struct copier *copier)
{
	const struct shared *shared = copier->shared;
	const uint64_t answered = __atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE);
	const bool ours = answered >> ANSWER_BITS == shared->told[TOLD_NUMBER];
	return ours ? __atomic_load_n(&shared->began, __ATOMIC_ACQUIRE) : 0;
}

enum copier_result copier_interrupt(struct copier *copier, const struct copier_request *request,
				    int cpu, uint64_t *took_ns)
{
	if (!tell_request(copier->shared, request, 0, UINT64_MAX))
		return COPIER_LARGE;
	union bpf_attr run;
	memset(&run, 0, sizeof(run));
	run.test.prog_fd = (uint32_t)copier->program;
	run.test.flags = BPF_F_TEST_RUN_ON_CPU;
	run.test.cpu = (uint32_t)cpu;
	const uint64_t before = clock_now_ns();
	const long failed = bpf(BPF_PROG_TEST_RUN, &run);
	*took_ns = clock_now_ns() - before;
	return failed ? COPIER_FAILED : copier_outcome(copier);
}

bool copier_expect(struct copier *copier, const struct copier_request *request, uint64_t from_ns,
		   uint64_t until_ns)
{
	return tell_request(copier->shared, request, from_ns, until_ns);
}

bool copier_attach(const struct copier *copier, int event)
{
	return ioctl(event, PERF_EVENT_IOC_SET_BPF, copier->program) == 0;
}

void copier_registers(const struct copier *copier, struct registers *registers)
{
	*registers = (struct registers){.known = (1u << REGISTER_COUNT) - 1};
	memcpy(registers->value, copier->shared->registers, sizeof(registers->value));
}

struct copier_span copier_stack(const struct copier *copier, const struct registers *registers)
{
	const struct shared *shared = copier->shared;
	const remote_addr start = registers->value[REGISTER_RSP] - shared->told[TOLD_RED_ZONE];
	const uint64_t size = shared->told[TOLD_STACK_END] - start;
	return (struct copier_span){{start, size <= COPIER_BYTES ? size : 0}, shared->stack};
}

size_t copier_range_count(const struct copier *copier)
{
	return copier->shared->told[TOLD_RANGES];
}

struct copier_span copier_range(const struct copier *copier, size_t number)
{
	const struct shared_range *range = &copier->shared->ranges[number];
	return (struct copier_span){{range->address, range->size},
				    copier->shared->bytes + range->offset};
}

bool copier_is_untouched(const struct copier *copier)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return !__atomic_load_n(&copier->shared->busy, __ATOMIC_RELAXED) &&
	       read_answer(copier->shared) == ANSWER_COPIED;
}
