/* SPDX-License-Identifier: MIT */
/*
 * From what a module made by Cython exports for other such modules to the names of these
 * functions. All that a .pxd file declares is put into the dict __pyx_capi__ when the module is
 * imported, one call a function:
 *
 *   __Pyx_ExportFunction("month_offset", &__pyx_f_..., "int (int)")
 *
 * so that those have a name that raise no exception, and are in no traceback. Cython 3.2 and
 * later pack the names into one text: see packed_exports.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "stripped/internal.h"

enum { LAYER_BODY = 6 }; /* as in struct cython_name */

/* For each function whether it uses the name of the dict. */
static bool *find_exporters(const struct elf_image *image, const struct code_facts *facts)
{
	bool *exporters = alloc_zeroed(image->functions.count + 1, sizeof(*exporters));

	for (size_t i = 0; i < facts->use_count; i++) {
		const char *text = image_text(image, facts->uses[i].text);
		if (text && strcmp(text, "__pyx_capi__") == 0)
			exporters[facts->uses[i].function] = true;
	}
	return exporters;
}

/* What a call exports; NULL: it exports nothing, or no function of ours. */
static const char *exported(const struct elf_image *image, const bool *exporters,
			    const struct text_use *use)
{
	if (!image_is_function(image, use->callee) ||
	    !exporters[interval_lower(&image->functions, use->callee)] ||
	    !image_is_function(image, use->arguments[0]))
		return NULL;
	const char *text = image_text(image, use->text);
	return text && is_identifier(text, false) ? text : NULL;
}

static void add(struct function_names *functions, struct function_name *function, const char *text)
{
	const char *name = cython_shown_name(functions->texts, text);

	if (!function->name)
		*function = (struct function_name){
			.name = name, .evidence = EVIDENCE_EXPORT, .layer = LAYER_BODY};
	else if (function->evidence == EVIDENCE_EXPORT && function->name != name)
		function->uncertain = true; /* two that do the same */
}

void exported_names_add(struct function_names *functions, const struct elf_image *image,
			const struct code_facts *facts)
{
	bool *exporters = find_exporters(image, facts);

	for (size_t i = 0; i < facts->use_count; i++) {
		const struct text_use *use = &facts->uses[i];
		const char *text = exported(image, exporters, use);
		if (!text)
			continue;
		const size_t at = interval_lower(&image->functions, use->arguments[0]);
		add(functions, &functions->items[at], text);
	}
	free(exporters);
}
