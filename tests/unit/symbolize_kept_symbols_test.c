/* SPDX-License-Identifier: MIT */
/*
 * What symbols and stubs of a stripped library are called at the addresses that were met, written
 * down, names them where the library is not; and so does what is left of it when it is damaged.
 */
#include "tests/unit/symbolize_fixture.h"

static char folder[64];

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/symbolize_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	write_file(
		folder, "x.cc",
		"namespace shop { int buy(int); int sell(int x) { return buy(x) * buy(x + 1); } }\n"
		"static int __attribute__((noinline)) hidden(int x) { return x * x - 1; }\n"
		"extern \"C\" int call(int x) { return hidden(x) + shop::sell(x) - 1; }\n");
	return shell("cd '%s' && g++ -O1 -fPIC -shared -o full.so x.cc && "
		     "strip -o x.so full.so",
		     folder);
}

static int tear_down(void **state)
{
	(void)state;
	return shell("rm -rf '%s'", folder);
}

/* What the tool's output has in front of that text. */
static uint64_t address_of(const char *tool, const char *text)
{
	char command[256];
	unsigned long address = 0;

	snprintf(command, sizeof(command), "%s '%s/full.so' | grep -F '%s' | head -1", tool, folder,
		 text);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%lx", &address), 1);
	pclose(pipe);
	return address;
}

enum { STUB, SELL, CALL, HIDDEN, PLACES };

static const char *const names[PLACES] = {"shop::buy@plt", "shop::sell", "call", NULL};

static void find_places(uint64_t places[PLACES])
{
	places[STUB] = address_of("objdump -d", "<_ZN4shop3buyEi@plt>:");
	places[SELL] = address_of("nm", " T _ZN4shop4sellEi");
	places[CALL] = address_of("nm", " T call");
	places[HIDDEN] = address_of("nm", "hidden");
}

static int by_value(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

static void open_kept(struct symbolizer *symbolizer, const void *bytes, size_t size)
{
	const struct symbolize_module module = {
		.path = "x.so", .fd = -1, .root_fd = -1, .kept = bytes, .kept_size = size};
	struct error error;
	assert_true(symbolizer_open(symbolizer, &module, &error));
}

/* Each place, and four more bytes of it. */
static void write_down(const uint64_t places[PLACES], struct strbuf *bytes)
{
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	uint64_t addresses[PLACES * 5];
	struct error error;
	char path[128];

	snprintf(path, sizeof(path), "%s/x.so", folder);
	const struct symbolize_module module = {
		.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
	for (size_t i = 0; i < PLACES * 5; i++)
		addresses[i] = places[i / 5] + i % 5;
	qsort(addresses, PLACES * 5, sizeof(*addresses), by_value);
	assert_true(symbolizer_open(symbolizer, &module, &error));
	symbolizer_write_symbols(symbolizer, addresses, PLACES * 5, NULL, 0, bytes);
	close(module.fd);
	symbolizer_free(symbolizer);
	interner_free(interner);
}

static void the_file_is_not_needed(void **state)
{
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct symbolize_result result;
	struct strbuf bytes;
	uint64_t places[PLACES];

	(void)state;
	strbuf_init(&bytes);
	find_places(places);
	write_down(places, &bytes);
	/* One row each, not one for each address. */
	assert_int_equal(bytes.size, 3 * 29 + strlen("_ZN4shop3buyEi_ZN4shop4sellEicall"));
	open_kept(symbolizer, bytes.text, bytes.size);
	for (size_t i = 0; i < PLACES * 5; i++) {
		symbolize_pc(symbolizer, places[i / 5] + i % 5, true, 0, &result);
		assert_int_equal(result.count, names[i / 5] != NULL);
		if (!names[i / 5])
			continue;
		assert_string_equal(result.frames[0].name, names[i / 5]);
		assert_true(result.has_function);
		assert_int_equal(result.function_start, places[i / 5]);
	}
	/* Where nothing was met, nothing is known. */
	symbolize_pc(symbolizer, places[CALL] + 5, true, 0, &result);
	assert_int_equal(result.count, 0);
	symbolizer_free(symbolizer);
	interner_free(interner);
	strbuf_release(&bytes);
}

static void look_everywhere(const uint64_t places[PLACES], const void *bytes, size_t size)
{
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct symbolize_result result;

	if (size)
		open_kept(symbolizer, bytes, size);
	for (size_t i = 0; i < PLACES; i++) {
		symbolize_pc(symbolizer, places[i], true, 0, &result);
		assert_true(result.count <= 1);
	}
	symbolizer_free(symbolizer);
	interner_free(interner);
}

static void damaged_it_names_something_or_nothing(void **state)
{
	struct strbuf bytes;
	uint64_t places[PLACES];

	(void)state;
	strbuf_init(&bytes);
	find_places(places);
	write_down(places, &bytes);
	for (size_t size = 0; size < bytes.size; size++) {
		uint8_t *part = malloc(size + !size); /* so that what is behind it is noticed */
		assert_non_null(part);
		memcpy(part, bytes.text, size);
		look_everywhere(places, part, size);
		free(part);
	}
	for (size_t at = 0; at < bytes.size; at++) {
		bytes.text[at] ^= 0xff;
		look_everywhere(places, bytes.text, bytes.size);
		bytes.text[at] ^= 0xff;
	}
	strbuf_release(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_file_is_not_needed),
		cmocka_unit_test(damaged_it_names_something_or_nothing),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
