/* SPDX-License-Identifier: MIT */
/*
 * Names of the functions that Cython writes for the slots of a type and for its properties:
 * "__pyx_tp_descr_get_3pkg_3mod_Ext" is Ext.__get__. They call the special methods that the author
 * wrote; a slot that a program knows no name for keeps its own.
 */
#include "cython/demangling.h"

#include <string.h>

/*
 * Cython 3.3 makes three functions of one slot, each calling the next (ModuleNode.py,
 * generate_new_function). The name of the slot ends where the others begin.
 */
static int slot_step(struct piece *slot)
{
	static const char *const steps[] = {"_vectorcall", "__initialisation"};
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		if (!piece_ends(*slot, steps[i]))
			continue;
		slot->size -= strlen(steps[i]);
		return (int)i + 1;
	}
	return 0;
}

/* They go on to other slots and to properties of the same class. */
static bool is_dispatcher(struct piece slot)
{
	return piece_equals(slot, "tp_vectorcall") || piece_equals(slot, "tp_getattro") ||
	       piece_equals(slot, "tp_setattro");
}

/* Those that Cython writes functions for; what it makes of tp_richcompare is any of six methods. */
static const char *method_of_slot(struct piece slot)
{
	static const char *const methods[][2] = {
		{"tp_new", "__new__"},
		{"tp_vectorcall", "__new__"},
		{"tp_init", "__init__"},
		{"tp_finalize", "__del__"},
		{"tp_getattro", "__getattribute__"},
		{"tp_setattro", "__setattr__"},
		{"tp_descr_get", "__get__"},
		{"tp_descr_set", "__set__"},
		{"tp_iternext", "__next__"},
		{"sq_item", "__getitem__"},
		{"sq_ass_item", "__setitem__"},
		{"mp_ass_subscript", "__setitem__"},
		{"sq_slice", "__getslice__"},
		{"sq_ass_slice", "__setslice__"},
		{"nb_add", "__add__"},
		{"nb_subtract", "__sub__"},
		{"nb_multiply", "__mul__"},
		{"nb_matrix_multiply", "__matmul__"},
		{"nb_divide", "__div__"},
		{"nb_floor_divide", "__floordiv__"},
		{"nb_true_divide", "__truediv__"},
		{"nb_remainder", "__mod__"},
		{"nb_divmod", "__divmod__"},
		{"nb_power", "__pow__"},
		{"nb_inplace_power", "__ipow__"},
		{"nb_lshift", "__lshift__"},
		{"nb_rshift", "__rshift__"},
		{"nb_and", "__and__"},
		{"nb_xor", "__xor__"},
		{"nb_or", "__or__"},
	};
	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (piece_equals(slot, methods[i][0]))
			return methods[i][1];
	return NULL;
}

static void add_slot(struct demangling *d, struct piece slot)
{
	d->layer = is_dispatcher(slot) ? LAYER_DISPATCH : LAYER_SLOT;
	d->step = slot_step(&slot);
	const char *method = method_of_slot(slot);
	strbuf_add_char(&d->name, '.');
	if (method)
		strbuf_add_text(&d->name, method);
	else
		strbuf_add(&d->name, slot.text, slot.size);
	strbuf_reset(&d->owner);
	strbuf_add(&d->owner, d->base.text, d->base.size);
	strbuf_add_char(&d->base, '.');
	strbuf_add(&d->base, slot.text, slot.size);
}

/*
 * Classes of View.MemoryView keep Cython's own C names: "__pyx_array_1__reduce_cython__" is a
 * scope and an ordinal, though without lengths.
 */
bool demangling_read_utility_class(struct demangling *d, struct piece text)
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
		demangling_show(d, &scopes, &reading, rest);
		return true;
	}
	return false;
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
		demangling_show(d, &none, &reading, (struct piece){classes[i], size});
		add_slot(d, slot);
		return true;
	}
	return false;
}

/* The slot ends where the first length begins. */
bool demangling_read_slot(struct demangling *d, struct piece text)
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
	if (!rest.size || !demangling_read_plain(d, rest, &scopes) || !scopes.count)
		return read_utility_slot(d, text);
	add_slot(d, slot);
	/* The values of default arguments are kept in a class of this name. */
	d->utility |= memmem(rest.text, rest.size, "__pyx_defaults", 14) != NULL;
	return true;
}

bool demangling_read_property(struct demangling *d, struct piece text, const char *method)
{
	struct scopes scopes;
	if (!demangling_read_utility_class(d, text) && !demangling_read_plain(d, text, &scopes))
		return false;
	strbuf_reset(&d->owner);
	strbuf_add(&d->owner, d->base.text, d->base.size);
	strbuf_printf(&d->name, ".%s", method);
	strbuf_printf(&d->base, ".%s", method);
	return true;
}
