/* SPDX-License-Identifier: MIT */
/*
 * Turns a C name that Cython generated into the name in the .pyx file:
 * "__pyx_pw_3pkg_3mod_6Hopper_3go.cold" is Hopper.go. The grammar is that of Cython 0.29 to 3.3
 * (Cython/Compiler/Naming.py, Symtab.py, Nodes.py). Knows one symbol only: where that allows
 * several readings, scopes.c takes the most probable one. Never fails: what begins as a Cython
 * name and follows no rule is a helper.
 */
#include "cython/demangling.h"

#include <string.h>

#include "base/utf8.h"

/* ------------------------------------------------------------ the rules */

/*
 * A name as leaf that is mangled itself: "__pyx_fuse_0fused_cp", and since 3.3 with the full
 * symbol behind the index, or "__pyx_lambda_funcdef_3pkg_3mod_lambda2".
 */
static void show_leaf(struct demangling *d, const struct scopes *scopes, struct reading *reading)
{
	struct piece leaf = reading->leaf, inner;
	struct scopes inner_scopes;
	if (piece_skip(&leaf, "__pyx_fuse_")) {
		d->fused = piece_indices(&leaf);
		inner = leaf;
		if (piece_skip(&inner, "__pyx_f_") &&
		    demangling_read_plain(d, inner, &inner_scopes))
			return;
	} else if (piece_skip(&leaf, "__pyx_lambda_funcdef_")) {
		scopes_read(&inner_scopes, leaf);
		if (inner_scopes.count && demangling_read_plain(d, leaf, &inner_scopes))
			return;
	}
	demangling_show(d, scopes, reading, leaf);
}

static bool read_function(struct demangling *d, struct piece text, enum leaf_rule rule)
{
	struct scopes scopes;
	struct reading reading;
	if (demangling_read_utility_class(d, text))
		return true;
	scopes_read(&scopes, text);
	if (!scopes_choose(&scopes, scopes_module_depth(&scopes, d->module), rule, d->symbols,
			   &reading))
		return false;
	show_leaf(d, &scopes, &reading);
	if (rule == LEAF_IMPLEMENTATION && !d->fused.size)
		d->specialised = symbols_find_fused(
			d->symbols, scopes_front(&scopes, reading.depth), &reading, &d->fused);
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
	demangling_show(d, &scopes, &reading, name);
	strbuf_add(&d->base, reading.leaf.text, reading.leaf.size);
	return true;
}

/* In a function the scopes are left out: "__pyx_lambda_funcdef_lambda7". */
static bool read_lambda(struct demangling *d, struct piece text)
{
	struct scopes scopes;
	struct piece wrapper;
	if (symbols_find_lambda(d->symbols, text, &wrapper))
		return read_function(d, wrapper, LEAF_WRAPPER);
	return demangling_read_plain(d, text, &scopes);
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
		{"pw_", CYTHON_WRAPPER, LAYER_WRAPPER},
		{"pf_", CYTHON_FUNCTION, LAYER_IMPLEMENTATION},
		{"f_", CYTHON_FUNCTION, LAYER_FUNCTION},
		{"gb_", CYTHON_FUNCTION, LAYER_FUNCTION},
		{"lambda_funcdef_", CYTHON_FUNCTION, LAYER_IMPLEMENTATION},
		{"getprop_", CYTHON_WRAPPER, LAYER_SLOT},
		{"setprop_", CYTHON_WRAPPER, LAYER_SLOT},
		{"pymod_exec_", CYTHON_MODULE, LAYER_SLOT},
	};
	size_t rule = 0, count = sizeof(rules) / sizeof(*rules);
	while (rule < count && !piece_skip(&text, rules[rule].prefix))
		rule++;
	if (rule == count)
		return demangling_read_slot(d, text) || read_utility(d, text);
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
		return demangling_read_property(d, text, "__get__");
	case 6:
		return demangling_read_property(d, text, "__set__");
	case 7:
		return read_module(d, text);
	default:
		return demangling_read_plain(d, text, &scopes);
	}
}

static bool read_c_name(struct demangling *d, struct piece text, struct strbuf *decoded)
{
	bool special = piece_skip(&text, "__pyx_specialmethod_");
	if (!demangling_strip_prefixes(&text, &d->fused, decoded) || !read_rule(d, text))
		return false;
	if (special)
		d->layer = LAYER_SLOT;
	return true;
}

static void add_specialisation(struct demangling *d)
{
	strbuf_add_char(&d->name, '[');
	if (!symbols_fused_label(d->symbols, d->base.text, d->fused, &d->name))
		strbuf_add(&d->name, d->fused.text, d->fused.size);
	strbuf_add_char(&d->name, ']');
}

static void finish(struct demangling *d)
{
	if (d->fused.size)
		add_specialisation(d);
	if (d->openmp) {
		strbuf_add_text(&d->name, " [omp]");
		strbuf_add_text(&d->base, " [omp]");
	}
	if (d->utility)
		d->kind = CYTHON_HELPER;
}

/* Is it a name that Cython generates at all? The whole of it follows "_Z" in C++. */
static bool read_symbol(struct demangling *d, struct piece symbol, struct strbuf *decoded)
{
	struct piece text = demangling_strip_suffixes(d, symbol);
	d->plain = text;
	if (piece_skip(&text, "_ZN"))
		return demangling_read_cpp_method(d, text);
	if (!demangling_read_cpp_function(&text))
		return false;
	d->plain = text;
	return read_c_name(d, text, decoded);
}

static struct cython_name helper(struct interner *interner, struct demangling *d)
{
	if (!piece_starts(d->plain, "__pyx_") && !piece_starts(d->plain, "__Pyx_"))
		return (struct cython_name){.kind = CYTHON_NOT};
	strbuf_reset(&d->name);
	utf8_add_clean(&d->name, d->plain.text, d->plain.size);
	const char *name = intern_bytes(interner, d->name.text, d->name.size);
	return (struct cython_name){.kind = CYTHON_HELPER, .name = name, .base = name};
}

/* Layers: a part that GCC has split off is called by the rest of its function. */
static struct cython_name result_of(struct interner *interner, const struct demangling *d)
{
	bool slot = d->kind == CYTHON_WRAPPER && d->layer <= LAYER_SLOT;
	return (struct cython_name){
		.kind = d->kind,
		.name = intern_bytes(interner, d->name.text, d->name.size),
		.base = intern_bytes(interner, d->base.text, d->base.size),
		.owner = slot || d->special ? intern_text(interner, d->owner.text) : NULL,
		.layer = 8 * d->layer + 2 * d->step + d->split,
		.fused = d->fused.size || d->specialised,
		.slot = slot,
	};
}

struct cython_name cython_demangle(struct interner *interner, const char *symbol,
				   const char *module)
{
	return cython_demangle_in(interner, NULL, symbol, module);
}

static void demangling_init(struct demangling *d, const struct cython_symbols *symbols,
			    const char *module)
{
	*d = (struct demangling){.module = module, .symbols = symbols, .kind = CYTHON_FUNCTION};
	strbuf_init(&d->name);
	strbuf_init(&d->base);
	strbuf_init(&d->owner);
}

static void demangling_release(struct demangling *d)
{
	strbuf_release(&d->name);
	strbuf_release(&d->base);
	strbuf_release(&d->owner);
}

static bool may_be_name(const char *symbol, struct piece *text)
{
	*text = (struct piece){symbol, strnlen(symbol, SYMBOL_LIMIT + 1)};
	return text->size <= SYMBOL_LIMIT && piece_starts(*text, "_");
}

struct cython_name cython_demangle_in(struct interner *interner,
				      const struct cython_symbols *symbols, const char *symbol,
				      const char *module)
{
	struct piece text;
	if (!may_be_name(symbol, &text))
		return (struct cython_name){.kind = CYTHON_NOT};
	struct demangling d;
	_cleanup_strbuf_ struct strbuf decoded;
	strbuf_init(&decoded);
	demangling_init(&d, symbols, module);
	struct cython_name result;
	bool read = read_symbol(&d, text, &decoded);
	if (read)
		finish(&d);
	/* "__pyx_pf_3mod___pyx_lambda_funcdef_": all but a name. */
	result = read && d.name.size > 0 ? result_of(interner, &d) : helper(interner, &d);
	demangling_release(&d);
	return result;
}

bool demangle_fused(const struct cython_symbols *symbols, const char *symbol, struct strbuf *base,
		    struct strbuf *indices)
{
	struct piece text;
	if (!may_be_name(symbol, &text))
		return false;
	struct demangling d;
	_cleanup_strbuf_ struct strbuf decoded;
	strbuf_init(&decoded);
	demangling_init(&d, symbols, NULL);
	bool fused = read_symbol(&d, text, &decoded) && d.fused.size;
	if (fused) {
		strbuf_add(base, d.base.text, d.base.size);
		strbuf_add(indices, d.fused.text, d.fused.size);
	}
	demangling_release(&d);
	return fused;
}

/* Is the inner class or property the outer one or within it? "mod.Ext.prop" is within "mod.Ext". */
static bool is_within(const char *inner, const char *outer)
{
	size_t size = strlen(outer);
	return inner == outer || (strncmp(inner, outer, size) == 0 && inner[size] == '.');
}

bool cython_same_call(const struct cython_name *outer, const struct cython_name *inner)
{
	if (!outer->base || !inner->base)
		return false;
	if (outer->layer >= inner->layer)
		return false;
	return outer->base == inner->base || (outer->slot && outer->owner && inner->owner &&
					      is_within(inner->owner, outer->owner));
}
