/* SPDX-License-Identifier: MIT */
/* Where functions begin, as symbols, pointers and code say: files made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>

#include "elf/elf.h"

struct bytes {
	struct memory_reader reader;
	const void *at;
	uint64_t start, size;
};

static bool read_bytes(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct bytes *const bytes = (const struct bytes *)reader;
	if (address < bytes->start || size > bytes->size ||
	    address - bytes->start > bytes->size - size)
		return error_set(error, ERROR_ABSENT, "beyond the end");
	memcpy(buffer, (const uint8_t *)bytes->at + (address - bytes->start), size);
	return true;
}

static const Elf64_Sym symbols[] = {
	{0},
	{.st_value = 0x1000, .st_size = 0x100, .st_info = STT_FUNC, .st_shndx = 1},
	{.st_value = 0x1040, .st_info = STT_NOTYPE, .st_shndx = 1}, /* a label within */
	{.st_value = 0x1000, .st_info = STT_NOTYPE, .st_shndx = 1}, /* the same place */
	{.st_value = 0x1200, .st_info = STT_NOTYPE, .st_shndx = 1},
	{.st_value = 0x1300, .st_info = STT_FUNC, .st_shndx = SHN_UNDEF},
	{.st_value = 0x1310, .st_size = 8, .st_info = STT_OBJECT, .st_shndx = 1},
	{.st_value = 0x1400, .st_info = STT_GNU_IFUNC, .st_shndx = 1},
	{.st_value = 0x1500, .st_info = STT_FUNC, .st_shndx = SHN_ABS},
};

static void add_symbols(struct elf_functions *functions)
{
	const struct bytes file = {{.read = read_bytes}, symbols, 0, sizeof(symbols)};
	elf_functions_add(functions, &file.reader, 0, sizeof(symbols));
	elf_functions_sort(functions);
}

static void check_before(const struct elf_functions *functions, uint64_t address, uint64_t start,
			 enum elf_function_kind kind)
{
	const struct elf_function *const function = elf_functions_before(functions, address);
	if (!start) {
		assert_null(function);
		return;
	}
	assert_non_null(function);
	assert_int_equal(function->start, start);
	assert_int_equal(function->kind, kind);
}

static void symbols_say_where_functions_begin(void **state)
{
	struct elf_functions functions = {0};
	(void)state;
	add_symbols(&functions);
	assert_int_equal(functions.count, 3);
	check_before(&functions, 0xfff, 0, 0);
	check_before(&functions, 0x1000, 0x1000, ELF_FUNCTION_SYMBOL);
	check_before(&functions, 0x1050, 0x1000, ELF_FUNCTION_SYMBOL);
	check_before(&functions, 0x1250, 0x1200, ELF_FUNCTION_LABEL);
	check_before(&functions, 0x9000, 0x1400, ELF_FUNCTION_SYMBOL);
	assert_int_equal(elf_functions_after(&functions, 0x1000)->start, 0x1200);
	assert_null(elf_functions_after(&functions, 0x1400));
	elf_functions_release(&functions);
}

static void pointers_lead_to_functions(void **state)
{
	static const Elf64_Rela relocations[] = {
		{.r_info = R_X86_64_RELATIVE, .r_addend = 0x1600},
		{.r_info = R_X86_64_RELATIVE, .r_addend = 0x1010}, /* within a function */
		{.r_info = R_X86_64_RELATIVE, .r_addend = 0x3000}, /* no code */
		{.r_info = R_X86_64_GLOB_DAT, .r_addend = 0x1700},
		{.r_info = R_X86_64_RELATIVE, .r_addend = -1},
	};
	const struct bytes file = {{.read = read_bytes}, relocations, 0, sizeof(relocations)};
	struct elf_functions functions = {0};
	(void)state;
	elf_functions_add_pointers(&functions, &file.reader, 0, sizeof(relocations), 0x1000, 0x2000);
	add_symbols(&functions);
	assert_int_equal(functions.count, 4);
	check_before(&functions, 0x1620, 0x1600, ELF_FUNCTION_REFERENCED);
	check_before(&functions, 0x1020, 0x1000, ELF_FUNCTION_SYMBOL);
	elf_functions_release(&functions);
}

static void code_takes_addresses_of_functions(void **state)
{
	static uint8_t code[0x30000];
	const struct bytes image = {{.read = read_bytes}, code, 0x1000, sizeof(code)};
	/* At the seam of two reads, and at the end; not what is cut off, or leads elsewhere. */
	static const uint64_t places[] = {0x1000, 0x1000 + 0xfff0, 0x1000 + 0xfffa, 0x1000 + 0x10001,
					  0x1000 + 0x30000 - 7};
	struct elf_functions functions = {0};
	(void)state;
	memset(code, 0x90, sizeof(code));
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		const int32_t distance = (int32_t)(0x8000 + 0x10 * i - (places[i] + 7));
		uint8_t *const at = code + (places[i] - 0x1000);
		memcpy(at, i & 1 ? "\x4c\x8d\x3d" : "\x48\x8d\x05", 3);
		memcpy(at + 3, &distance, sizeof(distance));
	}
	memcpy(code + 0x100, "\x48\x8d\x05\xff\xff\xff\x7f", 7); /* beyond */
	memcpy(code + 0x200, "\x48\x8d\x45\x10\x00\x00\x00", 7); /* of a frame */
	elf_functions_add_taken(&functions, &image.reader, 0x1000, 0x1000 + sizeof(code));
	elf_functions_sort(&functions);
	assert_int_equal(functions.count, sizeof(places) / sizeof(*places));
	for (size_t i = 0; i < functions.count; i++)
		assert_int_equal(functions.items[i].start, 0x8000 + 0x10 * i);
	elf_functions_release(&functions);
}

/* Starts that differ in their lowest and their highest bits, each given twice, the better second. */
static void many_are_put_in_order(void **state)
{
	enum { COUNT = 5000 };
	struct elf_functions functions = {0};
	uint64_t start = 1;
	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		start = start * UINT64_C(6364136223846793005) + 1442695040888963407;
		elf_functions_add_one(&functions,
				      &(struct elf_function){start, 0, ELF_FUNCTION_LABEL});
		elf_functions_add_one(&functions,
				      &(struct elf_function){start, 0, ELF_FUNCTION_SYMBOL});
	}
	elf_functions_sort(&functions);
	assert_int_equal(functions.count, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(functions.items[i].kind, ELF_FUNCTION_SYMBOL);
		assert_true(i == 0 || functions.items[i].start > functions.items[i - 1].start);
	}
	elf_functions_release(&functions);
}

static void what_cannot_be_read_adds_nothing(void **state)
{
	const struct bytes file = {{.read = read_bytes}, symbols, 0, sizeof(symbols)};
	struct elf_functions functions = {0};
	(void)state;
	elf_functions_add(&functions, &file.reader, 8, sizeof(symbols));
	elf_functions_add(&functions, &file.reader, 0, UINT64_MAX);
	elf_functions_add_pointers(&functions, &file.reader, UINT64_MAX - 8, 1 << 20, 0, UINT64_MAX);
	elf_functions_add_taken(&functions, &file.reader, 0x100000, 0x200000);
	elf_functions_sort(&functions);
	assert_int_equal(functions.count, 0);
	assert_null(elf_functions_before(&functions, 1));
	assert_null(elf_functions_after(&functions, 0));
	elf_functions_release(&functions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols_say_where_functions_begin),
		cmocka_unit_test(pointers_lead_to_functions),
		cmocka_unit_test(code_takes_addresses_of_functions),
		cmocka_unit_test(many_are_put_in_order),
		cmocka_unit_test(what_cannot_be_read_adds_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
