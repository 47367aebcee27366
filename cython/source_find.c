/* SPDX-License-Identifier: MIT */
/*
 * Finds the C file that an extension was made of, and keeps what source_map.c makes of it. The
 * path in DWARF is that of the build machine, so the file is also looked for beside the extension
 * and in the folders above it. Opens files through the caller's function only.
 */
#include "cython/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum {
	ANCESTOR_LIMIT = 6, /* folders above the extension that may be the path's root */
	TRY_LIMIT = 64,	    /* paths tried for one C file */
	NEWER_LIMIT = 2,    /* seconds: installers write a package's files one after the other */
	FILE_LIMIT = 4096,  /* files and requests remembered */
};

/* One path that was tried. */
struct candidate {
	const char *path;	/* interned */
	struct source_map *map; /* NULL: not there, or not of use */
};

/* One file as DWARF names it. */
struct request {
	const char *c_file, *directory, *extension; /* interned */
	const struct source_map *map;
	int largest;  /* line asked for; a map with fewer lines is of another build */
	time_t built; /* the extension; 0: not known */
};

struct cython_sources *cython_sources_new(struct interner *interner, cython_open_file open_file,
					  void *context)
{
	struct cython_sources *sources = alloc_zeroed(1, sizeof(*sources));
	sources->interner = interner;
	sources->open_file = open_file;
	sources->context = context;
	table_init(&sources->looked_for);
	return sources;
}

void cython_sources_free(struct cython_sources *sources)
{
	if (!sources)
		return;
	for (size_t i = 0; i < sources->candidate_count; i++)
		source_map_free(sources->candidates[i].map);
	free(sources->candidates);
	free(sources->requests);
	table_release(&sources->looked_for);
	free(sources->paths);
	free(sources);
}

static struct source_map *open_map(struct cython_sources *sources, const char *path)
{
	_cleanup_close_ int fd = sources->open_file(sources->context, path);
	return fd < 0 ? NULL : source_map_read(sources->interner, fd);
}

/* The map of the file at a path; read at the first call. */
static const struct source_map *map_at(struct cython_sources *sources, const char *text)
{
	const char *path = intern_text(sources->interner, text);
	for (size_t i = 0; i < sources->candidate_count; i++)
		if (sources->candidates[i].path == path)
			return sources->candidates[i].map;
	if (sources->candidate_count == FILE_LIMIT)
		return NULL;
	struct source_map *map = open_map(sources, path);
	sources->candidates =
		alloc_room(sources->candidates, &sources->candidate_room,
			   sources->candidate_count + 1, sizeof(*sources->candidates));
	sources->candidates[sources->candidate_count++] = (struct candidate){path, map};
	return map;
}

/* ------------------------------------------------------------ where to look */

struct search {
	struct cython_sources *sources;
	const struct request *request;
	const struct cython_place *place; /* the first one asked for */
	int tries;
};

/* Is it the file that the extension was built of? */
static bool fits(const struct search *search, const struct source_map *map)
{
	const struct request *request = search->request;
	const struct cython_place *place = search->place;
	if (source_map_line_count(map) < request->largest)
		return false;
	if (request->built && source_map_modified(map) > request->built + NEWER_LIMIT)
		return false;
	return source_map_fits(map, symbol_c_name(place->symbol ? place->symbol : ""),
			       place->c_line, place->declared);
}

/* Tries folder + '/' + name. */
static const struct source_map *try_file(struct search *search, struct piece folder,
					 const char *name)
{
	if (search->tries++ >= TRY_LIMIT)
		return NULL;
	_cleanup_strbuf_ struct strbuf path;
	strbuf_init(&path);
	strbuf_add(&path, folder.text, folder.size);
	if (folder.size && folder.text[folder.size - 1] != '/')
		strbuf_add_char(&path, '/');
	strbuf_add_text(&path, name);
	if (path.text[0] != '/')
		return NULL;
	const struct source_map *map = map_at(search->sources, path.text);
	return map && fits(search, map) ? map : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* "mod.c" beside "mod.cpython-311-x86_64-linux-gnu.so", whatever DWARF calls it. */
static const struct source_map *try_own_name(struct search *search, const char *extension)
{
	static const char *const endings[] = {".c", ".cpp"};
	const char *file = base_name(extension);
	const struct source_map *map = NULL;
	for (size_t i = 0; !map && i < sizeof(endings) / sizeof(*endings); i++) {
		_cleanup_strbuf_ struct strbuf name;
		strbuf_init(&name);
		strbuf_add(&name, file, strcspn(file, "."));
		strbuf_add_text(&name, endings[i]);
		map = try_file(search, path_folder(extension), name.text);
	}
	return map;
}

/* Each folder above the extension + the longest end of the path that exists there. */
static const struct source_map *try_ancestors(struct search *search, const char *extension,
					      const char *c_file)
{
	struct piece folder = path_folder(extension);
	for (int up = 0; up < ANCESTOR_LIMIT && folder.size; up++) {
		for (const char *rest = c_file; rest; rest = strchr(rest, '/')) {
			rest += *rest == '/';
			const struct source_map *map = try_file(search, folder, rest);
			if (map)
				return map;
		}
		if (!path_parent(&folder))
			break;
	}
	return NULL;
}

static const struct source_map *find(struct cython_sources *sources, const struct request *request,
				     const struct cython_place *place)
{
	struct search search = {sources, request, place, 0};
	const char *c_file = request->c_file, *directory = request->directory;
	const char *extension = request->extension;
	bool absolute = *c_file == '/';
	struct piece build = {directory, absolute ? 0 : strlen(directory)};
	const struct source_map *map = try_file(&search, build, c_file);
	if (!map)
		map = try_file(&search, path_folder(extension), base_name(c_file));
	if (!map)
		map = try_own_name(&search, extension);
	if (!map && *directory)
		map = try_file(&search, (struct piece){directory, strlen(directory)},
			       base_name(c_file));
	return map ? map : try_ancestors(&search, extension, c_file);
}

/* ------------------------------------------------------------ requests */

static time_t modified(const struct cython_sources *sources, const char *path)
{
	_cleanup_close_ int fd = *path ? sources->open_file(sources->context, path) : -1;
	struct stat status;
	return fd >= 0 && fstat(fd, &status) == 0 ? status.st_mtime : 0;
}

static struct request *request_of(struct cython_sources *sources, const struct cython_place *place)
{
	struct request wanted = {
		.c_file = intern_text(sources->interner, place->c_file),
		.directory =
			intern_text(sources->interner, place->directory ? place->directory : ""),
		.extension =
			intern_text(sources->interner, place->extension ? place->extension : ""),
	};
	for (size_t i = sources->request_count; i-- > 0;) {
		struct request *old = &sources->requests[i];
		if (old->c_file == wanted.c_file && old->directory == wanted.directory &&
		    old->extension == wanted.extension)
			return old;
	}
	if (sources->request_count == FILE_LIMIT)
		return NULL;
	sources->requests = alloc_room(sources->requests, &sources->request_room,
				       sources->request_count + 1, sizeof(*sources->requests));
	struct request *request = &sources->requests[sources->request_count++];
	*request = wanted;
	request->largest = place->c_line;
	request->built = modified(sources, wanted.extension);
	request->map = find(sources, request, place);
	return request;
}

static bool ends_in(const char *file, const char *const endings[])
{
	struct piece name = {file, strlen(file)};
	for (; *endings; endings++)
		if (piece_ends(name, *endings))
			return true;
	return false;
}

/* Did a #line directive name the file? */
static bool is_directive(const char *file)
{
	static const char *const endings[] = {".pyx", ".pxd", ".pxi", ".py", NULL};
	return ends_in(file, endings);
}

/* See cython_map_line: what the directives alone tell is wrong in two places. */
static bool map_directive(struct cython_sources *sources, const struct cython_name *name,
			  const struct cython_place *place, struct cython_line *line)
{
	int number = place->c_line;
	if (name && name->slot)
		return false;
	if (name && name->kind == CYTHON_WRAPPER && place->declared > 0 && place->declared < number)
		number = place->declared;
	*line = (struct cython_line){.file = intern_text(sources->interner, place->c_file),
				     .line = number};
	return true;
}

static bool map_comment(struct cython_sources *sources, const struct cython_place *place,
			struct cython_line *line)
{
	struct request *request = request_of(sources, place);
	if (!request)
		return false;
	if (place->c_line > request->largest) {
		request->largest = place->c_line;
		if (request->map && source_map_line_count(request->map) < place->c_line)
			request->map = find(sources, request, place);
	}
	return request->map &&
	       source_map_fits(request->map, symbol_c_name(place->symbol ? place->symbol : ""),
			       place->c_line, place->declared) &&
	       source_map_find(request->map, place->c_line, line);
}

bool cython_map_line(struct cython_sources *sources, const struct cython_name *name,
		     const struct cython_place *place, struct cython_line *line)
{
	static const char *const generated[] = {".c", ".cpp", ".cc", ".cxx", ".c++", ".C", NULL};
	if (!place->c_file || place->c_line <= 0)
		return false;
	if (is_directive(place->c_file)
		    ? !map_directive(sources, name, place, line)
		    : !ends_in(place->c_file, generated) || !map_comment(sources, place, line))
		return false;
	line->path = source_path(sources, place, line->file);
	return true;
}
