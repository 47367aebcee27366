/* SPDX-License-Identifier: MIT */
/*
 * replay_faults FAULTS SEED FILE...: decodes files of raw samples (precord --capture) again and
 * again, each time with one read of the recorded memory, or all from one on, that fails, that fails
 * half way, or that gives something else than what was there, until so many have had such a fault.
 *
 * Each decoding must end within 2 s of CPU time. Where reads have only failed, the next decoding
 * without a fault, and the whole profile, must be as if none had: nothing that failed is
 * remembered. Nor does anything hide the interpreter from the next look for it.
 *
 * Linked with --wrap: replay/replay.c calls what stands here in place of the decoder.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "merge/merge.h"
#include "output/output.h"
#include "replay/replay.h"

enum { REMEMBERED = 3, EACH = 48, COLD = 8, PATIENCE_S = 2, SCRATCHES = 64 };

enum kind {
	FAILS,
	FAILS_HALFWAY,
	ZEROS,
	ONES,
	BIT,
	NOISE,
	OTHER,
	KINDS,
	FAILING = FAILS_HALFWAY + 1
};

static struct {
	uint64_t seed;
	bool only_failing, opening;
	/* of the decoding that is under way */
	bool armed, following;
	enum kind kind;
	uint64_t at, count;
	bool met;
	const struct memory_reader *code; /* the true one */
	bool (*read)(const struct memory_reader *, remote_addr, void *, size_t, struct error *);
	const void *(*view)(const struct memory_reader *, remote_addr, size_t);
	void *scratches[SCRATCHES];
	size_t scratch_count;
	/* all in all */
	uint64_t faults, of_kind[KINDS], samples, decodings, torn, well, remembered, opened;
	uint64_t longest_ns;
} injected;

static uint64_t chance(uint64_t below)
{
	injected.seed ^= injected.seed << 13;
	injected.seed ^= injected.seed >> 7;
	injected.seed ^= injected.seed << 17;
	return below ? injected.seed % below : 0;
}

/* Whether this read is one that goes wrong. */
static bool is_due(void)
{
	const uint64_t number = ++injected.count;
	const bool due = injected.armed &&
			 (injected.following ? number >= injected.at : number == injected.at);
	if (due) {
		injected.faults += !injected.met;
		injected.of_kind[injected.kind] += !injected.met;
		injected.met = true;
	}
	return due;
}

static void spoil(uint8_t *bytes, size_t size)
{
	switch (injected.kind) {
	case ZEROS:
	case ONES:
		memset(bytes, injected.kind == ZEROS ? 0 : 0xff, size);
		break;
	case BIT:
		if (size)
			bytes[chance(size)] ^= (uint8_t)(1u << chance(8));
		break;
	case NOISE:
		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)chance(256);
		break;
	default: /* a word of it is another one */
		for (size_t i = 0; i + 8 <= size && i < 4096; i += 8)
			if (chance(size / 8) == 0)
				memcpy(bytes + i, bytes + chance(size / 8) * 8, 8);
	}
}

static bool fails(void *buffer, size_t size, struct error *error)
{
	if (injected.kind == FAILS_HALFWAY)
		memset(buffer, 0xa5, size / 2);
	/* A process never says that there is nothing of the kind. */
	const bool absent = !injected.opening && chance(2);
	return error_set(error, absent ? ERROR_ABSENT : ERROR_GONE, "a fault");
}

static bool read_or_fault(const struct memory_reader *reader, remote_addr address, void *buffer,
			  size_t size, struct error *error)
{
	const bool due = is_due();
	if (due && injected.kind < FAILING)
		return fails(buffer, size, error);
	if (!injected.read(reader, address, buffer, size, error))
		return false;
	if (due)
		spoil(buffer, size);
	return true;
}

static const void *view_or_fault(const struct memory_reader *reader, remote_addr address,
				 size_t size)
{
	const bool due = is_due();
	const void *bytes = injected.view(reader, address, size);
	if (!due || !bytes)
		return bytes;
	if (injected.kind < FAILING || injected.scratch_count == SCRATCHES)
		return NULL;
	uint8_t *copy = alloc_zeroed(size + 1, 1);
	memcpy(copy, bytes, size);
	spoil(copy, size);
	return injected.scratches[injected.scratch_count++] = copy;
}

static bool read_code_or_fault(const struct memory_reader *reader, remote_addr address,
			       void *buffer, size_t size, struct error *error)
{
	(void)reader;
	const bool due = is_due();
	if (due && injected.kind < FAILING)
		return fails(buffer, size, error);
	if (!memory_read(injected.code, address, buffer, size, error))
		return false;
	if (due)
		spoil(buffer, size);
	return true;
}

static const struct memory_reader faulty_code = {.read = read_code_or_fault};

/* ---- a decoding ---- */

static void hang(int number)
{
	static const char text[] = "replay_faults: a decoding takes more than 2 s\n";
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	signal(number, SIG_DFL);
	abort();
}

static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void set_patience(time_t seconds)
{
	const struct itimerval timer = {.it_value.tv_sec = seconds};
	setitimer(ITIMER_PROF, &timer, NULL);
}

/* With a fault at the Nth read; 0: without. */
static void begin(struct memory_reader *reader, uint64_t at, enum kind kind)
{
	injected.armed = at > 0;
	injected.at = at;
	injected.kind = kind;
	injected.following = at && chance(4) == 0;
	injected.count = 0;
	injected.met = false;
	injected.read = reader->read;
	injected.view = reader->view;
	reader->read = read_or_fault;
	if (reader->view)
		reader->view = view_or_fault;
}

static void end(struct memory_reader *reader)
{
	reader->read = injected.read;
	reader->view = injected.view;
	injected.armed = false;
	while (injected.scratch_count)
		free(injected.scratches[--injected.scratch_count]);
}

void __real_merge_decode(struct decoder *decoder, const struct raw_sample *raw,
			 struct decoded *decoded);
void __wrap_merge_decode(struct decoder *decoder, const struct raw_sample *raw,
			 struct decoded *decoded);

static void decode(struct decoder *decoder, const struct raw_sample *raw, uint64_t at,
		   enum kind kind, struct decoded *decoded)
{
	struct memory_reader *reader = (struct memory_reader *)(uintptr_t)&raw->reader;
	const uint64_t before = cpu_ns();
	set_patience(PATIENCE_S);
	begin(reader, at, kind);
	__real_merge_decode(decoder, raw, decoded);
	end(reader);
	set_patience(0);
	const uint64_t took = cpu_ns() - before;
	injected.longest_ns = took > injected.longest_ns ? took : injected.longest_ns;
	injected.decodings++;
	if (at && injected.met) {
		injected.torn += decoded->result == DECODE_TORN;
		injected.well += decoded->result == DECODE_OK;
	}
}

static enum kind any_kind(void)
{
	return (enum kind)chance(injected.only_failing ? FAILING : KINDS);
}

struct truth {
	enum decode_result result;
	uint32_t *stack;
	size_t count;
	uint64_t leaf;
};

static struct truth keep(const struct decoded *decoded)
{
	struct truth truth = {decoded->result, NULL, 0, decoded->leaf};
	if (decoded->result != DECODE_OK)
		return truth;
	truth.count = decoded->stack_count;
	truth.stack = alloc_zeroed(truth.count + 1, sizeof(*truth.stack));
	memcpy(truth.stack, decoded->stack, truth.count * sizeof(*truth.stack));
	return truth;
}

static bool agrees(const struct truth *truth, const struct decoded *decoded)
{
	return truth->result == decoded->result &&
	       (truth->result != DECODE_OK ||
		(truth->count == decoded->stack_count && truth->leaf == decoded->leaf &&
		 memcmp(truth->stack, decoded->stack, truth->count * sizeof(*truth->stack)) == 0));
}

/* What replay.c gets is a decoding without a fault, behind those that have one. */
void __wrap_merge_decode(struct decoder *decoder, const struct raw_sample *raw,
			 struct decoded *decoded)
{
	injected.samples++;
	if (!injected.seed) {
		__real_merge_decode(decoder, raw, decoded);
		return;
	}
	/* What is known of none of it yet. */
	for (int i = 0; i < COLD; i++)
		decode(decoder, raw, 1 + chance(1 + (uint64_t)chance(400)), any_kind(), decoded);
	decode(decoder, raw, 0, FAILS, decoded);
	const uint64_t reads = injected.count;
	const struct truth truth = keep(decoded);
	for (int i = 0; reads && i < EACH; i++)
		decode(decoder, raw, 1 + chance(reads), any_kind(), decoded);
	decode(decoder, raw, 0, FAILS, decoded);
	if (injected.only_failing && !agrees(&truth, decoded))
		injected.remembered++;
	free(truth.stack);
}

struct decoder *__real_decoder_new(const struct decode_options *options,
				   const struct decoder_source *source, struct interner *strings);
struct decoder *__wrap_decoder_new(const struct decode_options *options,
				   const struct decoder_source *source, struct interner *strings);

struct decoder *__wrap_decoder_new(const struct decode_options *options,
				   const struct decoder_source *source, struct interner *strings)
{
	injected.code = source->code;
	if (injected.code)
		((struct decoder_source *)(uintptr_t)source)->code = &faulty_code;
	return __real_decoder_new(options, source, strings);
}

bool __real_decoder_open_python(struct decoder *decoder, const struct memory_reader *memory,
				struct error *error);
bool __wrap_decoder_open_python(struct decoder *decoder, const struct memory_reader *memory,
				struct error *error);

static bool open_python(struct decoder *decoder, struct memory_reader *reader, uint64_t at,
			enum kind kind, struct error *error)
{
	set_patience(PATIENCE_S);
	begin(reader, at, kind);
	injected.opening = true;
	const bool well = __real_decoder_open_python(decoder, reader, error);
	end(reader);
	set_patience(0);
	injected.opening = false;
	injected.opened++;
	return well;
}

bool __wrap_decoder_open_python(struct decoder *decoder, const struct memory_reader *memory,
				struct error *error)
{
	struct memory_reader *reader = (struct memory_reader *)(uintptr_t)memory;
	struct error ignored;
	for (int i = 0; injected.seed && i < EACH; i++)
		(void)!open_python(decoder, reader, 1 + chance(40), any_kind(), &ignored);
	return open_python(decoder, reader, 0, FAILS, error);
}

/* ---- files ---- */

/* Its profile as folded lines; empty: it cannot be decoded. */
static void replay(const char *file, struct strbuf *text)
{
	const struct session_options options = {.native = true, .native_threads = true};
	const struct view_options view = {.lines = true};
	struct interner *strings = interner_new();
	struct profile profile;
	struct error error;
	strbuf_reset(text);
	if (!replay_file(file, &options, strings, &profile, &error)) {
		fprintf(stderr, "replay_faults: %s: %s\n", file, error.message);
	} else {
		if (!output_profile(&profile, OUTPUT_FOLDED, &view, text, &error))
			fprintf(stderr, "replay_faults: %s: %s\n", file, error.message);
		profile_release(&profile);
	}
	interner_free(strings);
}

/* One round over the file. False: faults that are over have changed it, or hidden all of it. */
static bool run(const char *file, const struct strbuf *whole, bool only_failing)
{
	struct strbuf text;
	strbuf_init(&text);
	injected.only_failing = only_failing;
	replay(file, &text);
	const bool same = only_failing ? strcmp(text.text, whole->text) == 0 : text.size > 0;
	if (!same)
		fprintf(stderr, "replay_faults: %s: another profile than without faults\n", file);
	strbuf_release(&text);
	return same;
}

static void print_sum(void)
{
	static const char *const names[KINDS] = {"failed", "half way", "zeros",	     "ones",
						 "a bit",  "noise",    "other words"};
	printf("%llu faults in %llu decodings of %llu samples, %llu openings:",
	       (unsigned long long)injected.faults, (unsigned long long)injected.decodings,
	       (unsigned long long)injected.samples, (unsigned long long)injected.opened);
	for (int i = 0; i < KINDS; i++)
		printf(" %llu %s,", (unsigned long long)injected.of_kind[i], names[i]);
	printf(" %llu torn, %llu with a stack; longest %.1f ms; %llu remembered\n",
	       (unsigned long long)injected.torn, (unsigned long long)injected.well,
	       (double)injected.longest_ns / 1e6, (unsigned long long)injected.remembered);
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fputs("usage: replay_faults FAULTS SEED FILE...\n", stderr);
		return 2;
	}
	const uint64_t wanted = strtoull(argv[1], NULL, 10), seed = strtoull(argv[2], NULL, 10);
	const int files = argc - 3;
	struct strbuf *whole = alloc_zeroed((size_t)files, sizeof(*whole));
	bool well = true;
	unsigned changed = 0;
	signal(SIGPROF, hang);
	for (int i = 0; i < files; i++) {
		strbuf_init(&whole[i]);
		replay(argv[3 + i], &whole[i]);
		well &= whole[i].size > 0;
	}
	injected.samples = 0;
	injected.seed = seed ? seed : 1;
	uint64_t before = 1;
	while (well && injected.faults < wanted && before) {
		before = injected.faults;
		for (int i = 0; i < files && injected.faults < wanted; i++) {
			changed += !run(argv[3 + i], &whole[i], true);
			changed += !run(argv[3 + i], &whole[i], false);
		}
		before = injected.faults - before;
	}
	print_sum();
	for (int i = 0; i < files; i++)
		strbuf_release(&whole[i]);
	free(whole);
	if (!well || injected.faults < wanted)
		return 1;
	return injected.remembered || changed ? REMEMBERED : 0;
}
