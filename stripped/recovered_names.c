/* SPDX-License-Identifier: MIT */
/*
 * From a module to the names that it states for its functions, and from an address to such a name.
 * Works on the file alone, stripped or not.
 */
#include <elfutils/libdwelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "base/utf8.h"
#include "stripped/internal.h"

/* ---- what all tables say ------------------------------------------------------------------ */

struct text_search {
	const struct elf_image *image;
	struct name_candidates *candidates;
};

/* A text that is pointed at may be the first member of any of the tables. */
static void look_at(void *context, uint64_t place, const char *text)
{
	struct text_search *search = context;
	const struct elf_image *image = search->image;

	if (!is_identifier(text, true) || spec_add_names(search->candidates, image, place) ||
	    type_add_names(search->candidates, image, place) ||
	    module_add_names(search->candidates, image, place))
		return;
	const struct owner nobody = {0};
	if (method_is(image, place))
		candidates_add(search->candidates, image, &nobody, text,
			       image_pointer(image, place + 8), EVIDENCE_METHOD, false);
	else if (property_is(image, place))
		candidates_add(search->candidates, image, &nobody, text,
			       image_pointer(image, place + 8), EVIDENCE_PROPERTY, false);
}

/* ---- the finished table ------------------------------------------------------------------- */

struct writer {
	struct recovered_names *names;
	struct strbuf texts;
	struct table known; /* a text -> where it starts */
};

/* Clean, whatever table or code it is from: a packed text says what it likes between brackets. */
static uint32_t write_text(struct writer *writer, const char *text)
{
	uint32_t at = 0;

	if (!text || table_find(&writer->known, (uint64_t)(uintptr_t)text, 0, &at))
		return at;
	at = (uint32_t)writer->texts.size;
	utf8_add_clean(&writer->texts, text, strlen(text));
	strbuf_add_char(&writer->texts, '\0');
	table_put(&writer->known, (uint64_t)(uintptr_t)text, 0, at);
	return at;
}

static void write_entry(struct writer *writer, const struct interval *range,
			const struct function_name *name, bool cython)
{
	struct recovered_names *names = writer->names;
	struct recovered_entry *before = names->count ? &names->entries[names->count - 1] : NULL;

	/* Of FDEs that overlap the one that starts later counts. */
	if (before && before->end > range->start)
		before->end = range->start;
	names->entries[names->count++] = (struct recovered_entry){
		.start = range->start,
		.end = range->end,
		.name = write_text(writer, name->name),
		.module = write_text(writer, name->module),
		.evidence = (uint8_t)name->evidence,
		.layer = (uint8_t)name->layer,
		.flags = (uint8_t)((name->uncertain ? RECOVERED_UNCERTAIN : 0) |
				   (cython ? RECOVERED_CYTHON : 0) |
				   (name->helper ? RECOVERED_HELPER : 0) |
				   (name->slot ? RECOVERED_SLOT : 0) |
				   (name->tail ? RECOVERED_TAIL : 0)),
	};
}

static void write_names(struct recovered_names *names, const struct function_names *functions,
			const struct elf_image *image)
{
	struct writer writer = {.names = names};

	strbuf_init(&writer.texts);
	strbuf_add_char(&writer.texts, '\0');
	table_init(&writer.known);
	names->entries = alloc_zeroed(functions->count + 1, sizeof(*names->entries));
	for (size_t i = 0; i < functions->count; i++)
		if (functions->items[i].name)
			write_entry(&writer, &image->functions.items[i], &functions->items[i],
				    image->cython);
	names->texts = writer.texts.text;
	names->texts_size = writer.texts.size;
	table_release(&writer.known);
}

/* Bodies of parallel blocks are functions of their own: "fit [omp]". */
static void name_parallel(struct function_names *functions, const struct code_facts *facts,
			  const uint32_t *wholes)
{
	for (size_t i = 0; i < facts->edge_count; i++) {
		const struct code_edge *edge = &facts->edges[i];
		const struct function_name *from = &functions->items[wholes[edge->from]];
		struct function_name *to = &functions->items[edge->to];
		if (edge->link != LINK_PARALLEL || to->name || !from->name)
			continue;
		_cleanup_strbuf_ struct strbuf text;
		strbuf_init(&text);
		strbuf_printf(&text, "%s [omp]", from->name);
		*to = *from;
		to->name = intern_bytes(functions->texts, text.text, text.size);
	}
}

/* What the code adds to what the tables say. */
static void read_code(struct function_names *functions, const struct elf_image *image,
		      const char *module, struct traceback_call *call)
{
	struct code_facts facts;

	code_facts_read(&facts, image);
	uint32_t *wholes = split_functions_find(image, &facts, functions);
	if (image->cython) {
		struct traceback_style style;
		exported_names_add(functions, image, &facts);
		traceback_style_find(&style, image, &facts, functions->texts, module);
		traceback_names_add(functions, image, &facts, wholes, &style);
		packed_exports_add(functions, image, &facts);
		*call = style.call;
	}
	name_parallel(functions, &facts, wholes);
	for (size_t i = 0; i < functions->count; i++)
		if (!functions->items[i].name)
			functions->items[i] = functions->items[wholes[i]];
	free(wholes);
	code_facts_release(&facts);
}

/* What Cython made says most in its code. Of other modules that adds the parts split off functions,
 * for which the megabytes of an interpreter are not worth a fifth of a second. */
static bool is_worth_reading(const struct elf_image *image)
{
	enum { PLAIN_CODE = 1 << 20 };
	uint64_t size = 0;

	for (size_t i = 0; i < image->count; i++)
		if (image->segments[i].code)
			size += image->segments[i].end - image->segments[i].start;
	return image->cython || size <= PLAIN_CODE;
}

void recovered_names_build(struct recovered_names *names, Elf *elf)
{
	struct elf_image image;
	struct name_candidates candidates;
	struct function_names functions;

	*names = (struct recovered_names){0};
	if (image_load(&image, elf)) {
		candidates_init(&candidates);
		struct text_search search = {.image = &image, .candidates = &candidates};
		image_each_text(&image, look_at, &search);
		function_names_init(&functions, &image, &candidates);
		maker_names_add(&functions, &image, &candidates);
		if (candidates.count && is_worth_reading(&image))
			read_code(&functions, &image, candidates.module, &names->call);
		if (!image.cython)
			tail_names_add(&functions, &image);
		write_names(names, &functions, &image);
		function_names_release(&functions);
		candidates_release(&candidates);
	}
	image_release(&image);
}

/* The build ID is the file's own: what somebody says may be another one's. */
static struct build_id id_of(Elf *elf)
{
	struct build_id id = {.size = 0};
	const void *bytes;
	const ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);

	if (size >= 8 && (size_t)size <= sizeof(id.bytes)) {
		id.size = (uint8_t)size;
		memcpy(id.bytes, bytes, id.size);
	}
	return id;
}

void recovered_names_load(struct recovered_names *names, Elf *elf)
{
	const struct build_id id = id_of(elf);

	if (name_cache_load(&id, names))
		return;
	recovered_names_build(names, elf);
	if (names->count)
		name_cache_store(&id, names);
}

static void fill(const struct recovered_names *names, struct interner *interner,
		 const struct recovered_entry *entry, struct recovered_name *recovered)
{
	const char *module = entry->module ? names->texts + entry->module : NULL;
	*recovered = (struct recovered_name){
		.name = intern_text(interner, names->texts + entry->name),
		.module = module ? intern_text(interner, module) : NULL,
		.start = entry->start,
		.end = entry->end,
		.evidence = entry->evidence,
		.uncertain = entry->flags & RECOVERED_UNCERTAIN,
		.cython = entry->flags & RECOVERED_CYTHON,
		.helper = entry->flags & RECOVERED_HELPER,
		.slot = entry->flags & RECOVERED_SLOT,
		.tail = entry->flags & RECOVERED_TAIL,
		.layer = entry->layer,
	};
}

void recovered_names_each(const struct recovered_names *names, struct interner *interner,
			  void (*visit)(void *context, const struct recovered_name *recovered),
			  void *context)
{
	for (size_t i = 0; i < names->count; i++) {
		struct recovered_name recovered;
		fill(names, interner, &names->entries[i], &recovered);
		visit(context, &recovered);
	}
}

bool recovered_names_find(const struct recovered_names *names, struct interner *interner,
			  uint64_t pc, struct recovered_name *recovered)
{
	const size_t until = upper_bound(names->entries, names->count, sizeof(*names->entries),
					 offsetof(struct recovered_entry, start), pc);
	const struct recovered_entry *entry = until ? &names->entries[until - 1] : NULL;

	if (!entry || pc >= entry->end)
		return false;
	fill(names, interner, entry, recovered);
	return true;
}

void recovered_line_find(const struct recovered_names *names, struct interner *interner, Elf *elf,
			 struct elf_image *code, const struct recovered_name *recovered,
			 uint64_t address, struct recovered_line *line)
{
	const char *file = NULL;

	*line = (struct recovered_line){.line = 0};
	if (!names->call.has_line || recovered->uncertain || recovered->helper || recovered->slot)
		return;
	if (!code->count && !image_load_bytes(code, elf))
		return;
	line->line = traceback_line_find(code, &names->call, recovered->name, address, &file);
	line->file =
		file && traceback_is_file(file) ? intern_clean(interner, file, strlen(file)) : NULL;
	if (!line->file)
		line->line = 0;
}
