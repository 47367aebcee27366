/* SPDX-License-Identifier: MIT */
/*
 * A file of saved dumps, merged and written in both forms. What was read of it, written and read
 * again, shows the same text.
 */
#include "output/output.h"
#include "read/dump_file.h"
#include "tests/fuzz/fuzz.h"

static const struct view_options form = {.lines = true};

static void merge(const struct dump_list *list)
{
	struct dump_groups groups;
	struct error error;
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out);
	dump_groups_init(&groups, list, true, false);
	output_groups_text(&groups, &form, &out);
	if (!output_groups_json(&groups, &out, &error))
		abort();
	dump_groups_release(&groups);
}

static void read_again(const struct dump *dump, struct interner *interner)
{
	struct dump_list again = {0};
	struct error error;
	_cleanup_strbuf_ struct strbuf json, text, other;

	strbuf_init(&json);
	strbuf_init(&text);
	strbuf_init(&other);
	if (!output_dump_json(dump, &json, &error) ||
	    !read_dump_bytes("again", json.text, json.size, interner, &again, &error) ||
	    again.count != 1)
		abort();
	output_dump_text(dump, &form, &text);
	output_dump_text(again.dumps, &form, &other);
	if (strcmp(text.text, other.text) != 0)
		abort();
	dump_list_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct interner *interner = interner_new();
	struct dump_list list = {0};
	struct error error;
	char *text = fuzz_text((struct fuzz_input){data, size});

	if (!read_dump_bytes("input", text, size, interner, &list, &error) && !*error.message)
		abort();
	for (size_t i = 0; i < list.count; i++)
		read_again(&list.dumps[i], interner);
	merge(&list);
	dump_list_release(&list);
	interner_free(interner);
	free(text);
	return 0;
}
