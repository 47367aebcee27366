/* SPDX-License-Identifier: MIT */
/*
 * Names of functions that mypyc has compiled (mypyc/namegen.py): the parts of a dotted name are
 * joined by "___", and what an author wrote so is "___3_". Modules are shortened to what tells them
 * apart. CPyDef_mod___Point___go      Point.go; CPyPy_...: unpacks its Python arguments
 *     CPyDef_mod___Point           makes a Point for other compiled code
 *     CPyDunder___len__mod___Point in the type's slot; mod___Point_get_x: in its table of
 * properties CPyDef_mod___inner_outer_obj_____call__    "inner" within "outer": a class of its own
 *     CPyDef_mod___steps_Point_gen_____mypyc_generator_helper__    the generator Point.steps
 * Where a part ends is known by the others: each module has a "__top_level__", each class a
 * "_setup".
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "names/names.h"

enum { MAX_SYMBOLS = 1 << 18, MAX_LENGTH = 1024, MAX_ROUNDS = 8, MAX_CLASSES = 1 << 14 };

/* Steps of a few nanoseconds that reading the symbols may take: 250 modules with 100,000 symbols of
 * 60 letters take a fifth of it. */
static const uint64_t MAX_WORK = UINT64_C(1) << 30;

/* Frames of one call ascend. */
enum { LAYER_SLOT = 1, LAYER_PYTHON = 3, LAYER_GLUE, LAYER_NATIVE, LAYER_BODY };

struct mypyc_module {
	const char *name; /* as in symbols */
	size_t size;
};

struct mypyc_class {
	const char *module; /* as in symbols */
	const char *name;   /* as the author, or mypyc, has it */
	const char *inside; /* as in symbols: "mod___Three___3_Under" */
	const char *of;	    /* "outer.<locals>.inner": the function that it is of; NULL: a class */
};

/* "go_Point": what mypyc calls a function within the names of classes that it makes for it. */
struct mypyc_function {
	const char *module, *key;
	const char *name; /* "Point.go"; NULL: several have that key */
	const char *scope;
};

struct names_mypyc {
	struct interner *texts;
	const char **symbols;
	struct mypyc_module *modules;
	struct mypyc_class *classes;
	struct mypyc_function *functions;
	size_t symbol_count, symbol_capacity, module_count, module_capacity, class_count,
		class_capacity, function_count, function_capacity;
	/* (hash of "mod___Point", size), (module, name), (module, key): texts as pointers. */
	struct table classes_by_text, classes_by_name, functions_by_key;
	uint64_t work;
	bool read, given_up;
};

struct names_mypyc *names_mypyc_new(void)
{
	struct names_mypyc *mypyc = alloc_zeroed(1, sizeof(*mypyc));

	mypyc->texts = interner_new();
	table_init(&mypyc->classes_by_text);
	table_init(&mypyc->classes_by_name);
	table_init(&mypyc->functions_by_key);
	return mypyc;
}

void names_mypyc_free(struct names_mypyc *mypyc)
{
	if (!mypyc)
		return;
	free(mypyc->symbols);
	free(mypyc->modules);
	free(mypyc->classes);
	free(mypyc->functions);
	table_release(&mypyc->classes_by_text);
	table_release(&mypyc->classes_by_name);
	table_release(&mypyc->functions_by_key);
	interner_free(mypyc->texts);
	free(mypyc);
}

void names_mypyc_add(struct names_mypyc *mypyc, const char *symbol)
{
	if (strncmp(symbol, "CPyDef_", 7) || strchr(symbol, '.') || strlen(symbol) > MAX_LENGTH ||
	    mypyc->symbol_count >= MAX_SYMBOLS)
		return;
	mypyc->symbols = alloc_room(mypyc->symbols, &mypyc->symbol_capacity,
				    mypyc->symbol_count + 1, sizeof(*mypyc->symbols));
	mypyc->symbols[mypyc->symbol_count++] = intern_text(mypyc->texts, symbol + 7);
}

/* ---- texts -------------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, size_t size, const char *with)
{
	const size_t length = strlen(with);

	return size >= length && memcmp(text + size - length, with, length) == 0;
}

static void replace(struct strbuf *out, const char *text, size_t size, const char *from,
		    const char *to)
{
	const size_t length = strlen(from);

	for (size_t i = 0; i < size;) {
		if (size - i >= length && memcmp(text + i, from, length) == 0) {
			strbuf_add_text(out, to);
			i += length;
		} else {
			strbuf_add_char(out, text[i++]);
		}
	}
}

/* "do___3_it" -> "do___it" */
static const char *plain(struct names_mypyc *mypyc, const char *text, size_t size)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out);
	replace(&out, text, size, "___3_", "___");
	return intern_bytes(mypyc->texts, out.text, out.size);
}

static const char *format(struct names_mypyc *mypyc, const char *first, const char *between,
			  const char *last)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out);
	strbuf_printf(&out, "%s%s%s", first, between, last);
	return intern_bytes(mypyc->texts, out.text, out.size);
}

/* What follows the module and "___"; NULL: none of the modules is in front. */
static const char *after_module(const struct names_mypyc *mypyc, const char *text,
				const char **module)
{
	const char *rest = NULL;

	for (size_t i = 0; i < mypyc->module_count; i++) {
		const struct mypyc_module *known = &mypyc->modules[i];
		const char *end = text + known->size;
		if (strncmp(text, known->name, known->size) || !starts(end, "___") ||
		    (rest && end + 3 < rest))
			continue;
		rest = end + 3;
		*module = known->name;
	}
	return rest;
}

static struct mypyc_class *class_of_text(const struct names_mypyc *mypyc, const char *text,
					 size_t size)
{
	uint32_t at;

	if (!table_find(&mypyc->classes_by_text, hash_bytes(text, size), size, &at) ||
	    strncmp(mypyc->classes[at].inside, text, size) || mypyc->classes[at].inside[size])
		return NULL;
	return &mypyc->classes[at];
}

/* The class whose name is in front, with what is behind it: the longest one. */
static const struct mypyc_class *class_before(const struct names_mypyc *mypyc, const char *text,
					      const char **rest)
{
	for (size_t size = strlen(text); size > 0; size--) {
		const bool last =
			!text[size] || (text[size] == '_' && !starts(text + size, "___3_"));
		const struct mypyc_class *class = last ? class_of_text(mypyc, text, size) : NULL;
		if (!class)
			continue;
		*rest = text + size;
		return class;
	}
	return NULL;
}

/* False: it takes too long. A file may have been made so that it does. */
static bool spend(struct names_mypyc *mypyc, uint64_t steps)
{
	mypyc->work += steps;
	mypyc->given_up |= mypyc->work > MAX_WORK;
	return !mypyc->given_up;
}

/* What it may take to find the module and the class in front of a symbol. */
static bool spend_search(struct names_mypyc *mypyc, const char *symbol)
{
	const uint64_t size = strlen(symbol);

	return spend(mypyc, mypyc->module_count + size * size / 8);
}

/* ---- what the symbols say of one another ----------------------------------------------------- */

static void read_modules(struct names_mypyc *mypyc)
{
	static const char top[] = "_____top_level__";

	for (size_t i = 0; i < mypyc->symbol_count; i++) {
		const char *symbol = mypyc->symbols[i];
		const size_t size = strlen(symbol);
		if (!ends(symbol, size, top) || size == strlen(top))
			continue;
		mypyc->modules = alloc_room(mypyc->modules, &mypyc->module_capacity,
					    mypyc->module_count + 1, sizeof(*mypyc->modules));
		mypyc->modules[mypyc->module_count++] = (struct mypyc_module){
			intern_bytes(mypyc->texts, symbol, size - strlen(top)), size - strlen(top)};
	}
}

static uint64_t key_of(const char *text)
{
	return (uint64_t)(uintptr_t)text;
}

static bool has_class(const struct names_mypyc *mypyc, const char *module, const char *name)
{
	uint32_t at;

	return table_find(&mypyc->classes_by_name, key_of(module), key_of(name), &at);
}

/* `name` is interned, and as the author, or mypyc, has it. */
static void add_class(struct names_mypyc *mypyc, const char *module, const char *name)
{
	if (mypyc->class_count >= MAX_CLASSES || has_class(mypyc, module, name))
		return;
	_cleanup_strbuf_ struct strbuf inside;
	strbuf_init(&inside);
	strbuf_printf(&inside, "%s___", module);
	replace(&inside, name, strlen(name), "___", "___3_");
	mypyc->classes = alloc_room(mypyc->classes, &mypyc->class_capacity, mypyc->class_count + 1,
				    sizeof(*mypyc->classes));
	const uint32_t at = (uint32_t)mypyc->class_count++;
	mypyc->classes[at] = (struct mypyc_class){
		module, name, intern_bytes(mypyc->texts, inside.text, inside.size), NULL};
	table_put(&mypyc->classes_by_name, key_of(module), key_of(name), at);
	table_put(&mypyc->classes_by_name, 0, key_of(name), at); /* of any module */
	table_put(&mypyc->classes_by_text, hash_bytes(inside.text, inside.size), inside.size, at);
}

/* How much is in front of the first "___"; 0: there is none. */
static size_t first_part(const char *text)
{
	const char *at = text;

	while ((at = strstr(at, "___"))) {
		if (at > text && !starts(at, "___3_"))
			return (size_t)(at - text);
		at += starts(at, "___3_") ? strlen("___3_") : 1;
	}
	return 0;
}

static void read_classes(struct names_mypyc *mypyc)
{
	static const char first[] = "__mypyc__", last[] = "_setup";
	const char *module, *rest, *behind;

	for (size_t i = 0; i < mypyc->symbol_count && spend_search(mypyc, mypyc->symbols[i]); i++) {
		rest = after_module(mypyc, mypyc->symbols[i], &module);
		const char *name = rest ? plain(mypyc, rest, strlen(rest)) : "";
		const size_t size = strlen(name);
		if (starts(name, first) && ends(name, size, last) &&
		    size > strlen(first) + strlen(last))
			add_class(mypyc, module,
				  intern_bytes(mypyc->texts, name + strlen(first),
					       size - strlen(first) - strlen(last)));
	}
	/* Of traits there are no objects to set up. */
	for (size_t i = 0; i < mypyc->symbol_count && spend_search(mypyc, mypyc->symbols[i]); i++) {
		rest = after_module(mypyc, mypyc->symbols[i], &module);
		const size_t size = rest ? first_part(rest) : 0;
		if (size && !class_before(mypyc, mypyc->symbols[i], &behind))
			add_class(mypyc, module, plain(mypyc, rest, size));
	}
}

static struct mypyc_function *find_function(const struct names_mypyc *mypyc, const char *module,
					    const char *key)
{
	uint32_t at;

	return table_find(&mypyc->functions_by_key, key_of(module), key_of(key), &at)
		       ? &mypyc->functions[at]
		       : NULL;
}

static void add_function(struct names_mypyc *mypyc, const char *module, const char *key,
			 const char *name, const char *scope)
{
	struct mypyc_function *known = find_function(mypyc, module, key);

	if (known) {
		if (known->name != name)
			known->name = NULL;
		return;
	}
	mypyc->functions = alloc_room(mypyc->functions, &mypyc->function_capacity,
				      mypyc->function_count + 1, sizeof(*mypyc->functions));
	const uint32_t at = (uint32_t)mypyc->function_count++;
	mypyc->functions[at] = (struct mypyc_function){module, key, name, scope};
	table_put(&mypyc->functions_by_key, key_of(module), key_of(key), at);
}

/* Those that have such a class: only of these is it worth to know more. */
static bool is_of_interest(struct names_mypyc *mypyc, const char *module, const char *key)
{
	return has_class(mypyc, module, format(mypyc, key, "_env", "")) ||
	       has_class(mypyc, module, format(mypyc, key, "_gen", ""));
}

static void read_functions(struct names_mypyc *mypyc)
{
	for (size_t i = 0; i < mypyc->symbol_count && spend_search(mypyc, mypyc->symbols[i]); i++) {
		const char *module, *method,
			*rest = after_module(mypyc, mypyc->symbols[i], &module);
		const struct mypyc_class *class =
			rest ? class_before(mypyc, mypyc->symbols[i], &method) : NULL;
		if (!rest || (class && !*method))
			continue;
		if (class && !starts(method, "___"))
			class = NULL; /* a function, "Point_helper" */
		const char *name = class ? plain(mypyc, method + 3, strlen(method + 3))
					 : plain(mypyc, rest, strlen(rest));
		const char *key = class ? format(mypyc, name, "_", class->name) : name;
		if (is_of_interest(mypyc, module, key))
			add_function(mypyc, module, key,
				     class ? format(mypyc, class->name, ".", name) : name, key);
	}
}

/* "deep_outer_inner_obj": "deep" in the function "outer_inner", which has a class for what its
 * inner functions share. Several readings: not known. */
static bool read_inner(struct names_mypyc *mypyc, struct mypyc_class *class)
{
	const size_t size = strlen(class->name) - strlen("_obj");
	const char *key = intern_bytes(mypyc->texts, class->name, size);
	const struct mypyc_function *outer = NULL;
	size_t outers = 0, length = 0;

	for (size_t i = 0; i < mypyc->function_count; i++) {
		const struct mypyc_function *function = &mypyc->functions[i];
		const size_t scope = strlen(function->scope);
		if (function->module != class->module || !function->name || size < scope + 2 ||
		    !ends(class->name, size, function->scope) ||
		    class->name[size - scope - 1] != '_' ||
		    !has_class(mypyc, class->module, format(mypyc, function->key, "_env", "")))
			continue;
		outer = function;
		outers++;
		length = size - scope - 1;
	}
	if (outers != 1)
		return false;
	const char *name = intern_bytes(mypyc->texts, class->name, length);
	const char *scope = format(mypyc, outer->scope, "_", name);
	if (starts(name, "__mypyc_lambda__"))
		name = "<lambda>";
	class->of = format(mypyc, outer->name, ".<locals>.", name);
	add_function(mypyc, class->module, key, class->of, scope);
	return true;
}

static void read_inner_functions(struct names_mypyc *mypyc)
{
	bool more = true;

	for (int round = 0; more && round < MAX_ROUNDS; round++) {
		more = false;
		for (size_t i = 0; i < mypyc->class_count; i++) {
			struct mypyc_class *class = &mypyc->classes[i];
			if (!class->of && ends(class->name, strlen(class->name), "_obj") &&
			    spend(mypyc, 64 * (uint64_t)mypyc->function_count))
				more |= read_inner(mypyc, class);
		}
	}
	for (size_t i = 0; i < mypyc->class_count; i++) {
		struct mypyc_class *class = &mypyc->classes[i];
		const size_t size = strlen(class->name);
		if (!ends(class->name, size, "_gen"))
			continue;
		const struct mypyc_function *function = find_function(
			mypyc, class->module,
			intern_bytes(mypyc->texts, class->name, size - strlen("_gen")));
		class->of = function ? function->name : NULL;
	}
}

static void read_all(struct names_mypyc *mypyc)
{
	mypyc->read = true;
	read_modules(mypyc);
	read_classes(mypyc);
	read_functions(mypyc);
	read_inner_functions(mypyc);
}

/* ---- one name ----------------------------------------------------------------------------- */

static void set(struct names_mypyc *mypyc, struct names_author *author, const char *module,
		const char *class, const char *name, int layer)
{
	author->name = class ? format(mypyc, class, ".", name) : name;
	author->function = format(mypyc, module, " ", author->name);
	author->owner = class && starts(name, "__") ? format(mypyc, module, " ", class) : NULL;
	author->layer = layer;
}

/* "go__Base_glue" -> "go": called as Base's, with Base's types. */
static const char *without_glue(struct names_mypyc *mypyc, const char *name)
{
	const size_t size = strlen(name), glue = strlen("_glue");

	if (!ends(name, size, "_glue"))
		return name;
	for (const char *at = name; (at = strstr(at + 1, "__")) && at + 2 < name + size - glue;) {
		const char *base =
			intern_bytes(mypyc->texts, at + 2, (size_t)(name + size - glue - (at + 2)));
		if (has_class(mypyc, NULL, base))
			return intern_bytes(mypyc->texts, name, (size_t)(at - name));
	}
	return name;
}

static void set_method(struct names_mypyc *mypyc, const struct mypyc_class *class, const char *name,
		       int layer, struct names_author *author)
{
	static const char setter[] = "__mypyc_setter__";
	const bool body = strcmp(name, "__mypyc_generator_helper__") == 0;
	const bool inner = ends(class->name, strlen(class->name), "_obj");

	if (class->of && (!inner || strcmp(name, "__call__") == 0)) {
		set(mypyc, author, class->module, NULL, class->of,
		    body			      ? LAYER_BODY
		    : layer == LAYER_NATIVE && !inner ? LAYER_GLUE
						      : layer);
		return;
	}
	const char *own = without_glue(mypyc, name);
	if (own != name && layer == LAYER_NATIVE)
		layer = LAYER_GLUE;
	set(mypyc, author, class->module, class->name,
	    starts(own, setter) ? own + strlen(setter) : own, layer);
}

/* What mypyc writes for a class alone: "_new" ... Its dunder, or the slot's name. */
static bool set_slot(struct names_mypyc *mypyc, const struct mypyc_class *class, const char *rest,
		     struct names_author *author)
{
	static const char *const slots[][2] = {
		{"_new", "__new__"},	    {"_init", "__init__"},
		{"_vectorcall", "__new__"}, {"_finalize", "__del__"},
		{"_dealloc", "tp_dealloc"}, {"_traverse", "tp_traverse"},
		{"_clear", "tp_clear"},	    {"_clear_on_completion", "tp_clear"},
		{"_call", "__call__"},
	};

	for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
		if (strcmp(rest, slots[i][0]))
			continue;
		set(mypyc, author, class->module, class->name, slots[i][1], LAYER_SLOT);
		author->owner = format(mypyc, class->module, " ", class->name);
		author->slot = true;
		return true;
	}
	if (!starts(rest, "_get_") && !starts(rest, "_set_"))
		return false;
	set(mypyc, author, class->module, class->name, plain(mypyc, rest, strlen(rest)) + 5,
	    LAYER_SLOT);
	return true;
}

/* A module's own function: `rest` is what follows the module. */
static void set_plain(struct names_mypyc *mypyc, const char *module, const char *rest, int layer,
		      struct names_author *author)
{
	const char *name = plain(mypyc, rest, strlen(rest));
	const size_t size = strlen(name);

	if (strcmp(name, "__top_level__") == 0) {
		set(mypyc, author, module, NULL, "<module>", layer);
	} else if (starts(name, "__mypyc__") && ends(name, size, "_setup") &&
		   size > 9 + strlen("_setup")) {
		set(mypyc, author, module,
		    intern_bytes(mypyc->texts, name + 9, size - 9 - strlen("_setup")), "__new__",
		    layer);
	} else {
		set(mypyc, author, module, NULL, name, layer);
	}
}

static bool set_function(struct names_mypyc *mypyc, const char *text, int layer,
			 struct names_author *author)
{
	const char *module, *behind, *rest = after_module(mypyc, text, &module);
	const struct mypyc_class *class = rest ? class_before(mypyc, text, &behind) : NULL;

	if (!rest)
		return false;
	if (class && !*behind) {
		/* Calls __init__, if there is one. */
		set(mypyc, author, module, class->name, "__init__", LAYER_SLOT);
		author->name = class->of ? class->of : class->name;
		return true;
	}
	if (class && starts(behind, "___")) {
		set_method(mypyc, class, plain(mypyc, behind + 3, strlen(behind + 3)), layer,
			   author);
		return true;
	}
	if (class && (layer == LAYER_SLOT || starts(behind, "_clear")) &&
	    set_slot(mypyc, class, behind, author))
		return true;
	if (layer == LAYER_SLOT)
		return false;
	set_plain(mypyc, module, rest, layer, author);
	return true;
}

/* "__len__mod___Point", "_RichCompare_mod___Point", "am_sendmod___steps_gen" */
static bool set_dunder(struct names_mypyc *mypyc, const char *text, struct names_author *author)
{
	const size_t size = strlen(text);
	const struct mypyc_class *found = NULL;
	const char *slot;

	for (size_t i = 1; i < size && !found; i++)
		found = class_of_text(mypyc, text + i, size - i);
	if (!found)
		return false;
	slot = intern_bytes(mypyc->texts, text, size - strlen(found->inside));
	if (strcmp(slot, "_RichCompare_") == 0)
		slot = "tp_richcompare";
	else if (strcmp(slot, "am_send") == 0)
		slot = "send";
	set_method(mypyc, found, slot, LAYER_SLOT, author);
	if (!found->of) {
		author->owner = format(mypyc, found->module, " ", found->name);
		author->slot = true;
	}
	return true;
}

bool names_mypyc_name(struct names_mypyc *mypyc, const char *linkage, struct names_author *author)
{
	const size_t size = strcspn(linkage, ".");
	_cleanup_free_ char *text = size <= MAX_LENGTH ? strndup(linkage, size) : NULL;

	*author = (struct names_author){0};
	if (!text)
		return false;
	if (!mypyc->read)
		read_all(mypyc);
	if (mypyc->given_up)
		return false;
	if (starts(text, "CPyExec_")) {
		author->name = author->function = intern_text(mypyc->texts, "<module>");
		return true;
	}
	if (starts(text, "CPyDef_"))
		return set_function(mypyc, text + 7, LAYER_NATIVE, author);
	if (starts(text, "CPyPy_"))
		return set_function(mypyc, text + 6, LAYER_PYTHON, author);
	if (starts(text, "CPyDunder_"))
		return set_dunder(mypyc, text + 10, author);
	return set_function(mypyc, text, LAYER_SLOT, author);
}
