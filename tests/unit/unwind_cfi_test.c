/* SPDX-License-Identifier: MIT */
/*
 * Call frame information that no compiler makes: programs that would crash or hang libunwind are
 * refused, and files with random damage do no harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dwarf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "unwind/internal.h"

enum { CODE = 0x100000, CODE_SIZE = 0x100, SECTION = 0x200000 };

struct program {
	const char *name;
	uint8_t cie[16], fde[24];
	uint8_t cie_size, fde_size;
	bool good;
	bool expressions;
	size_t patches;
	uint8_t column; /* 0: the return address */
};

#define BYTES(...) { __VA_ARGS__ }
#define SIZE(...) sizeof((uint8_t[]){ __VA_ARGS__ })
#define CIE(...) .cie = BYTES(__VA_ARGS__), .cie_size = SIZE(__VA_ARGS__)
#define FDE(...) .fde = BYTES(__VA_ARGS__), .fde_size = SIZE(__VA_ARGS__)
#define USUAL CIE(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1)

static const struct program programs[] = {
	{ .name = "the usual one", USUAL,
	  FDE(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2,
	      DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, 6), .good = true },
	{ .name = "no CFA rule", CIE(DW_CFA_nop), FDE(DW_CFA_offset | 6, 2) },
	{ .name = "a CFA rule after code", CIE(DW_CFA_nop),
	  FDE(DW_CFA_advance_loc | 1, DW_CFA_def_cfa, 7, 8) },
	{ .name = "a CFA rule in the FDE", CIE(DW_CFA_nop),
	  FDE(DW_CFA_def_cfa, 7, 8, DW_CFA_advance_loc | 1), .good = true },
	{ .name = "a state without CFA, restored", CIE(DW_CFA_nop),
	  FDE(DW_CFA_remember_state, DW_CFA_def_cfa, 7, 8, DW_CFA_restore_state) },
	{ .name = "CFA of a vector register", CIE(DW_CFA_def_cfa, 40, 8), FDE(DW_CFA_nop) },
	{ .name = "in a register that does not exist", USUAL, FDE(DW_CFA_register, 3, 0xff, 0x7f),
	  .good = true, .patches = 2 },
	{ .name = "SP in a register that does not exist", USUAL,
	  FDE(DW_CFA_register, 7, 0xff, 0x7f) },
	{ .name = "a vector register saved", USUAL, FDE(DW_CFA_offset | 23, 4), .good = true,
	  .patches = 1 },
	{ .name = "another return address column", USUAL, FDE(DW_CFA_nop), .column = 200 },
	{ .name = "more restored than remembered", USUAL, FDE(DW_CFA_restore_state) },
	{ .name = "an unknown instruction", USUAL, FDE(0x3b) },
	{ .name = "an operand beyond the end", USUAL, FDE(DW_CFA_advance_loc4, 1) },
	{ .name = "a number without end", USUAL,
	  FDE(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	      1) },
	{ .name = "an expression", USUAL,
	  FDE(DW_CFA_def_cfa_expression, 3, DW_OP_breg7, 8, DW_OP_deref), .good = true,
	  .expressions = true },
	{ .name = "a PLT's expression", USUAL,
	  FDE(DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15,
	      DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus),
	  .good = true, .expressions = true },
	{ .name = "an expression beyond the end", USUAL,
	  FDE(DW_CFA_def_cfa_expression, 9, DW_OP_breg7, 8) },
	{ .name = "an expression for ever", USUAL,
	  FDE(DW_CFA_def_cfa_expression, 3, DW_OP_skip, 0xfd, 0xff) },
	{ .name = "a conditional loop", USUAL,
	  FDE(DW_CFA_expression, 3, 5, DW_OP_lit1, DW_OP_lit1, DW_OP_bra, 0xfb, 0xff) },
	{ .name = "a division", USUAL,
	  FDE(DW_CFA_def_cfa_expression, 3, DW_OP_lit1, DW_OP_lit0, DW_OP_div) },
};

struct builder {
	uint8_t bytes[256];
	size_t size;
};

static void put(struct builder *out, const void *bytes, size_t size)
{
	memcpy(out->bytes + out->size, bytes, size);
	out->size += size;
}

static void put32(struct builder *out, uint32_t value)
{
	put(out, &value, sizeof(value));
}

/* A CIE "zR" with sdata4, and one FDE for [CODE, CODE + CODE_SIZE). Returns the FDE's offset. */
static size_t build(struct builder *out, const struct program *program)
{
	const uint8_t column = program->column ? program->column : 16;
	const uint8_t head[] = { 1, 'z', 'R', 0, 1, 0x78, column, 1,
				 DW_EH_PE_pcrel | DW_EH_PE_sdata4 };
	memset(out, 0, sizeof(*out));
	put32(out, 4 + sizeof(head) + program->cie_size);
	put32(out, 0);
	put(out, head, sizeof(head));
	put(out, program->cie, program->cie_size);
	const size_t fde = out->size;
	put32(out, 4 + 4 + 4 + 1 + program->fde_size);
	put32(out, out->size);
	put32(out, CODE - (SECTION + out->size));
	put32(out, CODE_SIZE);
	put(out, "", 1);
	put(out, program->fde, program->fde_size);
	return fde;
}

static void programs_are_judged(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		const struct program *const program = &programs[i];
		struct cfi_verdict verdict = {0};
		struct builder built;
		struct cfi_fde fde = {0};
		size_t next;
		const size_t at = build(&built, program);
		const struct cfi_section section = { .bytes = built.bytes, .size = built.size,
						     .start = SECTION };
		assert_int_equal(cfi_read(&section, 0, &fde, &next), CFI_OTHER);
		assert_int_equal(next, at);
		const bool good = cfi_read(&section, at, &fde, &next) == CFI_FDE &&
				  cfi_check(&section, &fde, &verdict);
		if (good != program->good)
			fail_msg("%s", program->name);
		if (!good)
			continue;
		assert_int_equal(fde.start, CODE);
		assert_int_equal(fde.end, CODE + CODE_SIZE);
		assert_int_equal(verdict.expressions, program->expressions);
		assert_int_equal(verdict.patch_count, program->patches);
	}
}

/* As glibc's __longjmp has it. */
static const struct program leaps = {
	USUAL, FDE(DW_CFA_advance_loc | 51, DW_CFA_def_cfa, 5, 0, DW_CFA_register, 7, 8, DW_CFA_register,
		   6, 9, DW_CFA_register, 16, 1, DW_CFA_offset | 3, 0, DW_CFA_offset_extended_sf, 12,
		   0x7e),
};

static bool is_moved(const struct program *program, remote_addr address, struct cfi_rules *rules)
{
	struct builder built;
	struct cfi_fde fde = {0};
	size_t next;
	const size_t at = build(&built, program);
	const struct cfi_section section = { .bytes = built.bytes, .size = built.size,
					     .start = SECTION };
	assert_int_equal(cfi_read(&section, at, &fde, &next), CFI_FDE);
	return cfi_moved_sp(&section, &fde, address, rules);
}

static void where_sp_is_in_a_register_the_rules_are_read(void **state)
{
	static const struct program others[] = {
		{ USUAL, FDE(DW_CFA_nop) },
		{ USUAL, FDE(DW_CFA_register, 7, 8, DW_CFA_undefined, 16) },
		{ USUAL, FDE(DW_CFA_register, 7, 40) },
		{ USUAL, FDE(DW_CFA_register, 40, 8) },
		{ USUAL, FDE(DW_CFA_register, 7, 8, DW_CFA_remember_state) },
		{ USUAL, FDE(DW_CFA_register, 7, 8, DW_CFA_register, 3) },
	};
	struct cfi_rules rules;
	(void)state;
	assert_false(is_moved(&leaps, CODE + 50, &rules));
	assert_true(is_moved(&leaps, CODE + 51, &rules));
	assert_int_equal(rules.cfa_register, REGISTER_RDI);
	assert_int_equal(rules.cfa_offset, 0);
	assert_int_equal(rules.where[REGISTER_RIP], CFI_IN_REGISTER);
	assert_int_equal(rules.value[REGISTER_RIP], REGISTER_RDX);
	assert_int_equal(rules.value[REGISTER_RSP], REGISTER_R8);
	assert_int_equal(rules.where[REGISTER_R12], CFI_AT_CFA);
	assert_int_equal(rules.value[REGISTER_R12], 16);
	assert_int_equal(rules.where[REGISTER_R13], CFI_SAME);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(is_moved(&others[i], CODE, &rules));
}

/* A CIE "zL" with the given encoding, so that addresses of code have 8 bytes; the FDE says where. */
static void where_exceptions_land_is_read(void **state)
{
	static const struct {
		uint8_t encoding, size, augmentation[5];
		remote_addr lsda;
	} cases[] = {
		{ DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, { 0, 0x10, 0, 0 }, SECTION + 0x2d + 0x1000 },
		{ DW_EH_PE_udata4, 4, { 0, 0x10, 0, 0 }, 0x1000 },
		{ DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, { 0 }, 0 },
		{ DW_EH_PE_omit, 0, { 0 }, 0 },
		/* What we do not follow is none; the rest of the entry is as good as ever. */
		{ DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, { 0, 0x10, 0, 0 }, 0 },
		{ DW_EH_PE_datarel | DW_EH_PE_sdata4, 4, { 0, 0x10, 0, 0 }, 0 },
		{ DW_EH_PE_udata4, 3, { 0, 0x10, 0 }, 0 },
		{ DW_EH_PE_absptr, 4, { 0, 0x10, 0, 0 }, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const uint8_t cie[] = { 1, 'z', 'L', 0, 1, 0x78, 16, 1, cases[i].encoding, DW_CFA_def_cfa,
					7, 8 };
		const uint64_t code[] = { CODE, CODE_SIZE };
		struct builder built = { .size = 0 };
		struct cfi_fde fde;
		size_t next;
		put32(&built, 4 + sizeof(cie));
		put32(&built, 0);
		put(&built, cie, sizeof(cie));
		const size_t at = built.size;
		put32(&built, 4 + 16 + 1 + cases[i].size + 1);
		put32(&built, at + 4);
		put(&built, code, sizeof(code));
		put(&built, &cases[i].size, 1);
		put(&built, cases[i].augmentation, cases[i].size);
		put(&built, "", 1);
		const struct cfi_section section = { .bytes = built.bytes, .size = built.size,
						     .start = SECTION };
		assert_int_equal(cfi_read(&section, at, &fde, &next), CFI_FDE);
		assert_int_equal(next, built.size);
		assert_int_equal(fde.start, CODE);
		assert_int_equal(fde.program_end - fde.program, 1);
		assert_int_equal(fde.lsda, cases[i].lsda);
	}
}

static bool read_arguments(const struct program *program, struct cfi_arguments *rows, size_t *count)
{
	struct builder built;
	struct cfi_fde fde = {0};
	size_t next;
	const size_t at = build(&built, program);
	const struct cfi_section section = { .bytes = built.bytes, .size = built.size,
					     .start = SECTION };
	assert_int_equal(cfi_read(&section, at, &fde, &next), CFI_FDE);
	return cfi_arguments(&section, &fde, rows, count);
}

static void arguments_on_the_stack_are_counted(void **state)
{
	static const struct program pushes = {
		USUAL, FDE(DW_CFA_advance_loc | 2, DW_CFA_def_cfa_offset, 32, DW_CFA_GNU_args_size, 16,
			   DW_CFA_remember_state, DW_CFA_advance_loc1, 5, DW_CFA_GNU_args_size, 0x80, 1,
			   DW_CFA_advance_loc2, 1, 1, DW_CFA_restore_state, DW_CFA_advance_loc4, 1, 0, 0, 0,
			   DW_CFA_GNU_args_size, 0) };
	static const struct program none = { USUAL, FDE(DW_CFA_nop) };
	static const struct program odd = { USUAL, FDE(DW_CFA_GNU_args_size, 16, 0x3b) };
	struct cfi_arguments rows[CFI_ARGUMENTS_LIMIT];
	size_t count;
	(void)state;
	assert_true(read_arguments(&none, rows, &count));
	assert_int_equal(count, 0);
	assert_false(read_arguments(&odd, rows, &count));
	assert_true(read_arguments(&pushes, rows, &count));
	assert_int_equal(count, 3);
	assert_int_equal(rows[0].start, CODE + 2);
	assert_int_equal(rows[0].bytes, 16);
	assert_int_equal(rows[1].start, CODE + 7);
	assert_int_equal(rows[1].bytes, 128);
	assert_int_equal(rows[2].start, CODE + 265);
	assert_int_equal(rows[2].bytes, 0);
}

/* Cut anywhere, it is read as far as it goes and no further (the sanitizer sees to that). */
static void a_section_may_end_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		struct builder built;
		const size_t at = build(&built, &programs[i]);
		for (size_t size = 0; size < built.size; size++) {
			_cleanup_free_ uint8_t *bytes = malloc(size ? size : 1);
			struct cfi_section section = { .bytes = bytes, .size = size, .start = SECTION };
			struct cfi_fde fde;
			size_t next;
			memcpy(bytes, built.bytes, size);
			assert_int_not_equal(cfi_read(&section, at, &fde, &next), CFI_FDE);
		}
	}
}

/* ---- a damaged file ---- */

struct noise {
	struct memory_reader reader;
	unsigned short *seed;
	remote_addr code;
	uint64_t code_size;
};

/* Stack words of any kind: addresses in the stack, in the code, or nothing at all. */
static bool read_noise(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct noise *const noise = (const struct noise *)reader;
	(void)error;
	for (size_t i = 0; i + 8 <= size; i += 8) {
		const long kind = nrand48(noise->seed) % 4;
		const uint64_t value = kind == 0 ? address + nrand48(noise->seed) % 512 * 8 :
				       kind == 1 ? (uint64_t)nrand48(noise->seed) :
				       noise->code + nrand48(noise->seed) % noise->code_size;
		memcpy((char *)buffer + i, &value, 8);
	}
	return nrand48(noise->seed) % 256 != 0;
}

static void damage(uint8_t *bytes, const struct module *module, unsigned short *seed)
{
	static const char *const names[] = { ".eh_frame", ".eh_frame_hdr", ".eh_frame" };
	for (int i = 0; i < 200; i++) {
		const struct module_section *const section = module_section(module, names[i % 3]);
		const size_t at = section->file_offset + nrand48(seed) % section->size;
		bytes[at] = i & 8 ? bytes[at] ^ 1 << nrand48(seed) % 8 : nrand48(seed);
	}
}

/* Each leads through hundreds of functions that are then decoded: all with ALL=1. */
static int threads_in_damaged(void)
{
	const char *const all = getenv("ALL");
	return all && strcmp(all, "1") == 0 ? 50 : 2;
}

static void unwind_damaged(const uint8_t *bytes, size_t size, unsigned short *seed)
{
	enum { BIAS = 0x7f0000000000 };
	const int threads = threads_in_damaged();
	struct module_table table;
	struct module *module;
	module_table_init(&table);
	if (module_table_add(&table, "damaged", -1, bytes, size, BIAS, &module, NULL)) {
		const struct mapping mapping = { .start = BIAS, .end = BIAS + (16 << 20),
						 .protection = PROT_READ | PROT_EXEC,
						 .module = module, .path = "damaged" };
		const struct module_section *const text = module_section(module, ".text");
		struct noise noise = { { read_noise, NULL }, seed, BIAS + text->vaddr, text->size };
		struct registers registers = { .known = (1u << REGISTER_COUNT) - 1 };
		struct unwind_stack stack;
		module_table_set_mappings(&table, &mapping, 1);
		unwind_stack_init(&stack);
		struct unwinder *const unwinder = unwinder_new(&table);
		for (int i = 0; i < threads; i++) {
			for (int r = 0; r < REGISTER_COUNT; r++)
				registers.value[r] = 0x7ffd00000000 + nrand48(seed) % 4096 * 8;
			registers.value[REGISTER_RIP] = noise.code + nrand48(seed) % text->size;
			const struct unwind_request request = { .registers = &registers,
								.memory = &noise.reader };
			assert_true(unwind_thread(unwinder, &request, &stack, NULL));
			assert_true(stack.count > 0);
		}
		unwind_stack_release(&stack);
		unwinder_free(unwinder);
	}
	module_table_release(&table);
}

static void a_damaged_file_does_no_harm(void **state)
{
	unsigned short seed[3] = { 7, 7, 7 };
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct module_table table;
	struct module *module;
	struct stat status;
	(void)state;
	assert_int_equal(fstat(fd, &status), 0);
	_cleanup_free_ uint8_t *whole = alloc_zeroed(status.st_size, 1);
	_cleanup_free_ uint8_t *copy = alloc_zeroed(status.st_size, 1);
	assert_int_equal(pread(fd, whole, status.st_size, 0), status.st_size);
	module_table_init(&table);
	assert_true(module_table_add(&table, "self", -1, whole, status.st_size, 0, &module, NULL));
	for (int i = 0; i < 40; i++) {
		memcpy(copy, whole, status.st_size);
		damage(copy, module, seed);
		unwind_damaged(copy, status.st_size, seed);
	}
	module_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_are_judged),
		cmocka_unit_test(where_sp_is_in_a_register_the_rules_are_read),
		cmocka_unit_test(where_exceptions_land_is_read),
		cmocka_unit_test(arguments_on_the_stack_are_counted),
		cmocka_unit_test(a_section_may_end_anywhere),
		cmocka_unit_test(a_damaged_file_does_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
