/* SPDX-License-Identifier: MIT */
/*
 * Names kept on disk: they are those that were found, nothing in a damaged or planted file is
 * believed, and where nothing can be kept the names are found all the same.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "stripped/internal.h"

static const struct build_id id = {.bytes = {0xab, 1, 2, 3, 4, 5, 6, 7}, .size = 8};

/* As they stand in the file. */
enum { CHECKSUM = 12, CHECKED = 16, HEADER = 16 + 16 + sizeof(struct traceback_call) + 40 };

static char folder[64], path[128];

static const char texts[] = "\0Point.norm\0geo\0sqrt";

static void fill(struct recovered_names *names)
{
	*names = (struct recovered_names){
		.entries = calloc(2, sizeof(*names->entries)),
		.count = 2,
		.texts = malloc(sizeof(texts)),
		.texts_size = sizeof(texts),
		.call = {.callee = 0x4010,
			 .line_register = 6,
			 .file_register = 2,
			 .has_line = true},
	};
	memcpy(names->texts, texts, sizeof(texts));
	names->entries[0] = (struct recovered_entry){
		.start = 0x1000, .end = 0x1040, .name = 1, .module = 12, .layer = 4};
	names->entries[1] = (struct recovered_entry){.start = 0x1040,
						  .end = 0x1050,
						  .name = 16,
						  .evidence = EVIDENCE_TRACEBACK,
						  .flags = RECOVERED_UNCERTAIN | RECOVERED_CYTHON |
							   RECOVERED_HELPER | RECOVERED_SLOT |
							   RECOVERED_TAIL};
}

static int set_up(void **state)
{
	struct recovered_names names;

	(void)state;
	strcpy(folder, "/tmp/name_cache_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	snprintf(path, sizeof(path), "%s/pdump/names/ab01020304050607", folder);
	fill(&names);
	name_cache_store(&id, &names);
	recovered_names_release(&names);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	return system(command);
}

static size_t slurp(uint8_t *bytes, size_t size)
{
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	const size_t count = fread(bytes, 1, size, file);
	fclose(file);
	return count;
}

static void spill(const uint8_t *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static bool loads(void)
{
	struct recovered_names names = {0};
	const bool loaded = name_cache_load(&id, &names);

	if (loaded) { /* what is believed can be used */
		struct interner *strings = interner_new();
		struct recovered_name recovered;
		for (uint64_t pc = 0; pc < 0x2000; pc += 0x10)
			if (recovered_names_find(&names, strings, pc, &recovered))
				assert_true(*recovered.name);
		interner_free(strings);
	}
	recovered_names_release(&names);
	return loaded;
}

static void names_are_kept(void **state)
{
	struct recovered_names names;
	struct recovered_name recovered;
	struct stat status;
	struct interner *strings = interner_new();

	(void)state;
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_true(name_cache_load(&id, &names));
	assert_int_equal(names.call.callee, 0x4010);
	assert_true(names.call.has_line);
	assert_true(recovered_names_find(&names, strings, 0x103f, &recovered));
	assert_string_equal(recovered.name, "Point.norm");
	assert_string_equal(recovered.module, "geo");
	assert_true(recovered_names_find(&names, strings, 0x1040, &recovered));
	assert_string_equal(recovered.name, "sqrt");
	assert_true(recovered.uncertain);
	assert_false(recovered_names_find(&names, strings, 0x1050, &recovered));
	recovered_names_release(&names);
	interner_free(strings);
}

static void every_damaged_byte_is_noticed(void **state)
{
	uint8_t bytes[4096];
	const size_t size = slurp(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(size, HEADER + 2 * sizeof(struct recovered_entry) + sizeof(texts));
	for (size_t i = 0; i < size; i++) {
		bytes[i] ^= 0x41;
		spill(bytes, size);
		if (loads())
			fail_msg("byte %zu", i);
		bytes[i] ^= 0x41;
	}
	for (size_t i = 0; i < size; i++) {
		spill(bytes, i);
		assert_false(loads());
	}
	spill(bytes, size + 1);
	assert_false(loads());
	spill(bytes, size);
	assert_true(loads());
}

/* With a checksum that is right: whoever wrote it knew how. */
static void planted_numbers_are_refused(void **state)
{
	enum { FIRST = HEADER, SECOND = HEADER + sizeof(struct recovered_entry) };
	enum { TEXTS = SECOND + sizeof(struct recovered_entry) };
	static const struct {
		const char *what;
		size_t at, size;
		uint64_t value;
	} plants[] = {
		{"name beyond the texts", FIRST + 16, 4, sizeof(texts)},
		{"no name", FIRST + 16, 4, 0},
		{"module beyond the texts", FIRST + 20, 4, UINT32_MAX},
		{"end before start", FIRST + 8, 8, 0xfff},
		{"overlap", FIRST + 8, 8, 0x1041},
		{"not in order", SECOND, 8, 0},
		{"unknown evidence", FIRST + 24, 1, 200},
		{"unknown flag", FIRST + 26, 1, 128},
		{"text without end", TEXTS + sizeof(texts) - 1, 1, 'x'},
		{"first text", TEXTS, 1, 'x'},
		{"no UTF-8", TEXTS + 2, 1, 0xff},
		{"control character", TEXTS + 2, 1, 0x1b},
		{"number of entries", CHECKED, 8, UINT64_MAX / 32},
		{"size of texts", CHECKED + 8, 8, UINT64_C(1) << 40},
		{"no texts", CHECKED + 8, 8, 0},
		{"register", CHECKED + 16 + offsetof(struct traceback_call, line_register), 1, 200},
		{"neither yes nor no", CHECKED + 16 + offsetof(struct traceback_call, has_line), 1,
		 2},
	};
	uint8_t bytes[4096], good[4096];
	const size_t size = slurp(good, sizeof(good));

	(void)state;
	for (size_t i = 0; i < sizeof(plants) / sizeof(*plants); i++) {
		memcpy(bytes, good, size);
		memcpy(bytes + plants[i].at, &plants[i].value, plants[i].size);
		const uint32_t sum = (uint32_t)crc32(0, bytes + CHECKED, (uInt)(size - CHECKED));
		memcpy(bytes + CHECKSUM, &sum, sizeof(sum));
		spill(bytes, size);
		if (loads())
			fail_msg("%s", plants[i].what);
	}
	spill(good, size);
	assert_true(loads());
}

static void other_kinds_of_files_are_refused(void **state)
{
	char other[160], names[128];

	(void)state;
	snprintf(other, sizeof(other), "%s.other", path);
	snprintf(names, sizeof(names), "%s/pdump/names", folder);
	assert_int_equal(chmod(path, 0666), 0); /* anybody may have written it */
	assert_false(loads());
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_false(loads());
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(loads()); /* and does not wait for a writer */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(chmod(names, 0777), 0);
	assert_false(loads());
	assert_int_equal(chmod(names, 0700), 0);
	assert_true(loads());
}

static void nothing_is_kept_without_a_place_or_a_build_id(void **state)
{
	const struct build_id none = {.size = 0};
	struct recovered_names names, again;

	(void)state;
	fill(&names);
	name_cache_store(&none, &names);
	assert_false(name_cache_load(&none, &again));
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
	name_cache_store(&id, &names);
	assert_false(name_cache_load(&id, &again));
	setenv("XDG_CACHE_HOME", folder, 1);
	recovered_names_release(&names);
}

/* Root with another user's HOME, and that user's links in it. */
static void nothing_is_made_in_another_users_folder(void **state)
{
	static const char *const variables[] = {"XDG_CACHE_HOME", "HOME"};
	static const char *const folders[] = {"theirs", "theirs/link"};
	struct recovered_names names, again;
	char base[128], link[160], from_slot[160];

	(void)state;
	if (geteuid() != 0) {
		printf("skip: needs root\n");
		skip();
	}
	fill(&names);
	snprintf(base, sizeof(base), "%s/theirs", folder);
	assert_int_equal(mkdir(base, 0755), 0);
	snprintf(link, sizeof(link), "%s/link", base);
	assert_int_equal(symlink(".", link), 0);
	assert_int_equal(chown(base, 65534, 65534), 0);
	unsetenv("XDG_CACHE_HOME");
	for (int i = 0; i < 4; i++) {
		snprintf(from_slot, sizeof(from_slot), "%s/%s", folder, folders[i / 2]);
		setenv(variables[i % 2], from_slot, 1);
		name_cache_store(&id, &names);
		assert_false(name_cache_load(&id, &again));
		unsetenv(variables[i % 2]);
	}
	assert_int_equal(unlink(link), 0);
	assert_int_equal(rmdir(base), 0); /* it was empty */
	setenv("XDG_CACHE_HOME", folder, 1);
	recovered_names_release(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_kept),
		cmocka_unit_test(every_damaged_byte_is_noticed),
		cmocka_unit_test(planted_numbers_are_refused),
		cmocka_unit_test(other_kinds_of_files_are_refused),
		cmocka_unit_test(nothing_is_kept_without_a_place_or_a_build_id),
		cmocka_unit_test(nothing_is_made_in_another_users_folder),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
