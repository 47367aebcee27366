/* SPDX-License-Identifier: MIT */
#include "elf/eh.h"

#include <dwarf.h>
#include <string.h>

#include "elf/leb128.h"

uint64_t eh_take(struct eh_input *in, size_t size)
{
	uint64_t value = 0;
	if (in->need && !in->failed)
		in->need(in, size);
	if (in->failed || in->end - in->at < size) {
		in->failed = true;
		return 0;
	}
	memcpy(&value, in->bytes + in->at, size);
	in->at += size;
	return value;
}

void eh_skip(struct eh_input *in, uint64_t size)
{
	if (in->failed || in->end - in->at < size)
		in->failed = true;
	else
		in->at += size;
}

uint64_t eh_take_leb(struct eh_input *in, bool is_signed)
{
	struct leb128 number = {0};
	enum leb128_state state;
	do {
		state = leb128_add(&number, (uint8_t)eh_take(in, 1), is_signed);
	} while (state == LEB128_MORE);
	in->failed |= state == LEB128_BAD;
	return in->failed ? 0 : number.value;
}

uint64_t eh_take_number(struct eh_input *in, uint8_t encoding)
{
	switch (encoding) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return eh_take(in, 8);
	case DW_EH_PE_udata2:
		return eh_take(in, 2);
	case DW_EH_PE_udata4:
		return eh_take(in, 4);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int16_t)eh_take(in, 2);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int32_t)eh_take(in, 4);
	case DW_EH_PE_uleb128:
		return eh_take_uleb(in);
	case DW_EH_PE_sleb128:
		return eh_take_leb(in, true);
	default:
		in->failed = true;
		return 0;
	}
}

uint64_t eh_take_pointer(struct eh_input *in, uint8_t encoding)
{
	const uint64_t here = in->address + in->at;
	if (encoding == DW_EH_PE_omit)
		return 0;
	const uint64_t value = eh_take_number(in, encoding & 0x0f);
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return value ? value + here : 0;
	default:
		in->failed = true;
		return 0;
	}
}

void eh_take_letters(struct eh_input *in, const char *letters, struct eh_cie *cie)
{
	cie->exact = true;
	for (; *letters && !in->failed; letters++) {
		switch (*letters) {
		case 'L':
			cie->lsda_encoding = eh_take(in, 1);
			break;
		case 'R':
			cie->fde_encoding = eh_take(in, 1);
			break;
		case 'P':
			eh_take_pointer(in, eh_take(in, 1));
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'B': /* of another machine */
			cie->exact = false;
			break;
		default:
			in->failed = true;
		}
	}
	cie->exact &= in->at == in->end;
	in->failed |= (cie->fde_encoding & DW_EH_PE_indirect) != 0;
}

/* "zR", "zPLR", "zRS" ... */
static void take_augmentation(struct eh_input *in, const char *letters, struct eh_cie *cie)
{
	cie->exact = true;
	if (*letters != 'z') {
		in->failed |= *letters != '\0';
		return;
	}
	cie->sized = true;
	const uint64_t size = eh_take_uleb(in);
	struct eh_input data = *in;
	eh_skip(in, size);
	data.end = in->at;
	eh_take_letters(&data, letters + 1, cie);
	in->failed |= data.failed;
}

bool eh_take_cie(struct eh_input in, struct eh_cie *cie)
{
	if (in.at > in.end)
		return false;
	const uint64_t length = eh_take(&in, 4);
	if (in.failed || length >= 0xfffffff0 || length > in.end - in.at)
		return false;
	in.end = in.at + length;
	const uint64_t id = eh_take(&in, 4);
	const uint64_t version = eh_take(&in, 1);
	char letters[8];
	size_t i = 0;
	for (char c = 1; c && !in.failed; i += c != '\0') {
		if (i == sizeof(letters))
			return false;
		letters[i] = c = eh_take(&in, 1);
	}
	if (in.failed || id != 0 || (version != 1 && version != 3))
		return false;
	*cie = (struct eh_cie){.fde_encoding = DW_EH_PE_udata8, .lsda_encoding = DW_EH_PE_omit};
	cie->code_factor = eh_take_uleb(&in);
	cie->data_factor = (int64_t)eh_take_leb(&in, true);
	cie->return_register = version == 1 ? eh_take(&in, 1) : eh_take_uleb(&in);
	take_augmentation(&in, letters, cie);
	cie->program = in.at;
	cie->program_end = in.end;
	return !in.failed;
}

bool eh_take_range(struct eh_input *in, const struct eh_cie *cie, uint64_t *start, uint64_t *end)
{
	*start = eh_take_pointer(in, cie->fde_encoding);
	*end = *start + eh_take_number(in, cie->fde_encoding & 0x0f);
	return !in->failed && *end > *start;
}
