/* SPDX-License-Identifier: MIT */
/*
 * Names of stripped code as a capture has them: the bytes as they are, and then with the number of
 * entries and the size of the texts that fit their size. What is believed can be looked up, and is
 * the same when it is written and read again.
 */
#include "stripped/stripped.h"
#include "base/strbuf.h"
#include "tests/fuzz/fuzz.h"

/* As they stand in the bytes: two numbers, and how calls of tracebacks look. */
enum { COUNT = 0, TEXTS = 8, HEADER = 16 + sizeof(struct traceback_call) };

static void look_at(void *context, const struct recovered_name *recovered)
{
	(void)context;
	if (!*recovered->name || recovered->start > recovered->end)
		abort();
}

static void look_up(const struct recovered_names *names)
{
	struct interner *interner = interner_new();
	struct recovered_name found;

	for (size_t i = 0; i < names->count; i++) {
		const struct recovered_entry *entry = &names->entries[i];
		if (entry->start < entry->end &&
		    (!recovered_names_find(names, interner, entry->start, &found) ||
		     !recovered_names_find(names, interner, entry->end - 1, &found)))
			abort();
	}
	recovered_names_each(names, interner, look_at, NULL);
	interner_free(interner);
}

static void write_and_read(const struct recovered_names *names, const void *read, size_t size)
{
	struct strbuf bytes;

	strbuf_init(&bytes);
	recovered_names_write(names, &bytes);
	if (names->count && (bytes.size != size || memcmp(bytes.text, read, size) != 0))
		abort();
	strbuf_release(&bytes);
}

static void load(const void *bytes, size_t size)
{
	struct recovered_names names;

	if (!recovered_names_read(&names, bytes, size))
		return;
	look_up(&names);
	write_and_read(&names, bytes, size);
	recovered_names_release(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t count;

	load(data, size);
	if (size <= HEADER)
		return 0;
	uint8_t *fitting = malloc(size);
	memcpy(fitting, data, size);
	memcpy(&count, data + COUNT, sizeof(count));
	count %= (size - HEADER) / sizeof(struct recovered_entry) + 1;
	const uint64_t left = size - HEADER - count * sizeof(struct recovered_entry);
	memcpy(fitting + COUNT, &count, sizeof(count));
	memcpy(fitting + TEXTS, &left, sizeof(left));
	load(fitting, size);
	free(fitting);
	return 0;
}
