/* SPDX-License-Identifier: MIT */
/*
 * An interpreter without symbols, found by its memory: the list's start among other words that
 * point to the same interpreter; and an image that is full of such words, of which no more than a
 * number are followed, however many there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "python/internal.h"
#include "python/locate.h"

enum {
	SIZE = 1 << 20,
	TEXT = 0x10001,	 /* behind a NUL */
	WORDS = 0x11000, /* the segment's end */
	WORDS_END = 0x60000,
	INTERPRETER = 0x80000,
	OTHER = 0x90000, /* one that nothing but words leads to */
	STATE = 0xa0000,
	OTHER_STATE = 0xc0000,
	STATES = 5,
	STATE_SIZE = 0x1000,
};

struct world {
	struct memory_reader reader;
	const struct python_layout *layout;
	uint8_t *bytes;
	size_t states_read; /* whole thread states: a word was followed */
};

static bool read_world(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	struct world *world = (struct world *)(uintptr_t)reader;
	if (address > SIZE || size > SIZE - address)
		return error_set(error, ERROR_GONE, "not mapped");
	world->states_read += address >= STATE && size == world->layout->tstate_size;
	memcpy(buffer, world->bytes + address, size);
	return true;
}

static void put(struct world *world, remote_addr address, uint64_t value)
{
	memcpy(world->bytes + address, &value, sizeof(value));
}

static void make_interpreter(struct world *world, remote_addr interpreter, remote_addr first)
{
	const struct python_layout *layout = world->layout;
	put(world, interpreter + layout->interp_threads_head, first);
	for (unsigned i = 0; i < STATES; i++) {
		const remote_addr state = first + i * STATE_SIZE;
		put(world, state + layout->tstate_interp, interpreter);
		put(world, state + layout->tstate_thread_id, 0x7f0000000000 + i);
		put(world, state + layout->tstate_next, i + 1 < STATES ? state + STATE_SIZE : 0);
		put(world, state + layout->tstate_next - 8, i > 0 ? state - STATE_SIZE : 0);
	}
}

static void make_world(struct world *world)
{
	*world = (struct world){.reader = {.read = read_world},
				.layout = python_layout_find(3, 11, false)};
	world->bytes = alloc_zeroed(1, SIZE);
	strcpy((char *)world->bytes + TEXT, "3.11.4 (main, Jan  1 2026, 00:00:00) [GCC 12.2.0]");
	make_interpreter(world, INTERPRETER, STATE);
	make_interpreter(world, OTHER, OTHER_STATE);
}

static bool search(struct world *world, struct python_candidate *candidate, struct error *error)
{
	struct module_segment segment = {
		.vaddr = TEXT - 1, .memory_size = WORDS_END - TEXT, .flags = PF_R | PF_W};
	struct module module = {
		.path = "/x", .name = "x", .fd = -1, .segments = &segment, .segment_count = 1};
	return python_candidate_search(candidate, &module, &world->reader, error);
}

static void the_start_of_the_list_is_found(void **state)
{
	(void)state;
	struct python_candidate candidate;
	struct error error;
	struct world world;
	make_world(&world);
	for (unsigned i = 0; i < 20; i++)
		put(&world, WORDS + i * 64, INTERPRETER);
	/* The first one made, which is the last of the list, is named behind its start. */
	put(&world, WORDS + 0x2000, INTERPRETER);
	put(&world, WORDS + 0x2008, INTERPRETER);
	if (!search(&world, &candidate, &error))
		fail_msg("%s", error.message);
	assert_true(candidate.places[SYMBOL_RUNTIME].found);
	assert_int_equal(candidate.places[SYMBOL_RUNTIME].vaddr,
			 WORDS + 0x2000 - world.layout->runtime_interpreters_head);
	free(world.bytes);
}

/* How many thread states were read for as many words, which lead to one of two by turns, or to the
 * same one. */
static size_t states_read(size_t words, bool by_turns)
{
	struct python_candidate candidate;
	struct error error;
	struct world world;
	make_world(&world);
	for (size_t i = 0; i < words; i++)
		put(&world, WORDS + i * 16, by_turns && i % 2 ? OTHER : INTERPRETER);
	assert_false(search(&world, &candidate, &error));
	assert_int_equal(error.kind, ERROR_TORN);
	free(world.bytes);
	return world.states_read;
}

static void no_more_than_a_number_of_words_is_followed(void **state)
{
	(void)state;
	const size_t few = 100, many = 1000, most = (WORDS_END - WORDS) / 16 - 1;
	assert_int_equal(states_read(few, true), few * STATES);
	assert_true(states_read(many, true) < many * STATES);
	assert_int_equal(states_read(most, true), states_read(many, true));
	assert_int_equal(states_read(most, false), STATES);
}

/* A file of code with a text at an offset. */
static bool has_jit(const char *text, off_t offset)
{
	const uint64_t size = 600 << 10;
	struct module_segment segment = {.file_size = size, .memory_size = size, .flags = PF_R};
	struct module module = {.path = "/x", .name = "x", .segments = &segment, .segment_count = 1};
	const struct python_runtime runtime = {.module = &module};
	module.fd = memfd_create("code", MFD_CLOEXEC);
	assert_int_equal(ftruncate(module.fd, (off_t)size), 0);
	assert_int_equal(pwrite(module.fd, text, strlen(text), offset), strlen(text));
	const bool found = python_runtime_has_jit(&runtime);
	close(module.fd);
	return found;
}

static void a_jit_is_known_by_what_it_says_when_it_fails(void **state)
{
	(void)state;
	assert_true(has_jit("JIT %s (%d)", 0));
	assert_true(has_jit("JIT %s (%d)", (256 << 10) - 5)); /* across two reads */
	assert_true(has_jit("JIT %s (%d)", (600 << 10) - 11));
	assert_false(has_jit("JIT %s (%s)", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_start_of_the_list_is_found),
		cmocka_unit_test(a_jit_is_known_by_what_it_says_when_it_fails),
		cmocka_unit_test(no_more_than_a_number_of_words_is_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
