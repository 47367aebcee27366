/* SPDX-License-Identifier: MIT */
/*
 * The instruction decoder: what it says of instructions of every kind, by example; lengths of all
 * code of this very program and of the C library against objdump's; what is written against all
 * operands that Zydis knows; the decoder that remembers against the one that does not; and no byte
 * sequence that leads them astray.
 */
#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <Zydis/Zydis.h>
#include <gelf.h>

#include "tests/fuzz/x86.h"

enum { TEXT_SIZE = 200 };

/* ---- by example --------------------------------------------------------------------------- */

static const char *const names[] = {
	[X86_RAX] = "rax",	 [X86_RCX] = "rcx", [X86_RDX] = "rdx", [X86_RBX] = "rbx",
	[X86_RSP] = "rsp",	 [X86_RBP] = "rbp", [X86_RSI] = "rsi", [X86_RDI] = "rdi",
	[X86_R8] = "r8",	 [X86_R9] = "r9",   [X86_R10] = "r10", [X86_R11] = "r11",
	[X86_R12] = "r12",	 [X86_R13] = "r13", [X86_R14] = "r14", [X86_R15] = "r15",
	[X86_NO_REGISTER] = "?", [X86_RIP] = "",
};

static const char *const effects[] = {
	[X86_OTHER] = "",
	[X86_SET] = "TO = VALUE",
	[X86_COPY] = "TO = FROM",
	[X86_ADD] = "TO = FROM + VALUE",
	[X86_SUM] = "TO += FROM",
	[X86_SUBTRACT] = "TO -= FROM",
	[X86_ALIGN] = "TO &= VALUE",
	[X86_LOAD] = "TO = MEMORY",
	[X86_LOAD_I32] = "TO = i32 MEMORY",
	[X86_STORE] = "MEMORY = FROM",
	[X86_PUSH] = "push FROM",
	[X86_POP] = "pop TO",
	[X86_LEAVE] = "leave",
	[X86_SWAP] = "swap TO FROM",
	[X86_COPY_U32] = "TO = u32 FROM",
	[X86_NARROW] = "TO = part of FROM",
	[X86_LOAD_U32] = "TO = u32 MEMORY",
	[X86_STORE_U32] = "u32 MEMORY = FROM",
};

static const char *const flows[] = {
	[X86_NEXT] = "",     [X86_CALL] = "call",     [X86_BRANCH] = "branch",
	[X86_JUMP] = "jump", [X86_RETURN] = "return", [X86_STOP] = "stop",
};

static void add(char *text, const char *format, ...)
{
	const size_t size = strlen(text);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text + size, TEXT_SIZE - size, format, arguments);
	va_end(arguments);
}

static void add_memory(char *text, const struct x86_memory *memory)
{
	add(text, "[%s", names[memory->base]);
	if (memory->index != X86_NO_REGISTER)
		add(text, "+%s*%d", names[memory->index], memory->scale);
	add(text, "%+" PRId64 "]", memory->displacement);
}

static void add_effect(char *text, const struct x86_instruction *instruction)
{
	for (const char *at = effects[instruction->effect]; *at; at++) {
		if (strncmp(at, "TO", 2) == 0) {
			add(text, "%s", names[instruction->to]);
			at += 1;
		} else if (strncmp(at, "FROM", 4) == 0) {
			if (instruction->from == X86_NO_REGISTER && at[-2] == '=')
				add(text, "%" PRId64, (int64_t)instruction->value);
			else
				add(text, "%s", names[instruction->from]);
			at += 3;
		} else if (strncmp(at, "VALUE", 5) == 0) {
			add(text, "%" PRId64, (int64_t)instruction->value);
			at += 4;
		} else if (strncmp(at, "MEMORY", 6) == 0) {
			add_memory(text, &instruction->memory);
			at += 5;
		} else {
			add(text, "%c", *at);
		}
	}
}

static void add_registers(char *text, const char *title, unsigned registers)
{
	if (registers)
		add(text, "; %s", title);
	for (unsigned i = 0; i < X86_REGISTERS; i++)
		if (registers & X86_BIT(i))
			add(text, " %s", names[i]);
}

/* "rbx = [rsp+8]; writes rbx": all that the decoder says. */
static void describe(char *text, const struct x86_instruction *instruction)
{
	text[0] = '\0';
	add_effect(text, instruction);
	if (instruction->is_nop)
		add(text, "nop");
	if (instruction->is_endbr)
		add(text, "endbr");
	add(text, "%s", flows[instruction->flow]);
	if (instruction->target)
		add(text, " %" PRIx64, instruction->target);
	if (instruction->has_memory && !strstr(effects[instruction->effect], "MEMORY")) {
		add(text, "; at ");
		add_memory(text, &instruction->memory);
	}
	if (instruction->stored)
		add(text, "; stores %d", instruction->stored);
	add_registers(text, "writes", instruction->written);
	add_registers(text, "compares", instruction->compared);
}

/* All at 0x1000. A store of any number of bytes is one of 65535. */
static const struct example {
	const char *bytes, *assembly, *wanted;
} examples[] = {
	/* Effects. */
	{"bb 12 00 00 00", "mov $0x12,%ebx", "rbx = 18; writes rbx"},
	{"b8 ff ff ff ff", "mov $0xffffffff,%eax", "rax = 4294967295; writes rax"},
	{"49 b9 88 77 66 55 44 33 22 11", "movabs $0x1122334455667788,%r9",
	 "r9 = 1234605616436508552; writes r9"},
	{"48 c7 c0 fe ff ff ff", "mov $-2,%rax", "rax = -2; writes rax"},
	{"48 8d 3d 10 00 00 00", "lea 0x10(%rip),%rdi", "rdi = 4119; writes rdi"},
	{"45 31 c0", "xor %r8d,%r8d", "r8 = 0; writes r8"},
	{"48 31 c9", "xor %rcx,%rcx", "rcx = 0; writes rcx"},
	{"49 89 fe", "mov %rdi,%r14", "r14 = rdi; writes r14"},
	{"44 89 e2", "mov %r12d,%edx", "rdx = u32 r12; writes rdx"},
	{"48 83 c4 08", "add $0x8,%rsp", "rsp = rsp + 8; writes rsp"},
	{"48 83 c4 80", "add $-0x80,%rsp", "rsp = rsp + -128; writes rsp"},
	{"48 81 ec 20 75 00 00", "sub $0x7520,%rsp", "rsp = rsp + -29984; writes rsp"},
	{"48 83 ec 80", "sub $-0x80,%rsp", "rsp = rsp + 128; writes rsp"},
	{"48 8d 6c 24 28", "lea 0x28(%rsp),%rbp", "rbp = rsp + 40; writes rbp"},
	{"48 8d 65 f8", "lea -0x8(%rbp),%rsp", "rsp = rbp + -8; writes rsp"},
	{"4c 8d 10", "lea (%rax),%r10", "r10 = rax + 0; writes r10"},
	{"48 01 c4", "add %rax,%rsp", "rsp += rax; writes rsp"},
	{"48 29 c4", "sub %rax,%rsp", "rsp -= rax; writes rsp"},
	{"48 83 e4 c0", "and $-0x40,%rsp", "rsp &= -64; writes rsp"},
	{"48 81 e4 00 f0 ff ff", "and $-0x1000,%rsp", "rsp &= -4096; writes rsp"},
	{"48 8b 5c 24 08", "mov 0x8(%rsp),%rbx", "rbx = [rsp+8]; writes rbx"},
	{"48 8b 54 cd f0", "mov -0x10(%rbp,%rcx,8),%rdx", "rdx = [rbp+rcx*8-16]; writes rdx"},
	{"48 8b 05 10 00 00 00", "mov 0x10(%rip),%rax", "rax = [+4119]; writes rax"},
	{"8b 54 24 0c", "mov 0xc(%rsp),%edx", "rdx = u32 [rsp+12]; writes rdx"},
	{"48 63 04 82", "movslq (%rdx,%rax,4),%rax", "rax = i32 [rdx+rax*4+0]; writes rax"},
	{"4c 89 7c 24 f8", "mov %r15,-0x8(%rsp)", "[rsp-8] = r15; stores 8"},
	{"48 c7 44 24 08 fb ff ff ff", "movq $-5,0x8(%rsp)", "[rsp+8] = -5; stores 8"},
	{"89 45 fc", "mov %eax,-0x4(%rbp)", "u32 [rbp-4] = rax; stores 4"},
	{"c7 44 24 0c 2a 00 00 00", "movl $0x2a,0xc(%rsp)", "u32 [rsp+12] = 42; stores 4"},
	{"c7 44 24 0c ff ff ff ff", "movl $0xffffffff,0xc(%rsp)",
	 "u32 [rsp+12] = 4294967295; stores 4"},
	{"48 a1 88 77 66 55 44 33 22 11", "movabs 0x1122334455667788,%rax",
	 "rax = [?+1234605616436508552]; writes rax"},
	{"48 a3 88 77 66 55 44 33 22 11", "movabs %rax,0x1122334455667788",
	 "[?+1234605616436508552] = rax; stores 8"},
	{"55", "push %rbp", "push rbp; writes rsp"},
	{"41 57", "push %r15", "push r15; writes rsp"},
	{"6a 20", "push $0x20", "push ?; writes rsp"},
	{"ff 70 08", "push 0x8(%rax)", "push ?; at [rax+8]; writes rsp"},
	{"9c", "pushf", "push ?; writes rsp"},
	{"5b", "pop %rbx", "pop rbx; writes rbx rsp"},
	{"5c", "pop %rsp", "pop rsp; writes rsp"},
	{"8f 40 08", "pop 0x8(%rax)", "pop ?; at [rax+8]; stores 8; writes rsp"},
	{"9d", "popf", "pop ?; writes rsp"},
	{"c9", "leave", "leave; at [rbp+0]; writes rsp rbp"},
	{"48 94", "xchg %rax,%rsp", "swap rsp rax; writes rax rsp"},
	{"4c 87 e3", "xchg %r12,%rbx", "swap rbx r12; writes rbx r12"},
	{"49 01 c4", "add %rax,%r12", "r12 += rax; writes r12"},
	{"4c 8b f7", "mov %rdi,%r14", "r14 = rdi; writes r14"},
	{"41 bc ff ff ff ff", "mov $0xffffffff,%r12d", "r12 = 4294967295; writes r12"},
	{"48 c7 c0 ff ff ff ff", "mov $-1,%rax", "rax = -1; writes rax"},
	{"48 89 e5", "mov %rsp,%rbp", "rbp = rsp; writes rbp"},
	{"48 89 ec", "mov %rbp,%rsp", "rsp = rbp; writes rsp"},
	{"89 e0", "mov %esp,%eax", "rax = u32 rsp; writes rax"},
	/* Registers that are written, and nothing more. */
	{"4c 8d 54 88 08", "lea 0x8(%rax,%rcx,4),%r10", "; writes r10"},
	{"67 48 8d 50 08", "lea 0x8(%eax),%rdx", "; writes rdx"},
	{"8d 50 08", "lea 0x8(%rax),%edx", "; writes rdx"},
	{"64 48 8b 04 25 28 00 00 00", "mov %fs:0x28,%rax", "; at [?+40]; writes rax"},
	{"64 48 8b 08", "mov %fs:(%rax),%rcx", "; at [?+0]; writes rcx"},
	{"48 63 c0", "movslq %eax,%rax", "rax = part of rax; writes rax"},
	{"66 50", "push %ax", "; writes rsp"},
	{"66 68 34 12", "pushw $0x1234", "; writes rsp"},
	{"0f a0", "push %fs", "; writes rsp"},
	{"66 58", "pop %ax", "; writes rax rsp"},
	{"66 c9", "leavew", "; at [rbp+0]; writes rsp rbp"},
	{"c8 10 00 00", "enter $0x10,$0x0", "; writes rsp rbp"},
	{"93", "xchg %eax,%ebx", "; writes rax rbx"},
	{"c6 f8 01", "xabort $0x1", "; writes rax"},
	{"0f 05", "syscall", "; writes rcx r11"},
	{"83 3e 01", "cmpl $0x1,(%rsi)", "; at [rsi+0]"},
	{"48 f7 f6", "div %rsi", "; writes rax rdx"},
	{"48 0f af d1", "imul %rcx,%rdx", "; writes rdx"},
	{"48 f7 e9", "imul %rcx", "; writes rax rdx"},
	{"48 99", "cqto", "; writes rdx"},
	{"c4 e2 eb f6 c1", "mulx %rcx,%rdx,%rax", "; writes rax rdx"},
	{"48 0f 44 d1", "cmove %rcx,%rdx", "; writes rdx"},
	{"0f 94 c0", "sete %al", "; writes rax"},
	{"48 d3 e2", "shl %cl,%rdx", "; writes rdx"},
	{"49 0f cb", "bswap %r11", "; writes r11"},
	{"0f a2", "cpuid", "; writes rax rcx rdx rbx"},
	{"0f 31", "rdtsc", "; writes rax rdx"},
	{"48 03 44 24 08", "add 0x8(%rsp),%rax", "; at [rsp+8]; writes rax"},
	{"48 ff cc", "dec %rsp", "; writes rsp"},
	{"48 83 cc 08", "or $0x8,%rsp", "; writes rsp"},
	{"ac", "lods %ds:(%rsi),%al", "; at [rsi+0]; writes rax rsi"},
	{"ae", "scas %es:(%rdi),%al", "; at [rdi+0]; writes rdi"},
	{"c4 e2 65 92 4c 94 08", "vgatherdps %ymm3,0x8(%rsp,%ymm2,4),%ymm1", "; at [?+8]"},
	{"62 f2 ed 48 b8 1c 24", "vfmadd231pd (%rsp),%zmm2,%zmm3", "; at [rsp+0]"},
	{"66 48 0f 7e c0", "movq %xmm0,%rax", "; writes rax"},
	{"66 48 0f 3a 16 c0 01", "pextrq $0x1,%xmm0,%rax", "; writes rax"},
	{"66 0f d7 c0", "pmovmskb %xmm0,%eax", "; writes rax"},
	{"f2 48 0f 2c c0", "cvttsd2si %xmm0,%rax", "; writes rax"},
	{"c4 e1 fb 93 c1", "kmovq %k1,%rax", "; writes rax"},
	{"df e0", "fnstsw %ax", "; writes rax"},
	{"c4 e3 79 61 d1 00", "vpcmpestri $0x0,%xmm1,%xmm2", "; writes rcx"},
	{"66 0f 3a 63 d1 00", "pcmpistri $0x0,%xmm1,%xmm2", "; writes rcx"},
	{"48 0f 38 f0 08", "movbe (%rax),%rcx", "; at [rax+0]; writes rcx"},
	{"48 0f c7 f0", "rdrand %rax", "; writes rax"},
	{"f3 48 0f 1e c8", "rdsspq %rax", "; writes rax"},
	{"d7", "xlat %ds:(%rbx)", "; at [rbx+0]; writes rax"},
	{"0f ae 38", "clflush (%rax)", "; at [rax+0]"},
	{"0f 18 08", "prefetcht0 (%rax)", "; at [rax+0]"},
	{"48 af", "scas %es:(%rdi),%rax", "; at [rdi+0]; writes rdi"},
	{"f2 ae", "repnz scas %es:(%rdi),%al", "; at [rdi+0]; writes rcx rdi"},
	{"a6", "cmpsb %es:(%rdi),%ds:(%rsi)", "; at [rsi+0]; writes rsi rdi"},
	{"48 a7", "cmpsq %es:(%rdi),%ds:(%rsi)", "; at [rsi+0]; writes rsi rdi"},
	{"f3 a6", "repz cmpsb %es:(%rdi),%ds:(%rsi)", "; at [rsi+0]; writes rcx rsi rdi"},
	{"48 ad", "lods %ds:(%rsi),%rax", "; at [rsi+0]; writes rax rsi"},
	{"f3 48 ad", "rep lods %ds:(%rsi),%rax", "; at [rsi+0]; writes rax rcx rsi"},
	{"6e", "outsb %ds:(%rsi),(%dx)", "; at [rsi+0]; writes rsi"},
	{"f3 6e", "rep outsb %ds:(%rsi),(%dx)", "; at [rsi+0]; writes rcx rsi"},
	{"f2 0f 38 f8 08", "enqcmd (%rax),%rcx", "; at [rax+0]"},
	{"0f 34", "sysenter", "; writes rsp"},
	{"f3 48 0f ae c0", "rdfsbase %rax", "; writes rax"},
	{"0f 01 d0", "xgetbv", "; writes rax rdx"},
	{"48 83 d4 00", "adc $0x0,%rsp", "; writes rsp"},
	{"48 19 c0", "sbb %rax,%rax", "; writes rax"},
	{"48 f7 d4", "not %rsp", "; writes rsp"},
	{"65 48 8b 04 25 28 00 00 00", "mov %gs:0x28,%rax", "; at [?+40]; writes rax"},
	{"64 48 63 02", "movslq %fs:(%rdx),%rax", "; at [?+0]; writes rax"},
	{"83 e4 f0", "and $0xfffffff0,%esp", "; writes rsp"},
	{"31 c1", "xor %eax,%ecx", "; writes rcx"},
	{"0f a1", "pop %fs", "; writes rsp"},
	{"8c e0", "mov %fs,%eax", "; writes rax"},
	{"c4 e3 79 16 c9 01", "vpextrd $0x1,%xmm1,%ecx", "; writes rcx"},
	{"66 0f 1a 04 24", "bndmov (%rsp),%bnd0", "; at [rsp+0]"},
	/* Stores. */
	{"88 44 24 03", "mov %al,0x3(%rsp)", "; at [rsp+3]; stores 1"},
	{"66 89 44 24 03", "mov %ax,0x3(%rsp)", "; at [rsp+3]; stores 2"},
	{"64 48 89 04 25 10 00 00 00", "mov %rax,%fs:0x10", "; at [?+16]; stores 8"},
	{"67 48 89 40 08", "mov %rax,0x8(%eax)", "; at [?+8]; stores 8"},
	{"48 87 04 24", "xchg %rax,(%rsp)", "; at [rsp+0]; stores 8; writes rax"},
	{"48 0f b1 0c 24", "cmpxchg %rcx,(%rsp)", "; at [rsp+0]; stores 8; writes rax"},
	{"48 0f c1 4c 24 08", "xadd %rcx,0x8(%rsp)", "; at [rsp+8]; stores 8; writes rcx"},
	{"83 44 24 08 01", "addl $0x1,0x8(%rsp)", "; at [rsp+8]; stores 4"},
	{"aa", "stos %al,%es:(%rdi)", "; at [rdi+0]; stores 1; writes rdi"},
	{"f3 48 ab", "rep stos %rax,%es:(%rdi)", "; at [rdi+0]; stores 65535; writes rcx rdi"},
	{"f3 a4", "rep movsb %ds:(%rsi),%es:(%rdi)",
	 "; at [rdi+0]; stores 65535; writes rcx rsi rdi"},
	{"48 a5", "movsq %ds:(%rsi),%es:(%rdi)", "; at [rdi+0]; stores 8; writes rsi rdi"},
	{"0f 11 44 24 10", "movups %xmm0,0x10(%rsp)", "; at [rsp+16]; stores 16"},
	{"c5 7c 29 45 e0", "vmovaps %ymm8,-0x20(%rbp)", "; at [rbp-32]; stores 32"},
	{"62 f1 7c 48 11 44 24 01", "vmovups %zmm0,0x40(%rsp)", "; at [rsp+64]; stores 64"},
	{"62 f2 7d 49 a0 4c 90 02", "vpscatterdd %zmm1,0x8(%rax,%zmm2,4){%k1}",
	 "; at [?+8]; stores 65535"},
	{"dd 34 24", "fnsave (%rsp)", "; at [rsp+0]; stores 108"},
	{"0f ae 04 24", "fxsave (%rsp)", "; at [rsp+0]; stores 512"},
	{"0f ae 24 24", "xsave (%rsp)", "; at [rsp+0]; stores 65535"},
	{"48 0f c3 04 24", "movnti %rax,(%rsp)", "; at [rsp+0]; stores 8"},
	{"66 0f f7 c1", "maskmovdqu %xmm1,%xmm0", "; at [rdi+0]; stores 16"},
	{"66 0f 38 f8 08", "movdir64b (%rax),%rcx", "; at [rcx+0]; stores 64"},
	{"c4 e2 7a 4b 04 18", "tilestored %tmm0,(%rax,%rbx,1)", "; at [rax+rbx*1+0]; stores 65535"},
	{"6c", "insb (%dx),%es:(%rdi)", "; at [rdi+0]; stores 1; writes rdi"},
	{"f3 6c", "rep insb (%dx),%es:(%rdi)", "; at [rdi+0]; stores 65535; writes rcx rdi"},
	{"48 0f c7 0c 24", "cmpxchg16b (%rsp)", "; at [rsp+0]; stores 16; writes rax rdx"},
	{"c4 e2 75 2e 04 24", "vmaskmovps %ymm0,%ymm1,(%rsp)", "; at [rsp+0]; stores 32"},
	{"0f f7 c8", "maskmovq %mm0,%mm1", "; at [rdi+0]; stores 8"},
	{"48 0f 38 f9 04 24", "movdiri %rax,(%rsp)", "; at [rsp+0]; stores 8"},
	/* Comparisons. */
	{"48 39 c2", "cmp %rax,%rdx", "; compares rax rdx"},
	{"83 f9 01", "cmp $0x1,%ecx", "; compares rcx"},
	{"40 80 ff 01", "cmp $0x1,%dil", "; compares rdi"},
	{"4c 3b 0e", "cmp (%rsi),%r9", "; at [rsi+0]; compares r9"},
	{"48 85 c0", "test %rax,%rax", "; compares rax"},
	{"f6 c4 01", "test $0x1,%ah", "; compares rax"},
	{"66 0f 2e c1", "ucomisd %xmm1,%xmm0", "; compares rax rcx"},
	{"c5 f8 2e d3", "vucomiss %xmm3,%xmm2", "; compares rdx rbx"},
	{"66 44 0f 2f 38", "comisd (%rax),%xmm15", "; at [rax+0]; compares r15"},
	/* Flows. */
	{"e8 10 00 00 00", "call", "call 1015"},
	{"ff d0", "call *%rax", "call"},
	{"ff 15 10 00 00 00", "call *0x10(%rip)", "call; at [+4118]"},
	{"ff 54 d8 08", "call *0x8(%rax,%rbx,8)", "call; at [rax+rbx*8+8]"},
	{"e9 fb 00 00 00", "jmp", "jump 1100"},
	{"eb fe", "jmp", "jump 1000"},
	{"ff e0", "jmp *%rax", "jump"},
	{"3e ff e0", "notrack jmp *%rax", "jump"},
	{"f2 ff 25 10 00 00 00", "bnd jmp *0x10(%rip)", "jump; at [+4119]"},
	{"ff 24 c5 00 10 00 00", "jmp *0x1000(,%rax,8)", "jump; at [?+rax*8+4096]"},
	{"74 04", "je", "branch 1006"},
	{"0f 85 00 01 00 00", "jne", "branch 1106"},
	{"e3 fe", "jrcxz", "branch 1000"},
	{"e2 fe", "loop", "branch 1000; writes rcx"},
	{"c7 f8 00 01 00 00", "xbegin", "branch 1106; writes rax"},
	{"c3", "ret", "return; writes rsp"},
	{"c2 10 00", "ret $0x10", "return; writes rsp"},
	{"f3 c3", "repz ret", "return; writes rsp"},
	{"48 cf", "iretq", "return; writes rsp"},
	{"0f 0b", "ud2", "stop"},
	{"f4", "hlt", "stop"},
	{"cc", "int3", "stop"},
	{"e0 fe", "loopne", "branch 1000; writes rcx"},
	{"ff 18", "lcall *(%rax)", "stop; at [rax+0]; writes rsp"},
	{"ff 28", "ljmp *(%rax)", "stop; at [rax+0]"},
	{"eb f9", "jmp -5", "jump ffb"},
	{"0f 84 00 01 00 00", "je", "branch 1106"},
	{"64 ff 14 25 10 00 00 00", "call *%fs:0x10", "call; at [?+16]"},
	/* None of these. */
	{"66 90", "xchg %ax,%ax", "nop"},
	{"90", "nop", "nop"},
	{"0f 1f 04 00", "nopl (%rax,%rax,1)", "nop"},
	{"2e 66 0f 1f 04 00", "cs nopw (%rax,%rax,1)", "nop"},
	{"f3 90", "pause", ""},
	{"f3 0f 1e fa", "endbr64", "endbr"},
	{"cd 80", "int $0x80", ""},
	{"62 f2 ed 48 b8 d9", "vfmadd231pd %zmm1,%zmm2,%zmm3", ""},
	{"62 f2 7d 48 7c c0", "vpbroadcastd %eax,%zmm0", ""},
	{"66 0f 6e c0", "movd %eax,%xmm0", ""},
	{"c5 f8 77", "vzeroupper", ""},
	{"0f 01 c8", "monitor %rax,%ecx,%edx", ""},
	{"48 0f 07", "sysretq", ""},
	{"f3 48 0f ae d0", "wrfsbase %rax", ""},
	{"0f 01 f8", "swapgs", ""},
	{"62 f1 7c 48 11 44 24 fe", "vmovups %zmm0,-0x80(%rsp)", "; at [rsp-128]; stores 64"},
	{"c4 e2 7d 18 d1", "vbroadcastss %xmm1,%ymm2", ""},
};

static size_t read_bytes(const char *text, uint8_t *bytes)
{
	size_t count = 0;
	char *end;
	for (; *text && count < X86_LENGTH; text = end)
		bytes[count++] = (uint8_t)strtoul(text, &end, 16);
	return count;
}

static void instructions_mean_what_the_manual_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
		const struct example *example = &examples[i];
		uint8_t bytes[X86_LENGTH];
		char got[TEXT_SIZE];
		struct x86_instruction instruction;
		const size_t size = read_bytes(example->bytes, bytes);
		if (!x86_decode(bytes, size, 0x1000, &instruction))
			fail_msg("%s (%s): not decoded", example->bytes, example->assembly);
		assert_int_equal(instruction.length, size);
		describe(got, &instruction);
		if (strcmp(got, example->wanted))
			fail_msg("%s (%s): \"%s\", not \"%s\"", example->bytes, example->assembly,
				 got, example->wanted);
	}
}

static const struct stub {
	const char *bytes, *assembly, *wanted; /* "": no jump */
} stubs[] = {
	{"ff 25 10 00 00 00", "jmp *0x10(%rip)", "jump; at [+4118]"},
	{"f3 0f 1e fa f2 ff 25 10 00 00 00", "endbr64; bnd jmp *0x10(%rip)", "jump; at [+4123]"},
	{"f3 0f 1e fa e9 10 00 00 00", "endbr64; jmp", "jump 1019"},
	{"eb 10", "jmp", "jump 1012"},
	{"ff e0", "jmp *%rax", "jump"},
	{"f3 0f 1e fa f3 0f 1e fa eb 00", "endbr64; endbr64; jmp", ""},
	{"f3 0f 1e fa", "endbr64", ""},
	{"f3 0f 1e fa ff 25 10 00", "endbr64; part of a jump", ""},
	{"68 01 00 00 00 eb 00", "push $1; jmp", ""},
	{"74 10", "je", ""},
	{"e8 10 00 00 00", "call", ""},
};

static void stubs_jump(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(stubs) / sizeof(*stubs); i++) {
		uint8_t bytes[X86_LENGTH];
		char got[TEXT_SIZE] = "";
		struct x86_instruction jump;
		const size_t size = read_bytes(stubs[i].bytes, bytes);
		if (x86_decode_jump(NULL, bytes, size, 0x1000, &jump))
			describe(got, &jump);
		if (strcmp(got, stubs[i].wanted))
			fail_msg("%s: \"%s\", not \"%s\"", stubs[i].assembly, got, stubs[i].wanted);
	}
}

/* ---- against objdump ---------------------------------------------------------------------- */

/* "  401136:	f3 0f 1e fa          	endbr64" */
static size_t parse_line(const char *line, uint64_t *address, uint8_t *bytes)
{
	char *at;
	size_t count = 0;
	*address = strtoul(line, &at, 16);
	if (line[0] != ' ' || *at++ != ':')
		return 0;
	for (at++; count < X86_LENGTH + 1; count++, at++) {
		char *end;
		const unsigned long byte = strtoul(at, &end, 16);
		if (end != at + 2 || !isxdigit((unsigned char)*at))
			break;
		bytes[count] = (uint8_t)byte;
		at = end;
	}
	return count;
}

static size_t check_lengths(struct x86_decoder *decoder, const char *path)
{
	char command[300], line[4096];
	size_t instructions = 0;
	snprintf(command, sizeof(command), "objdump -d -w '%s' 2>/dev/null", path);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		/* What follows must not matter. */
		uint8_t bytes[2 * X86_LENGTH + 2] = {0};
		uint64_t address;
		struct x86_instruction instruction;
		const size_t length = parse_line(line, &address, bytes);
		if (!length || strstr(line, "(bad)"))
			continue;
		if (bytes[0] == 0x9b) /* objdump shows fwait and what it waits for as one */
			continue;
		instructions++;
		if (!x86_decode(bytes, sizeof(bytes), address, &instruction) ||
		    instruction.length != length)
			fail_msg("length %d, not %zu: %s", instruction.length, length, line);
		assert_false(x86_decode(bytes, length - 1, address, &instruction));
		if (!x86_decoder_read(decoder, bytes, length, address, &instruction) ||
		    instruction.length != length)
			fail_msg("remembered length %d, not %zu: %s", instruction.length, length,
				 line);
		assert_false(x86_decoder_read(decoder, bytes, length - 1, address, &instruction));
	}
	pclose(pipe);
	return instructions;
}

static void lengths_are_objdumps(void **state)
{
	struct x86_decoder *const decoder = x86_decoder_new();
	(void)state;
	const bool has_objdump = check_lengths(decoder, "/proc/self/exe");
	check_lengths(decoder, "/lib/x86_64-linux-gnu/libc.so.6");
	check_lengths(decoder, "/lib/x86_64-linux-gnu/libm.so.6"); /* vector code of all kinds */
	x86_decoder_free(decoder);
	if (!has_objdump)
		skip();
}

/* ---- against all operands ----------------------------------------------------------------- */

struct oracle {
	struct x86_decoder *remembering;
	ZydisDecoder decoder;
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

/* One bit a general register, in Zydis's own words. */
static unsigned bit_of(ZydisRegister name)
{
	const ZydisRegister whole =
		ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
	return whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15
		       ? 0
		       : 1u << (whole - ZYDIS_REGISTER_RAX);
}

static bool is_compare(ZydisMnemonic mnemonic)
{
	const char *const name = ZydisMnemonicGetString(mnemonic);
	return strcmp(name, "cmp") == 0 || strcmp(name, "test") == 0 || strstr(name, "comis");
}

/* Where the decoder does not look at operands, there is nothing in them. */
static void check_operands(struct oracle *oracle, const uint8_t *bytes,
			   const struct x86_instruction *instruction)
{
	unsigned written = 0, compared = 0;
	bool has_memory = false, stores = false;
	int64_t displacement = instruction->memory.displacement;
	for (int i = 0; i < oracle->head.operand_count; i++) {
		const ZydisDecodedOperand *const operand = &oracle->operands[i];
		const bool writes = operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
		const bool is_memory = operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
				       operand->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
				       operand->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN;
		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && writes)
			written |= bit_of(operand->reg.value);
		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    operand->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN)
			compared |= bit_of(operand->reg.value);
		if (is_memory && !has_memory)
			displacement = operand->mem.disp.value;
		has_memory |= is_memory;
		stores |= is_memory && writes;
	}
	const bool is_nop = oracle->head.mnemonic == ZYDIS_MNEMONIC_NOP;
	const bool is_placed = instruction->has_memory && instruction->memory.base != X86_RIP;
	if ((instruction->flow != X86_CALL && written & ~instruction->written) ||
	    (is_compare(oracle->head.mnemonic) && compared & ~instruction->compared) ||
	    (has_memory && !instruction->has_memory && !is_nop) ||
	    (stores && !instruction->stored) ||
	    (is_placed && instruction->memory.displacement != displacement))
		fail_msg("%02x %02x %02x %02x %02x %02x ... (%s): not all operands", bytes[0],
			 bytes[1], bytes[2], bytes[3], bytes[4], bytes[5],
			 ZydisMnemonicGetString(oracle->head.mnemonic));
}

static size_t check_code(struct oracle *oracle, const uint8_t *bytes, size_t size)
{
	size_t count = 0;
	for (size_t at = 0; at + X86_LENGTH <= size; count++) {
		struct x86_instruction instruction, remembered;
		const bool decoded = x86_decode(bytes + at, size - at, at, &instruction);
		assert_int_equal(decoded, x86_decoder_read(oracle->remembering, bytes + at,
							   size - at, at, &remembered));
		assert_true(!decoded || is_same(&instruction, &remembered));
		assert_int_equal(decoded, ZYAN_SUCCESS(ZydisDecoderDecodeFull(
						  &oracle->decoder, bytes + at, size - at,
						  &oracle->head, oracle->operands)));
		if (decoded)
			check_operands(oracle, bytes + at, &instruction);
		at += decoded ? instruction.length : 1;
	}
	return count;
}

static size_t check_file(const char *path)
{
	struct oracle oracle = {.remembering = x86_decoder_new()};
	size_t count = 0, segments = 0;
	GElf_Phdr segment;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	ZydisDecoderInit(&oracle.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (elf)
		elf_getphdrnum(elf, &segments);
	for (size_t i = 0; i < segments; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment) || !(segment.p_flags & PF_X))
			continue;
		uint8_t *const bytes = malloc(segment.p_filesz);
		assert_int_equal(pread(fd, bytes, segment.p_filesz, (off_t)segment.p_offset),
				 segment.p_filesz);
		count += check_code(&oracle, bytes, segment.p_filesz);
		free(bytes);
	}
	elf_end(elf);
	x86_decoder_free(oracle.remembering);
	if (fd >= 0)
		close(fd);
	return count;
}

/* OpenBLAS has the vector code of all machines; of each pattern the first file is enough. */
static void every_operand_counts(void **state)
{
	static const char *const patterns[] = {
		"/proc/self/exe",
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/x86_64-linux-gnu/libm.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so*",
		"~/.pyenv/versions/*/lib/libpython3.*.so.1.0",
		"~/.cache/pdump-tests/*/numpy.libs/libscipy_openblas*.so",
	};
	(void)state;
	elf_version(EV_CURRENT);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		glob_t found;
		if (glob(patterns[i], GLOB_TILDE, NULL, &found))
			continue;
		const size_t count = check_file(found.gl_pathv[0]);
		print_message("%s: %zu instructions\n", found.gl_pathv[0], count);
		assert_true(count > 0);
		globfree(&found);
	}
}

/* ---- anything ----------------------------------------------------------------------------- */

static void any_bytes_are_survived(void **state)
{
	struct x86_decoder *const decoder = x86_decoder_new();
	uint8_t bytes[16];
	uint32_t seed = 1;
	(void)state;
	for (int i = 0; i < 300000; i++) {
		struct x86_instruction instruction, remembered;
		for (size_t j = 0; j < sizeof(bytes); j++) {
			seed = seed * 1664525 + 1013904223;
			bytes[j] = (uint8_t)(seed >> 24);
		}
		const size_t size = seed >> 16 & 15;
		const bool decoded = x86_decode(bytes, size, 0, &instruction);
		assert_int_equal(decoded, x86_decoder_read(decoder, bytes, size, 0, &remembered));
		if (!decoded)
			continue;
		assert_true(is_same(&instruction, &remembered));
		assert_in_range(instruction.length, 1, size);
		assert_true(instruction.to <= X86_NO_REGISTER);
		assert_true(instruction.from <= X86_NO_REGISTER);
		assert_true(instruction.has_memory || !instruction.stored);
	}
	x86_decoder_free(decoder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_mean_what_the_manual_says),
		cmocka_unit_test(stubs_jump),
		cmocka_unit_test(lengths_are_objdumps),
		cmocka_unit_test(every_operand_counts),
		cmocka_unit_test(any_bytes_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
