/* SPDX-License-Identifier: MIT */
/*
 * From the texts that a module's functions use to how the module speaks of itself in tracebacks:
 * what its names begin with, which function is __Pyx_AddTraceback, and in which registers that one
 * is told line and file.
 */
#include <string.h>

#include "base/table.h"
#include "stripped/internal.h"
#include "x86/x86.h"

struct search {
	const struct elf_image *image;
	const struct code_facts *facts;
	struct interner *texts;
	struct traceback_style *style;
};

/* "pkg.mod.Class.method" -> "pkg.mod." by the module's last component; NULL: it is not in there. */
static const char *prefix_of(struct interner *texts, const char *text, const char *leaf,
			     size_t leaf_size)
{
	for (const char *part = text; *part; part += strcspn(part, "."), part += *part == '.')
		if (strncmp(part, leaf, leaf_size) == 0 && part[leaf_size] == '.')
			return intern_bytes(texts, text, (size_t)(part - text) + leaf_size + 1);
	return NULL;
}

/* What most of the texts begin with. */
static void find_prefix(const struct search *search, const char *module)
{
	const char *dot = strrchr(module, '.'), *leaf = dot ? dot + 1 : module;
	const size_t leaf_size = strlen(leaf);
	struct table votes;
	uint32_t best = 0;

	table_init(&votes);
	for (size_t i = 0; i < search->facts->use_count; i++) {
		const char *text = image_text(search->image, search->facts->uses[i].text);
		const char *prefix = text ? prefix_of(search->texts, text, leaf, leaf_size) : NULL;
		uint32_t count = 0;
		if (!prefix)
			continue;
		table_find(&votes, (uint64_t)(uintptr_t)prefix, 0, &count);
		table_put(&votes, (uint64_t)(uintptr_t)prefix, 0, ++count);
		if (count > best) {
			best = count;
			search->style->prefix = prefix;
		}
	}
	search->style->prefix_size = search->style->prefix ? strlen(search->style->prefix) : 0;
	table_release(&votes);
}

bool traceback_has_prefix(const struct traceback_style *style, const char *text)
{
	return style->prefix && strncmp(text, style->prefix, style->prefix_size) == 0;
}

/* The callee that most names with the module's prefix are handed to. */
static void find_callee(const struct search *search)
{
	struct table votes;
	uint32_t best = 0;

	table_init(&votes);
	for (size_t i = 0; i < search->facts->use_count; i++) {
		const struct text_use *use = &search->facts->uses[i];
		uint32_t count = 0;
		if (!use->callee ||
		    !traceback_has_prefix(search->style, image_text(search->image, use->text)))
			continue;
		table_find(&votes, use->callee, 0, &count);
		table_put(&votes, use->callee, 0, ++count);
		if (count > best) {
			best = count;
			search->style->call.callee = use->callee;
		}
	}
	table_release(&votes);
}

bool traceback_is_file(const char *name)
{
	static const char *const ends[] = {".pyx", ".pxd", ".pxi", ".py"};
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof(ends) / sizeof(*ends); i++)
		if (strcmp(dot, ends[i]) == 0)
			return true;
	return false;
}

/* The one file that __Pyx_AddTraceback itself uses; 0: none, or several. */
static uint64_t own_file(const struct search *search)
{
	const struct interval_list *functions = &search->image->functions;
	uint64_t file = 0;

	for (size_t i = 0; i < search->facts->use_count; i++) {
		const struct text_use *use = &search->facts->uses[i];
		if (functions->items[use->function].start != search->style->call.callee ||
		    use->text == file || !traceback_is_file(image_text(search->image, use->text)))
			continue;
		if (file)
			return 0;
		file = use->text;
	}
	return file;
}

/* Of the calls of the function: how often an argument was a file's name, and a number. */
static void count_arguments(const struct search *search, uint64_t callee, size_t files[3],
			    size_t numbers[3])
{
	for (size_t i = 0; i < search->facts->use_count; i++) {
		const struct text_use *use = &search->facts->uses[i];
		for (int j = 0; use->callee == callee && j < 3; j++) {
			const char *text = image_text(search->image, use->arguments[j]);
			files[j] += text && traceback_is_file(text);
			numbers[j] += use->arguments[j] && !text;
		}
	}
}

/*
 * (name, c_line, line, file), without c_line where it is always 0, and without the file where there
 * is but one.
 */
static void describe_call(const struct search *search, struct traceback_call *call)
{
	static const uint8_t registers[] = {X86_RSI, X86_RDX, X86_RCX};
	size_t files[3] = {0}, numbers[3] = {0};

	if (call->callee)
		count_arguments(search, call->callee, files, numbers);
	const int file = files[2] >= files[1] && files[2] ? 2 : files[1] ? 1 : -1;
	if (file < 0)
		call->file = own_file(search);
	if (file < 0 && !call->file)
		return;
	call->has_line = true;
	call->line_register = file > 0 ? registers[file - 1] : numbers[1] ? X86_RDX : X86_RSI;
	call->file_register = file > 0 ? registers[file] : X86_NO_REGISTER;
}

void traceback_style_find(struct traceback_style *style, const struct elf_image *image,
			  const struct code_facts *facts, struct interner *texts,
			  const char *module)
{
	const struct search search = {image, facts, texts, style};

	*style = (struct traceback_style){.prefix = NULL};
	if (module)
		find_prefix(&search, module);
	find_callee(&search);
	describe_call(&search, &style->call);
}
