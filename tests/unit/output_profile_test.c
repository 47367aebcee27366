/* SPDX-License-Identifier: MIT */
/* A profile as folded stacks, JSON and SVG. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/internal.h"
#include "pictures/svg.h"
#include "tests/unit/output_schema.h"

static struct profile profile;
static const struct view_options plain = {.lines = true};

static uint32_t python(const char *name, const char *file, int line)
{
	struct frame frame = {
		.name = intern_text(profile.strings, name),
		.short_file = intern_text(profile.strings, file),
		.line = line,
	};
	return profile_frame(&profile, &frame);
}

static uint32_t native(const char *name, uint64_t offset)
{
	struct frame frame = {
		.kind = FRAME_NATIVE,
		.name = intern_text(profile.strings, name),
		.module = intern_text(profile.strings, "lib.so"),
		.offset = offset,
	};
	return profile_frame(&profile, &frame);
}

static void add(uint64_t samples, uint32_t a, uint32_t b)
{
	profile_add(&profile, (const uint32_t[]){a, b}, 2, samples);
}

static int start(void **state)
{
	(void)state;
	profile_init(&profile, interner_new());
	return 0;
}

static int stop(void **state)
{
	(void)state;
	interner_free(profile.strings);
	profile_release(&profile);
	return 0;
}

static void assert_folded(const struct view_options *options, const char *expected)
{
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct error error;
	assert_true(output_profile(&profile, OUTPUT_FOLDED, options, &out, &error));
	assert_string_equal(out.text, expected);
}

static void folded_stacks_are_sorted_and_summed(void **state)
{
	(void)state;
	uint32_t main_frame = python("<module>", "t.py", 9), b = python("b", "t.py", 2);
	add(5, main_frame, native("z", 1));
	add(6, main_frame, native("z", 2)); /* another address of the same function */
	add(2, main_frame, b);
	profile_add(&profile, &main_frame, 1, 1);
	assert_folded(&plain, "<module> (t.py:9) 1\n"
			      "<module> (t.py:9);b (t.py:2) 2\n"
			      "<module> (t.py:9);z (lib.so) 11\n");
}

static void without_lines_a_function_is_one_box(void **state)
{
	(void)state;
	uint32_t leaf = python("leaf", "t.py", 3);
	add(1, python("f", "t.py", 1), leaf);
	add(2, python("f", "t.py", 2), leaf);
	assert_folded(&plain, "f (t.py:1);leaf (t.py:3) 1\nf (t.py:2);leaf (t.py:3) 2\n");
	assert_folded(&(struct view_options){.lines = false}, "f (t.py);leaf (t.py) 3\n");
}

static void separators_in_names_are_replaced(void **state)
{
	(void)state;
	uint32_t evil = python("a;b\nc 12", "x;y.py", 1);
	profile_add(&profile, &evil, 1, 4);
	assert_folded(&plain, "a:b c 12 (x:y.py:1) 4\n");
}

static void samples_without_a_frame_are_counted_too(void **state)
{
	(void)state;
	profile_add(&profile, NULL, 0, 3);
	assert_folded(&plain, "[no frames] 3\n");
}

static void json_follows_its_schema_in_any_locale(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct error error;
	add(5, python("f", "t.py", 1), native("g\xff", 0x1234));
	profile.rate = 99.5;
	profile.counts.ticks = 149;
	profile.counts.late = profile.counts.late_ticks = 1;
	profile.counts.asked = 150;
	profile.counts.elapsed_ns = 1500000000;
	const char *locales[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8"};
	for (size_t i = 0; i < 3; i++)
		setlocale(LC_ALL, locales[i]); /* whichever is installed */
	bool good = output_profile(&profile, OUTPUT_JSON, &plain, &out, &error);
	setlocale(LC_ALL, "C");
	assert_true(good);
	json_t *top = json_loadb(out.text, out.size, 0, NULL);
	assert_non_null(top);
	json_t *nodes = json_object_get(top, "nodes");
	assert_int_equal(json_array_size(nodes), 3);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(nodes, 2), "self")), 5);
	assert_true(json_is_null(json_object_get(json_array_get(nodes, 0), "parent")));
	assert_true(fabs(json_real_value(json_object_get(top, "rate")) - 99.5) < 1e-9);
	json_t *pacing = json_object_get(top, "pacing");
	assert_true(fabs(json_real_value(json_object_get(pacing, "achieved_rate")) -
			 99.5 * 149 / 150) < 1e-9);
	assert_true(fabs(json_real_value(json_object_get(pacing, "late_share")) - 1.0 / 150) <
		    1e-9);
	json_decref(top);
	check_schema("output/precord.schema.json", &out);
}

static void numbers_need_no_locale(void **state)
{
	(void)state;
	static const struct {
		double value;
		int decimals;
		const char *text;
	} cases[] = {
		{12.345, 2, "12.35"}, {-0.5, 1, "-0.5"},  {3, 0, "3"},	      {0.004, 2, "0.00"},
		{NAN, 1, "0.0"},      {INFINITY, 0, "0"}, {1e300, 2, "0.00"}, {0.0625, 4, "0.0625"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strbuf _cleanup_strbuf_ out;
		strbuf_init(&out);
		view_put_fixed(&out, cases[i].value, cases[i].decimals);
		assert_string_equal(out.text, cases[i].text);
	}
}

static void percentages_say_as_much_as_they_can(void **state)
{
	(void)state;
	static const struct {
		double part, whole;
		const char *text;
	} cases[] = {
		{1, 3, "33.3"}, {1, 1, "100.0"}, {1, 1000, "0.1"}, {1, 30000, "0.0033"},
		{0, 5, "0.0"},	{0, 0, "0.0"},	 {5, 100, "5.0"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strbuf _cleanup_strbuf_ out;
		strbuf_init(&out);
		view_put_percent(&out, cases[i].part, cases[i].whole);
		assert_string_equal(out.text, cases[i].text);
	}
}

static void names_are_cut_by_character(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t room;
		const char *cut;
	} cases[] = {
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "abcd\xe2\x80\xa6"},
		{"<&>\"'", 5, "&lt;&amp;&gt;&quot;&#39;"},
		{"<<<", 2, "&lt;\xe2\x80\xa6"},
		{"\xc3\xa4\xc3\xb6\xc3\xbc", 2, "\xc3\xa4\xe2\x80\xa6"},
		{"\xe5\x90\x8d\xe5\x89\x8d", 3, "\xe5\x90\x8d\xe2\x80\xa6"},
		{"", 0, ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strbuf _cleanup_strbuf_ out;
		strbuf_init(&out);
		view_put_xml_cut(&out, cases[i].text, cases[i].room);
		assert_string_equal(out.text, cases[i].cut);
	}
}

static void boxes_are_few_and_make_one_tree(void **state)
{
	(void)state;
	uint32_t root = python("<module>", "t.py", 1);
	for (int i = 0; i < 20000; i++)
		add((uint64_t)(i % 97 + 1), root, python("f", "t.py", i + 2));
	struct view view;
	view_init(&view, &profile, &plain, VIEW_BOXES);
	static const size_t limits[] = {5000, 100, 1, 0};
	for (size_t i = 0; i < 4; i++) {
		struct svg_layout layout;
		svg_layout_init(&layout, &view, 0, limits[i]);
		assert_true(layout.count <= limits[i] + 1); /* the root is always there */
		assert_int_equal(layout.count + layout.pruned, view.count);
		for (size_t j = 1; j < layout.count; j++)
			assert_true(layout.boxes[j].total >= layout.threshold);
		svg_layout_release(&layout);
	}
	view_release(&view);
}

/* Where it is not known (a replay), only what was asked for. */
static void the_picture_says_how_the_pace_was_kept(void **state)
{
	(void)state;
	static const struct {
		struct profile_counts counts;
		const char *said;
	} cases[] = {
		{{.ticks = 149,
		  .late_ticks = 1,
		  .asked = 150,
		  .late = 1,
		  .stopped_ns = 6000000,
		  .elapsed_ns = 1500000000},
		 "1.5 s \xc2\xb7 99.3 of 100 Hz \xc2\xb7 0.67 % late \xc2\xb7 target stopped "
		 "0.4 % of the time"},
		{{.ticks = 150, .elapsed_ns = 1500000000}, "1.5 s \xc2\xb7 100.0 of 100 Hz<"},
		{{0}, "sample \xc2\xb7 100 Hz<"},
	};
	add(1, python("<module>", "t.py", 1), python("f", "t.py", 2));
	profile.rate = 100;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strbuf _cleanup_strbuf_ out;
		strbuf_init(&out);
		struct error error;
		profile.counts = cases[i].counts;
		assert_true(output_profile(&profile, OUTPUT_SVG, &plain, &out, &error));
		if (!strstr(out.text, cases[i].said))
			fail_msg("not in the picture: %s", cases[i].said);
	}
}

static void a_profile_without_samples_is_a_picture(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct error error;
	assert_true(output_profile(&profile, OUTPUT_SVG, &plain, &out, &error));
	assert_non_null(strstr(out.text, ">no samples</text>"));
	assert_non_null(strstr(out.text, "</svg>\n"));
	assert_null(strstr(out.text, "nan"));
	strbuf_reset(&out);
	assert_true(output_profile(&profile, OUTPUT_FOLDED, &plain, &out, &error));
	assert_int_equal(out.size, 0);
}

static void a_label_without_room_drops_the_abi_tag(void **state)
{
	(void)state;
	struct frame frame = {
		.kind = FRAME_NATIVE,
		.module = intern_text(profile.strings, "_x.cpython-311-x86_64-linux-gnu.so"),
		.has_function = true,
		.function_offset = 0x10,
	};
	uint32_t leaf = profile_frame(&profile, &frame), root = python("<module>", "t.py", 1);
	add(1, root, leaf);
	add(4, root, python("f", "t.py", 1));
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct error error;
	assert_true(output_profile(&profile, OUTPUT_SVG, &plain, &out, &error));
	assert_non_null(strstr(out.text, ">_x+0x10</text>"));
	assert_non_null(strstr(out.text, "<title>_x.cpython-311-x86_64-linux-gnu.so+0x10\n"));
}

static void unknown_formats_are_refused(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct error error;
	assert_false(output_profile(&profile, OUTPUT_UNKNOWN, &plain, &out, &error));
	assert_int_equal(error.kind, ERROR_UNSUPPORTED);
}

/* Known before anything is recorded, and no crash after. */
static void a_format_without_its_library_says_so(void **state)
{
	(void)state;
	add(1, python("f", "t.py", 1), python("g", "t.py", 2));
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct error error;
	const char *missing = output_format_missing(OUTPUT_PPROF);
	assert_null(output_format_missing(OUTPUT_SVG));
	assert_int_equal(output_profile(&profile, OUTPUT_PPROF, &plain, &out, &error), !missing);
#ifdef HAVE_PROTOBUF_C
	assert_null(missing);
	assert_true(out.size > 0);
#else
	assert_string_equal(missing, "protobuf-c");
	assert_non_null(strstr(error.message, missing));
#endif
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(folded_stacks_are_sorted_and_summed),
		TEST(without_lines_a_function_is_one_box),
		TEST(separators_in_names_are_replaced),
		TEST(samples_without_a_frame_are_counted_too),
		TEST(json_follows_its_schema_in_any_locale),
		cmocka_unit_test(numbers_need_no_locale),
		cmocka_unit_test(percentages_say_as_much_as_they_can),
		cmocka_unit_test(names_are_cut_by_character),
		TEST(boxes_are_few_and_make_one_tree),
		TEST(the_picture_says_how_the_pace_was_kept),
		TEST(a_profile_without_samples_is_a_picture),
		TEST(a_label_without_room_drops_the_abi_tag),
		TEST(unknown_formats_are_refused),
		TEST(a_format_without_its_library_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
