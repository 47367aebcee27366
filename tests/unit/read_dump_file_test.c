/* SPDX-License-Identifier: MIT */
/* Dumps written and read again show the same; what is no dump is an error that says where. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "output/output.h"
#include "read/dump_file.h"

static struct frame frames[] = {
	{.kind = FRAME_PYTHON,
	 .name = "fit",
	 .file = "/h/als.py",
	 .short_file = "als.py",
	 .line = 61,
	 .end_line = 62,
	 .column = 0,
	 .end_column = 12},
	{.kind = FRAME_PYTHON,
	 .name = "a\"b\\;\xc3\xa9",
	 .file = "/h/als.py",
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_PYTHON_LIBRARY, .name = "bare", .column = -1, .end_column = -1},
	{.kind = FRAME_CYTHON,
	 .name = "axpy",
	 .file = "/s/_als.pyx",
	 .short_file = "_als.pyx",
	 .line = 18,
	 .module = "_als.so",
	 .estimated = true,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_NATIVE,
	 .name = "dgemm",
	 .module = "libb.so.0",
	 .module_path = "/usr/lib/libb.so.0",
	 .offset = 0xb0010,
	 .has_function = true,
	 .function_offset = 0xb0000,
	 .build_id = "ab12",
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_NATIVE,
	 .name = "f",
	 .module = "b.so",
	 .module_path = "/b.so",
	 .file = "/s/f.c",
	 .line = 3,
	 .inlined = true,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_NATIVE,
	 .name = "f",
	 .module = "b.so",
	 .module_path = "/b.so",
	 .file = "/s/f.c",
	 .short_file = "f.c",
	 .line = 3,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_NATIVE,
	 .name = "f",
	 .module = "b.so",
	 .uncertain = true,
	 .guessed = true,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_NATIVE,
	 .module = "b.so",
	 .module_path = "/l/b.so",
	 .has_function = true,
	 .function_offset = 0x1a2b0,
	 .offset = 0x1a2ff,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_NATIVE,
	 .module = "b.so",
	 .module_path = "/l/b.so",
	 .has_function = true,
	 .guessed = true,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_GUESSED, .module = "b.so", .guessed = true, .column = -1, .end_column = -1},
	{.kind = FRAME_GUESSED, .module = "b.so", .column = -1, .end_column = -1},
	{.kind = FRAME_NATIVE,
	 .module_path = "/l/b.so",
	 .has_function = true,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_NATIVE, .column = -1, .end_column = -1},
	{.kind = FRAME_GAP, .name = "[gap]", .column = -1, .end_column = -1},
	{.kind = FRAME_KERNEL,
	 .name = "read",
	 .module = "[kernel]",
	 .column = -1,
	 .end_column = -1},
};

static struct dump_thread threads[] = {
	{.tid = 7,
	 .name = "MainThread",
	 .python_id = 140155235067584,
	 .state = 'R',
	 .known_to_python = true,
	 .holds_gil = true,
	 .frames = frames,
	 .frame_count = sizeof(frames) / sizeof(*frames)},
	{.tid = 8,
	 .name = "w",
	 .activity = THREAD_IDLE,
	 .state = 'S',
	 .gc_running = true,
	 .truncated = true},
	{.tid = 9, .activity = THREAD_UNINTERRUPTIBLE, .state = 'D', .problem = "uninterruptible"},
	{.tid = 10,
	 .activity = THREAD_GONE,
	 .frames = frames,
	 .frame_count = 1,
	 .problem = "ended meanwhile"},
};

static const struct dump dumps[] = {
	{.pid = 7,
	 .command_line = "python3 train.py",
	 .executable = "/usr/bin/python3.11",
	 .python_version = "3.11.2",
	 .python_executable = "/usr/bin/python3.11",
	 .native = true,
	 .has_gil = true,
	 .host = "node1",
	 .has_rank = true,
	 .rank = 3,
	 .threads = threads,
	 .thread_count = 4},
	{.pid = 11,
	 .command_line = "sh x",
	 .no_python = true,
	 .python_problem = "no CPython interpreter in this process"},
	{.pid = 12,
	 .executable = "/b",
	 .python_problem = "CPython 3.16 is not supported",
	 .threads = threads,
	 .thread_count = 1},
};

struct world {
	struct interner *strings;
	struct dump_list list;
	struct error error;
};

static bool read_text(struct world *world, const char *text, size_t size)
{
	*world = (struct world){.strings = interner_new()};
	return read_dump_bytes("f.json", text, size, world->strings, &world->list, &world->error);
}

static void release(struct world *world)
{
	dump_list_release(&world->list);
	interner_free(world->strings);
}

static void write_dumps(struct strbuf *json)
{
	struct error error;
	strbuf_init(json);
	for (size_t i = 0; i < sizeof(dumps) / sizeof(*dumps); i++)
		assert_true(output_dump_json(&dumps[i], json, &error));
}

/* In text, with and without lines and full names, and as JSON. */
static void dumps_show_what_they_showed(void **state)
{
	(void)state;
	static const struct view_options forms[] = {
		{.lines = true}, {.lines = false}, {.lines = true, .full_filenames = true}};
	struct world world;
	_cleanup_strbuf_ struct strbuf json, again;
	struct error error;
	write_dumps(&json);
	strbuf_init(&again);
	assert_true(read_text(&world, json.text, json.size));
	assert_int_equal(world.list.count, 3);
	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < sizeof(forms) / sizeof(*forms); k++) {
			_cleanup_strbuf_ struct strbuf before, after;
			strbuf_init(&before);
			strbuf_init(&after);
			output_dump_text(&dumps[i], &forms[k], &before);
			output_dump_text(&world.list.dumps[i], &forms[k], &after);
			assert_string_equal(before.text, after.text);
		}
		assert_true(output_dump_json(&world.list.dumps[i], &again, &error));
	}
	release(&world);
	assert_true(read_text(&world, again.text, again.size));
	assert_int_equal(world.list.dumps[0].rank, 3);
	assert_string_equal(world.list.dumps[0].host, "node1");
	assert_int_equal(world.list.dumps[0].threads[0].frames[0].end_column, 12);
	assert_true(world.list.dumps[0].threads[0].frames[1].name != NULL);
	release(&world);
}

/* Dumps of versions before this one had neither host nor rank. */
static void what_need_not_be_there_may_be_missing(void **state)
{
	(void)state;
	static const char text[] =
		" \n{\"schema\":\"pdump/1\",\"pid\":1,\"threads\":[{\"os_thread_id\":1,"
		"\"activity\":\"idle\",\"frames\":[{\"name\":\"f\",\"kind\":\"python\"}]}]}\n\n";
	struct world world;
	assert_true(read_text(&world, text, sizeof(text) - 1));
	assert_int_equal(world.list.count, 1);
	assert_false(world.list.dumps[0].has_rank);
	assert_null(world.list.dumps[0].host);
	assert_string_equal(world.list.dumps[0].threads[0].frames[0].name, "f");
	release(&world);
}

/* No byte of a file reaches a terminal as it is. */
static void texts_are_cleaned(void **state)
{
	(void)state;
	static const char text[] =
		"{\"schema\":\"pdump/1\",\"pid\":1,\"host\":\"a\\u001b[2Jb\",\"threads\":[{"
		"\"os_thread_id\":1,\"activity\":\"idle\",\"frames\":[{\"name\":\"x\\ny\\u202e\","
		"\"kind\":\"python\"}]}]}";
	struct world world;
	assert_true(read_text(&world, text, sizeof(text) - 1));
	assert_string_equal(world.list.dumps[0].host, "a [2Jb");
	assert_string_equal(world.list.dumps[0].threads[0].frames[0].name, "x y\\u202e");
	release(&world);
}

#define TOP "{\"schema\":\"pdump/1\",\"pid\":1,"
#define THREAD TOP "\"threads\":[{\"os_thread_id\":1,\"activity\":\"idle\","
#define FRAME THREAD "\"frames\":[{\"kind\":\"python\",\"name\":\"f\"},{"
#define END "}]}]}"

static void errors_say_where(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"", "f.json:1: is empty"},
		{" \n\n ", "f.json:3: is empty"},
		{"x", "f.json:1: is no JSON: '{' expected"},
		{"[]", "f.json:1: is no JSON: '{' expected"},
		{"{", "f.json:1: is no JSON: "},
		{"{}", "f.json:1: is not of pdump --json"},
		{"\n{\n\n\"a\":}", "f.json:4: is no JSON: "},
		{"{\"schema\":\"pdump/2\"}", "f.json:1: is not of pdump --json"},
		{"{\"schema\":7}", "f.json:1: is not of pdump --json"},
		{"{\"schema\":\"pdump/1\"}", "f.json:1: 'pid' is missing"},
		{"{\"schema\":\"pdump/1\",\"pid\":null}", "f.json:1: 'pid' is missing"},
		{"{\"schema\":\"pdump/1\",\"pid\":-1}", "f.json:1: 'pid' is out of range"},
		{"{\"schema\":\"pdump/1\",\"pid\":3000000000}", "f.json:1: 'pid' is out of range"},
		{"{\"schema\":\"pdump/1\",\"pid\":1.5}", "f.json:1: 'pid' is no whole number"},
		{"{\"schema\":\"pdump/1\",\"pid\":1e999}", "f.json:1: is no JSON: "},
		{TOP "\"host\":[]}", "f.json:1: 'host' is no text"},
		{TOP "\"rank\":\"3\"}", "f.json:1: 'rank' is no whole number"},
		{TOP "\"rank\":4294967296}", "f.json:1: 'rank' is out of range"},
		{TOP "\"python\":\"3.11\"}", "f.json:1: 'python' is no object"},
		{TOP "\"python\":{\"has_gil\":1}}",
		 "f.json:1: 'has_gil' is neither true nor false"},
		{TOP "\"x\":1}", "f.json:1: 'threads' is missing"},
		{TOP "\"threads\":{}}", "f.json:1: 'threads' is no list"},
		{TOP "\"threads\":[7]}", "f.json:1: threads[0]: is no thread"},
		{TOP "\"threads\":[{}]}", "f.json:1: threads[0]: 'os_thread_id' is missing"},
		{TOP "\"threads\":[{\"os_thread_id\":1,\"activity\":\"busy\"}]}",
		 "f.json:1: threads[0]: 'activity' is none that is known"},
		{THREAD "\"frames\":[[]]}]}", "f.json:1: threads[0].frames[0]: is no frame"},
		{FRAME END, "f.json:1: threads[0].frames[1]: 'name' is missing"},
		{FRAME "\"name\":\"g\"" END, "f.json:1: threads[0].frames[1]: 'kind' is missing"},
		{FRAME "\"name\":\"g\",\"kind\":\"x\"" END,
		 "f.json:1: threads[0].frames[1]: 'kind' is none that is known"},
		{FRAME "\"name\":\"g\",\"line\":\"7\"" END,
		 "f.json:1: threads[0].frames[1]: 'line' is no whole number"},
		{FRAME "\"name\":\"g\",\"kind\":\"native\",\"offset\":\"12\"" END,
		 "f.json:1: threads[0].frames[1]: 'offset' is no address in a file"},
		{FRAME "\"name\":\"g\",\"kind\":\"native\",\"offset\":\"0x\"" END,
		 "f.json:1: threads[0].frames[1]: 'offset' is no address in a file"},
		{FRAME "\"name\":\"g\",\"kind\":\"native\",\"offset\":\"0x12345678912345678\"" END,
		 "f.json:1: threads[0].frames[1]: 'offset' is no address in a file"},
		{TOP "\"threads\":[]}\n" TOP "\"threads\":[]} {}", "f.json:2: is not of pdump"},
		{TOP "\"threads\":[]} x", "f.json:1: is no JSON: '{' expected"},
		{TOP "\"threads\":[],\"a\":\"\\u0000\"}", "f.json:1: is no JSON: "},
		{TOP "\"threads\":[],\"a\":\"\xff\"}", "f.json:1: is no JSON: "},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct world world;
		print_message("%s\n", cases[i].text);
		assert_false(read_text(&world, cases[i].text, strlen(cases[i].text)));
		assert_int_equal(world.error.kind, ERROR_CORRUPT);
		assert_memory_equal(world.error.message, cases[i].message,
				    strlen(cases[i].message));
		release(&world);
	}
}

static void a_file_that_ends_early_gives_what_comes_before(void **state)
{
	(void)state;
	_cleanup_strbuf_ struct strbuf json;
	write_dumps(&json);
	const size_t first = (size_t)(strchr(json.text, '\n') - json.text);
	const size_t second = (size_t)(strchr(json.text + first + 1, '\n') - json.text);
	for (size_t size = 1; size < json.size - 1; size++) {
		struct world world;
		const bool well = read_text(&world, json.text, size);
		const bool whole =
			size == first || size == first + 1 || size == second || size == second + 1;
		assert_int_equal(well, whole);
		assert_int_equal(world.list.count, size >= second ? 2 : size >= first);
		release(&world);
	}
}

static void values_and_nesting_are_bounded(void **state)
{
	(void)state;
	enum { SIZE = 20 << 20 };
	static const char begin[] = "{\"schema\":\"pdump/1\",\"pid\":1,\"threads\":[],\"x\":[";
	char *text = malloc(SIZE);
	struct world world;
	memset(text, ',', SIZE);
	memcpy(text, begin, sizeof(begin) - 1);
	assert_false(read_text(&world, text, SIZE));
	assert_non_null(strstr(world.error.message, "more values than any dump"));
	release(&world);
	memset(text, '[', 1 << 20);
	memcpy(text, begin, sizeof(begin) - 1);
	assert_false(read_text(&world, text, 1 << 20));
	assert_non_null(strstr(world.error.message, "is no JSON"));
	release(&world);
	free(text);
}

/* Bytes changed at random: dumps or an error, and nothing else. */
static void changed_bytes_are_survived(void **state)
{
	(void)state;
	_cleanup_strbuf_ struct strbuf json;
	write_dumps(&json);
	uint64_t random = 1;
	for (size_t i = 0; i < 2000; i++) {
		struct world world;
		char *text = malloc(json.size);
		memcpy(text, json.text, json.size);
		for (size_t k = 0; k < 1 + i % 3; k++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			text[(random >> 33) % json.size] = (char)(random >> 20);
		}
		if (!read_text(&world, text, json.size))
			assert_memory_equal(world.error.message, "f.json:", 7);
		release(&world);
		free(text);
	}
}

static void files_may_be_packed(void **state)
{
	(void)state;
	_cleanup_strbuf_ struct strbuf json;
	char path[] = "/tmp/dump-file-test-XXXXXX";
	struct world world = {.strings = interner_new()};
	close(mkstemp(path));
	write_dumps(&json);
	gzFile file = gzopen(path, "wb");
	assert_int_equal(gzwrite(file, json.text, (unsigned)json.size), json.size);
	gzclose(file);
	assert_true(read_dump_file(path, world.strings, &world.list, &world.error));
	assert_int_equal(world.list.count, 3);
	assert_int_equal(truncate(path, 200), 0);
	assert_false(read_dump_file(path, world.strings, &world.list, &world.error));
	assert_int_equal(world.error.kind, ERROR_CORRUPT);
	unlink(path);
	assert_false(read_dump_file(path, world.strings, &world.list, &world.error));
	assert_int_equal(world.error.kind, ERROR_ABSENT);
	assert_false(read_dump_file("/", world.strings, &world.list, &world.error));
	assert_int_equal(world.error.kind, ERROR_SYSTEM);
	release(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dumps_show_what_they_showed),
		cmocka_unit_test(what_need_not_be_there_may_be_missing),
		cmocka_unit_test(texts_are_cleaned),
		cmocka_unit_test(errors_say_where),
		cmocka_unit_test(a_file_that_ends_early_gives_what_comes_before),
		cmocka_unit_test(values_and_nesting_are_bounded),
		cmocka_unit_test(changed_bytes_are_survived),
		cmocka_unit_test(files_may_be_packed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
