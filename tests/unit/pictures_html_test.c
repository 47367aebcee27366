/* SPDX-License-Identifier: MIT */
/* The HTML report's data: what is left out keeps its samples, times, source texts, hostile text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "pictures/html.h"

static const struct view_options plain = {.lines = true, .source_root = {.fd = FOREIGN_NOWHERE}};
static struct interner *strings;
static struct profile profile;

static int start(void **state)
{
	(void)state;
	strings = interner_new();
	profile_init(&profile, strings);
	profile.rate = 100;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	profile_release(&profile);
	interner_free(strings);
	return 0;
}

static uint32_t python(const char *name, const char *file, int line)
{
	const struct frame frame = {.kind = FRAME_PYTHON,
				    .name = intern_text(strings, name),
				    .file = intern_text(strings, file),
				    .short_file = intern_text(strings, file),
				    .line = line};
	return profile_frame(&profile, &frame);
}

/* Chains of random frames, so that many nodes have few samples. */
static void add_random_stacks(int count)
{
	unsigned seed = 7;
	for (int i = 0; i < count; i++) {
		uint32_t stack[12];
		for (int depth = 0; depth < 12; depth++) {
			char name[32];
			seed = seed * 1664525 + 1013904223;
			snprintf(name, sizeof(name), "f%d_%u", depth,
				 seed >> (depth < 6 ? 31 : 28));
			stack[depth] = python(name, "/src/a.py", depth + 1);
		}
		profile_add(&profile, stack, 6 + seed % 7, 1 + seed % 3);
	}
}

static uint64_t all_samples(const struct html_tree *tree)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < tree->count; i++)
		sum += tree->nodes[i].self;
	return sum;
}

static void tree_keeps_all_samples_whatever_is_left_out(void **state)
{
	static const size_t limits[] = {1, 2, 10, 100, 300, 1000, 100000};
	(void)state;
	add_random_stacks(2000);
	struct view view;
	view_init(&view, &profile, &plain, VIEW_BOXES);
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct html_tree tree;
		html_tree_init(&tree, &view, limits[i]);
		size_t kept = 0;
		assert_int_equal(all_samples(&tree), view.totals[0]);
		for (uint32_t node = 1; node < tree.count; node++) {
			const struct html_node *at = &tree.nodes[node];
			assert_true(at->parent < node);
			assert_int_not_equal(tree.nodes[at->parent].node, HTML_SMALLER);
			kept += at->node != HTML_SMALLER;
		}
		assert_true(kept + 1 <= limits[i] || limits[i] == 1);
		assert_int_equal(kept + 1 + tree.left_out, view.count);
		/* Ties do not make it much smaller than there is room for. */
		if (limits[i] < view.count)
			assert_int_equal(kept + 1, limits[i]);
		html_tree_release(&tree);
	}
	view_release(&view);
}

static void page_says_what_is_left_out(void **state)
{
	(void)state;
	add_random_stacks(500);
	for (size_t max_nodes = 20; max_nodes <= HTML_MAX_NODES; max_nodes += HTML_MAX_NODES - 20) {
		struct strbuf _cleanup_strbuf_ out;
		strbuf_init(&out);
		html_put_data(&out, &profile, &plain, max_nodes);
		json_t *data = json_loads(out.text, 0, NULL);
		assert_non_null(data);
		const json_t *up = json_object_get(json_object_get(data, "nodes"), "up");
		assert_true(json_array_size(up) <= 2 * max_nodes);
		assert_int_equal(json_array_size(json_object_get(data, "notes")), max_nodes == 20);
		assert_true(!strstr(out.text, "(smaller frames)") == (max_nodes != 20));
		json_decref(data);
	}
}

static void assert_text(const char *text, const char *expected)
{
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	html_put_text(&out, text, strlen(text));
	assert_string_equal(out.text, expected);
}

static void texts_end_no_script(void **state)
{
	(void)state;
	assert_text("</script>", "\"\\u003c/script>\"");
	assert_text("<!--", "\"\\u003c!--\"");
	assert_text("a\"b\\c", "\"a\\\"b\\\\c\"");
	assert_text("\xff\x01\n", "\"\xef\xbf\xbd  \"");
	assert_text("", "\"\"");
}

/* ---- times ------------------------------------------------------------------------------ */

static json_t *parse(const struct strbuf *out)
{
	struct strbuf _cleanup_strbuf_ text;
	json_error_t error;
	strbuf_init(&text);
	strbuf_printf(&text, "{%s}", out->text);
	json_t *value = json_loads(text.text, 0, &error);
	if (!value)
		print_error("%s in %.200s\n", error.text, out->text);
	assert_non_null(value);
	return value;
}

static json_t *time_of(bool *timed)
{
	struct view view;
	struct html_tree tree;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	view_init(&view, &profile, &plain, VIEW_BOXES);
	html_tree_init(&tree, &view, HTML_MAX_NODES);
	*timed = html_put_time(&out, &tree);
	html_tree_release(&tree);
	view_release(&view);
	json_t *value = parse(&out);
	json_t *time = json_incref(json_object_get(value, "time"));
	json_decref(value);
	return time;
}

/* Samples of a thread from bin `from` to `to`; checks that all runs are in range. */
static uint64_t samples_of(const json_t *time, size_t thread, int64_t from, int64_t to)
{
	const json_t *numbers = json_array_get(json_object_get(time, "threads"), thread);
	const int64_t bins = json_integer_value(json_object_get(time, "bins"));
	uint64_t sum = 0;
	int64_t bin = 0;
	assert_non_null(numbers);
	for (size_t i = 0; i < json_array_size(numbers); i += 4) {
		bin += json_integer_value(json_array_get(numbers, i));
		const int64_t count = json_integer_value(json_array_get(numbers, i + 2));
		const int64_t repeat = json_integer_value(json_array_get(numbers, i + 3));
		assert_true(bin >= 0 && repeat > 0 && count > 0 && bin + repeat <= bins);
		for (int64_t at = bin; at < bin + repeat; at++)
			sum += at >= from && at < to ? (uint64_t)count : 0;
	}
	return sum;
}

static void start_timeline(int threads)
{
	profile_time(&profile);
	timeline_process(&profile.timeline, &(struct profile_process){.pid = 1});
	for (int i = 0; i < threads; i++)
		timeline_thread(&profile.timeline, &(struct profile_thread){.tid = i + 1});
}

static void add_timed(uint32_t thread, uint32_t frame, uint64_t tick, uint32_t count)
{
	const uint32_t node = profile_add(&profile, &frame, 1, count);
	timeline_add(&profile.timeline,
		     &(struct profile_sample){.time_ns = tick * profile.timeline.period_ns,
					      .node = node,
					      .thread = thread,
					      .count = count});
}

static void samples_are_in_the_bins_of_their_times(void **state)
{
	(void)state;
	bool timed;
	start_timeline(2);
	const uint32_t one = python("one", "/a.py", 1), two = python("two", "/a.py", 2);
	add_timed(0, one, 0, 5000); /* ten minutes at 100 Hz */
	add_timed(1, two, 100, 1);
	add_timed(0, two, 30000, 3);
	add_timed(0, one, 30003, 30000);
	json_t *time = time_of(&timed);
	assert_true(timed);
	const int64_t bins = json_integer_value(json_object_get(time, "bins"));
	const uint64_t bin_ns = (uint64_t)json_integer_value(json_object_get(time, "bin_ns"));
	assert_in_range(bins, 900, HTML_MAX_BINS);
	const uint64_t ticks = bin_ns / profile.timeline.period_ns;
	assert_int_equal(samples_of(time, 0, 0, bins), 35003);
	assert_int_equal(samples_of(time, 1, 0, bins), 1);
	assert_int_equal(samples_of(time, 1, (int64_t)(100 / ticks), (int64_t)(100 / ticks) + 1),
			 1);
	assert_int_equal(samples_of(time, 0, 0, 3), 3 * ticks);
	assert_int_equal(samples_of(time, 0, (int64_t)(5000 / ticks) + 1, (int64_t)(30000 / ticks)),
			 0);
	/* Runs that fill bins are runs of bins. */
	const json_t *numbers = json_array_get(json_object_get(time, "threads"), 0);
	assert_true(json_array_size(numbers) <= 4 * 8);
	json_decref(time);
}

static void many_runs_make_longer_bins(void **state)
{
	(void)state;
	bool timed;
	start_timeline(300);
	for (uint64_t tick = 0; tick < 1000; tick++)
		for (uint32_t thread = 0; thread < 300; thread++) {
			char name[16];
			snprintf(name, sizeof(name), "f%d", (int)((tick + thread) % 3));
			add_timed(thread, python(name, "/a.py", 1), tick, 1);
		}
	json_t *time = time_of(&timed);
	assert_true(timed);
	uint64_t samples = 0;
	size_t runs = 0;
	const json_t *threads = json_object_get(time, "threads");
	const int64_t bins = json_integer_value(json_object_get(time, "bins"));
	for (size_t i = 0; i < json_array_size(threads); i++) {
		samples += samples_of(time, i, 0, bins);
		runs += json_array_size(json_array_get(threads, i)) / 4;
	}
	assert_int_equal(samples, 300000);
	assert_true(runs <= HTML_MAX_RUNS && bins > 1);
	json_decref(time);
}

static void times_that_cannot_be_are_none(void **state)
{
	(void)state;
	bool timed;
	start_timeline(1);
	const uint32_t one = python("one", "/a.py", 1);
	add_timed(0, one, 5, 7);
	profile.timeline.samples[0].time_ns = UINT64_MAX - 5;
	json_t *time = time_of(&timed);
	assert_false(timed);
	assert_int_equal(samples_of(time, 0, 0, 1), 7);
	json_decref(time);
	profile.timeline.samples[0].time_ns = 0;
	profile.timeline.samples[0].count = UINT32_MAX;
	json_decref(time_of(&timed));
	assert_false(timed);
	/* One sample has no time: a strip without it would not tell the truth. */
	profile.timeline.samples[0].count = 6;
	json_decref(time_of(&timed));
	assert_false(timed);
}

/* ---- source texts ------------------------------------------------------------------------ */

static char folder[] = "/tmp/pictures_html_test_XXXXXX";

static void make_file(const char *name, const char *text, size_t size, mode_t mode)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), (ssize_t)size);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static json_t *sources_of(enum source_choice choice, uid_t user)
{
	struct view view;
	struct html_tree tree;
	struct html_strings texts = {0};
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct view_options options = plain;
	options.source = choice;
	options.source_root = (struct foreign_root){.fd = open(folder, O_PATH | O_DIRECTORY), .user = user};
	view_init(&view, &profile, &options, VIEW_BOXES);
	html_tree_init(&tree, &view, HTML_MAX_NODES);
	html_put_sources(&out, &tree, &options, &texts);
	json_t *value = parse(&out);
	json_t *result = json_object();
	size_t i;
	json_t *source;
	json_array_foreach(json_object_get(value, "sources"), i, source)
	{
		const size_t file = (size_t)json_integer_value(json_object_get(source, "file"));
		assert_true(file < texts.count);
		json_object_set(result, texts.texts[file], source);
	}
	json_decref(value);
	html_strings_release(&texts);
	html_tree_release(&tree);
	view_release(&view);
	close(options.source_root.fd);
	return result;
}

static const char *text_of(const json_t *sources, const char *path)
{
	return json_string_value(json_object_get(json_object_get(sources, path), "text"));
}

static bool is_changed(const json_t *sources, const char *path)
{
	return json_is_true(json_object_get(json_object_get(sources, path), "changed"));
}

static void source_texts_are_those_that_may_be_read(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	char *large = alloc_zeroed(HTML_MAX_SOURCE + 2, 1);
	memset(large, 'x', HTML_MAX_SOURCE + 1);
	static const char text[] = "if x:\r\n\ty = '\xe2\x80\xae</script>'\n\n\xff";
	make_file("a.py", text, sizeof(text) - 1, 0644);
	make_file("secret.py", "secret\n", 7, 0600);
	make_file("binary.py", "a\0b", 3, 0644);
	make_file("large.py", large, HTML_MAX_SOURCE + 1, 0644);
	make_file("empty.py", "", 0, 0644);
	free(large);
	char link[128];
	snprintf(link, sizeof(link), "%s/link.py", folder);
	assert_int_equal(symlink("/etc/passwd", link), 0);
	static const char *const names[] = {"/a.py",	 "/secret.py", "/binary.py", "/large.py",
					    "/empty.py", "/link.py",   "/none.py",   "/",
					    "a.py",	 "<string>"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const uint32_t frame = python("f", names[i], 2);
		profile_add(&profile, &frame, 1, 10 + i);
	}
	json_t *sources = sources_of(SOURCE_AUTO, 4242);
	assert_string_equal(text_of(sources, "/a.py"),
			    "if x:\n        y = '\\u202e</script>'\n\n\xef\xbf\xbd");
	assert_string_equal(text_of(sources, "/empty.py"), "");
	assert_int_equal(json_object_size(sources), 2);
	assert_false(is_changed(sources, "/a.py")); /* nobody knows when it was recorded */
	json_decref(sources);

	/* The file's owner may read it; and all have changed since. */
	profile.start_time_ns = 1000000000;
	sources = sources_of(SOURCE_AUTO, getuid());
	assert_string_equal(text_of(sources, "/secret.py"), "secret");
	assert_true(is_changed(sources, "/a.py"));
	json_decref(sources);

	sources = sources_of(SOURCE_NONE, getuid());
	assert_int_equal(json_object_size(sources), 0);
	json_decref(sources);
	char command[160];
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tree_keeps_all_samples_whatever_is_left_out, start,
						stop),
		cmocka_unit_test_setup_teardown(page_says_what_is_left_out, start, stop),
		cmocka_unit_test(texts_end_no_script),
		cmocka_unit_test_setup_teardown(samples_are_in_the_bins_of_their_times, start,
						stop),
		cmocka_unit_test_setup_teardown(many_runs_make_longer_bins, start, stop),
		cmocka_unit_test_setup_teardown(times_that_cannot_be_are_none, start, stop),
		cmocka_unit_test_setup_teardown(source_texts_are_those_that_may_be_read, start,
						stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
