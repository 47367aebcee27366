/* SPDX-License-Identifier: MIT */
/*
 * From bytes to one instruction: its length, where it goes, which registers and memory it changes.
 * Zydis decodes; this file says in our words what the few instructions mean that move the stack
 * pointer, constants and saved registers. An instruction that Zydis does not know is none. What it
 * knows but this file does not interpret counts as writing all its operands.
 */
#include "x86/shape.h"

#include <string.h>

#if !__has_include(<Zydis/Zydis.h>)
#error "Zydis is missing: apt-get install libzydis-dev (or run ./bootstrap demo)"
#endif
#include <Zydis/Zydis.h>

/* Zydis counts by width; al, cl, dl, bl, ah, ch, dh, bh come before spl. */
static uint8_t number_of(ZydisRegister name)
{
	if (name >= ZYDIS_REGISTER_RAX && name <= ZYDIS_REGISTER_R15)
		return (uint8_t)(name - ZYDIS_REGISTER_RAX);
	if (name >= ZYDIS_REGISTER_EAX && name <= ZYDIS_REGISTER_R15D)
		return (uint8_t)(name - ZYDIS_REGISTER_EAX);
	if (name >= ZYDIS_REGISTER_AX && name <= ZYDIS_REGISTER_R15W)
		return (uint8_t)(name - ZYDIS_REGISTER_AX);
	if (name >= ZYDIS_REGISTER_AL && name <= ZYDIS_REGISTER_R15B)
		return (uint8_t)(name < ZYDIS_REGISTER_AH ? name - ZYDIS_REGISTER_AL
							  : name - ZYDIS_REGISTER_AH);
	return X86_NO_REGISTER;
}

struct decoded {
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool is_register(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       number_of(operand->reg.value) != X86_NO_REGISTER;
}

static bool is_whole_register(const ZydisDecodedOperand *operand)
{
	return is_register(operand) && operand->size == 64;
}

/* At an address that RSP or another register gives, or that of the instruction: all of it. */
static bool is_at_known_place(const ZydisDecodedOperandMem *memory, uint8_t address_width)
{
	return memory->segment != ZYDIS_REGISTER_FS && memory->segment != ZYDIS_REGISTER_GS &&
	       memory->type != ZYDIS_MEMOP_TYPE_VSIB && address_width == 64;
}

static bool is_number_in_memory(const struct decoded *decoded, int i, int bits)
{
	const ZydisDecodedOperand *const operand = &decoded->operands[i];
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY && operand->size == bits &&
	       is_at_known_place(&operand->mem, decoded->head.address_width);
}

static bool is_immediate(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

static uint16_t stored_by(const struct decoded *decoded, const ZydisDecodedOperand *operand)
{
	enum { REPEATED = ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE };
	if (!(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		return 0;
	/* How much xsave writes, the CPU and a register say. */
	if (!operand->size || decoded->head.attributes & REPEATED ||
	    operand->mem.type == ZYDIS_MEMOP_TYPE_VSIB ||
	    decoded->head.meta.category == ZYDIS_CATEGORY_XSAVE ||
	    decoded->head.meta.category == ZYDIS_CATEGORY_XSAVEOPT)
		return X86_STORED;
	return (uint16_t)(operand->size / 8);
}

static void take_memory(struct x86_instruction *instruction, const struct decoded *decoded,
			const ZydisDecodedOperand *operand)
{
	struct x86_memory *const memory = &instruction->memory;
	instruction->has_memory = true;
	instruction->stored = stored_by(decoded, operand);
	memory->scale = operand->mem.scale;
	if (operand->mem.base == ZYDIS_REGISTER_RIP) {
		memory->base = X86_RIP;
	} else if (is_at_known_place(&operand->mem, decoded->head.address_width)) {
		memory->base = number_of(operand->mem.base);
		memory->index = number_of(operand->mem.index);
	}
}

/* What push, pop, call and the like do at the stack pointer, the effect says. */
static bool is_own_stack(const ZydisDecodedOperand *operand)
{
	return operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
	       operand->mem.base == ZYDIS_REGISTER_RSP;
}

/* scas, cmps, ins and outs step, too: Zydis 4.0.0 says it of movs, stos and lods alone. */
static bool steps(const ZydisDecodedInstruction *head)
{
	return head->meta.category == ZYDIS_CATEGORY_STRINGOP ||
	       head->meta.category == ZYDIS_CATEGORY_IOSTRINGOP;
}

/* What is written, by what the operands say; those that are not in the text (div's RDX), too. */
static void take_operands(struct x86_instruction *instruction, const struct decoded *decoded)
{
	for (int i = 0; i < decoded->head.operand_count; i++) {
		const ZydisDecodedOperand *const operand = &decoded->operands[i];
		const bool writes = operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operand->mem.type != ZYDIS_MEMOP_TYPE_AGEN && !is_own_stack(operand) &&
		    (writes || !instruction->has_memory))
			take_memory(instruction, decoded, operand);
		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY && steps(&decoded->head))
			instruction->written |= X86_BIT(number_of(operand->mem.base));
		if (writes && is_register(operand))
			instruction->written |= X86_BIT(number_of(operand->reg.value));
	}
}

static void set(struct shape *shape, const ZydisDecodedOperand *to, enum x86_effect effect,
		uint8_t from, enum shape_value value)
{
	shape->instruction.effect = effect;
	shape->instruction.to = number_of(to->reg.value);
	shape->instruction.from = from;
	shape->value = value;
}

static void mean_store(struct shape *shape, const ZydisDecodedOperand *from, bool half)
{
	shape->instruction.effect = half ? X86_STORE_U32 : X86_STORE;
	if (is_immediate(from))
		shape->value = half ? VALUE_IMMEDIATE_U32 : VALUE_IMMEDIATE;
	else
		shape->instruction.from = number_of(from->reg.value);
}

static void mean_mov(struct shape *shape, const struct decoded *decoded)
{
	const ZydisDecodedOperand *const to = &decoded->operands[0];
	const ZydisDecodedOperand *const from = &decoded->operands[1];
	const bool half = to->size == 32;
	if (to->size != 64 && !half)
		return;
	if (is_number_in_memory(decoded, 0, to->size))
		mean_store(shape, from, half);
	if (!is_register(to))
		return;
	if (is_immediate(from))
		set(shape, to, X86_SET, X86_NO_REGISTER,
		    half ? VALUE_IMMEDIATE_U32 : VALUE_IMMEDIATE);
	else if (is_register(from))
		set(shape, to, half ? X86_COPY_U32 : X86_COPY, number_of(from->reg.value),
		    VALUE_NONE);
	else if (is_number_in_memory(decoded, 1, to->size))
		set(shape, to, half ? X86_LOAD_U32 : X86_LOAD, X86_NO_REGISTER, VALUE_NONE);
}

static void mean_lea(struct shape *shape, const struct decoded *decoded)
{
	const ZydisDecodedOperand *const to = &decoded->operands[0];
	const ZydisDecodedOperandMem *const memory = &decoded->operands[1].mem;
	if (to->size != 64 || decoded->head.address_width != 64)
		return;
	if (memory->base == ZYDIS_REGISTER_RIP)
		set(shape, to, X86_SET, X86_NO_REGISTER, VALUE_ADDRESS);
	else if (number_of(memory->base) != X86_NO_REGISTER && memory->index == ZYDIS_REGISTER_NONE)
		set(shape, to, X86_ADD, number_of(memory->base), VALUE_DISPLACEMENT);
}

/* add, sub: of a number or of a register. */
static void mean_sum(struct shape *shape, const ZydisDecodedOperand *to,
		     const ZydisDecodedOperand *by, bool subtracts)
{
	if (!is_whole_register(to))
		return;
	const uint8_t number = number_of(to->reg.value);
	if (is_immediate(by))
		set(shape, to, X86_ADD, number, subtracts ? VALUE_NEGATED : VALUE_IMMEDIATE);
	else if (is_whole_register(by))
		set(shape, to, subtracts ? X86_SUBTRACT : X86_SUM, number_of(by->reg.value),
		    VALUE_NONE);
}

/* Not 8 bytes: pushw, push %fs. */
static void mean_push(struct x86_instruction *instruction, const struct decoded *decoded)
{
	const ZydisDecodedOperand *const operand = &decoded->operands[0];
	if (decoded->head.operand_width != 64 ||
	    (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && !is_whole_register(operand)))
		return;
	instruction->effect = X86_PUSH;
	if (is_whole_register(operand))
		instruction->from = number_of(operand->reg.value);
}

static void mean_pop(struct x86_instruction *instruction, const struct decoded *decoded)
{
	const ZydisDecodedOperand *const operand = &decoded->operands[0];
	if (operand->size != 64)
		return;
	instruction->effect = X86_POP;
	if (is_whole_register(operand))
		instruction->to = number_of(operand->reg.value);
}

static void mean_xor(struct shape *shape, const ZydisDecodedOperand *to,
		     const ZydisDecodedOperand *from)
{
	if (is_register(to) && to->size >= 32 && from->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    to->reg.value == from->reg.value)
		set(shape, to, X86_SET, X86_NO_REGISTER, VALUE_NONE);
}

static void mean_compare(struct shape *shape, const struct decoded *decoded)
{
	struct x86_instruction *const instruction = &shape->instruction;
	for (int i = 0; i < decoded->head.operand_count_visible; i++) {
		const ZydisDecodedOperand *const operand = &decoded->operands[i];
		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		const uint8_t number = number_of(operand->reg.value);
		if (number != X86_NO_REGISTER)
			instruction->compared |= X86_BIT(number);
		else if (operand->reg.value >= ZYDIS_REGISTER_XMM0 &&
			 operand->reg.value <= ZYDIS_REGISTER_XMM15)
			instruction->compared |= X86_BIT(operand->reg.value - ZYDIS_REGISTER_XMM0);
	}
	if (decoded->head.mnemonic == ZYDIS_MNEMONIC_CMP && is_register(&decoded->operands[0]) &&
	    is_immediate(&decoded->operands[1])) {
		instruction->is_limit = true;
		shape->value = VALUE_IMMEDIATE;
	}
}

/* Long: one switch over all that moves data. */
static void mean_data(struct shape *shape, const struct decoded *decoded)
{
	struct x86_instruction *const instruction = &shape->instruction;
	const ZydisDecodedOperand *const first = &decoded->operands[0];
	const ZydisDecodedOperand *const second = &decoded->operands[1];
	switch (decoded->head.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		mean_mov(shape, decoded);
		break;
	case ZYDIS_MNEMONIC_MOVSXD:
		if (is_whole_register(first) && is_number_in_memory(decoded, 1, 32))
			set(shape, first, X86_LOAD_I32, X86_NO_REGISTER, VALUE_NONE);
		else if (is_register(second))
			set(shape, first, X86_NARROW, number_of(second->reg.value), VALUE_NONE);
		break;
	case ZYDIS_MNEMONIC_MOVZX:
		if (is_register(second))
			set(shape, first, X86_NARROW, number_of(second->reg.value), VALUE_NONE);
		break;
	case ZYDIS_MNEMONIC_LEA:
		mean_lea(shape, decoded);
		break;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		mean_sum(shape, first, second, decoded->head.mnemonic == ZYDIS_MNEMONIC_SUB);
		break;
	case ZYDIS_MNEMONIC_AND:
		if (is_whole_register(first) && is_immediate(second))
			set(shape, first, X86_ALIGN, X86_NO_REGISTER, VALUE_IMMEDIATE);
		break;
	case ZYDIS_MNEMONIC_XOR:
		mean_xor(shape, first, second);
		break;
	case ZYDIS_MNEMONIC_PUSH:
		mean_push(instruction, decoded);
		break;
	case ZYDIS_MNEMONIC_POP:
		mean_pop(instruction, decoded);
		break;
	case ZYDIS_MNEMONIC_PUSHFQ:
		instruction->effect = X86_PUSH;
		break;
	case ZYDIS_MNEMONIC_POPFQ:
		instruction->effect = X86_POP;
		break;
	case ZYDIS_MNEMONIC_LEAVE:
		if (decoded->head.operand_width == 64)
			instruction->effect = X86_LEAVE;
		break;
	case ZYDIS_MNEMONIC_XCHG:
		if (is_whole_register(first) && is_whole_register(second))
			set(shape, first, X86_SWAP, number_of(second->reg.value), VALUE_NONE);
		break;
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_UCOMISD:
	case ZYDIS_MNEMONIC_UCOMISS:
	case ZYDIS_MNEMONIC_COMISD:
	case ZYDIS_MNEMONIC_COMISS:
	case ZYDIS_MNEMONIC_VUCOMISD:
	case ZYDIS_MNEMONIC_VUCOMISS:
	case ZYDIS_MNEMONIC_VCOMISD:
	case ZYDIS_MNEMONIC_VCOMISS:
		mean_compare(shape, decoded);
		break;
	default:
		break;
	}
}

static uint8_t condition_of(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_JB:
		return X86_ON_BELOW;
	case ZYDIS_MNEMONIC_JBE:
		return X86_ON_NOT_ABOVE;
	case ZYDIS_MNEMONIC_JNBE:
		return X86_ON_ABOVE;
	case ZYDIS_MNEMONIC_JNB:
		return X86_ON_NOT_BELOW;
	default:
		return X86_ON_OTHER;
	}
}

static enum x86_flow flow_of(const ZydisDecodedInstruction *head)
{
	if (head->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return X86_STOP;
	switch (head->mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_INT3:
		return X86_STOP;
	case ZYDIS_MNEMONIC_XBEGIN: /* goes on, until it is aborted */
		return X86_BRANCH;
	default:
		break;
	}
	switch (head->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return X86_CALL;
	case ZYDIS_CATEGORY_COND_BR:
		return X86_BRANCH;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return head->mnemonic == ZYDIS_MNEMONIC_JMP ? X86_JUMP : X86_NEXT;
	case ZYDIS_CATEGORY_RET:
		return X86_RETURN;
	default:
		return X86_NEXT;
	}
}

/* jmp, call, jcc: all that there is to know is before the operands. */
static bool has_flow_alone(const ZydisDecodedInstruction *head, enum x86_flow flow)
{
	if (flow == X86_NEXT || !head->raw.imm[0].is_relative)
		return false;
	switch (head->mnemonic) {
	case ZYDIS_MNEMONIC_LOOP:
	case ZYDIS_MNEMONIC_LOOPE:
	case ZYDIS_MNEMONIC_LOOPNE:
	case ZYDIS_MNEMONIC_XBEGIN:
		return false; /* they write a register */
	default:
		return true;
	}
}

/* Vector instructions without a general register: half of what kernels have. */
static bool has_vectors_alone(const ZydisDecodedInstruction *head)
{
	switch (head->meta.category) {
	case ZYDIS_CATEGORY_VFMA:
	case ZYDIS_CATEGORY_IFMA:
	case ZYDIS_CATEGORY_BROADCAST:
		return head->raw.modrm.mod == 3; /* vpbroadcastd %eax, %zmm0 only reads it */
	default:
		return false;
	}
}

/* "48 81 ec imm32" is one for all numbers; 3DNow! has its opcode last. */
static uint8_t header_of(const ZydisDecodedInstruction *head)
{
	uint8_t end = head->length;
	if (head->raw.imm[0].size && head->raw.imm[0].offset < end)
		end = head->raw.imm[0].offset;
	if (head->raw.disp.size && head->raw.disp.offset < end)
		end = head->raw.disp.offset;
	return end <= SHAPE_HEADER && head->opcode_map != ZYDIS_OPCODE_MAP_0F0F ? end : 0;
}

static void start(struct shape *shape, const ZydisDecodedInstruction *head, uint8_t disp8_scale)
{
	*shape = (struct shape){
		.instruction = {.length = head->length,
				.flow = flow_of(head),
				.condition = condition_of(head->mnemonic),
				.to = X86_NO_REGISTER,
				.from = X86_NO_REGISTER,
				.is_nop = head->mnemonic == ZYDIS_MNEMONIC_NOP,
				.is_endbr = head->mnemonic == ZYDIS_MNEMONIC_ENDBR64,
				.memory = {.base = X86_NO_REGISTER, .index = X86_NO_REGISTER}},
		.header = header_of(head),
		.displacement_at = head->raw.disp.offset,
		.displacement_size = head->raw.disp.size / 8,
		.displacement_scale = head->raw.disp.size == 8 && disp8_scale ? disp8_scale : 1,
		.immediate_at = head->raw.imm[0].offset,
		.immediate_size = head->raw.imm[0].size / 8,
	};
	shape->is_relative = shape->instruction.flow != X86_NEXT && head->raw.imm[0].is_relative;
}

bool shape_read(struct shape *shape, const uint8_t *bytes, size_t size)
{
	ZydisDecoder decoder;
	ZydisDecoderContext context;
	struct decoded decoded;
	if (ZYAN_FAILED(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    ZYAN_FAILED(
		    ZydisDecoderDecodeInstruction(&decoder, &context, bytes, size, &decoded.head)))
		return false;
	start(shape, &decoded.head, context.cd8_scale);
	struct x86_instruction *const instruction = &shape->instruction;
	if (instruction->is_nop || has_flow_alone(&decoded.head, instruction->flow) ||
	    has_vectors_alone(&decoded.head))
		return true;
	if (ZYAN_FAILED(ZydisDecoderDecodeOperands(&decoder, &context, &decoded.head,
						   decoded.operands, decoded.head.operand_count)))
		return false;
	take_operands(instruction, &decoded);
	if (instruction->flow == X86_CALL)
		instruction->written = 0;
	else
		mean_data(shape, &decoded);
	if (instruction->flow != X86_NEXT && decoded.head.operand_count_visible > 0 &&
	    is_whole_register(&decoded.operands[0]))
		instruction->from = number_of(decoded.operands[0].reg.value);
	return true;
}

static int64_t read_signed(const uint8_t *at, uint8_t size)
{
	int8_t i8;
	int16_t i16;
	int32_t i32;
	int64_t i64;
	switch (size) {
	case 1:
		return memcpy(&i8, at, 1), i8;
	case 2:
		return memcpy(&i16, at, 2), i16;
	case 4:
		return memcpy(&i32, at, 4), i32;
	case 8:
		return memcpy(&i64, at, 8), i64;
	default:
		return 0;
	}
}

void shape_finish(const struct shape *shape, const uint8_t *bytes, uint64_t address,
		  struct x86_instruction *instruction)
{
	const uint64_t next = address + shape->instruction.length;
	const uint64_t immediate =
		(uint64_t)read_signed(bytes + shape->immediate_at, shape->immediate_size);
	const int64_t displacement =
		read_signed(bytes + shape->displacement_at, shape->displacement_size) *
		shape->displacement_scale;
	*instruction = shape->instruction;
	if (shape->is_relative)
		instruction->target = next + immediate;
	if (instruction->has_memory)
		instruction->memory.displacement =
			instruction->memory.base == X86_RIP
				? (int64_t)(next + (uint64_t)displacement)
				: displacement;
	switch (shape->value) {
	case VALUE_NONE:
		break;
	case VALUE_IMMEDIATE:
		instruction->value = immediate;
		break;
	case VALUE_IMMEDIATE_U32:
		instruction->value = (uint32_t)immediate;
		break;
	case VALUE_NEGATED:
		instruction->value = -immediate;
		break;
	case VALUE_DISPLACEMENT:
		instruction->value = (uint64_t)displacement;
		break;
	case VALUE_ADDRESS:
		instruction->value = next + (uint64_t)displacement;
		break;
	}
}

bool x86_decode(const uint8_t *bytes, size_t size, uint64_t address,
		struct x86_instruction *instruction)
{
	struct shape shape;
	if (!shape_read(&shape, bytes, size))
		return false;
	shape_finish(&shape, bytes, address, instruction);
	return true;
}
