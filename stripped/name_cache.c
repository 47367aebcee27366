/* SPDX-License-Identifier: MIT */
/*
 * Keeps stated names on disk, by build ID: $XDG_CACHE_HOME/pdump/names/BUILD-ID (else below
 * ~/.cache). A header, entries, texts, as they are in memory. Anybody may have written what is
 * read: it counts only if the folder and the file are ours and every number and text is in order.
 * Written under another name, then renamed. A failure is no error: the names are found anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "files/cache_file.h"
#include "files/write_all.h"
#include "stripped/internal.h"

enum {
	CACHE_VERSION = 82, /* to be raised whenever names are found in another way */
	CACHE_MAX_ENTRIES = 1 << 18,
	CACHE_MAX_TEXTS = 16 << 20,
};

struct cache_header {
	char magic[8];
	uint32_t version, checksum; /* of all that follows this number */
	uint64_t entry_count, texts_size;
	struct traceback_call call;
	uint8_t build_id[32];
	uint64_t build_id_size;
};

static const char magic[8] = "pdname\n";

/* ---- reading ------------------------------------------------------------------------------ */

static bool read_whole(int fd, void *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		const ssize_t part = read(fd, (char *)bytes + done, size - done);
		if (part <= 0)
			return false;
		done += (size_t)part;
	}
	return true;
}

static uint32_t checksum(const struct cache_header *header, const struct recovered_names *names)
{
	const size_t skip = offsetof(struct cache_header, entry_count);
	uLong sum = crc32(0, (const Bytef *)header + skip, (uInt)(sizeof(*header) - skip));

	sum = crc32(sum, (const Bytef *)names->entries,
		    (uInt)(names->count * sizeof(*names->entries)));
	return (uint32_t)crc32(sum, (const Bytef *)names->texts, (uInt)names->texts_size);
}

/* Printable ASCII, as nearly all names are: clean UTF-8 without a closer look. */
static bool is_plain(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return !*text;
}

static bool is_text(const struct recovered_names *names, uint32_t at, bool may_be_empty)
{
	if (at >= names->texts_size || (!at && !may_be_empty))
		return false;
	const char *text = names->texts + at;
	if (*text && is_plain(text))
		return true;
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, text, strlen(text));
	return (*text || may_be_empty) && strcmp(clean.text, text) == 0;
}

/* Every number and every text that will be used. */
static bool is_sound(const struct recovered_names *names)
{
	uint64_t end = 0;

	if (names->texts[0] || names->texts[names->texts_size - 1])
		return false;
	for (size_t i = 0; i < names->count; i++) {
		const struct recovered_entry *entry = &names->entries[i];
		if (entry->start < end || entry->end < entry->start ||
		    entry->flags & ~RECOVERED_ALL || entry->evidence > EVIDENCE_TRACEBACK ||
		    !is_text(names, entry->name, false) || !is_text(names, entry->module, true))
			return false;
		end = entry->end;
	}
	return names->call.line_register <= 16 && names->call.file_register <= 16 &&
	       names->call.has_line <= 1;
}

static bool is_header(const struct cache_header *header, const struct build_id *id)
{
	return memcmp(header->magic, magic, sizeof(magic)) == 0 &&
	       header->version == CACHE_VERSION && header->build_id_size == id->size &&
	       memcmp(header->build_id, id->bytes, id->size) == 0 &&
	       header->entry_count <= CACHE_MAX_ENTRIES && header->texts_size &&
	       header->texts_size <= CACHE_MAX_TEXTS;
}

static bool read_names(int fd, const struct build_id *id, struct recovered_names *names)
{
	struct cache_header header;
	char more;

	if (!read_whole(fd, &header, sizeof(header)) || !is_header(&header, id))
		return false;
	*names = (struct recovered_names){
		.entries = alloc_zeroed(header.entry_count + 1, sizeof(*names->entries)),
		.count = header.entry_count,
		.texts = alloc_zeroed(1, header.texts_size),
		.texts_size = header.texts_size,
	};
	memcpy(&names->call, &header.call, sizeof(names->call));
	if (read_whole(fd, names->entries, names->count * sizeof(*names->entries)) &&
	    read_whole(fd, names->texts, names->texts_size) && read(fd, &more, 1) == 0 &&
	    checksum(&header, names) == header.checksum && is_sound(names))
		return true;
	recovered_names_release(names);
	return false;
}

bool name_cache_load(const struct build_id *id, struct recovered_names *names)
{
	char hex[65];

	if (!id->size || id->size > sizeof(id->bytes))
		return false;
	build_id_hex(id, hex);
	_cleanup_close_ int fd = cache_file_read(hex);
	return fd >= 0 && read_names(fd, id, names);
}

/* ---- as bytes ---- */

struct names_header {
	uint64_t count, texts_size;
	struct traceback_call call;
};

void recovered_names_write(const struct recovered_names *names, struct strbuf *bytes)
{
	struct names_header header;

	if (!names->texts_size || names->count > CACHE_MAX_ENTRIES ||
	    names->texts_size > CACHE_MAX_TEXTS)
		return;
	memset(&header, 0, sizeof(header));
	header.count = names->count;
	header.texts_size = names->texts_size;
	memcpy(&header.call, &names->call, sizeof(header.call));
	strbuf_add(bytes, &header, sizeof(header));
	strbuf_add(bytes, names->entries, names->count * sizeof(*names->entries));
	strbuf_add(bytes, names->texts, names->texts_size);
}

bool recovered_names_read(struct recovered_names *names, const void *bytes, size_t size)
{
	struct names_header header;

	*names = (struct recovered_names){0};
	if (size < sizeof(header))
		return false;
	memcpy(&header, bytes, sizeof(header));
	const size_t entries = header.count * sizeof(*names->entries);
	if (header.count > CACHE_MAX_ENTRIES || !header.texts_size ||
	    header.texts_size > CACHE_MAX_TEXTS ||
	    size != sizeof(header) + entries + header.texts_size)
		return false;
	names->entries = alloc_zeroed(header.count + 1, sizeof(*names->entries));
	names->texts = alloc_zeroed(1, header.texts_size);
	names->count = header.count;
	names->texts_size = header.texts_size;
	memcpy(&names->call, &header.call, sizeof(names->call));
	memcpy(names->entries, (const char *)bytes + sizeof(header), entries);
	memcpy(names->texts, (const char *)bytes + sizeof(header) + entries, header.texts_size);
	if (is_sound(names))
		return true;
	recovered_names_release(names);
	return false;
}

/* ---- writing ------------------------------------------------------------------------------ */

static bool write_names(int fd, const struct build_id *id, const struct recovered_names *names)
{
	struct cache_header header;

	memset(&header, 0, sizeof(header)); /* what lies between members is written, too */
	memcpy(header.magic, magic, sizeof(magic));
	header.version = CACHE_VERSION;
	header.entry_count = names->count;
	header.texts_size = names->texts_size;
	memcpy(&header.call, &names->call, sizeof(header.call));
	memcpy(header.build_id, id->bytes, id->size);
	header.build_id_size = id->size;
	header.checksum = checksum(&header, names);
	return write_all(fd, &header, sizeof(header)) &&
	       write_all(fd, names->entries, names->count * sizeof(*names->entries)) &&
	       write_all(fd, names->texts, names->texts_size);
}

void name_cache_store(const struct build_id *id, const struct recovered_names *names)
{
	char hex[65];
	struct cache_file file;

	if (!id->size || id->size > sizeof(id->bytes) || names->count > CACHE_MAX_ENTRIES ||
	    !names->texts_size || names->texts_size > CACHE_MAX_TEXTS)
		return;
	build_id_hex(id, hex);
	if (!cache_file_new(&file, hex)) {
		log_debug("symbolize", "names are not kept: no cache folder of ours");
		return;
	}
	const bool written = write_names(file.fd, id, names);
	if (!cache_file_end(&file, written))
		log_debug("symbolize", "names of %s are not kept: %s", hex, strerror(errno));
}

void recovered_names_release(struct recovered_names *names)
{
	free(names->entries);
	free(names->texts);
	*names = (struct recovered_names){0};
}
