/* SPDX-License-Identifier: MIT */
/*
 * Functions that end what a named one has begun, and are in the stack in its place: it jumps to
 * them. To Python's tables "str.join" is unicode_join(), which is nothing but "jmp PyUnicode_Join";
 * parts that compilers split off are entered so, too. Others call such a function by its own name,
 * so that the name holds only where it was reached through a pointer, and only if no other function
 * to which there are pointers jumps to it.
 */
#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "stripped/internal.h"
#include "x86/x86.h"

enum { MAX_JUMPS = 1 << 20, MAX_ROUNDS = 8 };
enum { NOWHERE = -1, SEVERAL = -2 };

struct jump {
	uint32_t from, to; /* numbers of functions */
};

struct tails {
	const struct elf_image *image;
	struct x86_decoder *decoder;
	struct jump *jumps;
	size_t count, capacity;
	/* A bit for each address from `first` on, set where a function starts: nearly all that
	 * looks like an address is none. And how many start before each word of bits. */
	uint64_t *starts;
	uint32_t *before;
	uint64_t first, span;
	bool *called;  /* by its name, or may be from other modules */
	bool *pointed; /* its address is kept, or taken, somewhere */
	bool *reached; /* ... or that of one that jumps to it */
	ssize_t *from; /* the only one of those that jump to it; NOWHERE, SEVERAL */
};

enum { MAX_SPAN = 1 << 28, WORD_BITS = 64 };

static void note_starts(struct tails *tails)
{
	const struct interval_list *functions = &tails->image->functions;
	if (!functions->count)
		return;
	tails->first = functions->items[0].start;
	const uint64_t span = functions->items[functions->count - 1].start - tails->first + 1;
	if (span > MAX_SPAN)
		return;
	tails->span = span;
	const size_t words = span / WORD_BITS + 1;
	tails->starts = alloc_zeroed(words, sizeof(*tails->starts));
	tails->before = alloc_zeroed(words, sizeof(*tails->before));
	for (size_t i = functions->count; i-- > 0;) {
		const uint64_t into = functions->items[i].start - tails->first;
		tails->starts[into / WORD_BITS] |= UINT64_C(1) << into % WORD_BITS;
		tails->before[into / WORD_BITS] = (uint32_t)i;
	}
}

static bool may_start(const struct tails *tails, uint64_t address)
{
	const uint64_t into = address - tails->first;
	return !tails->starts ||
	       (into < tails->span && tails->starts[into / WORD_BITS] >> into % WORD_BITS & 1);
}

/* The number of the function that starts there; NOWHERE: none does. */
static ssize_t function_at(const struct tails *tails, uint64_t address)
{
	const struct interval_list *functions = &tails->image->functions;
	if (!may_start(tails, address))
		return NOWHERE;
	if (tails->starts) {
		const uint64_t into = address - tails->first;
		const uint64_t inner = (UINT64_C(1) << into % WORD_BITS) - 1;
		return (ssize_t)(tails->before[into / WORD_BITS] +
				 (uint32_t)__builtin_popcountll(tails->starts[into / WORD_BITS] &
								inner));
	}
	const ssize_t at = interval_find(functions, address, functions->count);

	return at >= 0 && functions->items[at].start == address ? at : NOWHERE;
}

static void mark(const struct tails *tails, bool *marks, uint64_t address)
{
	const ssize_t function = function_at(tails, address);

	if (function >= 0)
		marks[function] = true;
}

static void note_jump(struct tails *tails, size_t from, uint64_t target)
{
	const struct interval *range = &tails->image->functions.items[from];

	if ((target >= range->start && target < range->end) || tails->count >= MAX_JUMPS)
		return;
	const ssize_t to =
		function_at(tails, image_through_stub(tails->image, tails->decoder, target));
	if (to < 0)
		return;
	tails->jumps =
		alloc_room(tails->jumps, &tails->capacity, tails->count + 1, sizeof(*tails->jumps));
	tails->jumps[tails->count++] = (struct jump){(uint32_t)from, (uint32_t)to};
}

static int32_t number_at(const uint8_t *bytes)
{
	int32_t number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}

/* Of an instruction with one byte of opcode and an operand in memory, up to the end of that:
 * "c7 43 38" has 3 bytes (Intel SDM, volume 2, 2.1.3). */
static size_t operand_size(uint8_t form, uint8_t sib)
{
	const unsigned mode = form >> 6, base = form & 7;
	const bool has_sib = mode != 3 && base == 4;
	const bool wide = mode == 2 || (mode == 0 && (base == 5 || (has_sib && (sib & 7) == 5)));

	return 2u + has_sib + (wide ? 4 : mode == 1);
}

/*
 * Whatever looks like a jump or like an address that is taken, at every byte: decoding megabytes
 * takes too long. What is no instruction can only cost a name.
 */
static void note_byte(struct tails *tails, size_t from, uint64_t address, const uint8_t *bytes)
{
	const uint8_t first = bytes[0], second = bytes[1];

	if (first == 0xeb || (first & 0xf0) == 0x70) /* jmp, jcc rel8 */
		note_jump(tails, from, address + 2 + (uint64_t)(int64_t)(int8_t)second);
	else if (first == 0xe8) /* call rel32 */
		mark(tails, tails->called,
		     image_through_stub(tails->image, tails->decoder,
					address + 5 + (uint64_t)(int64_t)number_at(bytes + 1)));
	else if (first == 0xe9) /* jmp rel32 */
		note_jump(tails, from, address + 5 + (uint64_t)(int64_t)number_at(bytes + 1));
	else if (first == 0x0f && (second & 0xf0) == 0x80) /* jcc rel32 */
		note_jump(tails, from, address + 6 + (uint64_t)(int64_t)number_at(bytes + 2));
	else if (first == 0x8d && (second & 0xc7) == 0x05) /* lea rel32(%rip), register */
		mark(tails, tails->pointed, address + 6 + (uint64_t)(int64_t)number_at(bytes + 2));
	else if ((first & 0xf8) == 0xb8) /* mov $imm32, register */
		mark(tails, tails->pointed, (uint32_t)number_at(bytes + 1));
	else if (first == 0xc7 && !(second & 0x38)) /* the same into memory, or with a sign */
		mark(tails, tails->pointed,
		     (uint32_t)number_at(bytes + operand_size(second, bytes[2])));
}

/* ---- sixteen bytes at once: what is certainly nothing of that is most of the code ---- */

enum { BLOCK = 16, LONGEST = 11, SHORT_REACH = 130 };

static __m128i masked_is(__m128i bytes, int bits, int value)
{
	return _mm_cmpeq_epi8(_mm_and_si128(bytes, _mm_set1_epi8((char)bits)),
			      _mm_set1_epi8((char)value));
}

/* A bit for each byte at which note_byte() may know something. `edge`: short jumps may leave the
 * function. */
static unsigned look_at_block(const uint8_t *bytes, bool edge)
{
	const __m128i first = _mm_loadu_si128((const __m128i *)(const void *)bytes);
	const __m128i second = _mm_loadu_si128((const __m128i *)(const void *)(bytes + 1));
	__m128i found = masked_is(first, 0xfe, 0xe8); /* call, jmp rel32 */
	found = _mm_or_si128(
		found, _mm_and_si128(masked_is(first, 0xff, 0x0f), masked_is(second, 0xf0, 0x80)));
	found = _mm_or_si128(
		found, _mm_and_si128(masked_is(first, 0xff, 0x8d), masked_is(second, 0xc7, 0x05)));
	found = _mm_or_si128(found, masked_is(first, 0xf8, 0xb8));
	found = _mm_or_si128(
		found, _mm_and_si128(masked_is(first, 0xff, 0xc7), masked_is(second, 0x38, 0x00)));
	if (edge)
		found = _mm_or_si128(found, _mm_or_si128(masked_is(first, 0xf0, 0x70),
							 masked_is(first, 0xff, 0xeb)));
	return (unsigned)_mm_movemask_epi8(found);
}

/* Returns how many bytes were looked at. */
static size_t read_blocks(struct tails *tails, size_t from, uint64_t start, const uint8_t *bytes,
			  size_t size)
{
	size_t at = 0;

	for (; at + BLOCK + LONGEST <= size; at += BLOCK) {
		const bool edge = at < SHORT_REACH || size - at < SHORT_REACH + BLOCK;
		unsigned found = look_at_block(bytes + at, edge);
		for (; found; found &= found - 1) {
			const size_t place = at + (unsigned)__builtin_ctz(found);
			note_byte(tails, from, start + place, bytes + place);
		}
	}
	return at;
}

static void read_code(struct tails *tails)
{
	const struct interval_list *functions = &tails->image->functions;

	for (size_t i = 0; i < functions->count; i++) {
		const struct interval *range = &functions->items[i];
		uint8_t last[2 * LONGEST] = {0};
		size_t size;
		const uint8_t *bytes = image_bytes(tails->image, range->start, &size);
		if (!bytes)
			continue;
		if (size > range->end - range->start)
			size = range->end - range->start;
		size_t at = read_blocks(tails, i, range->start, bytes, size);
		for (; at + LONGEST <= size; at++)
			note_byte(tails, i, range->start + at, bytes + at);
		memcpy(last, bytes + at, size - at);
		for (size_t rest = 0; at + rest < size; rest++)
			note_byte(tails, i, range->start + at + rest, last + rest);
	}
}

/* Dynamic symbols have addresses, too, which are no pointers: other modules may call those. */
static void read_segment(struct tails *tails, const struct image_segment *segment)
{
	const struct elf_image *image = tails->image;

	for (uint64_t at = (segment->start + 7) & ~UINT64_C(7); at + 8 <= segment->end; at += 8) {
		const bool symbol = at >= image->symbols && at < image->strings;
		const uint64_t word = image_word_of(segment, at);
		if (may_start(tails, word) && (symbol || image_pointer(image, at) == word))
			mark(tails, symbol ? tails->called : tails->pointed, word);
	}
}

static void read_data(struct tails *tails)
{
	const struct elf_image *image = tails->image;

	for (size_t i = 0; i < image->count; i++)
		if (!image->segments[i].code)
			read_segment(tails, &image->segments[i]);
}

/* Along chains of jumps. */
static void follow(struct tails *tails)
{
	bool more = true;

	memcpy(tails->reached, tails->pointed, tails->image->functions.count);
	for (int round = 0; more && round < MAX_ROUNDS; round++) {
		more = false;
		for (size_t i = 0; i < tails->count; i++) {
			const struct jump *jump = &tails->jumps[i];
			more |= tails->reached[jump->from] && !tails->reached[jump->to];
			tails->reached[jump->to] |= tails->reached[jump->from];
		}
	}
	for (size_t i = 0; i < tails->count; i++) {
		const struct jump *jump = &tails->jumps[i];
		ssize_t *from = &tails->from[jump->to];
		if (tails->reached[jump->from] && *from != (ssize_t)jump->from)
			*from = *from == NOWHERE ? (ssize_t)jump->from : SEVERAL;
	}
}

/* Whether one function really jumps to the other. */
static bool jumps_to(const struct tails *tails, size_t from, size_t to)
{
	const struct elf_image *image = tails->image;
	const struct interval *range = &image->functions.items[from];
	const uint64_t target = image->functions.items[to].start;
	uint64_t at = range->start;
	size_t size;
	const uint8_t *bytes = image_bytes(image, at, &size);
	struct x86_instruction instruction;

	if (bytes && size > range->end - at)
		size = range->end - at;
	while (bytes && size && x86_decoder_read(tails->decoder, bytes, size, at, &instruction)) {
		const bool jump = instruction.flow == X86_JUMP || instruction.flow == X86_BRANCH;
		if (jump && image_through_stub(image, tails->decoder, instruction.target) == target)
			return true;
		bytes += instruction.length;
		size -= instruction.length;
		at += instruction.length;
	}
	return false;
}

/* Those that named ones lead to, then those that these lead to. */
static void add_names(struct function_names *functions, struct tails *tails)
{
	bool more = true;

	for (int round = 0; more && round < MAX_ROUNDS; round++) {
		more = false;
		for (size_t i = 0; i < functions->count; i++) {
			const ssize_t from = tails->from[i];
			const struct function_name *name =
				from < 0 ? NULL : &functions->items[from];
			/* A pointer to PyNumber_Add, by an operator's number, is no "operator.add".
			 */
			if (!name || !name->name || name->uncertain || tails->pointed[i] ||
			    functions->items[i].name)
				continue;
			if (!jumps_to(tails, (size_t)from, i)) {
				tails->from[i] = NOWHERE;
				continue;
			}
			functions->items[i] = *name;
			functions->items[i].tail = name->tail || tails->called[i];
			more = true;
		}
	}
}

void tail_names_add(struct function_names *functions, const struct elf_image *image)
{
	const size_t count = functions->count;
	struct tails tails = {
		.image = image,
		.decoder = x86_decoder_new(),
		.called = alloc_zeroed(count + 1, sizeof(bool)),
		.pointed = alloc_zeroed(count + 1, sizeof(bool)),
		.reached = alloc_zeroed(count + 1, sizeof(bool)),
		.from = alloc_zeroed(count + 1, sizeof(ssize_t)),
	};

	for (size_t i = 0; i < count; i++)
		tails.from[i] = NOWHERE;
	note_starts(&tails);
	read_code(&tails);
	read_data(&tails);
	follow(&tails);
	add_names(functions, &tails);
	free(tails.jumps);
	free(tails.starts);
	free(tails.before);
	free(tails.called);
	free(tails.pointed);
	free(tails.reached);
	free(tails.from);
	x86_decoder_free(tails.decoder);
}
