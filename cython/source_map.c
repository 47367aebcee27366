/* SPDX-License-Identifier: MIT */
/*
 * Turns one C file that Cython generated into a table from its lines to lines of the .pyx file.
 *
 * Before the code of each statement stands a comment (Cython/Compiler/Code.py, emit_marker):
 *	  "pkg/mod.pyx":17             (after a slash and a star, alone on its line)
 *	 * the source line             # <<<<<<<<<<<<<<
 * None is written when file and line are those of the last one, so that a lambda on one line has
 * none at all; then "__PYX_ERR(0, 17, label)" says the line, and file 0 is in the list __pyx_f.
 * C functions end with '}' in column 0. The file is hostile: one pass over it, every line is
 * looked at once, and nothing is kept but numbers and interned paths.
 */
#include "cython/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum {
	SIZE_LIMIT = 64 << 20,
	LINE_LIMIT = 4 << 20,
	FILE_LIMIT = 4096, /* entries of __pyx_f */
	PATH_LIMIT = 4096,
	NUMBER_LIMIT = 10 << 20, /* no source file has more lines */
};

struct marker {
	int c_line, line;
	const char *file; /* interned: consecutive markers share it */
};

/* What ends with one '}' in column 0: a C function, mostly. */
struct region {
	int end;		    /* line of the '}' */
	int error_file, error_line; /* of the first __PYX_ERR; line 0: none */
	int head;		    /* line of the name */
	const char *name;	    /* of the function, interned; NULL: it is none */
	enum c_owner owner;
};

struct source_map {
	struct marker *markers;
	size_t marker_count, marker_room;
	struct region *regions;
	size_t region_count, region_room;
	const char **files; /* __pyx_f */
	size_t file_count, file_room;
	int lines;
	time_t modified;
};

struct parser {
	struct interner *interner;
	struct source_map *map;
	struct region region; /* the one being read */
	int inner;	      /* blocks in it that begin in column 0, too */
	bool in_files;	      /* between "__pyx_f[] = {" and "};" */
	struct piece last_path;
	const char *last_file;
};

/* ------------------------------------------------------------ the lines of interest */

static void skip_blanks(struct piece *text)
{
	while (text->size && (*text->text == ' ' || *text->text == '\t'))
		*text = piece_after(*text, 1);
}

static const char *intern_path(struct parser *parser, struct piece path)
{
	if (!parser->last_file || path.size != parser->last_path.size ||
	    memcmp(path.text, parser->last_path.text, path.size) != 0) {
		parser->last_path = path;
		parser->last_file = intern_bytes(parser->interner, path.text, path.size);
	}
	return parser->last_file;
}

static bool small_number(struct piece *text, int *number)
{
	uint32_t value;
	if (!piece_number(text, &value) || value > NUMBER_LIMIT)
		return false;
	*number = (int)value;
	return true;
}

/* "pkg/mod.pyx":17 behind the opening of a comment. */
static void read_marker(struct parser *parser, struct piece text)
{
	struct source_map *map = parser->map;
	while (text.size && (text.text[text.size - 1] == '\r' || text.text[text.size - 1] == ' '))
		text.size--;
	const char *quote = memrchr(text.text, '"', text.size);
	if (!quote || quote == text.text || quote - text.text > PATH_LIMIT)
		return;
	struct piece path = {text.text, (size_t)(quote - text.text)};
	struct piece rest = piece_after(text, path.size + 1);
	int line;
	if (!piece_skip(&rest, ":") || !small_number(&rest, &line) || rest.size || line == 0)
		return;
	map->markers = alloc_room(map->markers, &map->marker_room, map->marker_count + 1,
				  sizeof(*map->markers));
	map->markers[map->marker_count++] =
		(struct marker){map->lines, line, intern_path(parser, path)};
}

/* "__PYX_ERR(0, 17, __pyx_L1_error)" anywhere in the line. */
static void read_error(struct parser *parser, struct piece text)
{
	static const char word[] = "__PYX_ERR(";
	const char *at = memmem(text.text, text.size, word, sizeof(word) - 1);
	if (!at)
		return;
	struct piece rest = piece_after(text, (size_t)(at - text.text) + sizeof(word) - 1);
	int file, line;
	if (!small_number(&rest, &file) || !piece_skip(&rest, ","))
		return;
	skip_blanks(&rest);
	if (!small_number(&rest, &line))
		return;
	parser->region.error_file = file;
	parser->region.error_line = line;
}

static void read_head(struct parser *parser, struct piece text)
{
	struct region *region = &parser->region;
	struct piece name = c_head_name(text);
	if (c_head_is_class(text)) {
		region->owner = OWNER_USER;
		region->name = NULL;
	}
	if (!name.size)
		return;
	/* A definition follows all prototypes: the last head counts. */
	enum c_owner owner = c_head_owner(name);
	if (region->name && owner == OWNER_SLOT && !piece_starts(name, "__pyx_"))
		return;
	region->owner = owner;
	region->head = parser->map->lines;
	region->name = intern_bytes(parser->interner, name.text, name.size);
}

/* One entry of the list of source files:   "pkg/mod.pyx", */
static void read_file_name(struct parser *parser, struct piece text)
{
	struct source_map *map = parser->map;
	skip_blanks(&text);
	const char *quote;
	if (!piece_skip(&text, "\"") || !(quote = memchr(text.text, '"', text.size)) ||
	    quote - text.text > PATH_LIMIT || map->file_count == FILE_LIMIT)
		return;
	map->files =
		alloc_room(map->files, &map->file_room, map->file_count + 1, sizeof(*map->files));
	map->files[map->file_count++] =
		intern_bytes(parser->interner, text.text, (size_t)(quote - text.text));
}

static void end_region(struct parser *parser)
{
	struct source_map *map = parser->map;
	parser->region.end = map->lines;
	map->regions = alloc_room(map->regions, &map->region_room, map->region_count + 1,
				  sizeof(*map->regions));
	map->regions[map->region_count++] = parser->region;
	memset(&parser->region, 0, sizeof(parser->region));
	parser->inner = 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void read_brace(struct parser *parser, struct piece text)
{
	parser->in_files = false;
	if (parser->inner)
		parser->inner--;
	/* Directives break lines, also those of an array within a function. */
	else if (!parser->region.name || !piece_starts(text, "};"))
		end_region(parser);
}

static void read_line(struct parser *parser, struct piece text)
{
	if (!text.size)
		return;
	char first = *text.text;
	if (first == '}') {
		read_brace(parser, text);
		return;
	}
	if (is_letter(first)) {
		/* "if (!__Pyx_RefNanny) {" in module bodies, up to Cython 3.0. */
		if (parser->region.name && piece_starts(text, "if (") && piece_ends(text, "{"))
			parser->inner++;
		if (piece_ends(text, "__pyx_f[] = {"))
			parser->in_files = true;
		read_head(parser, text);
	} else if (parser->in_files) {
		read_file_name(parser, text);
	}
	if (first != ' ' && first != '/')
		return;
	struct piece inner = text;
	skip_blanks(&inner);
	if (piece_skip(&inner, "/* \""))
		read_marker(parser, inner);
	else if (!parser->region.error_line)
		read_error(parser, inner);
}

/* ------------------------------------------------------------ the file */

/* "Generated by Cython 3.0.12" is in the first line; a tool may have put something before it. */
static bool is_generated(const char *text, size_t size)
{
	static const char mark[] = "Generated by Cython";
	return memmem(text, size < 4096 ? size : 4096, mark, sizeof(mark) - 1) != NULL;
}

struct source_map *source_map_parse(struct interner *interner, const char *text, size_t size)
{
	if (size > SIZE_LIMIT || !is_generated(text, size))
		return NULL;
	struct source_map *map = alloc_zeroed(1, sizeof(*map));
	struct parser parser = {.interner = interner, .map = map};
	const char *end = text + size;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *line_end = newline ? newline : end;
		if (map->lines++ == LINE_LIMIT) {
			source_map_free(map);
			return NULL;
		}
		read_line(&parser, (struct piece){text, (size_t)(line_end - text)});
		text = newline ? newline + 1 : end;
	}
	return map;
}

struct source_map *source_map_read(struct interner *interner, int fd)
{
	struct stat status;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > SIZE_LIMIT)
		return NULL;
	size_t size = (size_t)status.st_size, have = 0;
	_cleanup_free_ char *text = alloc_zeroed(size + 1, 1);
	while (have < size) {
		ssize_t got = pread(fd, text + have, size - have, (off_t)have);
		if (got <= 0)
			break; /* it became shorter: what is there counts */
		have += (size_t)got;
	}
	struct source_map *map = source_map_parse(interner, text, have);
	if (map)
		map->modified = status.st_mtime;
	return map;
}

void source_map_free(struct source_map *map)
{
	if (!map)
		return;
	free(map->markers);
	free(map->regions);
	free(map->files);
	free(map);
}

time_t source_map_modified(const struct source_map *map)
{
	return map->modified;
}

int source_map_line_count(const struct source_map *map)
{
	return map->lines;
}

/* ------------------------------------------------------------ looking up */

/* Number of markers at or above the C line. */
static size_t markers_above(const struct source_map *map, int c_line)
{
	size_t low = 0, high = map->marker_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (map->markers[middle].c_line <= c_line)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Index of the first region that ends at or below the C line. */
static size_t region_of(const struct source_map *map, int c_line)
{
	size_t low = 0, high = map->region_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (map->regions[middle].end < c_line)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Not "View.MemoryView", "(tree fragment)", "<stringsource>": Cython's own code. */
static bool is_source(const char *file)
{
	static const char *const endings[] = {".pyx", ".pxd", ".pxi", ".py"};
	struct piece name = {file, strlen(file)};
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (piece_ends(name, endings[i]))
			return true;
	return false;
}

static bool answer(const char *file, int number, struct cython_line *line)
{
	if (!is_source(file) || number <= 0)
		return false;
	*line = (struct cython_line){.file = file, .line = number};
	return true;
}

bool source_map_fits(const struct source_map *map, struct piece function, int c_line, int declared)
{
	size_t index = region_of(map, c_line);
	if (c_line <= 0 || index == map->region_count)
		return false;
	const struct region *region = &map->regions[index];
	if (!function.size || !region->name)
		return true;
	return piece_equals(function, region->name) && (declared <= 0 || declared == region->head);
}

bool source_map_find(const struct source_map *map, int c_line, struct cython_line *line)
{
	size_t index = region_of(map, c_line);
	if (c_line <= 0 || index == map->region_count)
		return false;
	const struct region *region = &map->regions[index];
	if (region->owner == OWNER_OTHER)
		return false;
	int start = index ? map->regions[index - 1].end : 0;
	size_t above = markers_above(map, c_line);
	const struct marker *last = above ? &map->markers[above - 1] : NULL;
	if (last && last->c_line > start)
		return answer(last->file, last->line, line);
	bool marked = above < map->marker_count && map->markers[above].c_line <= region->end;
	if (!marked && region->error_line && (size_t)region->error_file < map->file_count)
		return answer(map->files[region->error_file], region->error_line, line);
	/* A slot without lines of its own was written by Cython, not by the author. */
	if (!last || (region->owner == OWNER_SLOT && !marked))
		return false;
	return answer(last->file, last->line, line);
}
