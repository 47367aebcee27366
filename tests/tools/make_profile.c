/* SPDX-License-Identifier: MIT */
/*
 * Makes profiles that no program needs to be run for, and writes them through output/:
 * make_profile CASE FILE... with the format from each file's name. Cases: example, hostile,
 * long, huge, deep, start, wide, inlined, many, empty. Options in front: --icicle, --function,
 * --full (file names), --all (nothing too narrow), --timed (samples have times, in three threads
 * with gaps), --lost (but not all of them have).
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
		"\xf0\x9f\x90\x8d\xf0\x9f\x94\xa5",
		"` ``` **bold** [link](mailto:x) | a | b |",
		"back\\slash \\u0041 \\",
		"\x1b]0;title\x07\x9b"
		"31m",
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
	enum { SIZE = 10000, COUNT = 2000 };
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

/* A few of them, each as file and library, too. */
static void make_huge(struct profile *p)
{
	enum { SIZE = 10000 };
	char name[SIZE + 1];
	memset(name, 'T', SIZE);
	name[SIZE] = '\0';
	uint32_t module = python(p, FRAME_PYTHON, "<module>", "huge.py", 1);
	for (int i = 0; i < 5; i++) {
		name[0] = (char)('a' + i);
		ADD(p, (uint64_t)(10 + i), module, python(p, FRAME_CYTHON, name, name, 7),
		    native(p, FRAME_NATIVE, name, name, 16));
	}
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

/* A short program from its start: an import once went deep. */
static void make_start(struct profile *p)
{
	enum { DEPTH = 110 };
	uint32_t module = python(p, FRAME_PYTHON, "<module>", "short.py", 1), stack[DEPTH];
	uint32_t work = python(p, FRAME_PYTHON, "work", "short.py", 5);
	for (int i = 0; i < DEPTH; i++) {
		char name[32];
		snprintf(name, sizeof(name), i % 5 ? "_find_and_load" : "<module> %d", i);
		stack[i] = python(p, FRAME_PYTHON_LIBRARY, i ? name : "<module>",
				  i ? "importlib/_bootstrap.py" : "short.py", i % 7 + 1);
	}
	ADD(p, 140, module, work, native(p, FRAME_NATIVE, "dgemm", "libblas.so", 16));
	profile_add(p, stack, DEPTH, 1);
	profile_add(p, stack, DEPTH - 3, 1);
	stack[60] = python(p, FRAME_PYTHON, "plugin", "short.py", 7);
	profile_add(p, stack, 80, 2);
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

/* Inlined functions, of two addresses, and one that is at another address than its caller's. */
static void make_inlined(struct profile *p)
{
	uint32_t frames[2][3];
	for (int i = 0; i < 6; i++) {
		char name[16];
		snprintf(name, sizeof(name), i % 3 ? "inline_%d" : "outer", i % 3);
		struct frame frame = {
			.kind = FRAME_NATIVE,
			.name = clean(p, name),
			.file = clean(p, "/src/inlined.c"),
			.short_file = clean(p, "inlined.c"),
			.line = 10 + i,
			.module = clean(p, "libinlined.so"),
			.module_path = clean(p, "/usr/lib/libinlined.so"),
			.offset = 0x1000 + (uint64_t)(i / 3) * 16,
			.function_offset = 0x1000,
			.has_function = true,
			.build_id = clean(p, "00112233445566778899aabbccddeeff01234567"),
			.inlined = i % 3 != 0,
		};
		frames[i / 3][i % 3] = profile_frame(p, &frame);
	}
	uint32_t module = python(p, FRAME_PYTHON, "<module>", "inlined.py", 1);
	ADD(p, 30, module, frames[0][0], frames[0][1], frames[0][2]);
	ADD(p, 20, module, frames[1][0], frames[1][1], frames[1][2]);
	ADD(p, 10, module, frames[0][0], frames[0][1]);
	ADD(p, 7, module, frames[0][0]);
	ADD(p, 5, module, frames[0][0], frames[1][0], frames[1][1]);
	ADD(p, 3, module, frames[1][1]); /* its caller is missing */
}

/* 100,000 samples of 20,000 stacks, as long recordings have them. */
static void make_many(struct profile *p)
{
	enum { STACKS = 20000, DEPTH = 40 };
	uint32_t stack[DEPTH], seed = 1;
	for (int i = 0; i < STACKS; i++) {
		for (int depth = 0; depth < DEPTH; depth++) {
			seed = seed * 1664525 + 1013904223;
			const int choice = depth < 20 ? (i >> (depth / 2)) % 3 : (int)(seed >> 28);
			char name[64];
			snprintf(name, sizeof(name), "function_%d_of_module_%d", choice, depth);
			stack[depth] = depth % 3 ? python(p, FRAME_PYTHON, name, "many.py", depth)
						 : native(p, FRAME_NATIVE, name, "libmany.so",
							  (uint64_t)(depth * 64 + choice));
		}
		profile_add(p, stack, DEPTH, 5);
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
	{"huge", make_huge},	   {"deep", make_deep},	      {"start", make_start},
	{"wide", make_wide},	   {"inlined", make_inlined}, {"many", make_many},
	{"empty", make_empty},
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

/*
 * Gives the samples times: pieces of each node's, in turns for three threads (of two processes),
 * with a gap behind every fifth. The last node's have none with `lost`.
 */
static void make_times(struct profile *p, bool lost)
{
	static const char *const names[] = {"MainThread", "worker </script>;\x1b[31m", NULL};
	profile_time(p);
	struct timeline *timeline = &p->timeline;
	for (uint32_t i = 0; i < 2; i++)
		timeline_process(timeline, &(struct profile_process){(pid_t)(4242 + i * 10),
								     p->command_line, "3.11.7"});
	for (uint32_t i = 0; i < 3; i++)
		timeline_thread(timeline, &(struct profile_thread){
						  .process = i / 2,
						  .tid = (pid_t)(4242 + i * 5),
						  .name = names[i] ? clean(p, names[i]) : NULL,
						  .known_to_python = true,
					  });
	uint64_t next[3] = {0, 3 * timeline->period_ns, 5000000}, piece = 0;
	for (uint32_t i = 0; i < p->node_count - lost; i++)
		for (uint64_t left = p->nodes[i].self, part; left; left -= part, piece++) {
			const uint32_t thread = (uint32_t)(piece % 3);
			part = left < piece % 7 + 1 ? left : piece % 7 + 1;
			timeline_add(timeline, &(struct profile_sample){
						       .time_ns = next[thread],
						       .node = i,
						       .thread = thread,
						       .count = (uint32_t)part,
						       .flags = (uint32_t)(piece * 5 % 16),
					       });
			next[thread] += (part + (piece % 5 == 0 ? 3 : 0)) * timeline->period_ns;
		}
}

static bool write_file(const struct profile *profile, const char *file,
		       const struct view_options *options, struct error *error)
{
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	enum output_format format = output_format_by_file(file);
	return output_profile(profile, format, options, &out, error) &&
	       output_file_write(file, out.text, out.size, error);
}

int main(int argc, char **argv)
{
	struct view_options options = {.lines = true, .min_width = 0.1};
	bool timed = true, lost = false;
	int at = 1;
	for (; at < argc && argv[at][0] == '-'; at++) {
		options.icicle |= strcmp(argv[at], "--icicle") == 0;
		options.min_width *= strcmp(argv[at], "--all") != 0;
		options.lines &= strcmp(argv[at], "--function") != 0;
		options.full_filenames |= strcmp(argv[at], "--full") == 0;
		lost |= strcmp(argv[at], "--lost") == 0;
		timed &= strcmp(argv[at], "--untimed") != 0;
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
	profile.start_time_ns = UINT64_C(1763694000000000000);
	if (!make(&profile, argv[at]))
		return 2;
	for (size_t i = 0; i < profile.node_count; i++)
		profile.counts.samples += profile.nodes[i].self;
	profile.counts.elapsed_ns = profile.counts.samples * 10000000;
	profile.counts.threads = 3;
	if (timed)
		make_times(&profile, lost);
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
