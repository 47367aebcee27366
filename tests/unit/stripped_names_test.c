/* SPDX-License-Identifier: MIT */
/*
 * Names that stripped modules state by their own tables. The modules are compiled here, with tables
 * as CPython's headers make them; where each function is, their unstripped twins tell.
 */
#include "stripped/internal.h"
#include "symbolize/internal.h"
#include "tests/unit/symbolize_fixture.h"

static const char tables_source[] =
	"typedef long word;\n"
	"struct method { const char *name; void *function; int flags; const char *doc; };\n"
	"struct property { const char *name; void *get, *set; const char *doc; void *closure; };\n"
	"#define F(name) static __attribute__((noipa, used)) long name(long x) { return x + "
	"__LINE__; }\n"
	"F(alone)\nF(point_norm)\nF(point_old)\nF(get_x)\nF(set_x)\nF(point_new)\nF(point_repr)\n"
	"F(point_add)\nF(point_len)\nF(point_item)\nF(point_free)\nF(spec_go)\nF(spec_init)\n"
	"F(spec_send)\nF(exec)\nF(loads)\nF(shared)\nF(common)\nF(nobody)\nF(local)\n"
	"extern long PyModule_Create2(), PyObject_GenericGetAttr();\n"
	"static struct method lone = {\"lone\", local, 4, 0};\n"
	"static struct method functions[] = {{\"alone\", alone, 1, \"\"}, {\"loads\", loads, 0x82, "
	"\"doc\"},\n"
	"	{\"load\", shared, 8, 0}, {\"unload\", shared, 8, 0}, {0}};\n"
	"static struct method point_methods[] = {{\"norm\", point_norm, 4, 0}, {\"old\", "
	"point_old, 8, 0},\n"
	"	{\"__old__\", point_old, 8, 0}, {0}};\n"
	"static struct property point_properties[] = {{\"x\", get_x, set_x, 0, 0}, {0}};\n"
	"static void *number[36] = {[0] = point_add};\n"
	"static void *sequence[10] = {[0] = point_len, [3] = point_item};\n"
	"static void *mapping[3] = {[0] = point_len};\n"
	"struct type { HEAD word basic, item; void *dealloc; word vectorcall; void *a[3], *repr, "
	"*number,\n"
	"	*sequence, *mapping, *hash, *call, *str, *getattro, *setattro, *buffer; word "
	"flags;\n"
	"	const char *doc; void *b[3]; word weak; void *iter, *next, *methods, *members, "
	"*properties,\n"
	"	*base, *dict, *c[2]; word dictoffset; void *init, *alloc, *new, *free, *d[10], "
	"*e[2]; };\n"
	"#define T(n, ...) struct type n = {HEAD_INIT, __VA_ARGS__}\n"
	"T(point, .basic = 16, .flags = 1 << 18, .dealloc = point_free, .repr = point_repr, "
	".number = number,\n"
	"	.sequence = sequence, .mapping = mapping, .methods = point_methods, .properties =\n"
	"	point_properties, .new = point_new, .hash = common, .getattro = "
	"PyObject_GenericGetAttr);\n"
	"#define SAME(n) T(n, .basic = 16, .hash = common)\n"
	"#undef NAME\n#define NAME \"a.A\"\nSAME(a);\n#undef NAME\n#define NAME \"a.B\"\nSAME(b);\n"
	"#undef NAME\n#define NAME \"a.C\"\nSAME(c);\n#undef NAME\n#define NAME \"a.D\"\nSAME(d);\n"
	"static struct method spec_methods[] = {{\"go\", spec_go, 0x280, 0}, {0}};\n"
	"static struct { int slot; void *value; } spec_slots[] = {{64, spec_methods}, {60, "
	"spec_init},\n"
	"	{81, spec_send}, {0}}, module_slots[] = {{2, exec}, {0}};\n"
	"struct { const char *name; int basic, item; unsigned flags; void *slots; } spec =\n"
	"	{\"pkg.Spec\", 24, 0, 1, spec_slots};\n"
	"struct { word count; void *type, *init; word index; void *copy; const char *name, *doc; "
	"word size;\n"
	"	void *methods, *slots, *rest[3]; } definition = {1, 0, 0, 0, 0, \"shapes\", 0, 0, "
	"functions,\n"
	"	module_slots};\n"
	"long PyInit_shapes(long x) { return nobody(x) + (long)&lone + "
	"PyModule_Create2(&definition); }\n";

/*
 * What Cython makes, as far as it matters here: every function that can raise ends in a call of
 * add_traceback with its own name, those that are inlined into it with theirs.
 */
static const char cython_source[] =
	"typedef long word;\n"
	"struct method { const char *name; void *function; int flags; const char *doc; };\n"
	"extern long PyModule_Create2(), PyObject_Call(), dealloc(), GOMP_parallel();\n"
	"const char *runtime(void) { return \"cython_runtime\"; }\n"
	"static __attribute__((noipa)) void add_traceback(const char *name, int c_line, int line,\n"
	"	const char *file) { PyObject_Call(name, c_line, line, file); }\n"
	"#define FAIL(name, line) ({ add_traceback(name, 0, line, \"pkg/mod.pyx\"); 0; })\n"
	"#define F static __attribute__((noipa)) long\n"
	"static inline __attribute__((always_inline)) long helper(long x) { return x > 3 ?\n"
	"	PyObject_Call(x) : FAIL(\"pkg.mod.helper\", 3); }\n"
	"F own_helper(long x) { return helper(x) + 1; }\n"
	"F go_body(long x) { return PyObject_Call(x) ?: FAIL(\"pkg.mod.Hopper.go\", 5); }\n"
	"F go(long x) { return go_body(x) ?: 4; }\n"
	"F both(long x) { return PyObject_Call(helper(x)) ?: FAIL(\"pkg.mod.both\", 7); }\n"
	"F outer_inner(long x) { return PyObject_Call(x) ?: FAIL(\"pkg.mod.outer.lambda\", 9); }\n"
	"F fused(long x) { return PyObject_Call(x) ?: FAIL(\"pkg.mod.axpy\", 9); }\n"
	"F generator(long x) { return PyObject_Call(x) ?: FAIL(\"items\", 11); }\n"
	"F items(long x) { return PyObject_Call(generator) ?: FAIL(\"pkg.mod.Hopper.items\", 10); "
	"}\n"
	"F view(long x) { return PyObject_Call(x) ?: FAIL(\"View.MemoryView.array.get\", 1); }\n"
	"F dropping(long *x) { long y = PyObject_Call(x); if (--*x == 0) dealloc(x);\n"
	"	return y ?: FAIL(\"pkg.mod.dropping\", 14); }\n"
	"F jumping(long x) { int line; if (!PyObject_Call(x)) { line = 21; goto error; }\n"
	"	if (!dealloc(x)) { line = 22; goto error; } return 1;\n"
	"	error: FAIL(\"pkg.mod.jumping\", line); return 0; }\n"
	"F block(long *x) { return *x * 3; }\n"
	"F parallel(long x) { GOMP_parallel(block, &x, 0, 0);\n"
	"	return PyObject_Call(x) ?: FAIL(\"pkg.mod.parallel\", 15); }\n"
	"F silent(long x) { return x + 1; }\n"
	"F chilly(long x) { if (__builtin_expect(PyObject_Call(x) == 7, 0)) {\n"
	"	PyObject_Call(1); asm volatile(\"mark_cold: nop\"); FAIL(\"pkg.mod.chilly\", 12); "
	"}\n"
	"	return PyObject_Call(2); }\n"
	"F quiet(long x) { return x * 7; }\nF quick(long x) { return x * 9; }\n"
	"F twin(long x) { return x * 5; }\nF handed(long x) { return x * 3; }\n"
	"#define EXPORT static __attribute__((noipa)) long\n"
	"EXPORT export(char *name, void *f, char *type) {\n"
	"	return PyObject_Call(\"__pyx_capi__\", name, f, type); }\n"
	"EXPORT hand(char *name, void *f, char *type) { return PyObject_Call(name, f, type); }\n"
	"EXPORT export_all(void) { return export(\"quiet\", quiet, \"long (long)\") +\n"
	"	export(\"__pyx_fuse_0quick\", quick, \"l\") + export(\"one\", twin, \"l\") +\n"
	"	export(\"two\", twin, \"l\") +\n"
	"	hand(\"handed\", handed, \"long (long)\"); }\n"
	"F chooser(long x) { return PyObject_Call(x) ?: FAIL(\"pkg.mod.Ops.__pyx_fused_cpdef\", "
	"16); }\n"
	"F reduce(long x) { return chooser(x) ?: 4; }\n"
	"F sents(long x) { return PyObject_Call(x) ?: FAIL(\"sents\", 18); }\n"
	"F get_sents(long x) { return PyObject_Call(sents) ?: FAIL(\"pkg.mod.Span.sents.__get__\", "
	"17); }\n"
	"F descr_get(long x) { return x * 11; }\nF free_it(long x) { return x * 13; }\n"
	"static struct { int slot; void *value; } property_slots[] = {{54, descr_get}, {52, "
	"free_it}, {0}};\n"
	"struct { const char *name; int basic, item; unsigned flags; void *slots; } property =\n"
	"	{\"mod.CachedProperty\", 24, 0, 1, property_slots};\n"
	"static struct method mdef_reduce = {\"reduce\", reduce, 4, 0};\n"
	"static struct method mdef_go = {\"go\", go, 4, 0}, mdef_items = {\"items\", items, 4, "
	"0},\n"
	"	mdef_fused = {\"__pyx_fuse_1axpy\", fused, 1, 0};\n"
	"static struct method none[1]; struct { int slot; void *value; } slots[] = {{2, silent}, "
	"{0}};\n"
	"struct { word count; void *type, *init; word index; void *copy; const char *name, *doc; "
	"word size;\n"
	"	void *methods, *slots, *rest[3]; } definition = {1, 0, 0, 0, 0, \"mod\", 0, 0, "
	"none, slots};\n"
	"long PyInit_mod(long x) {\n"
	"	return (long)&mdef_go + (long)&mdef_items + (long)&mdef_fused + "
	"PyModule_Create2(&definition)\n"
	"	+ both(x) + own_helper(x) + outer_inner(x) + view(x) + silent(x) + chilly(x) + "
	"dropping(x) + jumping(x) + parallel(x) + export_all() + (long)&mdef_reduce + get_sents(x); }\n";

/* How the head of an object looks, and what the linker is told. */
static const struct build {
	const char *name, *flags;
} builds[] = {
	{"plain", "-shared -fPIC"},
	{"relr", "-shared -fPIC -Wl,-z,pack-relative-relocs"},
	{"no-pie", "-no-pie -Wl,-z,norelro -Wl,--export-dynamic"},
	{"one-segment", "-no-pie -Wl,-z,noseparate-code -Wl,--export-dynamic"},
};

static const char plain_head[] = "-D'HEAD=word count; void *type; word size; const char *name;' "
				 "-D'HEAD_INIT=1, 0, 0, NAME' -D'NAME=\"geo.Point\"'";
static const char threaded_head[] =
	"-D'HEAD=word tid; unsigned bits, local; word shared; void *type; word size; const char "
	"*name;'"
	" -D'HEAD_INIT=0, 0, 0xffffffffu, 0, 0, 0, NAME' -D'NAME=\"geo.Point\"'";

static const struct expected {
	const char *symbol, *name, *module;
	enum name_evidence evidence;
	bool uncertain;
} expected[] = {
	{"alone", "alone", "shapes", EVIDENCE_METHOD, false},
	{"loads", "loads", "shapes", EVIDENCE_METHOD, false},
	{"shared", "load", "shapes", EVIDENCE_METHOD, true},
	{"local", "lone", NULL, EVIDENCE_METHOD, false},
	{"point_norm", "Point.norm", "geo", EVIDENCE_METHOD, false},
	{"point_old", "Point.old", "geo", EVIDENCE_METHOD, false},
	{"get_x", "Point.x", "geo", EVIDENCE_PROPERTY, false},
	{"set_x", "Point.x", "geo", EVIDENCE_PROPERTY, false},
	{"point_new", "Point.__new__", "geo", EVIDENCE_SLOT, false},
	{"point_repr", "Point.__repr__", "geo", EVIDENCE_SLOT, false},
	{"point_add", "Point.__add__", "geo", EVIDENCE_SLOT, false},
	{"point_len", "Point.__len__", "geo", EVIDENCE_SLOT, false},
	{"point_item", "Point.__getitem__", "geo", EVIDENCE_SLOT, false},
	{"point_free", "Point.tp_dealloc", "geo", EVIDENCE_SLOT, false},
	{"spec_go", "Spec.go", "pkg", EVIDENCE_METHOD, false},
	{"spec_init", "Spec.__init__", "pkg", EVIDENCE_SLOT, false},
	{"spec_send", "Spec.send", "pkg", EVIDENCE_SLOT, false},
	{"exec", "<module>", "shapes", EVIDENCE_MODULE_SLOT, false},
	{"common", NULL, NULL, 0, false}, /* of five classes */
	{"nobody", NULL, NULL, 0, false},
};

struct world {
	char folder[64], whole[128], stripped[128];
	struct interner *strings;
	struct symbolizer *symbolizer;
};

static struct symbolize_module module_of(const char *path)
{
	return (struct symbolize_module){
		.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC), .root_fd = -1};
}

static void open_module(struct world *world, const char *path)
{
	struct error error;
	const struct symbolize_module module = module_of(path);

	assert_true(symbolizer_open(world->symbolizer, &module, &error));
	close(module.fd);
}

/* False: this machine's linker cannot build it. */
static bool build_world(struct world *world, const char *source, const char *flags)
{
	make_folder(world->folder);
	write_file(world->folder, "tables.c", source);
	snprintf(world->whole, sizeof(world->whole), "%s/whole.so", world->folder);
	snprintf(world->stripped, sizeof(world->stripped), "%s/stripped.so", world->folder);
	world->strings = interner_new();
	world->symbolizer = symbolizer_new(world->strings);
	return !shell("cd %s && gcc -w -O2 %s -o whole.so tables.c "
		      "-Wl,--unresolved-symbols=ignore-all -Wl,-e,0,--build-id=none -nostartfiles "
		      "2>/dev/null && "
		      "strip -o stripped.so whole.so",
		      world->folder, flags);
}

static void release_world(struct world *world)
{
	symbolizer_free(world->symbolizer);
	interner_free(world->strings);
	shell("rm -r %s", world->folder);
}

static void check_recovered(struct world *world, const struct expected *wanted)
{
	const uint64_t address = mark_address(world->whole, wanted->symbol);
	struct recovered_name recovered;
	struct symbolize_result result;

	if (symbolize_recovered_name(world->symbolizer, address + 1, &recovered) != !!wanted->name)
		fail_msg("%s: %s", wanted->symbol, wanted->name ? "no name" : recovered.name);
	symbolize_pc(world->symbolizer, address, true, 0, &result);
	assert_int_equal(result.count, !!wanted->name);
	if (!wanted->name)
		return;
	assert_string_equal(recovered.name, wanted->name);
	assert_int_equal(!recovered.module, !wanted->module);
	if (recovered.module)
		assert_string_equal(recovered.module, wanted->module);
	assert_int_equal(recovered.evidence, wanted->evidence);
	assert_int_equal(recovered.uncertain, wanted->uncertain);
	assert_int_equal(recovered.start, address);
	assert_false(recovered.cython);
	assert_ptr_equal(result.frames[0].name, recovered.name);
	assert_ptr_equal(result.frames[0].recovered, &result.recovered);
}

static void check_tables(const char *head)
{
	for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
		struct world world;
		char flags[512];
		snprintf(flags, sizeof(flags), "%s %s", builds[i].flags, head);
		if (!build_world(&world, tables_source, flags)) {
			print_message("skip: %s cannot be built\n", builds[i].name);
			assert_string_equal(builds[i].name, "relr");
			release_world(&world);
			continue;
		}
		open_module(&world, world.stripped);
		for (size_t j = 0; j < sizeof(expected) / sizeof(*expected); j++)
			check_recovered(&world, &expected[j]);
		release_world(&world);
	}
}

static void tables_name_functions(void **state)
{
	(void)state;
	check_tables(plain_head);
}

static void tables_of_free_threaded_builds_too(void **state)
{
	(void)state;
	check_tables(threaded_head);
}

/* A symbol tells more, but the stated name can be asked for all the same. */
static void symbols_come_first(void **state)
{
	struct world world;
	struct recovered_name recovered;
	struct symbolize_result result;
	char flags[512];

	(void)state;
	snprintf(flags, sizeof(flags), "-shared -fPIC %s", plain_head);
	assert_true(build_world(&world, tables_source, flags));
	const uint64_t address = mark_address(world.whole, "point_norm");
	open_module(&world, world.whole);
	symbolize_pc(world.symbolizer, address, true, 0, &result);
	assert_int_equal(result.count, 1);
	assert_string_equal(result.frames[0].name, "point_norm");
	assert_null(result.frames[0].recovered);
	assert_true(symbolize_recovered_name(world.symbolizer, address, &recovered));
	assert_string_equal(recovered.name, "Point.norm");
	release_world(&world);
}

static const struct {
	const char *symbol, *name;
	enum name_evidence evidence;
	bool uncertain, helper;
	int layer;
} made_by_cython[] = {
	{"go", "Hopper.go", EVIDENCE_METHOD, false, false, 4},
	{"go_body", "Hopper.go", EVIDENCE_TRACEBACK, false, false, 6},
	{"items", "Hopper.items", EVIDENCE_METHOD, false, false, 4},
	{"generator", "Hopper.items", EVIDENCE_TRACEBACK, false, false, 6},
	{"fused", "axpy[1]", EVIDENCE_METHOD, false, false, 4},
	{"outer_inner", "outer.<lambda>", EVIDENCE_TRACEBACK, false, false, 6},
	{"own_helper", "helper", EVIDENCE_TRACEBACK, false, false, 6},
	{"both", "both", EVIDENCE_TRACEBACK, true, false, 6},
	{"view", "View.MemoryView.array.get", EVIDENCE_TRACEBACK, false, true, 6},
	{"chilly", "chilly", EVIDENCE_TRACEBACK, false, false, 6},
	{"mark_cold", "chilly", EVIDENCE_TRACEBACK, false, false, 6},
	{"parallel", "parallel", EVIDENCE_TRACEBACK, false, false, 6},
	{"block", "parallel [omp]", EVIDENCE_TRACEBACK, false, false, 6},
	{"reduce", "Ops.reduce", EVIDENCE_METHOD, false, false, 4},
	{"chooser", "Ops.reduce", EVIDENCE_TRACEBACK, false, false, 6},
	{"sents", "Span.sents.__get__", EVIDENCE_TRACEBACK, false, false, 6},
	{"quiet", "quiet", EVIDENCE_EXPORT, false, false, 6},
	{"quick", "quick[0]", EVIDENCE_EXPORT, false, false, 6},
	{"twin", "one", EVIDENCE_EXPORT, true, false, 6},
	{"handed", NULL, 0, false, false, 0},
	{"silent", "<module>", EVIDENCE_MODULE_SLOT, false, false, 2},
	{"descr_get", "CachedProperty.__get__", EVIDENCE_SLOT, false, false, 2},
	{"free_it", "CachedProperty.tp_dealloc", EVIDENCE_SLOT, false, false, 2},
	{"add_traceback", NULL, 0, false, false, 0},
};

static void tracebacks_name_functions(void **state)
{
	struct world world;

	(void)state;
	assert_true(build_world(&world, cython_source, "-shared -fPIC"));
	open_module(&world, world.stripped);
	for (size_t i = 0; i < sizeof(made_by_cython) / sizeof(*made_by_cython); i++) {
		const char *wanted = made_by_cython[i].name;
		struct recovered_name recovered;
		const bool found = symbolize_recovered_name(
			world.symbolizer, mark_address(world.whole, made_by_cython[i].symbol),
			&recovered);
		if (found != !!wanted || (found && strcmp(recovered.name, wanted)))
			fail_msg("%s: %s", made_by_cython[i].symbol, found ? recovered.name : "none");
		if (!found)
			continue;
		assert_true(recovered.cython);
		assert_int_equal(recovered.evidence, made_by_cython[i].evidence);
		assert_int_equal(recovered.uncertain, made_by_cython[i].uncertain);
		assert_int_equal(recovered.helper, made_by_cython[i].helper);
		assert_int_equal(recovered.layer, made_by_cython[i].layer);
	}
	release_world(&world);
}

/* What follows the call of that function in the other one. */
static uint64_t return_address(const struct world *world, const char *function, const char *callee)
{
	char command[512];
	unsigned long address = 0;

	snprintf(command, sizeof(command),
		 "objdump -d --no-show-raw-insn --disassemble=%s '%s' | "
		 "awk '/call.*%s/ { getline; print $1; exit }' | tr -d :",
		 function, world->whole, callee);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%lx", &address), 1);
	pclose(pipe);
	return address;
}

static const struct {
	const char *function, *callee;
	int line; /* 0: none is told */
} calls[] = {
	{"go_body", "PyObject_Call", 5},
	{"outer_inner", "PyObject_Call", 9},
	{"generator", "PyObject_Call", 11},
	{"items", "PyObject_Call", 10},
	{"dropping", "PyObject_Call", 14}, /* what the arguments are is dropped first */
	{"dropping", "dealloc", 0},	   /* cannot fail */
	{"jumping", "dealloc", 22},	   /* jumps to where others go on, too */
	{"go", "go_body", 0},		   /* has no line of its own */
	{"both", "PyObject_Call", 0},	   /* whose name is a guess */
};

static void failing_calls_tell_lines(void **state)
{
	struct world world;

	(void)state;
	assert_true(build_world(&world, cython_source, "-shared -fPIC"));
	open_module(&world, world.stripped);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		const uint64_t address = return_address(&world, calls[i].function, calls[i].callee);
		struct symbolize_result result;
		symbolize_pc(world.symbolizer, address, false, 0, &result);
		assert_int_equal(result.count, 1);
		if (result.frames[0].line != calls[i].line)
			fail_msg("%s: line %d", calls[i].function, result.frames[0].line);
		if (calls[i].line)
			assert_string_equal(result.frames[0].file, "pkg/mod.pyx");
		else
			assert_null(result.frames[0].file);
		symbolize_pc(world.symbolizer, address, true, 0, &result);
		assert_int_equal(result.frames[0].line, 0); /* no return address */
	}
	release_world(&world);
}

/*
 * Functions that no table has: those that named ones jump to ("joins" is "jmp join"), parts, and
 * those that objects are called through, whose addresses tp_new puts into them.
 */
static const char jumping_source[] =
	"typedef long word;\n"
	"struct method { const char *name; void *function; int flags; const char *doc; };\n"
	"extern long PyModule_Create2(), PyObject_Call();\n"
	"#define F static __attribute__((noipa)) long\n"
	"F join(word x) { return PyObject_Call(x, 1) + 1; }\n"
	"F joins(word x) { return join(x); }\n"
	"F caller(word x) { return join(x) + 2; }\n"
	"F rest(word x) { return PyObject_Call(x, 2) + 1; }\n"
	"F begins(word x) { if (PyObject_Call(x, 3)) return 4; return rest(x + 5); }\n"
	"F shared(word x) { return PyObject_Call(x, 4) + 1; }\n"
	"F one(word x) { return shared(x); }\nF two(word x) { return shared(x) + shared(x + 1); }\n"
	"F three(word x) { if (x) return shared(x + 3); return 7; }\n"
	"F add(word x) { return PyObject_Call(x, 5) + 1; }\n"
	"F adds(word x) { return add(x); }\n"
	"F taken(word x) { return PyObject_Call(x, 6) + 1; }\n"
	"F takes(word x) { return taken(x); }\nvoid *hidden_place;\n"
	"F exported_user(word x) { hidden_place = taken; return PyObject_Call(x, 8); }\n"
	"F plain(word *x) { return PyObject_Call(x, 9) + 3; }\n"
	"F cached(word *x) { return PyObject_Call(x, 10) + 3; }\n"
	"F compared(word *x) { return PyObject_Call(x, 11) + 3; }\n"
	"F wrapper_call(word *x) { return ((long (*)())x[7])(x); }\n"
	"F wrapper_new(word *x) { word *y = (word *)PyObject_Call(x);\n"
	"	y[7] = (word)(y[2] ? plain : cached); return (long)y; }\n"
	"F other_call(word *x) { return ((long (*)())x[6])(x); }\n"
	"F other_new(word *x) { word *y = (word *)PyObject_Call(x);\n"
	"	y[8] = (word)compared; return (long)y; }\n"
	"static void *const operators[] = {add, 0};\n"
	"static struct method functions[] = {{\"joins\", joins, 8, 0}, {\"begins\", begins, 8, "
	"0},\n"
	"	{\"one\", one, 8, 0}, {\"two\", two, 8, 0}, {\"three\", three, 8, 0}, {\"adds\", "
	"adds, 8, 0},\n"
	"	{\"takes\", takes, 8, 0}, {\"caller\", caller, 8, 0}, {\"user\", exported_user, 8, "
	"0}, {0}};\n"
	"static struct { int slot; void *value; } wrapper_slots[] = {{65, wrapper_new}, {50, "
	"wrapper_call}, "
	"{0}},\n	other_slots[] = {{65, other_new}, {50, other_call}, {0}};\n"
	"struct spec { const char *name; int basic, item; unsigned flags; void *slots; } wrapper "
	"=\n"
	"	{\"pkg.Wrapper\", 64, 0, 1, wrapper_slots}, other = {\"pkg.Other\", 64, 0, 1, "
	"other_slots};\n"
	"struct { word count; void *type, *init; word index; void *copy; const char *name, *doc; "
	"word size;\n"
	"	void *methods, *slots, *rest[3]; } definition = {1, 0, 0, 0, 0, \"pkg\", 0, 0, "
	"functions, "
	"0};\n"
	"long PyInit_pkg(long x) { return PyModule_Create2(&definition, operators[x]); }\n";

static const struct {
	const char *symbol, *name;
	bool tail;
} jumped_to[] = {
	{"joins", "joins", false},
	{"join", "joins", true}, /* "caller" calls it */
	{"rest", "begins", false},
	{"shared", NULL, false}, /* of "one" or of "three" */
	{"add", NULL, false},	 /* by a table of the module's own */
	{"taken", NULL, false},
	{"wrapper_call", "Wrapper.__call__", false},
	{"plain", "Wrapper.__call__", false},
	{"cached", "Wrapper.__call__", false},
	{"compared", NULL, false}, /* that member is not called */
};

static void check_jumped_to(const char *flags)
{
	struct world world;

	assert_true(build_world(&world, jumping_source, flags));
	open_module(&world, world.stripped);
	for (size_t i = 0; i < sizeof(jumped_to) / sizeof(*jumped_to); i++) {
		const uint64_t address = mark_address(world.whole, jumped_to[i].symbol);
		const char *wanted = jumped_to[i].name;
		struct recovered_name recovered;
		struct symbolize_result result;
		const bool found = symbolize_recovered_name(world.symbolizer, address, &recovered);
		if (found != !!wanted || (found && strcmp(recovered.name, wanted)))
			fail_msg("%s, %s: %s", flags, jumped_to[i].symbol,
				 found ? recovered.name : "none");
		assert_true(!found || recovered.tail == jumped_to[i].tail);
		/* How it was reached, nobody knows here. */
		symbolize_pc(world.symbolizer, address, true, 0, &result);
		assert_int_equal(result.count, found && !recovered.tail);
	}
	release_world(&world);
}

static void functions_that_end_named_ones_have_their_names(void **state)
{
	(void)state;
	check_jumped_to("-shared -fPIC");
	check_jumped_to("-no-pie -Wl,-z,norelro -Wl,--export-dynamic");
}

/* Who asks for another module than the one that was read does not get its names. */
static void names_read_ahead_are_of_one_module(void **state)
{
	const struct build_id id = {.bytes = {1, 2}, .size = 2}, other = {.bytes = {1}, .size = 1};
	struct recovered_names names = {.count = 0};
	struct world world;
	char flags[512];

	(void)state;
	snprintf(flags, sizeof(flags), "-shared -fPIC %s", plain_head);
	assert_true(build_world(&world, tables_source, flags));
	struct symbolize_module module = module_of(world.stripped);
	assert_null(names_ahead_start(&module)); /* without a build ID it is nobody's */
	module.build_id = id;
	struct names_ahead *ahead = names_ahead_start(&module);
	close(module.fd);
	assert_false(names_ahead_take(NULL, world.stripped, &id, &names));
	assert_false(names_ahead_take(ahead, world.whole, &id, &names));
	assert_false(names_ahead_take(ahead, world.stripped, &other, &names));
	assert_true(names_ahead_take(ahead, world.stripped, &id, &names));
	assert_true(names.count > 10);
	recovered_names_release(&names);
	assert_false(names_ahead_take(ahead, world.stripped, &id, &names));
	names_ahead_free(ahead);
	release_world(&world);
}

static void modules_read_ahead_have_their_names(void **state)
{
	struct world world;
	struct error error;
	char flags[512];

	(void)state;
	snprintf(flags, sizeof(flags), "-shared -fPIC %s", plain_head);
	assert_true(build_world(&world, tables_source, flags));
	struct symbolize_module ahead = module_of(world.stripped), first = module_of(world.whole);
	ahead.build_id = (struct build_id){.bytes = {1, 2}, .size = 2};
	symbolizer_read_ahead(world.symbolizer, &ahead);
	assert_true(symbolizer_open(world.symbolizer, &first, &error));
	const struct expected *wanted = &expected[0];
	struct recovered_name recovered;
	assert_true(symbolize_recovered_name(world.symbolizer,
					  mark_address(world.whole, wanted->symbol), &recovered));
	for (int round = 0; round < 2; round++) {
		assert_true(symbolizer_open(world.symbolizer, &ahead, &error));
		check_recovered(&world, wanted);
		assert_true(symbolizer_open(world.symbolizer, &first, &error));
	}
	symbolizer_read_ahead(world.symbolizer, &ahead); /* not asked for */
	close(ahead.fd);
	close(first.fd);
	release_world(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_name_functions),
		cmocka_unit_test(tables_of_free_threaded_builds_too),
		cmocka_unit_test(symbols_come_first),
		cmocka_unit_test(tracebacks_name_functions),
		cmocka_unit_test(failing_calls_tell_lines),
		cmocka_unit_test(functions_that_end_named_ones_have_their_names),
		cmocka_unit_test(names_read_ahead_are_of_one_module),
		cmocka_unit_test(modules_read_ahead_have_their_names),
	};
	setenv("XDG_CACHE_HOME", "/nonexistent", 1); /* names that are kept prove nothing */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
