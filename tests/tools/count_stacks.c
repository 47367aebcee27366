/* SPDX-License-Identifier: MIT */
/*
 * count_stacks STACKS SAMPLES SHARED MIN_WIDTH: counts SAMPLES samples of STACKS distinct random
 * stacks of 18 to 42 frames of 6,000 names, always the same ones, and writes the profile as an SVG
 * into memory. In the outermost SHARED frames each function calls only three others, so that
 * stacks share them; the rest is anything. Prints the seconds for counting and for writing, the
 * peak of the memory in MB, the SVG's bytes, the nodes of the call tree, and by how many KB the
 * memory grew over the last half of the samples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "output/output.h"

enum { NAMES = 6000, LEAST = 18, MOST = 42, CALLEES = 3 };

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void add_names(struct profile *profile)
{
	for (int i = 0; i < NAMES; i++) {
		char name[64];
		snprintf(name, sizeof(name), "Package%d.function_%d", i % 97, i);
		struct frame frame = {
			.kind = i % FRAME_THREAD,
			.name = intern_text(profile->strings, name),
			.file = intern_text(profile->strings, "/home/me/project/program.py"),
			.short_file = intern_text(profile->strings, "project/program.py"),
			.line = i + 1,
		};
		(void)profile_frame(profile, &frame);
	}
}

/* Stack `number` is the same at each call. */
static size_t make_stack(uint64_t number, size_t shared, uint32_t frames[MOST])
{
	uint64_t state = number, caller = 0;
	size_t count = LEAST + next_random(&state) % (MOST - LEAST + 1);
	for (size_t i = 0; i < count; i++) {
		uint64_t choice = next_random(&state);
		if (i < shared) {
			caller = caller * CALLEES + choice % CALLEES + 1;
			uint64_t callee = caller;
			choice = next_random(&callee);
		}
		frames[i] = (uint32_t)(choice % NAMES);
	}
	return count;
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long peak_kb(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* How much the memory grew in the last half. */
static long count_all(struct profile *profile, uint64_t stacks, uint64_t samples, size_t shared)
{
	long half_kb = 0;
	uint32_t frames[MOST];
	for (uint64_t i = 0; i < samples; i++) {
		if (i == samples / 2)
			half_kb = peak_kb();
		profile_add(profile, frames, make_stack(i % stacks, shared, frames), 1);
	}
	return peak_kb() - half_kb;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fputs("usage: count_stacks STACKS SAMPLES SHARED MIN_WIDTH\n", stderr);
		return 2;
	}
	const uint64_t stacks = strtoull(argv[1], NULL, 10), samples = strtoull(argv[2], NULL, 10);
	struct interner *strings = interner_new();
	struct profile profile;
	profile_init(&profile, strings);
	profile.counts.samples = samples;
	add_names(&profile);

	const double begin = now();
	long grown = count_all(&profile, stacks ? stacks : 1, samples, strtoul(argv[3], NULL, 10));
	const double counted = now();
	struct view_options options = {.lines = true, .min_width = strtod(argv[4], NULL)};
	struct strbuf out;
	struct error error;
	strbuf_init(&out);
	if (!output_profile(&profile, OUTPUT_SVG, &options, &out, &error)) {
		fprintf(stderr, "count_stacks: %s\n", error.message);
		return 1;
	}
	printf("%.2f %.2f %ld %zu %zu %ld\n", counted - begin, now() - counted, peak_kb() >> 10,
	       out.size, profile.node_count, grown);
	strbuf_release(&out);
	profile_release(&profile);
	interner_free(strings);
	return 0;
}
