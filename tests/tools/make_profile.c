/* SPDX-License-Identifier: MIT */
/*
 * Makes profiles that no program needs to be run for, and writes them through output/:
 * make_profile CASE FILE... with the format from each file's name. Cases: example, hostile,
 * long, deep, wide, empty. Options in front: --icicle, --function, --all (nothing too narrow).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "output/output.h"

/* Cleaned and interned, as all names that reach a profile are. */
static const char *clean(struct profile *profile, const char *text)
{
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	utf8_add_clean(&out, text, strlen(text));
	return intern_text(profile->strings, out.text);
}

static uint32_t python(struct profile *profile, enum frame_kind kind, const char *name,
		       const char *file, int line)
{
	struct strbuf _cleanup_strbuf_ path;
	strbuf_init(&path);
	strbuf_printf(&path, "/home/me/project/%s", file);
	struct frame frame = {
		.kind = kind,
		.name = clean(profile, name),
		.file = clean(profile, path.text),
		.short_file = clean(profile, file),
		.line = line,
	};
	return profile_frame(profile, &frame);
}

static uint32_t native(struct profile *profile, enum frame_kind kind, const char *name,
		       const char *module, uint64_t offset)
{
	struct strbuf _cleanup_strbuf_ path;
	strbuf_init(&path);
	strbuf_printf(&path, "/usr/lib/%s", module);
	struct frame frame = {
		.kind = kind,
		.name = name ? clean(profile, name) : NULL,
		.module = clean(profile, module),
		.module_path = clean(profile, path.text),
		.offset = offset,
		.function_offset = offset & ~(uint64_t)0xff,
		.has_function = kind != FRAME_GUESSED,
		.guessed = kind == FRAME_GUESSED,
		.build_id = clean(profile, "deadbeef0123"),
	};
	return profile_frame(profile, &frame);
}

#define ADD(profile, samples, ...)                                                                 \
	profile_add(profile, (const uint32_t[]){__VA_ARGS__},                                      \
		    sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), samples)

/* A small program of every kind of frame. */
static void make_example(struct profile *p)
{
	uint32_t module = python(p, FRAME_PYTHON, "<module>", "train.py", 61);
	uint32_t train = python(p, FRAME_PYTHON, "Trainer.train", "train.py", 44);
	uint32_t fit = python(p, FRAME_PYTHON_LIBRARY, "AlternatingLeastSquares.fit",
			      "implicit/als.py", 159);
	uint32_t solve = python(p, FRAME_CYTHON, "least_squares", "implicit/_als.pyx", 142);
	uint32_t axpy = python(p, FRAME_CYTHON, "axpy[float]", "implicit/_als.pyx", 18);
	uint32_t load = python(p, FRAME_PYTHON, "load_ratings", "data/ratings.py", 27);
	uint32_t json =
		python(p, FRAME_PYTHON_LIBRARY, "JSONDecoder.raw_decode", "json/decoder.py", 353);
	uint32_t score = python(p, FRAME_PYTHON, "evaluate.<locals>.score", "train.py", 88);
	uint32_t matmul = native(p, FRAME_NATIVE, "DOUBLE_matmul", "_multiarray_umath.so", 0x1a340);
	uint32_t dgemm = native(p, FRAME_NATIVE, "cblas_dgemm", "libopenblas.so.0", 0x9a340);
	uint32_t kernel =
		native(p, FRAME_NATIVE, "dgemm_kernel_HASWELL", "libopenblas.so.0", 0xb0010);
	uint32_t other =
		native(p, FRAME_NATIVE, "dgemm_kernel_HASWELL", "libopenblas.so.0", 0xb0090);
	uint32_t copy = native(p, FRAME_GUESSED, NULL, "libopenblas.so.0", 0xc0090);
	uint32_t alloc =
		native(p, FRAME_NATIVE, NULL, "_umath.cpython-311-x86_64-linux-gnu.so", 0x1a2b0);
	uint32_t gc = native(p, FRAME_INTERPRETER, "<gc>", "python3.11", 0x1200);
	uint32_t wait = native(p, FRAME_KERNEL, "ep_poll", "kernel", 0x10);
	uint32_t poll =
		python(p, FRAME_PYTHON_LIBRARY, "EpollSelector.select", "selectors.py", 468);
	uint32_t serve = python(p, FRAME_PYTHON, "serve_metrics", "metrics.py", 12);
	uint32_t idle = native(p, FRAME_IDLE, "<idle>", "kernel", 0);
	ADD(p, 214, module, train, fit, solve, axpy);
	ADD(p, 96, module, train, fit, solve);
	ADD(p, 171, module, train, fit, solve, dgemm, kernel);
	ADD(p, 64, module, train, fit, solve, dgemm, other);
	ADD(p, 31, module, train, fit, solve, dgemm, copy);
	ADD(p, 120, module, train, score, matmul, dgemm, kernel);
	ADD(p, 24, module, train, score);
	ADD(p, 70, module, load, json);
	ADD(p, 18, module, load, json, gc);
	ADD(p, 22, module, load, alloc);
	ADD(p, 41, module, serve, poll, wait);
	ADD(p, 29, module, serve, poll, idle);
	for (int i = 0; i < 60; i++) {
		char name[32];
		snprintf(name, sizeof(name), "helper_%d", i);
		ADD(p, (uint64_t)(i % 7 + 1), module, train,
		    python(p, FRAME_PYTHON, name, "util/helpers.py", 10 + i), i % 3 ? gc : alloc);
	}
}

static void make_hostile(struct profile *p)
{
	static const char *const names[] = {
		"<script>alert(1)</script>",
		"]]>",
		"]]></script><b>",
		"a;b;c 12",
		"line\nbreak\ttab",
		"\"double\" 'single' &amp; &",
		"bad \xff\xc3\x28 utf-8 \xed\xa0\x80",
		"\x1b[31mred",
		"\xef\xbf\xbe\xef\xbf\xbf",
		"\xe5\x90\x8d\xe5\x89\x8d\xe3\x81\x8c\xe9\x95\xb7\xe3\x81\x84",
		"operator()<int, std::vector<char> >",
		"<lambda>",
		"--><!--",
		"%s%n",
		"\xe2\x80\xae"
		"rtl",
		"Gr\xc3\xb6\xc3\x9f"
		"e",
		" ",
		"f (x) (y)",
	};
	uint32_t module = python(p, FRAME_PYTHON, "<module>", "<string> & \"x\".py", 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t one = python(p, FRAME_PYTHON, names[i], names[i], (int)i);
		ADD(p, 10 + i, module, one);
		ADD(p, 5, module, one, native(p, FRAME_NATIVE, names[i], names[i], i));
	}
}

/* Names as long as C++ templates get. */
static void make_long(struct profile *p)
{
	enum { SIZE = 5000, COUNT = 2000 };
	char *name = malloc(SIZE + 1);
	memset(name, 'T', SIZE);
	name[SIZE] = '\0';
	uint32_t module = python(p, FRAME_PYTHON, "<module>", "long.py", 1);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, 32, "name_%d<", i);
		name[strlen(name)] = '<';
		ADD(p, (uint64_t)(10 + i), module, native(p, FRAME_NATIVE, name, name, 16));
	}
	free(name);
}

static void make_deep(struct profile *p)
{
	enum { DEPTH = 5000 };
	uint32_t *stack = calloc(DEPTH, sizeof(*stack));
	for (int i = 0; i < DEPTH; i++)
		stack[i] =
			python(p, FRAME_PYTHON, i ? "descend" : "<module>", "deep.py", i ? 3 : 9);
	profile_add(p, stack, DEPTH, 90);
	profile_add(p, stack, 1000, 7);
	profile_add(p, stack, 10, 3);
	free(stack);
}

static void make_wide(struct profile *p)
{
	uint32_t module = python(p, FRAME_PYTHON, "<module>", "wide.py", 1);
	for (int i = 0; i < 50000; i++) {
		char name[64];
		snprintf(name, sizeof(name), "function_with_a_longer_name_%d", i);
		uint32_t one = python(p, FRAME_PYTHON, name, "wide.py", i + 1);
		ADD(p, (uint64_t)(1 + i % 900), module, one);
		ADD(p, (uint64_t)(1 + i % 31), module, one, one);
	}
}

static void make_empty(struct profile *p)
{
	(void)p;
}

static const struct {
	const char *name;
	void (*make)(struct profile *profile);
} cases[] = {
	{"example", make_example}, {"hostile", make_hostile}, {"long", make_long},
	{"deep", make_deep},	   {"wide", make_wide},	      {"empty", make_empty},
};

static bool make(struct profile *profile, const char *name)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(name, cases[i].name) == 0) {
			cases[i].make(profile);
			return true;
		}
	return false;
}

static bool write_file(const struct profile *profile, const char *file,
		       const struct output_options *options, struct error *error)
{
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	enum output_format format = output_format_by_file(file);
	return output_profile(profile, format, options, &out, error) &&
	       output_file_write(file, out.text, out.size, error);
}

int main(int argc, char **argv)
{
	struct output_options options = {.lines = true, .min_width = 0.1};
	int at = 1;
	for (; at < argc && argv[at][0] == '-'; at++) {
		options.icicle |= strcmp(argv[at], "--icicle") == 0;
		options.min_width *= strcmp(argv[at], "--all") != 0;
		options.lines &= strcmp(argv[at], "--function") != 0;
	}
	if (argc - at < 2)
		return 2;
	struct interner *strings = interner_new();
	struct profile profile;
	profile_init(&profile, strings);
	profile.command_line = "python3 train.py --epochs 20 <&>";
	profile.python_version = "3.11.7";
	profile.mode = "running";
	profile.rate = 100;
	profile.native = true;
	profile.pid = 4242;
	profile.start_time = 1763694000;
	if (!make(&profile, argv[at]))
		return 2;
	for (size_t i = 0; i < profile.node_count; i++)
		profile.counts.samples += profile.nodes[i].self;
	profile.counts.elapsed_ns = profile.counts.samples * 10000000;
	profile.counts.threads = 3;
	int status = 0;
	for (int i = at + 1; i < argc; i++) {
		struct error error;
		if (!write_file(&profile, argv[i], &options, &error)) {
			fprintf(stderr, "make_profile: %s\n", error.message);
			status = 1;
		}
	}
	profile_release(&profile);
	interner_free(strings);
	return status;
}
