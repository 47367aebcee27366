/* SPDX-License-Identifier: MIT */
/* Encoded pointers and CIEs, as assemblers write them, and as none does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "elf/eh.h"

enum { ADDRESS = 0x1000 };

struct pointer_case {
	const char *name;
	uint8_t encoding, bytes[12];
	size_t size, used;
	uint64_t value;
	bool bad;
};

#define BYTES_OF(...) .bytes = {__VA_ARGS__}, .size = sizeof((uint8_t[]){__VA_ARGS__})

static const struct pointer_case pointers[] = {
	{"absolute", 0x00, BYTES_OF(1, 2, 3, 4, 5, 6, 7, 8), .used = 8, .value = 0x0807060504030201},
	{"two bytes", 0x02, BYTES_OF(0xfe, 0xff), .used = 2, .value = 0xfffe},
	{"two bytes, signed", 0x0a, BYTES_OF(0xfe, 0xff), .used = 2, .value = UINT64_MAX - 1},
	{"four bytes", 0x03, BYTES_OF(0xfe, 0xff, 0xff, 0xff), .used = 4, .value = 0xfffffffe},
	{"four bytes from here", 0x1b, BYTES_OF(0xf0, 0xff, 0xff, 0xff), .used = 4, .value = ADDRESS - 16},
	{"null from here", 0x1b, BYTES_OF(0, 0, 0, 0), .used = 4},
	{"indirect from here", 0x9b, BYTES_OF(1, 0, 0, 0), .used = 4, .value = ADDRESS + 1},
	{"a number of any length", 0x01, BYTES_OF(0x81, 1), .used = 2, .value = 0x81},
	{"a signed one", 0x09, BYTES_OF(0x7f), .used = 1, .value = UINT64_MAX},
	{"none", 0xff, BYTES_OF(1), .used = 0},
	{"from the text", 0x23, BYTES_OF(1, 0, 0, 0), .bad = true},
	{"aligned", 0x50, BYTES_OF(1, 0, 0, 0, 0, 0, 0, 0), .bad = true},
	{"of no kind", 0x07, BYTES_OF(1, 0, 0, 0), .bad = true},
	{"cut", 0x03, BYTES_OF(1, 0, 0), .bad = true},
	{"without end", 0x01, BYTES_OF(0x80, 0x80), .bad = true},
};

static void pointers_are_decoded(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
		const struct pointer_case *const one = &pointers[i];
		struct eh_input in = {.bytes = one->bytes, .end = one->size, .address = ADDRESS};
		const uint64_t value = eh_take_pointer(&in, one->encoding);
		if (in.failed != one->bad ||
		    (!one->bad && (value != one->value || in.at != one->used)))
			fail_msg("%s: %#lx, %zu bytes", one->name, (unsigned long)value, in.at);
	}
}

struct cie_case {
	const char *name;
	uint8_t bytes[32]; /* behind the length */
	size_t size;
	bool bad, inexact, signal_frame;
	uint8_t fde_encoding, lsda_encoding;
	size_t program;
};

#define HEAD 0, 0, 0, 0, 1
static const struct cie_case cies[] = {
	{"usual", BYTES_OF(HEAD, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8), .fde_encoding = 0x1b,
	 .lsda_encoding = 0xff, .program = 17},
	{"of C++", BYTES_OF(HEAD, 'z', 'P', 'L', 'R', 0, 1, 0x78, 16, 7, 0x9b, 1, 0, 0, 0, 0x1b, 0x1b),
	 .fde_encoding = 0x1b, .lsda_encoding = 0x1b, .program = 25},
	{"of a signal's frame", BYTES_OF(HEAD, 'z', 'R', 'S', 0, 1, 0x78, 16, 1, 0x1b), .signal_frame = true,
	 .fde_encoding = 0x1b, .lsda_encoding = 0xff, .program = 18},
	{"plain", BYTES_OF(HEAD, 0, 1, 0x78, 16, 0), .fde_encoding = 4, .lsda_encoding = 0xff, .program = 13},
	{"version 3", BYTES_OF(0, 0, 0, 0, 3, 0, 1, 0x78, 0x90, 0, 0), .fde_encoding = 4,
	 .lsda_encoding = 0xff, .program = 14},
	{"more data than letters", BYTES_OF(HEAD, 'z', 'R', 0, 1, 0x78, 16, 3, 0x1b, 0, 0), .inexact = true,
	 .fde_encoding = 0x1b, .lsda_encoding = 0xff, .program = 19},
	{"of another machine", BYTES_OF(HEAD, 'z', 'R', 'B', 0, 1, 0x78, 16, 1, 0x1b), .inexact = true,
	 .fde_encoding = 0x1b, .lsda_encoding = 0xff, .program = 18},
	{"fewer data than letters", BYTES_OF(HEAD, 'z', 'P', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0, 0), .bad = true},
	{"data beyond the end", BYTES_OF(HEAD, 'z', 'R', 0, 1, 0x78, 16, 9, 0x1b), .bad = true},
	{"addresses by pointers", BYTES_OF(HEAD, 'z', 'R', 0, 1, 0x78, 16, 1, 0x9b), .bad = true},
	{"an unknown letter", BYTES_OF(HEAD, 'z', 'Q', 0, 1, 0x78, 16, 0), .bad = true},
	{"letters without size", BYTES_OF(HEAD, 'e', 'h', 0, 1, 0x78, 16, 0), .bad = true},
	{"letters without end", BYTES_OF(HEAD, 'z', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 0), .bad = true},
	{"version 2", BYTES_OF(0, 0, 0, 0, 2, 0, 1, 0x78, 16, 0), .bad = true},
	{"an FDE", BYTES_OF(4, 0, 0, 0, 1, 0, 1, 0x78, 16, 0), .bad = true},
	{"cut", BYTES_OF(HEAD, 'z', 'R', 0, 1), .bad = true},
};

static void cies_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cies) / sizeof(*cies); i++) {
		const struct cie_case *const one = &cies[i];
		uint8_t bytes[40] = {(uint8_t)one->size};
		struct eh_cie cie = {0};
		memcpy(bytes + 4, one->bytes, one->size);
		const struct eh_input in = {.bytes = bytes, .end = 4 + one->size, .address = ADDRESS};
		if (eh_take_cie(in, &cie) == one->bad)
			fail_msg("%s", one->name);
		if (one->bad)
			continue;
		if (cie.exact == one->inexact || cie.signal_frame != one->signal_frame ||
		    cie.fde_encoding != one->fde_encoding || cie.lsda_encoding != one->lsda_encoding ||
		    cie.program != one->program || cie.program_end != in.end || cie.code_factor != 1 ||
		    cie.data_factor != -8 || cie.return_register != 16)
			fail_msg("%s: program at %zu", one->name, cie.program);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pointers_are_decoded),
		cmocka_unit_test(cies_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
