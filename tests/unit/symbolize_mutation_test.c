/* SPDX-License-Identifier: MIT */
/*
 * Damaged ELF files: nothing may crash or take long, whatever comes out. And the oracle: on an
 * undamaged file addr2line must agree.
 */
#include <time.h>

#include "tests/unit/symbolize_fixture.h"

enum { ROUNDS = 500, MAX_BYTES = 1 << 20, MAX_LEVELS = 64 };

static char folder[64];

static int set_up(void **state)
{
	(void)state;
	make_folder(folder);
	return shell("cd '%s' && gcc -O2 -g -fPIC -shared -o x.so x.c && "
		     "g++ -O2 -g -fPIC -shared -o y.so y.cc",
		     folder);
}

static int tear_down(void **state)
{
	(void)state;
	return shell("rm -rf '%s'", folder);
}

static size_t read_bytes(const char *name, char *bytes)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	const size_t size = fread(bytes, 1, MAX_BYTES, file);
	fclose(file);
	return size;
}

static unsigned next_random(unsigned *seed)
{
	*seed = *seed * 1103515245 + 12345;
	return *seed >> 8;
}

static void look_everywhere(struct symbolizer *symbolizer)
{
	struct symbolize_result result;

	for (uint64_t pc = 0x1000; pc < 0x1400; pc += 5) {
		symbolize_pc(symbolizer, pc, pc & 1, 0, &result);
		assert_true(result.count <= SYMBOLIZE_MAX_INLINE);
		for (size_t i = 0; i < result.count; i++)
			assert_true(!result.frames[i].name || strlen(result.frames[i].name));
	}
	symbolize_pc(symbolizer, UINT64_MAX, true, 0, &result);
	symbolize_pc(symbolizer, 0, false, 0, &result);
}

static void damaged_files_neither_crash_nor_hang(void **state)
{
	static char original[MAX_BYTES], bytes[MAX_BYTES];
	const size_t size = read_bytes("x.so", original);
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	const clock_t before = clock();
	unsigned seed = 7;

	(void)state;
	alarm(120);
	for (int round = 0; round < ROUNDS; round++) {
		struct symbolize_module module = {.path = "x.so",
						  .fd = -1,
						  .bytes = bytes,
						  .bytes_size = size,
						  .root_fd = -1};
		struct error error;
		memcpy(bytes, original, size);
		/* Half of the flips hit the headers, the section headers or the debug sections. */
		for (int i = 0; i < 1 + round % 20; i++) {
			const size_t start = round % 4 == 0   ? 0
					     : round % 4 == 1 ? size - 2500
					     : round % 4 == 2 ? 0x3000
							      : 0;
			const size_t span = round % 4 == 0 ? 0x300 : size - start;
			bytes[start + next_random(&seed) % span] = (char)next_random(&seed);
		}
		if (round % 10 == 9)
			module.bytes_size = next_random(&seed) % size;
		if (symbolizer_open(symbolizer, &module, &error))
			look_everywhere(symbolizer);
	}
	assert_true(clock() - before < 60 * CLOCKS_PER_SEC);
	alarm(0);
	symbolizer_free(symbolizer);
	interner_free(interner);
}

/* ---- the oracle --------------------------------------------------------------------------- */

struct level {
	char name[4096];
	char file[256];
	int line;
};

/* addr2line -afie: "0x...", then per level the linkage name, "FILE:LINE". Returns the levels. */
static size_t read_levels(FILE *pipe, char *line, size_t line_size, struct level *levels)
{
	size_t count = 0;

	while (fgets(line, (int)line_size, pipe) && strncmp(line, "0x", 2)) {
		struct level *level = &levels[count];
		line[strcspn(line, "\n")] = '\0';
		snprintf(level->name, sizeof(level->name), "%.4000s", line);
		if (!fgets(line, (int)line_size, pipe))
			return count;
		char *colon = strrchr(line, ':');
		level->line = colon ? atoi(colon + 1) : 0;
		if (colon)
			*colon = '\0';
		const char *slash = strrchr(line, '/');
		snprintf(level->file, sizeof(level->file), "%.200s", slash ? slash + 1 : line);
		count += count + 1 < MAX_LEVELS;
	}
	return count;
}

static bool same_level(const struct symbolize_frame *frame, const struct level *level)
{
	const char *file = frame->file ? strrchr(frame->file, '/') : NULL;
	const char *name = frame->linkage ? frame->linkage : "??";
	const size_t size = strcspn(name, ".");

	file = file ? file + 1 : frame->file ? frame->file : "??";
	return strncmp(name, level->name, size) == 0 && frame->line == level->line &&
	       (strcmp(file, level->file) == 0 || !frame->line);
}

static void addr2line_agrees_on_every_seventh_address(void **state)
{
	static struct level levels[MAX_LEVELS];
	static char line[8192];
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct symbolize_result result;
	struct error error;
	char path[128];
	unsigned long start, size;
	size_t compared = 0, agreed = 0, shown = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/y.so", folder);
	snprintf(line, sizeof(line), "readelf -SW '%s' | sed -n 's/.* .text *PROGBITS *//p'", path);
	FILE *pipe = popen(line, "r");
	assert_int_equal(fscanf(pipe, "%lx %*x %lx", &start, &size), 2);
	pclose(pipe);
	struct symbolize_module module = {.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
	assert_true(symbolizer_open(symbolizer, &module, &error));
	close(module.fd);
	snprintf(line, sizeof(line),
		 "i=%lu; while [ $i -lt %lu ]; do printf '%%x\\n' $i; "
		 "i=$((i + 7)); done | addr2line -afie '%s'",
		 start, start + size, path);
	pipe = popen(line, "r");
	assert_non_null(fgets(line, sizeof(line), pipe));
	for (unsigned long pc = start; pc < start + size; pc += 7) {
		const size_t count = read_levels(pipe, line, sizeof(line), levels);
		symbolize_pc(symbolizer, pc, true, 0, &result);
		/* Between functions addr2line names the one before. */
		if (!result.has_function || !result.count)
			continue;
		bool same = count == result.count;
		for (size_t i = 0; same && i < count; i++)
			same = same_level(&result.frames[i], &levels[i]);
		compared++;
		agreed += same;
		if (!same && shown++ < 10)
			printf("differs at 0x%lx: %s %s:%d (%zu), addr2line %s %s:%d (%zu)\n", pc,
			       result.frames[0].linkage, result.frames[0].file,
			       result.frames[0].line, result.count, levels[0].name, levels[0].file,
			       levels[0].line, count);
	}
	pclose(pipe);
	printf("%zu of %zu addresses agree with addr2line\n", agreed, compared);
	assert_true(compared > 500);
	assert_true(agreed * 100 >= compared * 99);
	symbolizer_free(symbolizer);
	interner_free(interner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_files_neither_crash_nor_hang),
		cmocka_unit_test(addr2line_agrees_on_every_seventh_address),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
