/* SPDX-License-Identifier: MIT */
/*
 * Compares what x86/ finds out from the code of a function with what its call frame information
 * says: analysis_against_cfi [-v] [-p PCS] [-n EVERY] FILE. For each function whose information
 * begins with CFA = RSP + 8: at so many instructions, spread over it, are the CFA, and where the
 * caller's registers are, the same? Where the information contradicts the code itself, a difference
 * is explained. Prints counts; ends with 1 when another row differs.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unwind/internal.h"

struct image {
	struct memory_reader reader;
	const char *bytes;
	size_t size;
	GElf_Phdr segments[64];
	size_t segment_count;
};

static bool read_image(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct image *const image = (const struct image *)reader;
	for (size_t i = 0; i < image->segment_count; i++) {
		const GElf_Phdr *const segment = &image->segments[i];
		if (address < segment->p_vaddr || address - segment->p_vaddr > segment->p_filesz ||
		    size > segment->p_filesz - (address - segment->p_vaddr))
			continue;
		memcpy(buffer, image->bytes + segment->p_offset + (address - segment->p_vaddr),
		       size);
		return true;
	}
	return error_set(error, ERROR_ABSENT, "not in the file");
}

static const uint8_t dwarf_numbers[X86_REGISTERS] = {0, 2, 1,  3,  7,  6,  4,  5,
						     8, 9, 10, 11, 12, 13, 14, 15};

static int from_dwarf(unsigned number)
{
	for (int i = 0; i < X86_REGISTERS; i++)
		if (dwarf_numbers[i] == number)
			return i;
	return X86_NO_REGISTER;
}

static uint64_t clock_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct {
	size_t functions, decided_functions, pcs, decided, wrong_cfa, registers, lost_registers,
		wrong_registers, restored, by_returns, explained, odd;
	size_t instructions;
	uint64_t took_ns, most_ns;
} counts;

static bool verbose;
static struct x86_decoder *decoder;

/* CFA = register + offset, or = the word at register + offset. */
static bool read_cfa(Dwarf_Frame *frame, struct x86_place *place)
{
	Dwarf_Op *ops;
	size_t count;
	memset(place, 0, sizeof(*place));
	if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0)
		return false;
	place->kind = X86_PLACE_VALUE;
	if (count == 2 && ops[1].atom == DW_OP_deref)
		place->kind = X86_PLACE_MEMORY;
	else if (count == 2 && ops[1].atom == DW_OP_plus_uconst)
		place->offset = (int32_t)ops[1].number;
	else if (count != 1)
		return false;
	if (ops[0].atom == DW_OP_bregx) {
		place->base = (uint8_t)from_dwarf((unsigned)ops[0].number);
		place->offset += (int32_t)ops[0].number2;
	} else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg15) {
		place->base = (uint8_t)from_dwarf(ops[0].atom - DW_OP_breg0);
		place->offset += (int32_t)ops[0].number;
	} else {
		return false;
	}
	return place->base < X86_REGISTERS;
}

/* True for a rule that this tool understands. VALUE of its own: unchanged. */
static bool read_register(Dwarf_Frame *frame, int number, struct x86_place *place)
{
	Dwarf_Op space[3], *ops;
	size_t count;
	memset(place, 0, sizeof(*place));
	if (dwarf_frame_register(frame, dwarf_numbers[number], space, &ops, &count) != 0)
		return false;
	if (count == 0 && ops == NULL) {
		place->kind = X86_PLACE_VALUE;
		place->base = (uint8_t)number;
		return true;
	}
	if (count == 0)
		return false;
	if (count <= 2 && ops[0].atom == DW_OP_call_frame_cfa) {
		place->kind = X86_PLACE_MEMORY;
		place->base = X86_CFA;
		place->offset = count == 2 ? (int32_t)ops[1].number : 0;
		return count == 1 || ops[1].atom == DW_OP_plus_uconst;
	}
	if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg15) {
		place->kind = X86_PLACE_MEMORY;
		place->base = (uint8_t)from_dwarf(ops[0].atom - DW_OP_breg0);
		place->offset = (int32_t)ops[0].number;
		return true;
	}
	return false;
}

static void report(uint64_t start, uint64_t pc, const char *what, const struct x86_place *ours,
		   const struct x86_place *theirs)
{
	if (verbose)
		printf("%#lx+%#lx: %s: ours %d:%d%+d%+d, theirs %d:%d%+d\n", start, pc - start,
		       what, ours->kind, ours->base, ours->offset, ours->more, theirs->kind,
		       theirs->base, theirs->offset);
}

static bool same_place(const struct x86_place *a, const struct x86_place *b)
{
	return a->kind == b->kind && a->base == b->base && a->offset == b->offset &&
	       a->more == b->more;
}

static void compare_registers(uint64_t start, uint64_t pc, Dwarf_Frame *frame,
			      const struct x86_row *row)
{
	for (int i = 0; i < X86_REGISTERS; i++) {
		struct x86_place theirs;
		if (!(X86_CALLEE_SAVED & X86_BIT(i)) || !read_register(frame, i, &theirs))
			continue;
		const struct x86_place *const ours = &row->saved[i];
		counts.registers++;
		if (ours->kind == X86_PLACE_UNKNOWN) {
			counts.lost_registers++;
		} else if (!same_place(ours, &theirs)) {
			/* After a pop GCC leaves the rule as it was: both are right. */
			if (ours->kind == X86_PLACE_VALUE && ours->base == i && !ours->offset)
				counts.restored++;
			else {
				counts.wrong_registers++;
				report(start, pc, "register", ours, &theirs);
			}
		}
	}
}

/* By how much an instruction moves the stack pointer; false: that is not known of itself. */
static bool moves_by(const struct x86_instruction *instruction, int64_t *bytes)
{
	const bool writes = instruction->written & X86_BIT(X86_RSP);
	*bytes = instruction->effect == X86_PUSH  ? -8
		 : instruction->effect == X86_POP ? 8
		 : instruction->effect == X86_ADD && instruction->to == X86_RSP &&
				 instruction->from == X86_RSP
			 ? (int64_t)instruction->value
			 : 0;
	return instruction->flow == X86_NEXT && (*bytes || !writes) &&
	       !(instruction->effect == X86_POP && instruction->to == X86_RSP);
}

static bool cfa_by_rsp(Dwarf_CFI *cfi, uint64_t pc, int64_t *offset)
{
	Dwarf_Frame *frame;
	struct x86_place place;
	if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0)
		return false;
	const bool well =
		read_cfa(frame, &place) && place.kind == X86_PLACE_VALUE && place.base == X86_RSP;
	free(frame);
	*offset = place.offset;
	return well;
}

/*
 * The CFA by a register that would be the caller's own: where a stack is aligned GCC takes the pop
 * of the register that holds the CFA for that of the caller's.
 */
static bool is_the_callers(Dwarf_CFI *cfi, uint64_t pc)
{
	Dwarf_Frame *frame;
	struct x86_place cfa, saved;
	if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0)
		return false;
	const bool is = read_cfa(frame, &cfa) && cfa.kind == X86_PLACE_VALUE &&
			(X86_CALLEE_SAVED & X86_BIT(cfa.base)) &&
			read_register(frame, cfa.base, &saved) && saved.kind == X86_PLACE_VALUE;
	free(frame);
	return is;
}

/*
 * The call frame information contradicts the code itself: somewhere it does not follow a push,
 * moves where nothing does, or goes by what it has given back. mpn_mul_1 of glibc has none of its
 * pushes; LLVM's is late by an instruction where it has moved one between two pushes; the child's
 * half of clone has another stack.
 */
static bool is_wrong_itself(Dwarf_CFI *cfi, const uint8_t *bytes, uint64_t start, uint64_t size)
{
	struct x86_instruction instruction;
	for (uint64_t at = 0; at < size; at += instruction.length) {
		int64_t before, after, moved;
		if (!x86_decode(bytes + at, size - at, start + at, &instruction))
			return false;
		if (is_the_callers(cfi, start + at) ||
		    (at + instruction.length < size && moves_by(&instruction, &moved) &&
		     cfa_by_rsp(cfi, start + at, &before) &&
		     cfa_by_rsp(cfi, start + at + instruction.length, &after) &&
		     after != before - moved))
			return true;
	}
	return false;
}

static bool compare(const struct x86_function *function, const struct x86_code *code,
		    uint64_t start, uint64_t pc, Dwarf_CFI *cfi, uint64_t bias)
{
	Dwarf_Frame *frame;
	struct x86_place theirs;
	struct x86_row row;
	if (dwarf_cfi_addrframe(cfi, pc - bias, &frame) != 0)
		return true;
	if (!read_cfa(frame, &theirs)) {
		counts.odd++;
		free(frame);
		return true;
	}
	counts.pcs++;
	bool decided = x86_function_row(function, code, pc, false, X86_BIT(theirs.base), &row);
	if (decided && !same_place(&row.cfa, &theirs)) {
		counts.wrong_cfa++;
		report(start, pc, "CFA", &row.cfa, &theirs);
	}
	if (!decided) {
		/* By another register it may be known all the same. */
		decided = x86_function_row(function, code, pc, false, 0xffff, &row);
	}
	if (!decided) {
		decided = x86_epilogue_row(code, pc, X86_BIT(theirs.base), &row);
		counts.by_returns += decided;
		if (decided && !same_place(&row.cfa, &theirs)) {
			counts.wrong_cfa++;
			report(start, pc, "CFA by returns", &row.cfa, &theirs);
		}
	}
	counts.decided += decided;
	if (decided && x86_function_row(function, code, pc, false, 0xffff, &row))
		compare_registers(start, pc, frame, &row);
	free(frame);
	return decided;
}

/* Every so many instructions of the function, in order of their addresses. */
static void compare_function(const struct image *image, Dwarf_CFI *cfi,
			     const struct cfi_section *section, const struct cfi_fde *fde,
			     unsigned pcs)
{
	const uint64_t start = fde->start, end = fde->end;
	struct landings landings;
	const struct x86_code code = {.reader = &image->reader,
				      .start = start,
				      .end = end,
				      .lands = landings_find,
				      .context = &landings,
				      .decoder = decoder};
	uint8_t *const bytes = alloc_zeroed(end - start + 1, 1);
	struct x86_instruction instruction;
	size_t count = 0, i = 0;
	bool all = true;
	const size_t wrong = counts.wrong_cfa, wrong_registers = counts.wrong_registers;
	if (!read_image(&image->reader, start, bytes, end - start, NULL)) {
		free(bytes);
		return;
	}
	const uint64_t from = clock_now();
	landings_read(&landings, &image->reader, section, fde);
	struct x86_function *const function = x86_function_new(&code, start);
	const uint64_t took = clock_now() - from;
	counts.took_ns += took;
	counts.most_ns = took > counts.most_ns ? took : counts.most_ns;
	counts.instructions += x86_function_cost(function);
	for (uint64_t at = 0; at < end - start; at += instruction.length, count++)
		if (!x86_decode(bytes + at, end - start - at, start + at, &instruction))
			break;
	const size_t every = count > pcs ? count / pcs : 1;
	for (uint64_t at = 0; at < end - start; at += instruction.length, i++) {
		if (!x86_decode(bytes + at, end - start - at, start + at, &instruction))
			break;
		if (i % every == 0 && !instruction.is_nop)
			all &= compare(function, &code, start, start + at, cfi, 0);
	}
	if ((counts.wrong_cfa > wrong || counts.wrong_registers > wrong_registers) &&
	    is_wrong_itself(cfi, bytes, start, end - start)) {
		counts.explained +=
			counts.wrong_cfa - wrong + counts.wrong_registers - wrong_registers;
		counts.wrong_cfa = wrong;
		counts.wrong_registers = wrong_registers;
	}
	x86_function_free(function);
	landings_release(&landings);
	free(bytes);
	counts.functions++;
	counts.decided_functions += all;
	if (!all && verbose)
		printf("%#lx..%#lx: not all decided\n", start, end);
}

/* .eh_frame, as unwind/ has it; without bytes when there is none. */
static struct cfi_section find_frames(Elf *elf)
{
	Elf_Scn *scn = NULL;
	size_t names;
	elf_getshdrstrndx(elf, &names);
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr header;
		gelf_getshdr(scn, &header);
		const char *const name = elf_strptr(elf, names, header.sh_name);
		Elf_Data *const data = elf_getdata(scn, NULL);
		if (!name || strcmp(name, ".eh_frame") != 0 || !data || !data->d_size)
			continue;
		struct cfi_section section = {.bytes = alloc_zeroed(data->d_size / 8 + 1, 8),
					      .size = data->d_size,
					      .start = header.sh_addr};
		memcpy(section.bytes, data->d_buf, data->d_size);
		return section;
	}
	return (struct cfi_section){0};
}

static bool cfa_is_above_rsp(Dwarf_CFI *cfi, uint64_t pc)
{
	int64_t offset;
	return cfa_by_rsp(cfi, pc, &offset) && offset == 8;
}

/* CFA = RSP + 8 at its start. GCC puts a nop before a part that no call leads to, if a landing pad is
 * its first. */
static bool begins_as_function(const struct image *image, Dwarf_CFI *cfi, uint64_t start)
{
	struct x86_instruction first;
	uint8_t bytes[X86_LENGTH];
	if (!cfa_is_above_rsp(cfi, start))
		return false;
	return !read_image(&image->reader, start, bytes, sizeof(bytes), NULL) ||
	       !x86_decode(bytes, sizeof(bytes), start, &first) || !first.is_nop ||
	       cfa_is_above_rsp(cfi, start + first.length);
}

static void compare_all(struct image *image, Elf *elf, Dwarf_CFI *cfi, unsigned pcs, unsigned each)
{
	const struct cfi_section section = find_frames(elf);
	struct cfi_fde fde;
	enum cfi_kind kind;
	size_t seen = 0;
	for (size_t at = 0, next; section.bytes; at = next) {
		kind = cfi_read(&section, at, &fde, &next);
		if (kind == CFI_END)
			break;
		if (kind == CFI_FDE && seen++ % each == 0 && fde.end - fde.start <= 1 << 20 &&
		    begins_as_function(image, cfi, fde.start))
			compare_function(image, cfi, &section, &fde, pcs);
	}
	free(section.bytes);
}

static double percent(size_t part, size_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 100;
}

static void print_counts(void)
{
	printf("functions %zu decided %.2f %%\n", counts.functions,
	       percent(counts.decided_functions, counts.functions));
	printf("instructions %zu decided %.2f %% by returns %zu\n", counts.pcs,
	       percent(counts.decided, counts.pcs), counts.by_returns);
	printf("registers %zu unknown %zu restored %zu\n", counts.registers, counts.lost_registers,
	       counts.restored);
	printf("differ %zu explained %zu\n", counts.wrong_cfa + counts.wrong_registers,
	       counts.explained);
	printf("nanoseconds %.0f longest %.2f ms of %zu decoded\n",
	       (double)counts.took_ns / (double)(counts.instructions + !counts.instructions),
	       (double)counts.most_ns / 1e6, counts.instructions);
}

int main(int count, char **words)
{
	unsigned pcs = 20, each = 1;
	for (int option; (option = getopt(count, words, "vp:n:")) != -1;) {
		if (option == 'v')
			verbose = true;
		else if (option == 'p')
			pcs = (unsigned)strtoul(optarg, NULL, 0);
		else if (option == 'n')
			each = (unsigned)strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	if (optind + 1 != count || !pcs || !each) {
		fprintf(stderr, "usage: analysis_against_cfi [-v] [-p PCS] [-n EVERY] FILE\n");
		return 2;
	}
	struct image image = {.reader = {.read = read_image}};
	const int fd = open(words[optind], O_RDONLY | O_CLOEXEC);
	elf_version(EV_CURRENT);
	Elf *const elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf_CFI *const cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
	if (!cfi) {
		fprintf(stderr, "%s has no call frame information\n", words[optind]);
		return 2;
	}
	image.bytes = elf_rawfile(elf, &image.size);
	size_t segments;
	elf_getphdrnum(elf, &segments);
	for (size_t i = 0; i < segments && image.segment_count < 64; i++) {
		GElf_Phdr *const segment = &image.segments[image.segment_count];
		if (gelf_getphdr(elf, (int)i, segment) && segment->p_type == PT_LOAD)
			image.segment_count++;
	}
	decoder = x86_decoder_new();
	compare_all(&image, elf, cfi, pcs, each);
	print_counts();
	return counts.wrong_cfa || counts.wrong_registers;
}
