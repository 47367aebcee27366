/* SPDX-License-Identifier: MIT */
/* Stated names as bytes, as captures have them: back as they were; what makes no sense is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "stripped/stripped.h"

static const char texts[] = "\0list.sort\0math";

static void make(struct recovered_names *names)
{
	*names = (struct recovered_names){.count = 2, .texts_size = sizeof(texts)};
	names->entries = alloc_zeroed(2, sizeof(*names->entries));
	names->entries[0] = (struct recovered_entry){.start = 0x1000, .end = 0x1020, .name = 1};
	names->entries[1] = (struct recovered_entry){
		.start = 0x1020, .end = 0x1080, .name = 1, .module = 11, .flags = RECOVERED_TAIL};
	names->texts = alloc_zeroed(1, sizeof(texts));
	memcpy(names->texts, texts, sizeof(texts));
}

static void write_made(struct strbuf *bytes)
{
	struct recovered_names names;
	make(&names);
	strbuf_init(bytes);
	recovered_names_write(&names, bytes);
	recovered_names_release(&names);
	assert_true(bytes->size > sizeof(texts));
}

static void names_come_back(void **state)
{
	struct recovered_names names, again;
	struct strbuf bytes;
	(void)state;
	make(&names);
	write_made(&bytes);
	assert_true(recovered_names_read(&again, bytes.text, bytes.size));
	assert_int_equal(again.count, names.count);
	assert_memory_equal(again.entries, names.entries, names.count * sizeof(*names.entries));
	assert_int_equal(again.texts_size, names.texts_size);
	assert_memory_equal(again.texts, names.texts, names.texts_size);
	recovered_names_release(&again);
	recovered_names_release(&names);
	strbuf_release(&bytes);
}

static void another_size_is_refused(void **state)
{
	struct recovered_names names;
	struct strbuf bytes;
	(void)state;
	write_made(&bytes);
	for (size_t size = 0; size < bytes.size; size++)
		assert_false(recovered_names_read(&names, bytes.text, size));
	strbuf_add_char(&bytes, '\0');
	assert_false(recovered_names_read(&names, bytes.text, bytes.size));
	strbuf_release(&bytes);
}

static void look(void *context, const struct recovered_name *name)
{
	*(size_t *)context += strlen(name->name) + name->start + name->evidence;
}

/* Each byte changed: refused, or names that can be used. */
static void damage_is_no_crash(void **state)
{
	struct interner *strings = interner_new();
	struct recovered_names names;
	struct strbuf bytes;
	size_t sum = 0, refused = 0;
	(void)state;
	write_made(&bytes);
	for (size_t at = 0; at < bytes.size; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			bytes.text[at] ^= (char)(1u << bit);
			if (recovered_names_read(&names, bytes.text, bytes.size)) {
				recovered_names_each(&names, strings, look, &sum);
				recovered_names_release(&names);
			} else {
				refused++;
			}
			bytes.text[at] ^= (char)(1u << bit);
		}
	assert_true(refused > 0 && sum > 0);
	strbuf_release(&bytes);
	interner_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_come_back),
		cmocka_unit_test(another_size_is_refused),
		cmocka_unit_test(damage_is_no_crash),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
