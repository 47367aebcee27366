/* SPDX-License-Identifier: MIT */
/*
 * Functions that a tool has made of an author's (Cython, mypyc, numba, Nuitka, pybind11 and
 * others): under the author's name, with the author's line where that is known.
 */
#include "frames/resolve.h"

#include <string.h>

#include "base/strbuf.h"

static void add_symbol(void *context, const char *name)
{
	cython_symbols_add(context, name);
}

/* One name alone can be read in several ways; the names beside it decide. */
static const struct cython_symbols *cython_names(struct resolver *resolver)
{
	if (!resolver->symbols) {
		resolver->symbols = cython_symbols_new();
		symbolizer_each_symbol(resolver->symbolizer, add_symbol, resolver->symbols);
	}
	return resolver->symbols;
}

static void add_variable(void *context, const char *function, const char *variable,
			 const char *type)
{
	cython_symbols_add_variable(context, function, variable, type);
}

/* The name among those of its module; with the types of fused functions, once there is one. */
static struct cython_name cython_name_of(struct resolver *resolver, const char *linkage,
					 const char *module)
{
	struct cython_name name =
		cython_demangle_in(resolver->strings, cython_names(resolver), linkage, module);
	if (resolver->typed || !name.fused)
		return name;
	resolver->typed = true;
	cython_symbols_show_types(resolver->symbols);
	symbolizer_each_variable(resolver->symbolizer, "__pyx_", add_variable, resolver->symbols);
	return cython_demangle_in(resolver->strings, resolver->symbols, linkage, module);
}

static void set_cython_line(struct resolver *resolver, const struct cython_line *line,
			    bool estimated, struct named *named)
{
	named->frame.file = resolver_clean(resolver, line->path ? line->path : line->file);
	named->frame.short_file = resolver_shorten(resolver, named->frame.file);
	named->frame.line = line->line;
	named->frame.estimated = estimated;
}

bool author_cython(struct resolver *resolver, const struct raw_frame *raw,
		   const struct symbolize_frame *symbol, bool alone, struct named *named)
{
	const char *linkage = symbol->linkage ? symbol->linkage : symbol->name;
	if (!linkage || !raw->module)
		return false;
	const char *module = cython_module_of_path(resolver->strings, raw->module->path);
	struct cython_name name = cython_demangle(resolver->strings, linkage, module);
	if (name.kind == CYTHON_NOT)
		return false;
	name = cython_name_of(resolver, linkage, module);
	if (name.kind == CYTHON_HELPER) {
		named->hidden = !resolver->internals;
		return true;
	}
	named->cython = name;
	named->frame.name = name.name;
	if (named->frame.kind == FRAME_NATIVE)
		named->frame.kind = FRAME_CYTHON;
	named->frame.file = named->frame.short_file = NULL;
	named->frame.line = 0;
	struct cython_place place = {
		.symbol = linkage,
		.c_file = symbol->file,
		.directory = symbol->directory,
		.extension = raw->module->path,
		.c_line = symbol->line,
		.declared = symbol->declared,
	};
	struct cython_line line;
	if (cython_map_line(resolver->sources, &name, &place, &line))
		set_cython_line(resolver, &line, false, named);
	else if (alone && !raw->exact &&
		 symbolize_estimated_line(resolver->symbolizer, raw->offset, &place.c_file,
					  &place.c_line) &&
		 cython_map_line(resolver->sources, &name, &place, &line))
		set_cython_line(resolver, &line, true, named);
	return true;
}

/* What tells the functions of one module from those of others. */
static const char *text_in(struct resolver *resolver, const char *text, size_t size,
			   const struct raw_frame *raw)
{
	_cleanup_strbuf_ struct strbuf buffer;
	strbuf_init(&buffer);
	strbuf_printf(&buffer, "%.*s in %s", (int)size, text, raw->module->path);
	return intern_text(resolver->strings, buffer.text);
}

void author_recovered(struct resolver *resolver, const struct raw_frame *raw,
		      const struct recovered_name *recovered, struct named *named)
{
	named->frame.uncertain = recovered->uncertain;
	named->frame.estimated = named->frame.line > 0;
	if (named->frame.file)
		named->frame.short_file = resolver_shorten(resolver, named->frame.file);
	if (!recovered->cython)
		return;
	if (named->frame.kind == FRAME_NATIVE)
		named->frame.kind = FRAME_CYTHON;
	named->hidden = recovered->helper && !resolver->internals;
	if (recovered->uncertain)
		return;
	const char *leaf = strrchr(recovered->name, '.');
	const bool special = leaf && (recovered->slot || strncmp(leaf, ".__", 3) == 0);
	named->cython = (struct cython_name){
		.kind = CYTHON_FUNCTION,
		.name = recovered->name,
		.base = text_in(resolver, recovered->name, strlen(recovered->name), raw),
		.owner = special ? text_in(resolver, recovered->name,
					   (size_t)(leaf - recovered->name), raw)
				 : NULL,
		.layer = recovered->layer,
		.slot = recovered->slot,
	};
}

bool author_numba(struct resolver *resolver, const struct raw_frame *raw,
		  const struct symbolize_frame *symbol, struct named *named)
{
	struct names_numba numba;
	if (!raw->module || raw->module->origin != MODULE_OF_JIT || !symbol->linkage ||
	    !names_numba(resolver->strings, symbol->linkage, symbol->file, &numba))
		return false;
	named->frame.name = numba.name;
	named->cython = (struct cython_name){.kind = CYTHON_FUNCTION,
					     .name = numba.name,
					     .base = numba.function,
					     .layer = !numba.wrapper};
	return true;
}

static void add_mypyc_symbol(void *context, const char *name)
{
	names_mypyc_add(context, name);
}

/* A name of mypyc's, among those of its module. */
static bool name_mypyc(struct resolver *resolver, const char *linkage, struct names_author *author)
{
	if (strncmp(linkage, "CPy", 3) != 0 && !strstr(linkage, "___"))
		return false;
	if (!resolver->mypyc) {
		resolver->mypyc = names_mypyc_new();
		symbolizer_each_symbol(resolver->symbolizer, add_mypyc_symbol, resolver->mypyc);
	}
	if (!names_mypyc_name(resolver->mypyc, linkage, author))
		return false;
	/* Those live as long as the module is open. */
	author->name = intern_text(resolver->strings, author->name);
	return true;
}

bool author_of_tools(struct resolver *resolver, const struct raw_frame *raw,
		     const struct symbolize_frame *symbol, struct named *named)
{
	struct names_author author;
	if (!raw->module || !symbol->linkage)
		return false;
	if (name_mypyc(resolver, symbol->linkage, &author)) {
		/* A line of the C file that mypyc has written. */
		named->frame.file = named->frame.short_file = NULL;
		named->frame.line = 0;
	} else if (!names_author(resolver->strings, symbol->linkage, symbol->name, &author)) {
		return false;
	}
	if (author.name)
		named->frame.name = author.name;
	named->cython = (struct cython_name){
		.kind = CYTHON_FUNCTION,
		.name = named->frame.name,
		.base = text_in(resolver, author.function, strlen(author.function), raw),
		.owner = author.owner ? text_in(resolver, author.owner, strlen(author.owner), raw)
				      : NULL,
		.layer = author.layer,
		.slot = author.slot,
	};
	return true;
}

bool author_nuitka(struct resolver *resolver, const struct symbolize_frame *symbol,
		   struct named *named)
{
	const char *linkage = symbol->linkage ? symbol->linkage : symbol->name;
	const char *name = linkage ? names_nuitka(resolver->strings, linkage, symbol->file) : NULL;
	if (name)
		named->frame.name = name;
	return name;
}
