/* SPDX-License-Identifier: MIT */
/*
 * From a DIE of a function or an inlined call to its two names. The linkage name tells all there
 * is; without one, C++ and its like get the enclosing namespaces and classes put in front.
 */
#include <dwarf.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "symbolize/internal.h"

enum { MAX_DEPTH = 64 };

static const char *string_of(const struct debug_info *info, Dwarf_Die *die, unsigned name,
			     size_t *size)
{
	Dwarf_Attribute attribute;

	return debug_info_string(
		info, dwarf_formstring(dwarf_attr_integrate(die, name, &attribute)), size);
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

/* Declaration or abstract instance: that one is inside its class or namespace. */
static Dwarf_Die declaration(Dwarf_Die *die)
{
	static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
	Dwarf_Die at = *die;

	for (int i = 0; i < 16; i++) {
		Dwarf_Attribute attribute;
		Dwarf_Die next;
		if (!dwarf_formref_die(dwarf_attr(&at, links[0], &attribute), &next) &&
		    !dwarf_formref_die(dwarf_attr(&at, links[1], &attribute), &next))
			break;
		at = next;
	}
	return at;
}

/*
 * Appends "outer::inner::". DIEs have no link to their parent, but stand in the order of the
 * tree: on each level the parent is the last one that starts before the DIE.
 */
static void add_scopes(struct debug_info *info, Dwarf_Die *die, struct strbuf *text)
{
	const Dwarf_Off wanted = dwarf_dieoffset(die);
	Dwarf_Die parent;

	if (!dwarf_diecu(die, &parent, NULL, NULL))
		return;
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		Dwarf_Die child, last;
		bool found = false;
		size_t size;
		if (dwarf_child(&parent, &child))
			return;
		do {
			if (!debug_info_spend(info) || dwarf_dieoffset(&child) >= wanted)
				break;
			last = child;
			found = true;
		} while (!dwarf_siblingof(&child, &child));
		if (!found || dwarf_dieoffset(&child) == wanted)
			return;
		const char *name = is_scope(dwarf_tag(&last))
					   ? string_of(info, &last, DW_AT_name, &size)
					   : NULL;
		if (name) {
			strbuf_add(text, name, size);
			strbuf_add_text(text, "::");
		} else if (dwarf_tag(&last) == DW_TAG_namespace) {
			strbuf_add_text(text, "(anonymous namespace)::");
		}
		parent = last;
	}
}

static bool is_qualified_language(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case DW_LANG_Rust:
	case DW_LANG_D:
		return true;
	default:
		return false;
	}
}

void die_name_fill(struct debug_info *info, struct interner *interner, struct unit *unit,
		   Dwarf_Die *die, struct symbolize_frame *frame)
{
	size_t linkage_size = 0, size = 0;
	const char *linkage = string_of(info, die, DW_AT_linkage_name, &linkage_size);
	const char *name = string_of(info, die, DW_AT_name, &size);

	if (!linkage)
		linkage = string_of(info, die, DW_AT_MIPS_linkage_name, &linkage_size);
	if (linkage) {
		frame->linkage = intern_clean(interner, linkage, linkage_size);
		frame->name = names_demangle(interner, frame->linkage);
		/* Not mangled: an alias by asm("..."); the source's name says more. */
		if (name && frame->name == frame->linkage)
			frame->name = intern_clean(interner, name, size);
		return;
	}
	if (!name)
		return;
	frame->linkage = intern_clean(interner, name, size);
	frame->name = names_demangle(interner, frame->linkage);
	/* What GCC makes is called by its symbol: "_ZL12parallel_foriPd._omp_fn.0". */
	if (frame->name != frame->linkage)
		return;
	/* "main" of C++ is in no namespace, so it stays as it is. */
	if (is_qualified_language(debug_info_root(unit))) {
		_cleanup_strbuf_ struct strbuf text;
		Dwarf_Die target = declaration(die);
		strbuf_init(&text);
		add_scopes(info, &target, &text);
		strbuf_add(&text, name, size);
		frame->name = intern_clean(interner, text.text, text.size);
	}
}
