/* SPDX-License-Identifier: MIT */
/*
 * Decodes x86-64: the length of every instruction that compilers generate, and the meaning of the
 * few that move constants, call and jump. Intel SDM volume 2, chapter 2 (formats) and appendix A
 * (opcode maps). What is not understood counts as writing all that it might.
 */
#include "symbolize/instruction.h"

#include <string.h>

enum { PREFIX_LIMIT = 14 };

/* What follows an opcode. */
enum {
	M = 1,	  /* ModRM and what that asks for */
	I1 = 2,	  /* a byte */
	I2 = 4,	  /* two bytes */
	I4 = 8,	  /* four bytes, two with the prefix 66 */
	J4 = 16,  /* four bytes whatever the prefix */
	IV = 32,  /* four bytes, eight with REX.W */
	A8 = 64,  /* an address of eight bytes */
	BAD = 128 /* not in 64-bit mode, or a prefix where none can be */
};

static const uint8_t one_byte[256] = {
	[0x00 ... 0x03] = M,   [0x04] = I1,
	[0x05] = I4,	       [0x06 ... 0x07] = BAD,
	[0x08 ... 0x0b] = M,   [0x0c] = I1,
	[0x0d] = I4,	       [0x0e ... 0x0f] = BAD,
	[0x10 ... 0x13] = M,   [0x14] = I1,
	[0x15] = I4,	       [0x16 ... 0x17] = BAD,
	[0x18 ... 0x1b] = M,   [0x1c] = I1,
	[0x1d] = I4,	       [0x1e ... 0x1f] = BAD,
	[0x20 ... 0x23] = M,   [0x24] = I1,
	[0x25] = I4,	       [0x26 ... 0x27] = BAD,
	[0x28 ... 0x2b] = M,   [0x2c] = I1,
	[0x2d] = I4,	       [0x2e ... 0x2f] = BAD,
	[0x30 ... 0x33] = M,   [0x34] = I1,
	[0x35] = I4,	       [0x36 ... 0x37] = BAD,
	[0x38 ... 0x3b] = M,   [0x3c] = I1,
	[0x3d] = I4,	       [0x3e ... 0x3f] = BAD,
	[0x40 ... 0x4f] = BAD, /* REX */
	[0x60 ... 0x62] = BAD, [0x63] = M,
	[0x64 ... 0x67] = BAD, [0x68] = I4,
	[0x69] = M | I4,       [0x6a] = I1,
	[0x6b] = M | I1,       [0x70 ... 0x7f] = I1,
	[0x80] = M | I1,       [0x81] = M | I4,
	[0x82] = BAD,	       [0x83] = M | I1,
	[0x84 ... 0x8f] = M,   [0x9a] = BAD,
	[0xa0 ... 0xa3] = A8,  [0xa8] = I1,
	[0xa9] = I4,	       [0xb0 ... 0xb7] = I1,
	[0xb8 ... 0xbf] = IV,  [0xc0 ... 0xc1] = M | I1,
	[0xc2] = I2,	       [0xc4 ... 0xc5] = BAD,
	[0xc6] = M | I1,       [0xc7] = M | I4,
	[0xc8] = I2 | I1,      [0xca] = I2,
	[0xcd] = I1,	       [0xce] = BAD,
	[0xd0 ... 0xd3] = M,   [0xd4 ... 0xd6] = BAD,
	[0xd8 ... 0xdf] = M,   [0xe0 ... 0xe7] = I1,
	[0xe8 ... 0xe9] = J4,  [0xea] = BAD,
	[0xeb] = I1,	       [0xf0] = BAD,
	[0xf2 ... 0xf3] = BAD, [0xf6 ... 0xf7] = M,
	[0xfe ... 0xff] = M,
};

/* After 0f; those that are not told here have a ModRM byte. */
static uint8_t two_byte(uint8_t opcode)
{
	if (opcode >= 0x80 && opcode <= 0x8f)
		return J4;
	if ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xa4 || opcode == 0xac ||
	    opcode == 0xba || opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6) ||
	    opcode == 0x0f)
		return M | I1;
	if ((opcode >= 0x05 && opcode <= 0x0e && opcode != 0x0d) ||
	    (opcode >= 0x30 && opcode <= 0x37) || opcode == 0x77 ||
	    (opcode >= 0xa0 && opcode <= 0xa2) || (opcode >= 0xa8 && opcode <= 0xaa) ||
	    (opcode >= 0xc8 && opcode <= 0xcf))
		return 0;
	return M;
}

struct reader {
	const uint8_t *bytes;
	size_t size, at;
	uint64_t address;
	/* what was read */
	bool operand16, rex_w, rex_r, rex_b;
	int map;     /* 0: one byte, 1: 0f, 2: 0f 38, 3: 0f 3a */
	bool vector; /* VEX or EVEX: no general register is written, save some */
	uint8_t opcode, follows, modrm, base;
	bool has_base; /* a memory operand [base + displacement] without an index */
	bool rip;
	int64_t displacement, immediate;
};

static bool take(struct reader *reader, uint8_t *byte)
{
	if (reader->at >= reader->size)
		return false;
	*byte = reader->bytes[reader->at++];
	return true;
}

static bool take_signed(struct reader *reader, size_t size, int64_t *value)
{
	uint64_t number = 0;

	if (reader->size - reader->at < size)
		return false;
	memcpy(&number, reader->bytes + reader->at, size);
	reader->at += size;
	if (size && size < 8 && number >> (8 * size - 1))
		number |= UINT64_MAX << 8 * size;
	*value = (int64_t)number;
	return true;
}

/* C5, C4 and 62: 1 to 3 bytes, the second holding the map, then the opcode. */
static bool read_vector(struct reader *reader, uint8_t first)
{
	const int payload = first == 0xc5 ? 1 : first == 0xc4 ? 2 : 3;
	uint8_t byte = 0;

	for (int i = 0; i < payload; i++) {
		if (!take(reader, &byte))
			return false;
		if (i == 0)
			reader->map = payload == 1 ? 1 : byte & (payload == 2 ? 0x1f : 7);
	}
	reader->vector = true;
	if (!take(reader, &reader->opcode) || !reader->map)
		return false;
	reader->follows = reader->map == 3			       ? M | I1
			  : reader->map == 1 && reader->opcode == 0x77 ? 0
			  : reader->map == 1 ? two_byte(reader->opcode) | M
					     : M;
	return !(reader->follows & J4);
}

static bool read_opcode(struct reader *reader)
{
	uint8_t byte = 0;

	for (int i = 0; i < PREFIX_LIMIT; i++) {
		if (!take(reader, &byte))
			return false;
		if (byte == 0x66)
			reader->operand16 = true;
		else if (byte != 0xf0 && byte != 0xf2 && byte != 0xf3 && byte != 0x2e &&
			 byte != 0x36 && byte != 0x3e && byte != 0x26 && byte != 0x64 &&
			 byte != 0x65 && byte != 0x67)
			break;
	}
	if (byte == 0xc5 || byte == 0xc4 || byte == 0x62)
		return read_vector(reader, byte);
	if ((byte & 0xf0) == 0x40) {
		reader->rex_w = byte & 8;
		reader->rex_r = byte & 4;
		reader->rex_b = byte & 1;
		if (!take(reader, &byte))
			return false;
	}
	reader->opcode = byte;
	reader->follows = one_byte[byte];
	if (byte != 0x0f)
		return !(reader->follows & BAD);
	reader->map = 1;
	if (!take(reader, &reader->opcode))
		return false;
	reader->follows = two_byte(reader->opcode);
	if (reader->opcode == 0x38 || reader->opcode == 0x3a) {
		reader->map = reader->opcode == 0x38 ? 2 : 3;
		reader->follows = reader->map == 2 ? M : M | I1;
		return take(reader, &reader->opcode);
	}
	return true;
}

/* Tables 2-2 and 2-3: ModRM, SIB and displacement. */
static bool read_operand(struct reader *reader)
{
	uint8_t sib;

	if (!take(reader, &reader->modrm))
		return false;
	const int mod = reader->modrm >> 6, rm = reader->modrm & 7;
	size_t size = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (mod == 3)
		return true;
	reader->base = (uint8_t)(rm + 8 * reader->rex_b);
	reader->has_base = true;
	if (rm == 4) {
		if (!take(reader, &sib))
			return false;
		reader->base = (uint8_t)((sib & 7) + 8 * reader->rex_b);
		reader->has_base = (sib >> 3 & 7) == 4 && !(mod == 0 && (sib & 7) == 5);
		if (mod == 0 && (sib & 7) == 5)
			size = 4;
	} else if (mod == 0 && rm == 5) {
		reader->has_base = false;
		reader->rip = true;
		size = 4;
	}
	return take_signed(reader, size, &reader->displacement);
}

static bool read_immediates(struct reader *reader)
{
	const int group = reader->modrm >> 3 & 7;
	uint8_t follows = reader->follows;
	size_t size = 0;

	/* test is the one instruction of its group that has an immediate */
	if (!reader->map && !reader->vector && group < 2)
		follows |= reader->opcode == 0xf6 ? I1 : reader->opcode == 0xf7 ? I4 : 0;
	size += follows & I1 ? 1 : 0;
	size += follows & I2 ? 2 : 0;
	size += follows & I4 ? (reader->operand16 ? 2 : 4) : 0;
	size += follows & J4 ? 4 : 0;
	size += follows & IV ? (reader->rex_w ? 8 : reader->operand16 ? 2 : 4) : 0;
	if (follows & A8 || size == 3) { /* enter; mov from an address */
		reader->at += follows & A8 ? 8 : 3;
		return reader->at <= reader->size;
	}
	return take_signed(reader, size, &reader->immediate);
}

/* ---- meaning ------------------------------------------------------------------------------ */

static uint8_t register_of(const struct reader *reader)
{
	return (uint8_t)((reader->modrm >> 3 & 7) + 8 * reader->rex_r);
}

static uint8_t operand_of(const struct reader *reader)
{
	return (uint8_t)((reader->modrm & 7) + 8 * reader->rex_b);
}

static bool is_register(const struct reader *reader)
{
	return reader->modrm >> 6 == 3;
}

static bool is_slot(const struct reader *reader)
{
	return reader->follows & M && !is_register(reader) && reader->has_base &&
	       (reader->base == REGISTER_RSP || reader->base == REGISTER_RBP);
}

static void set(struct instruction *instruction, uint8_t to, uint64_t value)
{
	instruction->operation = OPERATION_SET;
	instruction->to = to;
	instruction->value = value;
}

/* mov between registers, and to and from the stack */
static void move(struct instruction *instruction, const struct reader *reader, bool loads)
{
	if (is_register(reader)) {
		instruction->operation = OPERATION_COPY;
		instruction->to = loads ? register_of(reader) : operand_of(reader);
		instruction->from = loads ? operand_of(reader) : register_of(reader);
	} else if (loads) {
		instruction->operation = is_slot(reader) ? OPERATION_LOAD : OPERATION_OTHER;
		instruction->to = register_of(reader);
		instruction->written = (uint16_t)(1 << instruction->to);
	} else if (is_slot(reader)) {
		instruction->operation = OPERATION_STORE;
		instruction->from = register_of(reader);
	}
}

static void go(struct instruction *instruction, enum operation operation, uint64_t value)
{
	instruction->operation = operation;
	instruction->value = value;
}

enum { RAX = 1 << 0, RCX = 1 << 1, RDX = 1 << 2, RBX = 1 << 3, RSP = 1 << 4, RBP = 1 << 5 };
enum { RSI = 1 << 6, RDI = 1 << 7, STRINGS = RAX | RCX | RSI | RDI, ANY = 0xffff & ~RSP };

/* What a destination operand is written to: nothing where it is memory. */
static uint16_t operand_written(const struct reader *reader)
{
	return is_register(reader) ? (uint16_t)(1 << operand_of(reader)) : 0;
}

/* The opcodes whose ModRM byte holds a part of the opcode. */
static uint16_t written_by_group(const struct reader *reader)
{
	const uint8_t opcode = reader->opcode;
	const int group = reader->modrm >> 3 & 7;

	if (opcode <= 0x83) /* add, or, ... cmp */
		return group == 7 ? 0 : operand_written(reader);
	if (opcode == 0xf6 || opcode == 0xf7) /* test; not, neg; mul, div */
		return group < 2 ? 0 : group < 4 ? operand_written(reader) : RAX | RDX;
	if (opcode == 0xff && group == 6)
		return RSP; /* push */
	return operand_written(reader);
}

/* Registers that an instruction of the first map may write; the decoder's own ones (mov, lea ...)
 * are corrected afterwards. */
static uint16_t written_by_one_byte(const struct reader *reader)
{
	const uint8_t opcode = reader->opcode;
	const uint16_t named = (uint16_t)(1 << register_of(reader));
	const uint16_t low = (uint16_t)(1 << ((opcode & 7) + 8 * reader->rex_b));

	if (opcode < 0x40) {
		if ((opcode >= 0x38 && opcode <= 0x3d) || (opcode & 7) > 5)
			return 0;
		return (opcode & 7) < 2 ? operand_written(reader) : (opcode & 7) < 4 ? named : RAX;
	}
	switch (opcode) {
	case 0x50 ... 0x57:
	case 0x68:
	case 0x6a:
		return RSP;
	case 0x58 ... 0x5f:
		return low | RSP;
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x8a ... 0x8d:
		return named;
	case 0x80 ... 0x83:
	case 0x88 ... 0x89:
	case 0x8f:
	case 0xc0 ... 0xc1:
	case 0xc6 ... 0xc7:
	case 0xd0 ... 0xd3:
	case 0xf6 ... 0xf7:
	case 0xfe ... 0xff:
		return written_by_group(reader);
	case 0x84 ... 0x85:
	case 0x70 ... 0x7f:
	case 0xa8 ... 0xa9:
		return 0;
	case 0x86 ... 0x87:
		return named | operand_written(reader);
	case 0x90 ... 0x97:
		return low | RAX;
	case 0x98 ... 0x9f:
		return RAX | RDX;
	case 0xa4 ... 0xa7:
	case 0xaa ... 0xaf:
		return STRINGS;
	case 0xb0 ... 0xbf:
		return low;
	case 0xd8 ... 0xdf:
		return RAX; /* fnstsw */
	default:
		return ANY;
	}
}

/* ... of the second map: most have vector operands. */
static uint16_t written_by_two_byte(const struct reader *reader)
{
	const uint8_t opcode = reader->opcode;
	const uint16_t named = (uint16_t)(1 << register_of(reader));

	switch (opcode) {
	case 0x2c ... 0x2d: /* cvtsd2si */
	case 0x40 ... 0x50: /* cmov, movmskps */
	case 0xaf ... 0xaf:
	case 0xb6 ... 0xb8: /* movzx, popcnt */
	case 0xbc ... 0xbf:
	case 0xc5:
	case 0xd7:
		return named;
	case 0x7e: /* movd */
	case 0x90 ... 0x9f:
	case 0xa4 ... 0xa5:
	case 0xab ... 0xad:
	case 0xb3:
	case 0xba ... 0xbb:
		return operand_written(reader);
	case 0xb0 ... 0xb1:
	case 0xc0 ... 0xc1:
		return named | operand_written(reader) | RAX;
	case 0x10 ... 0x1f:
	case 0x28 ... 0x2b:
	case 0x2e ... 0x2f:
	case 0x51 ... 0x7d:
	case 0x7f ... 0x8f:
	case 0xa3:
	case 0xc2 ... 0xc4:
	case 0xc6:
	case 0xd0 ... 0xd6:
	case 0xd8 ... 0xff:
		return 0;
	default:
		return ANY;
	}
}

static uint16_t may_write(const struct reader *reader)
{
	const uint16_t named = (uint16_t)(1 << register_of(reader));

	if (reader->map == 1)
		return written_by_two_byte(reader);
	if (reader->map == 0 && !reader->vector)
		return written_by_one_byte(reader);
	if (reader->map == 2) /* shlx, andn ...; movbe, crc32 */
		return reader->opcode < 0xf0 ? 0 : reader->vector ? ANY : named;
	if (reader->map == 3)
		return reader->opcode >= 0xf0		 ? named
		       : (reader->opcode & 0xfc) == 0x14 ? operand_written(reader)
		       : (reader->opcode & 0xfc) == 0x60 ? RCX
							 : 0;
	return ANY;
}

/* cmp and test, ucomis and comis */
static uint16_t compared_by(const struct reader *reader)
{
	const uint8_t opcode = reader->opcode;
	const int group = reader->modrm >> 3 & 7;
	const uint16_t operand = is_register(reader) ? (uint16_t)(1 << operand_of(reader)) : 0;

	if (reader->map == 1 && (opcode == 0x2e || opcode == 0x2f))
		return (uint16_t)(1 << register_of(reader)) | operand;
	if (reader->map || reader->vector)
		return 0;
	if ((opcode >= 0x38 && opcode <= 0x3b) || opcode == 0x84 || opcode == 0x85)
		return (uint16_t)(1 << register_of(reader)) | operand;
	if (opcode == 0x3c || opcode == 0x3d || opcode == 0xa8 || opcode == 0xa9)
		return 1;
	if (((opcode == 0x80 || opcode == 0x81 || opcode == 0x83) && group == 7) ||
	    ((opcode == 0xf6 || opcode == 0xf7) && group < 2))
		return operand;
	return 0;
}

static void understand_one_byte(struct instruction *instruction, const struct reader *reader)
{
	const uint64_t next = reader->address + reader->at;
	const uint8_t opcode = reader->opcode;
	const int group = reader->modrm >> 3 & 7;

	if (opcode == 0xe8)
		go(instruction, OPERATION_CALL, next + (uint64_t)reader->immediate);
	else if (opcode == 0xe9 || opcode == 0xeb)
		go(instruction, OPERATION_JUMP, next + (uint64_t)reader->immediate);
	else if (opcode >= 0x70 && opcode <= 0x7f)
		go(instruction, OPERATION_BRANCH, next + (uint64_t)reader->immediate);
	else if (opcode == 0xff && (group == 2 || group == 4))
		go(instruction, group == 2 ? OPERATION_CALL : OPERATION_JUMP, 0);
	else if (opcode == 0xc3 || opcode == 0xc2 || opcode == 0xcc || opcode == 0xf4)
		go(instruction, OPERATION_END, 0);
	else if (opcode == 0x8d && reader->rip)
		set(instruction, register_of(reader), next + (uint64_t)reader->displacement);
	else if (opcode == 0x8d)
		instruction->written = (uint16_t)(1 << register_of(reader));
	else if (opcode >= 0xb8 && opcode <= 0xbf)
		set(instruction, (uint8_t)((opcode & 7) + 8 * reader->rex_b),
		    reader->rex_w ? (uint64_t)reader->immediate : (uint32_t)reader->immediate);
	else if (opcode == 0xc7 && group == 0 && is_register(reader))
		set(instruction, operand_of(reader), (uint64_t)reader->immediate);
	else if ((opcode == 0x31 || opcode == 0x33) && is_register(reader) &&
		 register_of(reader) == operand_of(reader))
		set(instruction, operand_of(reader), 0);
	else if (opcode == 0x89 || opcode == 0x8b)
		move(instruction, reader, opcode == 0x8b);
	else if (opcode == 0xc7 && group == 0 && is_slot(reader))
		go(instruction, OPERATION_STORE, (uint64_t)reader->immediate);
}

bool instruction_read(const uint8_t *bytes, size_t size, uint64_t address,
		      struct instruction *instruction)
{
	struct reader reader = {.bytes = bytes, .size = size, .address = address};

	if (!read_opcode(&reader) || (reader.follows & M && !read_operand(&reader)) ||
	    !read_immediates(&reader) || reader.at > 15)
		return false;
	*instruction = (struct instruction){
		.length = (uint8_t)reader.at,
		.from = REGISTER_NONE,
		.written = may_write(&reader),
		.compared = compared_by(&reader),
		.touches = is_slot(&reader),
		.slot = reader.displacement + (reader.base == REGISTER_RBP ? SLOT_OF_RBP : 0),
	};
	if (!reader.map && !reader.vector)
		understand_one_byte(instruction, &reader);
	else if (reader.map == 1 && !reader.vector && (reader.opcode & 0xf0) == 0x80)
		go(instruction, OPERATION_BRANCH, address + reader.at + (uint64_t)reader.immediate);
	else if (reader.map == 1 && !reader.vector && reader.opcode == 0x0b)
		go(instruction, OPERATION_END, 0);
	return true;
}
