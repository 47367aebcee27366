/* SPDX-License-Identifier: MIT */
/* Thread names are read from a running target: dicts of any content must end the search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python/internal.h"

enum { MEMORY = 64 << 10, INTERPRETER = 0x1000 };

struct noise {
	struct memory_reader reader;
	uint8_t bytes[MEMORY];
	size_t reads;
};

static bool read_noise(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	struct noise *noise = (struct noise *)reader;
	noise->reads++;
	if (address > MEMORY || size > MEMORY - address)
		return error_set(error, ERROR_GONE, "not mapped");
	memcpy(buffer, noise->bytes + address, size);
	return true;
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* Words that are addresses, flags of types, small and huge numbers, so that searches go deep. */
static void fill(struct noise *noise, uint64_t *seed)
{
	for (size_t at = 0; at < MEMORY; at += 8) {
		const uint64_t words[] = {
			next(seed) % MEMORY & ~7ull, next(seed) % MEMORY & ~7ull,
			next(seed) % MEMORY & ~7ull, (7ull << 28) | 1 << 24 | next(seed) % 32,
			next(seed) % 64, (9 | next(seed) % 4 << 8) << 8, UINT64_MAX,
		};
		memcpy(noise->bytes + at, &words[next(seed) % 7], 8);
	}
}

static void names_in_noise_end_the_search(void **state)
{
	(void)state;
	struct noise *noise = calloc(1, sizeof(*noise));
	struct interner *interner = interner_new();
	uint64_t seed = 3;
	noise->reader.read = read_noise;
	for (int round = 0; round < 2000; round++) {
		struct python_active active = {INTERPRETER, next(&seed) % MEMORY & ~7ull};
		struct python_runtime runtime = {
			.layout = *python_layout_find(3, 10 + (unsigned)round % 4, false),
			.last_active = &active,
		};
		const struct python_thread thread = {.interpreter = INTERPRETER,
						     .thread_id = next(&seed) % 64};
		fill(noise, &seed);
		noise->reads = 0;
		(void)python_thread_name(&runtime, &noise->reader, &thread, interner);
		assert_true(noise->reads < 10u * (1 << 17));
	}
	interner_free(interner);
	free(noise);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_in_noise_end_the_search),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
