/* SPDX-License-Identifier: MIT */
/* A mangled name of scopes and a leaf into the name as its author wrote it. */
#include "cython/demangling.h"

#include "base/utf8.h"

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
	strbuf_reset(&d->owner);
	for (size_t i = 0; i < reading->depth; i++) {
		strbuf_add_text(&d->owner, i ? "." : "");
		strbuf_add(&d->owner, scopes->names[i].text, scopes->names[i].size);
	}
	strbuf_reset(&d->base);
	if (is_lambda(leaf))
		strbuf_add_text(&d->base, d->module ? d->module : "");
	else if (d->owner.size)
		strbuf_printf(&d->base, "%s.", d->owner.text);
	strbuf_add(&d->base, leaf.text, leaf.size);
}

void demangling_show(struct demangling *d, const struct scopes *scopes,
		     const struct reading *reading, struct piece leaf)
{
	strbuf_reset(&d->name);
	for (size_t i = reading->module_depth; i < reading->depth; i++)
		add_part(d, scopes->names[i]);
	if (leaf.size)
		add_part(d, leaf);
	set_base(d, scopes, reading, leaf);
	d->special = piece_is_dunder(leaf);
	d->utility |= scopes->utility;
}

bool demangling_read_plain(struct demangling *d, struct piece text, struct scopes *scopes)
{
	struct reading reading;
	scopes_read(scopes, text);
	if (!scopes_choose(scopes, scopes_module_depth(scopes, d->module), LEAF_PLAIN, NULL,
			   &reading))
		return false;
	demangling_show(d, scopes, &reading, reading.leaf);
	return true;
}
