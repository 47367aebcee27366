/* SPDX-License-Identifier: MIT */
/*
 * Stubs of the PLT in libraries linked in each way that makes other stubs, stripped, against what
 * objdump makes of them; and in damaged ones.
 */
#include "tests/unit/symbolize_fixture.h"

static char folder[64];

static const char source[] = "int near_one(int), near_two(int);\n"
			     "int (*pointer)(int) = near_two;\n"
			     "int (*taken(void))(int) { return near_two; }\n"
			     "int call(int x) { return near_one(x) * near_two(x + 1) - 1; }\n";

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/symbolize_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	write_file(folder, "x.c", source);
	write_file(folder, "y.cc",
		   "namespace shop { int buy(int); template <class T> T keep(T); }\n"
		   "int call(int x) { return shop::buy(x) + shop::keep<int>(x) - 1; }\n");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return shell("rm -rf '%s'", folder);
}

static struct symbolizer *open_file(struct interner *interner, const char *name)
{
	char path[128];
	struct error error;
	struct symbolizer *symbolizer = symbolizer_new(interner);

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	const struct symbolize_module module = {
		.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
	assert_true(module.fd >= 0);
	assert_true(symbolizer_open(symbolizer, &module, &error));
	close(module.fd);
	return symbolizer;
}

/* Where objdump sees the stub "NAME@plt"; 0: nowhere. */
static uint64_t stub_address(const char *name)
{
	char command[256];
	unsigned long address = 0;

	snprintf(command, sizeof(command),
		 "objdump -d '%s/full.so' | sed -n 's/ <%s@plt>:$//p' | head -1", folder, name);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	if (fscanf(pipe, "%lx", &address) != 1)
		address = 0;
	pclose(pipe);
	return address;
}

static void expect(struct symbolizer *symbolizer, uint64_t address, uint64_t start,
		   const char *name)
{
	struct symbolize_result result;

	symbolize_pc(symbolizer, address, true, 0, &result);
	assert_int_equal(result.count, 1);
	assert_string_equal(result.frames[0].name, name);
	assert_null(result.frames[0].linkage);
	assert_true(result.has_function);
	assert_int_equal(result.function_start, start);
}

static void expect_stubs(const char *build, const char *const stubs[2], const char *const names[2])
{
	struct interner *interner = interner_new();

	assert_int_equal(shell("cd '%s' && %s && strip -o x.so full.so", folder, build), 0);
	struct symbolizer *symbolizer = open_file(interner, "x.so");
	for (int i = 0; i < 2; i++) {
		const uint64_t start = stub_address(stubs[i]);
		assert_int_not_equal(start, 0);
		for (uint64_t at = 0; at < 8; at++)
			expect(symbolizer, start + at, start, names[i]);
	}
	symbolizer_free(symbolizer);
	interner_free(interner);
}

static void a_stub_is_named_by_what_it_jumps_to(void **state)
{
	static const char *const builds[] = {
		"gcc -O1 -fPIC -shared -o full.so x.c",
		"gcc -O1 -fPIC -shared -Wl,-z,now -o full.so x.c",
		"gcc -O1 -fPIC -shared -fcf-protection -Wl,-z,ibtplt -o full.so x.c",
		"gcc -O1 -fPIC -shared -fcf-protection -Wl,-z,ibtplt,-z,now -o full.so x.c",
	};
	static const char *const stubs[] = {"near_one", "near_two"};
	static const char *const names[] = {"near_one@plt", "near_two@plt"};

	(void)state;
	for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++)
		expect_stubs(builds[i], stubs, names);
}

static void cxx_names_are_people_s(void **state)
{
	static const char *const stubs[] = {"_ZN4shop3buyEi", "_ZN4shop4keepIiEET_S1_"};
	static const char *const names[] = {"shop::buy@plt", "shop::keep<int>@plt"};

	(void)state;
	expect_stubs("g++ -O1 -fPIC -shared -o full.so y.cc", stubs, names);
}

/* The first one is the dynamic linker's: it pushes and jumps, and is no function's. */
static void what_is_no_stub_of_a_function_has_no_name(void **state)
{
	struct interner *interner = interner_new();
	struct symbolize_result result;

	(void)state;
	assert_int_equal(shell("cd '%s' && gcc -O1 -fPIC -shared -o full.so x.c && "
			       "strip -o x.so full.so",
			       folder),
			 0);
	uint64_t first = stub_address("near_one"), second = stub_address("near_two");
	first = (first < second ? first : second) & ~UINT64_C(15);
	struct symbolizer *symbolizer = open_file(interner, "x.so");
	symbolize_pc(symbolizer, first - 16, true, 0, &result);
	assert_int_equal(result.count, 0);
	symbolizer_free(symbolizer);
	interner_free(interner);
}

/* Each byte of the relocations and of the stubs in turn: another name or none, and no crash. */
static void damaged_files_name_something_or_nothing(void **state)
{
	char path[128];
	static uint8_t bytes[1 << 16];

	(void)state;
	assert_int_equal(shell("cd '%s' && gcc -O1 -fPIC -shared -o full.so x.c && "
			       "strip -o x.so full.so",
			       folder),
			 0);
	const uint64_t stub = stub_address("near_one");
	snprintf(path, sizeof(path), "%s/x.so", folder);
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	const size_t size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	for (size_t at = 16; at < size; at++) {
		struct interner *interner = interner_new();
		struct symbolizer *symbolizer = symbolizer_new(interner);
		struct symbolize_result result;
		struct error error;
		const struct symbolize_module module = {
			.path = "x", .fd = -1, .bytes = bytes, .bytes_size = size, .root_fd = -1};
		bytes[at] ^= 0xff;
		if (symbolizer_open(symbolizer, &module, &error))
			symbolize_pc(symbolizer, stub, true, 0, &result);
		bytes[at] ^= 0xff;
		symbolizer_free(symbolizer);
		interner_free(interner);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stub_is_named_by_what_it_jumps_to),
		cmocka_unit_test(cxx_names_are_people_s),
		cmocka_unit_test(what_is_no_stub_of_a_function_has_no_name),
		cmocka_unit_test(damaged_files_name_something_or_nothing),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
