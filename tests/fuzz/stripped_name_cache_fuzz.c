/* SPDX-License-Identifier: MIT */
/*
 * Names kept on disk: the input is what follows the number of the version and the checksum. It is
 * tried with both right, as whoever plants such a file would have them, and then once more with the
 * number of entries and the size of the texts that fit the file's size.
 */
#include <fcntl.h>
#include <stdio.h>
#include <zlib.h>

#include "stripped/internal.h"
#include "tests/fuzz/fuzz.h"

/* As they stand in the file. */
enum { CHECKSUM = 12, ENTRIES = 16, TEXTS = 24, BUILD_ID = 32 + sizeof(struct traceback_call) };
enum { HEADER = BUILD_ID + 40, MAX_SIZE = 1 << 16 };

static const struct build_id id = {.bytes = {0xab, 1, 2, 3, 4, 5, 6, 7}, .size = 8};

static char folder[] = "/tmp/name_cache_fuzz.XXXXXX";
static int file;
static uint8_t good[HEADER]; /* of a file that name_cache.c has written */

static void remove_folder(void)
{
	char command[sizeof(folder) + 16];

	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	if (system(command))
		abort();
}

static void set_up(void)
{
	char path[sizeof(folder) + 48], text = '\0';
	const struct recovered_names none = {.texts = &text, .texts_size = 1};

	if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1))
		abort();
	atexit(remove_folder);
	name_cache_store(&id, &none);
	snprintf(path, sizeof(path), "%s/pdump/names/ab01020304050607", folder);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0 || read(file, good, HEADER) != HEADER)
		abort();
}

/* Wherever the file says that the line for a traceback stands, code of these bytes is read. */
static void find_line(const struct recovered_names *names, struct interner *interner,
		      const struct recovered_name *recovered)
{
	static const uint8_t calls[64] = {0xbe, 7, 0, 0,    0,	  0xe8, 1,
					  0,	0, 0, 0x85, 0xc0, 0x74, 0xf0};
	struct elf_image code = {.count = 1};
	struct recovered_line line;

	code.segments[0] = (struct image_segment){
		.start = 0x1000, .end = 0x1040, .bytes = calls, .code = true};
	recovered_line_find(names, interner, NULL, &code, recovered, 0x100a, &line);
}

/* What is believed can be used. */
static void use(const struct recovered_names *names)
{
	struct interner *interner = interner_new();
	struct recovered_name recovered;

	for (size_t i = 0; i < names->count; i++) {
		const struct recovered_entry *entry = &names->entries[i];
		if (entry->end == entry->start)
			continue;
		if (!recovered_names_find(names, interner, entry->start, &recovered) || !*recovered.name ||
		    !recovered_names_find(names, interner, entry->end - 1, &recovered))
			abort();
		find_line(names, interner, &recovered);
	}
	interner_free(interner);
}

static void load(uint8_t *bytes, size_t size)
{
	const uint32_t sum = (uint32_t)crc32(0, bytes + ENTRIES, (uInt)(size - ENTRIES));
	struct recovered_names names = {0};

	memcpy(bytes + CHECKSUM, &sum, sizeof(sum));
	if (pwrite(file, bytes, size, 0) != (ssize_t)size || ftruncate(file, (off_t)size))
		abort();
	if (name_cache_load(&id, &names))
		use(&names);
	recovered_names_release(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[MAX_SIZE];
	uint64_t count;

	if (!file)
		set_up();
	if (size < HEADER - ENTRIES || size > MAX_SIZE - ENTRIES)
		return 0;
	memcpy(bytes, good, ENTRIES);
	memcpy(bytes + ENTRIES, data, size);
	memcpy(bytes + BUILD_ID, good + BUILD_ID, HEADER - BUILD_ID);
	size += ENTRIES;
	load(bytes, size);
	memcpy(&count, bytes + ENTRIES, sizeof(count));
	count %= (size - HEADER) / sizeof(struct recovered_entry) + 1;
	const uint64_t left = size - HEADER - count * sizeof(struct recovered_entry);
	memcpy(bytes + ENTRIES, &count, sizeof(count));
	memcpy(bytes + TEXTS, &left, sizeof(left));
	load(bytes, size);
	return 0;
}
