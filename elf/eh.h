/* SPDX-License-Identifier: MIT */
/*
 * What .eh_frame, .eh_frame_hdr and .gcc_except_table are made of: numbers, encoded pointers, CIEs
 * and the ranges of FDEs. All bytes are hostile: what is beyond the end, or not understood, sets
 * `failed`, after which every number is 0.
 * Format: Linux Standard Base, "DWARF Extensions"; DWARF 4, sections 6.4 and 7.23.
 */
#ifndef ELF_EH_H
#define ELF_EH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct eh_input {
	const uint8_t *bytes;
	size_t at, end;	  /* what is read next, and where it ends, in the bytes */
	uint64_t address; /* of the first byte: pointers are relative to their own place */
	/* Before so many bytes at `at` are looked at, as far as they are before the end. May also
	 * put others in their place, and change all of the above. NULL: all bytes are there. */
	void (*need)(struct eh_input *in, size_t size);
	void *source; /* of need() */
	bool failed;
};

/* Little-endian, of 1 to 8 bytes. */
uint64_t eh_take(struct eh_input *in, size_t size);
/* Bytes that nobody looks at; not where need() puts others in the place of those there are. */
void eh_skip(struct eh_input *in, uint64_t size);
uint64_t eh_take_leb(struct eh_input *in, bool is_signed);

static inline uint64_t eh_take_uleb(struct eh_input *in)
{
	return eh_take_leb(in, false);
}

/* By the low half of an encoding (DW_EH_PE_udata4 ...); fails for one with more. */
uint64_t eh_take_number(struct eh_input *in, uint8_t encoding);

/*
 * Absolute or relative to its own place: nothing else is in use on x86-64. 0 for DW_EH_PE_omit,
 * which has no bytes. With DW_EH_PE_indirect it is where the pointer is.
 */
uint64_t eh_take_pointer(struct eh_input *in, uint8_t encoding);

struct eh_cie {
	size_t program, program_end; /* in the input's bytes */
	uint64_t code_factor, return_register;
	int64_t data_factor;
	uint8_t fde_encoding, lsda_encoding;
	bool sized; /* its FDEs have the size of their augmentation */
	bool signal_frame;
	bool exact; /* all bytes of its augmentation are understood */
};

/* From its length on, which bounds it. False: it is no CIE of .eh_frame, or a broken one. */
bool eh_take_cie(struct eh_input in, struct eh_cie *cie);

/* The letters behind the 'z' of a CIE's augmentation, whose data is the input. */
void eh_take_letters(struct eh_input *in, const char *letters, struct eh_cie *cie);

/* The code that an FDE covers, from its address on. False: none. */
bool eh_take_range(struct eh_input *in, const struct eh_cie *cie, uint64_t *start, uint64_t *end);

#endif
