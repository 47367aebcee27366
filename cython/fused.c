/* SPDX-License-Identifier: MIT */
/*
 * The types that a specialisation of a fused function is for. Its C name has only their numbers:
 * "__pyx_fuse_1_0__pyx_f_3mod_axpy" is axpy for the second type of one fused type and the first of
 * another. Variables whose type is not the same in a specialisation that differs in one number tell
 * what that number means. Must never guess: without such a variable the numbers are shown.
 */
#include "cython/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
	VARIABLE_LIMIT = 1 << 17, /* of a module */
	FAMILY_LIMIT = 2048,	  /* of all specialisations of one function */
	TYPE_LIMIT = 16,	  /* fused types of one function */
};

/* All strings are interned. */
struct fused_variable {
	const char *indices, *name, *type;
	uint32_t next; /* of the same function, + 1; 0: none */
};

/* The variables of all specialisations of one function. */
struct family {
	uint32_t first, last, count;
};

void fused_init(struct fused *fused, struct interner *interner)
{
	*fused = (struct fused){.interner = interner};
	table_init(&fused->by_base);
}

void fused_release(struct fused *fused)
{
	table_release(&fused->by_base);
	free(fused->families);
	free(fused->variables);
}

static struct family *family_of(const struct fused *fused, const char *base)
{
	uint32_t index;
	return table_find(&fused->by_base, (uintptr_t)base, 0, &index) ? &fused->families[index]
								       : NULL;
}

static struct family *add_family(struct fused *fused, const char *base)
{
	struct family *family = family_of(fused, base);
	if (family)
		return family;
	fused->families = alloc_room(fused->families, &fused->family_room, fused->family_count + 1,
				     sizeof(*fused->families));
	table_put(&fused->by_base, (uintptr_t)base, 0, (uint32_t)fused->family_count);
	family = &fused->families[fused->family_count++];
	*family = (struct family){0};
	return family;
}

void fused_add(struct fused *fused, const char *base, struct piece indices, const char *variable,
	       const char *type)
{
	struct family *family = add_family(fused, intern_text(fused->interner, base));
	if (fused->variable_count == VARIABLE_LIMIT || family->count == FAMILY_LIMIT)
		return;
	fused->variables = alloc_room(fused->variables, &fused->variable_room,
				      fused->variable_count + 1, sizeof(*fused->variables));
	fused->variables[fused->variable_count++] = (struct fused_variable){
		.indices = intern_bytes(fused->interner, indices.text, indices.size),
		.name = intern_text(fused->interner, variable),
		.type = intern_text(fused->interner, type),
	};
	uint32_t number = (uint32_t)fused->variable_count;
	if (family->count++)
		fused->variables[family->last - 1].next = number;
	else
		family->first = number;
	family->last = number;
}

/* "1_0" and "2_0" differ in the first number alone. */
static bool differ_in_one(const char *left, const char *right, size_t position)
{
	struct piece a = piece_of(left), b = piece_of(right);
	uint32_t one, other;
	for (size_t at = 0;; at++) {
		if (!piece_number(&a, &one) || !piece_number(&b, &other) ||
		    (one != other) != (at == position))
			return false;
		if (!piece_skip(&a, "_") || !piece_skip(&b, "_"))
			return !a.size && !b.size && at >= position;
	}
}

/* The type behind one of the numbers; NULL: no variable says. */
static const char *type_behind(const struct fused *fused, const struct family *family,
			       const char *indices, size_t position)
{
	const struct fused_variable *variables = fused->variables - 1, *own, *other;
	for (uint32_t i = family->first; i; i = own->next) {
		own = &variables[i];
		if (own->indices != indices)
			continue;
		for (uint32_t k = family->first; k; k = other->next) {
			other = &variables[k];
			if (other->name == own->name && other->type != own->type &&
			    differ_in_one(indices, other->indices, position))
				return own->type;
		}
	}
	return NULL;
}

/* As Cython calls what C and DWARF spell otherwise. */
static void add_type(struct strbuf *label, const char *type)
{
	static const char *const names[][2] = {
		{"long int", "long"},
		{"short int", "short"},
		{"long unsigned int", "unsigned long"},
		{"short unsigned int", "unsigned short"},
		{"long long int", "long long"},
		{"long long unsigned int", "unsigned long long"},
		{"complex float", "float complex"},
		{"complex double", "double complex"},
		{"__pyx_t_float_complex", "float complex"},
		{"__pyx_t_double_complex", "double complex"},
		{"PyObject", "object"},
		{"_object", "object"},
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(type, names[i][0]) == 0) {
			strbuf_add_text(label, names[i][1]);
			return;
		}
	}
	/* "__pyx_t_3pkg_3mod_real", "__pyx_obj_3mod_Ext": the author's, with its module. */
	struct piece name = piece_of(type);
	struct scopes scopes;
	if (piece_skip(&name, "__pyx_t_") || piece_skip(&name, "__pyx_obj_")) {
		scopes_read(&scopes, name);
		name = scopes.rests[scopes.count];
	}
	strbuf_add(label, name.text, name.size);
}

bool fused_label(const struct fused *fused, const char *base, struct piece indices,
		 struct strbuf *label)
{
	const char *own = intern_bytes(fused->interner, indices.text, indices.size);
	const struct family *family = family_of(fused, intern_text(fused->interner, base));
	const char *types[TYPE_LIMIT];
	size_t count = 1;
	for (size_t i = 0; i < indices.size; i++)
		count += indices.text[i] == '_';
	if (!family || count > TYPE_LIMIT)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!(types[i] = type_behind(fused, family, own, i)))
			return false;
	for (size_t i = 0; i < count; i++) {
		strbuf_add_text(label, i ? ", " : "");
		add_type(label, types[i]);
	}
	return true;
}
