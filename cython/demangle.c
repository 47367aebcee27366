/* SPDX-License-Identifier: MIT */
/*
 * Turns a C name that Cython generated into the name in the .pyx file:
 * "__pyx_pw_3pkg_3mod_6Hopper_3go.cold" is Hopper.go. The grammar is that of Cython 0.29 to 3.3
 * (Cython/Compiler/Naming.py, Symtab.py, Nodes.py). Knows one symbol only: where that allows
 * several readings, scopes.c takes the most probable one. Never fails: what begins as a Cython
 * name and follows no rule is a helper.
 */
#include "cython/internal.h"

#include <string.h>

#include "base/utf8.h"

struct demangling {
	const char *module;
	const struct cython_symbols *symbols;
	struct piece fused; /* "1_0": the specialisation; size 0: none */
	bool utility;	    /* memoryview and other code of Cython's own */
	bool openmp;	    /* the body of a parallel block, outlined by the compiler */
	bool split;	    /* ".part.0": called by the rest of the same function */
	enum cython_kind kind;
	int layer;
	struct strbuf name, base;
};

/* ------------------------------------------------------------ names and their parts */

static bool is_lambda(struct piece name)
{
	uint32_t number;
	return piece_skip(&name, "lambda") &&
	       (!name.size || (piece_number(&name, &number) && !name.size));
}

/* "__pyx_scope_struct_4_outer": the class of outer's variables; the counter may be missing. */
static bool skip_closure(struct piece *name)
{
	uint32_t counter;
	if (!piece_skip(name, "__pyx_scope_struct_"))
		return false;
	piece_number(name, &counter);
	piece_skip(name, "_");
	return true;
}

static void add_part(struct demangling *d, struct piece part)
{
	if (d->name.size)
		strbuf_add_char(&d->name, '.');
	if (is_lambda(part)) {
		strbuf_add_text(&d->name, "<lambda>");
	} else if (piece_equals(part, "genexpr")) {
		strbuf_add_text(&d->name, "<genexpr>");
	} else if (skip_closure(&part)) {
		strbuf_add_text(&d->name, "<closure ");
		utf8_add_clean(&d->name, part.text, part.size);
		strbuf_add_char(&d->name, '>');
		d->utility = true;
	} else {
		utf8_add_clean(&d->name, part.text, part.size);
	}
}

/*
 * The base is the whole path, module and all, as functions of one name in two modules may call
 * each other. A lambda's implementation has no scope, but a number that is its own in the module.
 */
static void set_base(struct demangling *d, const struct scopes *scopes,
		     const struct reading *reading, struct piece leaf)
{
	strbuf_reset(&d->base);
	if (is_lambda(leaf)) {
		strbuf_add_text(&d->base, d->module ? d->module : "");
	} else {
		for (size_t i = 0; i < reading->depth; i++) {
			strbuf_add(&d->base, scopes->names[i].text, scopes->names[i].size);
			strbuf_add_char(&d->base, '.');
		}
	}
	strbuf_add(&d->base, leaf.text, leaf.size);
}

static void show(struct demangling *d, const struct scopes *scopes, const struct reading *reading,
		 struct piece leaf)
{
	strbuf_reset(&d->name);
	for (size_t i = reading->module_depth; i < reading->depth; i++)
		add_part(d, scopes->names[i]);
	if (leaf.size)
		add_part(d, leaf);
	set_base(d, scopes, reading, leaf);
	d->utility |= scopes->utility;
}

/* ------------------------------------------------------------ the rules */

/* "1_0" off the front of "1_0__pyx_pw_..." or of "1_0name": one index per fused type. */
static struct piece skip_indices(struct piece *text)
{
	const char *start = text->text;
	struct piece ahead = *text;
	uint32_t index;
	while (piece_number(&ahead, &index)) {
		*text = ahead;
		if (!piece_skip(&ahead, "_"))
			break;
	}
	return (struct piece){start, (size_t)(text->text - start)};
}

/* f, lambdas: scopes and a name, no ordinal. */
static bool read_plain(struct demangling *d, struct piece text, struct scopes *scopes)
{
	struct reading reading;
	scopes_read(scopes, text);
	if (!scopes_choose(scopes, scopes_module_depth(scopes, d->module), LEAF_PLAIN, NULL,
			   &reading))
		return false;
	show(d, scopes, &reading, reading.leaf);
	return true;
}

/*
 * A name as leaf that is mangled itself: "__pyx_fuse_0fused_cp", and since 3.3 with the full
 * symbol behind the index, or "__pyx_lambda_funcdef_3pkg_3mod_lambda2".
 */
static void show_leaf(struct demangling *d, const struct scopes *scopes, struct reading *reading)
{
	struct piece leaf = reading->leaf, inner;
	struct scopes inner_scopes;
	if (piece_skip(&leaf, "__pyx_fuse_")) {
		d->fused = skip_indices(&leaf);
		inner = leaf;
		if (piece_skip(&inner, "__pyx_f_") && read_plain(d, inner, &inner_scopes))
			return;
	} else if (piece_skip(&leaf, "__pyx_lambda_funcdef_")) {
		scopes_read(&inner_scopes, leaf);
		if (inner_scopes.count && read_plain(d, leaf, &inner_scopes))
			return;
	}
	show(d, scopes, reading, leaf);
}

/*
 * Classes of View.MemoryView keep Cython's own C names: "__pyx_array_1__reduce_cython__" is a
 * scope and an ordinal, though without lengths.
 */
static bool read_utility_class(struct demangling *d, struct piece text)
{
	static const struct {
		const char *c_name, *name;
	} classes[] = {
		{"__pyx_array_", "array"},
		{"__pyx_MemviewEnum_", "Enum"},
		{"__pyx_memoryviewslice_", "_memoryviewslice"},
		{"__pyx_memoryview_", "memoryview"},
	};
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		struct piece rest = text;
		if (!piece_skip(&rest, classes[i].c_name))
			continue;
		uint32_t ordinal;
		piece_number(&rest, &ordinal);
		const char *name = classes[i].name;
		struct scopes scopes = {.count = 1, .utility = true};
		scopes.names[0] = (struct piece){name, strlen(name)};
		struct reading reading = {.depth = 1};
		show(d, &scopes, &reading, rest);
		return true;
	}
	return false;
}

static bool read_function(struct demangling *d, struct piece text, enum leaf_rule rule)
{
	struct scopes scopes;
	struct reading reading;
	if (read_utility_class(d, text))
		return true;
	scopes_read(&scopes, text);
	if (!scopes_choose(&scopes, scopes_module_depth(&scopes, d->module), rule, d->symbols,
			   &reading))
		return false;
	show_leaf(d, &scopes, &reading);
	return true;
}

/*
 * "__pyx_gb_3pkg_3mod_3Ext_52generator5": the function's own name is not in the symbol. Its
 * wrapper has the ordinal before; telling that needs the symbol table. Without a wrapper it is a
 * generator expression.
 */
static bool read_generator(struct demangling *d, struct piece text)
{
	struct piece name = piece_of("genexpr");
	struct scopes scopes;
	struct reading reading;
	scopes_read(&scopes, text);
	if (!scopes_choose(&scopes, scopes_module_depth(&scopes, d->module), LEAF_GENERATOR, NULL,
			   &reading))
		return false;
	symbols_find_generator(d->symbols, &scopes, &reading, &name);
	show(d, &scopes, &reading, name);
	strbuf_add(&d->base, reading.leaf.text, reading.leaf.size);
	return true;
}

/* "3pkg_3mod_3Ext_pub" of getprop and setprop. */
static bool read_property(struct demangling *d, struct piece text, const char *method)
{
	struct scopes scopes;
	if (!read_utility_class(d, text) && !read_plain(d, text, &scopes))
		return false;
	strbuf_printf(&d->name, ".%s", method);
	strbuf_printf(&d->base, ".%s", method);
	return true;
}

/* In a function the scopes are left out: "__pyx_lambda_funcdef_lambda7". */
static bool read_lambda(struct demangling *d, struct piece text)
{
	struct scopes scopes;
	struct piece wrapper;
	if (symbols_find_lambda(d->symbols, text, &wrapper))
		return read_function(d, wrapper, LEAF_WRAPPER);
	return read_plain(d, text, &scopes);
}

/* What the author wrote that a slot function calls: the next frame is part of the same call. */
static const char *slot_method(struct piece slot)
{
	static const struct {
		const char *slot, *method;
	} methods[] = {
		{"tp_new", "__cinit__"},	 {"tp_init", "__init__"},
		{"tp_dealloc", "__dealloc__"},	 {"tp_finalize", "__del__"},
		{"tp_getattro", "__getattr__"},	 {"tp_setattro", "__setattr__"},
		{"tp_descr_get", "__get__"},	 {"tp_descr_set", "__set__"},
		{"mp_subscript", "__getitem__"}, {"mp_ass_subscript", "__setitem__"},
		{"sq_item", "__getitem__"},	 {"sq_ass_item", "__setitem__"},
	};
	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (piece_equals(slot, methods[i].slot))
			return methods[i].method;
	return NULL;
}

static void add_slot(struct demangling *d, struct piece slot)
{
	const char *method = slot_method(slot);
	strbuf_add_char(&d->name, '.');
	strbuf_add(&d->name, slot.text, slot.size);
	strbuf_add_char(&d->base, '.');
	if (method)
		strbuf_add_text(&d->base, method);
	else if (piece_starts(slot, "nb_"))
		/* nb_add calls __add__ or __radd__: take the first. */
		strbuf_printf(&d->base, "__%.*s__", (int)slot.size - 3, slot.text + 3);
	else
		strbuf_add(&d->base, slot.text, slot.size);
}

/* "tp_new_" in front of a class without scopes: those of View.MemoryView. */
static bool read_utility_slot(struct demangling *d, struct piece text)
{
	static const char *const classes[] = {"array", "Enum", "_memoryviewslice", "memoryview"};
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		size_t size = strlen(classes[i]);
		if (text.size < size + 2 || !piece_ends(text, classes[i]))
			continue;
		struct piece slot = {text.text, text.size - size - 1};
		if (text.text[slot.size] != '_')
			continue;
		struct scopes none = {.utility = true};
		struct reading reading = {.depth = 0};
		show(d, &none, &reading, (struct piece){classes[i], size});
		add_slot(d, slot);
		return true;
	}
	return false;
}

/* "tp_new_3pkg_3mod_Ext": the slot ends where the first length begins. */
static bool read_slot(struct demangling *d, struct piece text)
{
	static const char *const families[] = {
		"tp_", "mp_", "sq_", "nb_", "bf_", "am_", "__dict__getter_", "__weakref__getter_"};
	size_t family = 0, count = sizeof(families) / sizeof(*families);
	while (family < count && !piece_starts(text, families[family]))
		family++;
	if (family == count)
		return false;
	size_t at = 0;
	while (at + 1 < text.size &&
	       !(text.text[at] == '_' && text.text[at + 1] >= '1' && text.text[at + 1] <= '9'))
		at++;
	struct scopes scopes;
	struct piece slot = {text.text, at};
	struct piece rest = at + 1 < text.size ? piece_after(text, at + 1) : (struct piece){0};
	if (piece_ends(rest, "_maybe_call_slot"))
		rest.size -= strlen("_maybe_call_slot");
	d->kind = CYTHON_WRAPPER;
	d->layer = 1;
	if (!rest.size || !read_plain(d, rest, &scopes) || !scopes.count)
		return read_utility_slot(d, text);
	add_slot(d, slot);
	/* The values of default arguments are kept in a class of this name. */
	d->utility |= memmem(rest.text, rest.size, "__pyx_defaults", 14) != NULL;
	return true;
}

/* "memoryview___pyx_pf_15View_dot_...": a second C name in front of the plain one. */
static bool read_utility(struct demangling *d, struct piece text)
{
	if (!piece_starts(text, "memoryview") && !piece_starts(text, "array_"))
		return false;
	d->utility = true;
	const char *inner = memmem(text.text, text.size, "___pyx_pf_", 10);
	return inner && read_function(d, piece_after(text, (size_t)(inner - text.text) + 10),
				      LEAF_IMPLEMENTATION);
}

static bool read_module(struct demangling *d, struct piece text)
{
	strbuf_reset(&d->name);
	strbuf_add_text(&d->name, "<module>");
	strbuf_add_text(&d->base, "<module> ");
	strbuf_add(&d->base, text.text, text.size);
	return true;
}

/* The rules by what follows "__pyx_". Layers: frames of one call ascend in this order. */
static bool read_rule(struct demangling *d, struct piece text)
{
	static const struct {
		const char *prefix;
		enum cython_kind kind;
		int layer;
	} rules[] = {
		{"pw_", CYTHON_WRAPPER, 2},
		{"pf_", CYTHON_FUNCTION, 3},
		{"f_", CYTHON_FUNCTION, 4},
		{"gb_", CYTHON_FUNCTION, 4},
		{"lambda_funcdef_", CYTHON_FUNCTION, 3},
		{"getprop_", CYTHON_WRAPPER, 1},
		{"setprop_", CYTHON_WRAPPER, 1},
		{"pymod_exec_", CYTHON_MODULE, 1},
	};
	size_t rule = 0, count = sizeof(rules) / sizeof(*rules);
	while (rule < count && !piece_skip(&text, rules[rule].prefix))
		rule++;
	if (rule == count)
		return read_slot(d, text) || read_utility(d, text);
	d->kind = rules[rule].kind;
	d->layer = rules[rule].layer;
	struct scopes scopes;
	switch (rule) {
	case 0:
		return read_function(d, text, LEAF_WRAPPER);
	case 1:
		return read_function(d, text, LEAF_IMPLEMENTATION);
	case 3:
		return read_generator(d, text);
	case 4:
		return read_lambda(d, text);
	case 5:
		return read_property(d, text, "__get__");
	case 6:
		return read_property(d, text, "__set__");
	case 7:
		return read_module(d, text);
	default:
		return read_plain(d, text, &scopes);
	}
}

/*
 * Whole C names. "__pyx_fuse_1_0" and "__pyx_specialmethod_" are prefixes to a complete name; the
 * 'U' of "__pyx_Upw_" says that the rest is punycode with '_' for '-'.
 */
static bool strip_prefixes(struct piece *whole, struct piece *fused, struct strbuf *decoded)
{
	struct piece text = *whole, inner = text;
	if (piece_skip(&inner, "__pyx_fuse_")) {
		struct piece indices = skip_indices(&inner);
		if (indices.size && piece_starts(inner, "__pyx_")) {
			*fused = indices;
			text = inner;
		}
	}
	if (!piece_skip(&text, "__pyx_"))
		return false;
	if (piece_skip(&text, "U")) {
		/* The code points' places count from the name's first letter on. */
		_cleanup_strbuf_ struct strbuf encoded;
		strbuf_init(&encoded);
		strbuf_add_text(&encoded, "__pyx_");
		strbuf_add(&encoded, text.text, text.size);
		if (!punycode_decode(encoded.text, encoded.size, '_', decoded))
			return false;
		text = (struct piece){decoded->text, decoded->size};
		if (!piece_skip(&text, "__pyx_"))
			return false;
	}
	*whole = text;
	return true;
}

static bool read_c_name(struct demangling *d, struct piece text, struct strbuf *decoded)
{
	bool special = piece_skip(&text, "__pyx_specialmethod_");
	if (!strip_prefixes(&text, &d->fused, decoded) || !read_rule(d, text))
		return false;
	if (special)
		d->layer = 1;
	return true;
}

/* ------------------------------------------------------------ C++ and compiler decorations */

/* Itanium C++ ABI 5.1.2: "<length><bytes>". */
static bool read_cpp_name(struct piece *text, struct piece *name)
{
	uint32_t length;
	if (!piece_number(text, &length) || !length || length > text->size)
		return false;
	*name = (struct piece){text->text, length};
	*text = piece_after(*text, length);
	return true;
}

/* "N19__pyx_t_4cppk_MyCpp4methEd": a method of a cppclass that is written in Cython. */
static bool read_cpp_method(struct demangling *d, struct piece text)
{
	struct piece class_name, member;
	struct scopes scopes;
	if (piece_starts(text, "K"))
		text = piece_after(text, 1);
	if (!read_cpp_name(&text, &class_name) || !piece_skip(&class_name, "__pyx_t_") ||
	    !read_plain(d, class_name, &scopes))
		return false;
	struct piece own = scopes.rests[scopes.count];
	d->kind = CYTHON_FUNCTION;
	d->layer = 4;
	strbuf_add_char(&d->name, '.');
	if (text.size && (*text.text == 'C' || *text.text == 'D')) {
		strbuf_add_text(&d->name, *text.text == 'D' ? "~" : "");
		member = own;
	} else if (read_cpp_name(&text, &member)) {
		/* "__pyx_f___init__MyCpp" */
		if (piece_skip(&member, "__pyx_f_") && member.size > own.size &&
		    memcmp(member.text + member.size - own.size, own.text, own.size) == 0)
			member.size -= own.size;
	} else {
		return false;
	}
	utf8_add_clean(&d->name, member.text, member.size);
	strbuf_reset(&d->base);
	strbuf_add(&d->base, class_name.text, class_name.size);
	strbuf_printf(&d->base, " %s", d->name.text);
	return true;
}

static bool contains(struct piece piece, const char *word)
{
	return memmem(piece.text, piece.size, word, strlen(word)) != NULL;
}

/* What the compiler appends begins with a dot, and no C name holds one. */
static struct piece strip_suffixes(struct demangling *d, struct piece symbol)
{
	const char *dot = memchr(symbol.text, '.', symbol.size);
	if (!dot)
		return symbol;
	struct piece suffixes = piece_after(symbol, (size_t)(dot - symbol.text));
	d->openmp = contains(suffixes, "._omp_fn.") || contains(suffixes, ".omp_outlined");
	d->split = contains(suffixes, ".part.");
	symbol.size -= suffixes.size;
	return symbol;
}

/* Is it a name that Cython generates at all? The whole of it follows "_Z" in C++. */
static bool read_symbol(struct demangling *d, struct piece symbol, struct strbuf *decoded,
			struct piece *plain)
{
	struct piece text = strip_suffixes(d, symbol);
	*plain = text;
	if (piece_skip(&text, "_ZN"))
		return read_cpp_method(d, text);
	if (piece_skip(&text, "_ZL") || piece_skip(&text, "_Z")) {
		struct piece name;
		if (!read_cpp_name(&text, &name))
			return false;
		*plain = text = name;
	}
	return read_c_name(d, text, decoded);
}

struct piece symbol_core(const char *symbol, struct strbuf *decoded)
{
	static const struct piece none = {"", 0};
	struct demangling unused = {.module = NULL};
	struct piece text = {symbol, strnlen(symbol, SYMBOL_LIMIT + 1)}, name, fused;
	if (text.size > SYMBOL_LIMIT)
		return none;
	text = strip_suffixes(&unused, text);
	if (piece_skip(&text, "_ZL") || piece_skip(&text, "_Z")) {
		if (!read_cpp_name(&text, &name))
			return none;
		text = name;
	}
	return strip_prefixes(&text, &fused, decoded) ? text : none;
}

static void finish(struct demangling *d)
{
	if (d->fused.size)
		strbuf_printf(&d->name, "[%.*s]", (int)d->fused.size, d->fused.text);
	if (d->openmp) {
		strbuf_add_text(&d->name, " [omp]");
		strbuf_add_text(&d->base, " [omp]");
	}
	if (d->utility)
		d->kind = CYTHON_HELPER;
}

static struct cython_name helper(struct interner *interner, struct demangling *d,
				 struct piece plain)
{
	if (!piece_starts(plain, "__pyx_") && !piece_starts(plain, "__Pyx_"))
		return (struct cython_name){.kind = CYTHON_NOT};
	strbuf_reset(&d->name);
	utf8_add_clean(&d->name, plain.text, plain.size);
	const char *name = intern_bytes(interner, d->name.text, d->name.size);
	return (struct cython_name){CYTHON_HELPER, name, name, 0, false};
}

struct cython_name cython_demangle(struct interner *interner, const char *symbol,
				   const char *module)
{
	return cython_demangle_in(interner, NULL, symbol, module);
}

struct cython_name cython_demangle_in(struct interner *interner,
				      const struct cython_symbols *symbols, const char *symbol,
				      const char *module)
{
	struct piece text = {symbol, strnlen(symbol, SYMBOL_LIMIT + 1)}, plain;
	if (text.size > SYMBOL_LIMIT || !(piece_starts(text, "_")))
		return (struct cython_name){.kind = CYTHON_NOT};
	struct demangling d = {.module = module, .symbols = symbols, .kind = CYTHON_FUNCTION};
	_cleanup_strbuf_ struct strbuf decoded;
	strbuf_init(&decoded);
	strbuf_init(&d.name);
	strbuf_init(&d.base);
	struct cython_name result;
	if (read_symbol(&d, text, &decoded, &plain)) {
		finish(&d);
		result = (struct cython_name){
			.kind = d.kind,
			.name = intern_bytes(interner, d.name.text, d.name.size),
			.base = intern_bytes(interner, d.base.text, d.base.size),
			.layer = 2 * d.layer + d.split,
			.slot = d.kind == CYTHON_WRAPPER && d.layer == 1,
		};
	} else {
		result = helper(interner, &d, plain);
	}
	strbuf_release(&d.name);
	strbuf_release(&d.base);
	return result;
}
