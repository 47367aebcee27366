/* SPDX-License-Identifier: MIT */
/*
 * Which CPython a module is: from its constant Py_Version, from the debug offsets, from the text
 * that Py_GetVersion has put together in memory, or from the file's name. Never takes a version for
 * another: wrong offsets give plausible nonsense.
 */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "python/locate.h"

enum { SCAN_LIMIT = 64 << 20, SCAN_PIECE = 256 << 10, GET_VERSION_SIZE = 250 };

static void version_from_hex(struct python_version *version, uint32_t hex)
{
	/* Include/patchlevel.h: 0x030b07f0 is 3.11.7 final. */
	static const struct {
		unsigned level;
		const char *mark;
	} levels[] = {{0xa, "a"}, {0xb, "b"}, {0xc, "rc"}};
	const char *mark = "";
	version->hex = hex;
	version->major = hex >> 24;
	version->minor = hex >> 16 & 0xff;
	version->micro = hex >> 8 & 0xff;
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if ((hex >> 4 & 0xf) == levels[i].level)
			mark = levels[i].mark;
	snprintf(version->text, sizeof(version->text), "%u.%u.%u%s", version->major, version->minor,
		 version->micro, mark);
	if (*mark)
		snprintf(version->text + strlen(version->text), 4, "%u", hex & 0xf);
}

/* The file's name, "libpython3.10.so.1.0" or "python3.13t": the numbers behind "python". */
static bool version_from_name(const char *name, struct python_version *version)
{
	const char *digits = strstr(name, "python");
	unsigned major, minor;
	int used = 0;
	if (!digits || sscanf(digits + 6, "%2u.%3u%n", &major, &minor, &used) != 2)
		return false;
	version->major = major;
	version->minor = minor;
	version->free_threaded = digits[6 + used] == 't';
	snprintf(version->text, sizeof(version->text), "%u.%u", major, minor);
	return true;
}

/* ---- Py_GetVersion's text ---- */

static size_t digits_at(const char *text, size_t size, unsigned *value)
{
	size_t i = 0;
	for (*value = 0; i < size && i < 3 && isdigit((unsigned char)text[i]); i++)
		*value = *value * 10 + (unsigned)(text[i] - '0');
	return i;
}

/* "3.10.13", "2.7.15+", "3.7.0rc1": its length, or 0. */
static size_t parse_number(const char *text, size_t size, struct python_version *version)
{
	unsigned *const parts[] = {&version->major, &version->minor, &version->micro};
	size_t at = 0;
	for (size_t i = 0; i < 3; i++) {
		size_t used = digits_at(text + at, size - at, parts[i]);
		if (!used || at + used >= size || (i < 2 && text[at + used] != '.'))
			return 0;
		at += used + (i < 2);
	}
	while (at < size && text[at] && strchr("+abrc0123456789", text[at]))
		at++;
	return at < sizeof(version->text) ? at : 0;
}

/*
 * "3.10.13 (main, Jan  1 2026, 00:00:00) [GCC 12.2.0]", before 3.10 "... ) \n[GCC 8.3.0]", and
 * "3.8.5 | packaged by conda-forge | (default, ...".
 */
static bool parse_version_text(const char *text, size_t size, struct python_version *version)
{
	size_t at = parse_number(text, size, version);
	size_t end = strnlen(text, size < GET_VERSION_SIZE ? size : GET_VERSION_SIZE);
	if (!at || at >= end || text[at] != ' ')
		return false;
	const char *open = memchr(text + at, '(', end - at);
	const char *close = open ? memmem(open, end - (size_t)(open - text), ") ", 2) : NULL;
	if (!close)
		return false;
	const char *compiler = close + 2;
	compiler += compiler < text + end && *compiler == '\n';
	if (compiler >= text + end || *compiler != '[')
		return false;
	memcpy(version->text, text, at);
	version->text[at] = '\0';
	if (version->text[at - 1] == '+')
		version->text[at - 1] = '\0';
	return true;
}

static bool scan_piece(const char *bytes, size_t size, struct python_version *version)
{
	for (size_t i = 0; i + 8 < size; i++) {
		struct python_version found = {0};
		if ((bytes[i] == '2' || bytes[i] == '3') && bytes[i + 1] == '.' &&
		    (i == 0 || bytes[i - 1] == '\0') &&
		    parse_version_text(bytes + i, size - i, &found)) {
			*version = found;
			return true;
		}
	}
	return false;
}

bool python_version_read(const struct module *module, const struct memory_reader *memory,
			 struct python_version *version)
{
	memset(version, 0, sizeof(*version));
	_cleanup_free_ char *bytes = alloc_zeroed(SCAN_PIECE + GET_VERSION_SIZE, 1);
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		if (!(segment->flags & PF_W) || segment->memory_size > SCAN_LIMIT)
			continue;
		for (uint64_t at = 0; at < segment->memory_size; at += SCAN_PIECE) {
			uint64_t left = segment->memory_size - at;
			size_t size = left < SCAN_PIECE + GET_VERSION_SIZE
					      ? left
					      : SCAN_PIECE + GET_VERSION_SIZE;
			if (memory_read(memory, module->load_bias + segment->vaddr + at, bytes,
					size, NULL) &&
			    scan_piece(bytes, size, version))
				return true;
		}
	}
	return false;
}

bool python_version_find(const struct module *module, const struct memory_reader *memory,
			 const struct module_place *constant, remote_addr runtime,
			 struct python_version *version)
{
	uint64_t words[3]; /* of _Py_DebugOffsets: cookie, version, free-threaded */
	uint32_t hex;
	struct error problem = {0};
	memset(version, 0, sizeof(*version));
	if (runtime && memory_read(memory, runtime, words, sizeof(words), &problem) &&
	    memcmp(words, "xdebugpy", 8) == 0) {
		version_from_hex(version, (uint32_t)words[1]);
		version->free_threaded = words[2] != 0;
		return true;
	}
	if (constant->found && module_read(module, constant->vaddr, &hex, sizeof(hex), NULL)) {
		version_from_hex(version, hex);
		/* From 3.13 on the offsets alone tell a free-threaded one. */
		return version->minor < 13 || !problem.kind || problem.kind == ERROR_ABSENT;
	}
	return python_version_read(module, memory, version) ||
	       version_from_name(module->name, version);
}
