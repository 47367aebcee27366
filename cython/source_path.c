/* SPDX-License-Identifier: MIT */
/*
 * Where the author's file is. Cython writes its path as seen from the folder that it ran in
 * ("src/pkg/mod.pyx"), mostly on another machine, so it is looked for in the folder of the build,
 * then around the extension: in the folders above it, first with the whole path, then with fewer
 * and fewer of its leading folders. Opens files through the caller's function only.
 */
#include "cython/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum {
	ANCESTOR_LIMIT = 6, /* folders above the extension */
	TRY_LIMIT = 80,	    /* paths tried for one file */
	REMEMBERED = 1 << 16,
};

struct piece path_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	return (struct piece){path, slash ? (size_t)(slash - path) + 1 : 0};
}

bool path_parent(struct piece *folder)
{
	if (folder->size <= 1)
		return false;
	folder->size--;
	while (folder->size && folder->text[folder->size - 1] != '/')
		folder->size--;
	return folder->size > 0;
}

struct walk {
	struct cython_sources *sources;
	int tries;
	struct strbuf path;
};

/* Is there a file at folder + '/' + name? It is in walk->path, then. */
static bool try_path(struct walk *walk, struct piece folder, const char *name)
{
	if (walk->tries++ >= TRY_LIMIT)
		return false;
	strbuf_reset(&walk->path);
	strbuf_add(&walk->path, folder.text, folder.size);
	if (folder.size && folder.text[folder.size - 1] != '/')
		strbuf_add_char(&walk->path, '/');
	strbuf_add_text(&walk->path, name);
	if (walk->path.text[0] != '/')
		return false;
	_cleanup_close_ int fd = walk->sources->open_file(walk->sources->context, walk->path.text);
	return fd >= 0;
}

/* The longest end of the path that exists in a folder at or above the extension's. */
static bool try_above(struct walk *walk, const char *extension, const char *file)
{
	for (const char *rest = file; rest; rest = strchr(rest, '/')) {
		rest += *rest == '/';
		struct piece folder = path_folder(extension);
		for (int up = 0; up < ANCESTOR_LIMIT && folder.size; up++) {
			if (try_path(walk, folder, rest))
				return true;
			if (!path_parent(&folder))
				break;
		}
	}
	return false;
}

static bool find(struct walk *walk, const struct cython_place *place, const char *file)
{
	const struct piece none = {"", 0};
	const char *directory = place->directory ? place->directory : "";
	const char *extension = place->extension ? place->extension : "";
	if (*file == '/' && try_path(walk, none, file))
		return true;
	return try_path(walk, piece_of(directory), file) || try_above(walk, extension, file);
}

const char *source_path(struct cython_sources *sources, const struct cython_place *place,
			const char *file)
{
	const char *extension =
		intern_text(sources->interner, place->extension ? place->extension : "");
	const char *found;
	uint32_t known;
	if (table_find(&sources->looked_for, (uintptr_t)file, (uintptr_t)extension, &known))
		return known ? sources->paths[known - 1] : NULL;
	struct walk walk = {.sources = sources};
	strbuf_init(&walk.path);
	found = find(&walk, place, file) ? intern_text(sources->interner, walk.path.text) : NULL;
	strbuf_release(&walk.path);
	if (sources->looked_for.count >= REMEMBERED)
		return found;
	if (found) {
		sources->paths = alloc_room(sources->paths, &sources->path_room,
					    sources->path_count + 1, sizeof(*sources->paths));
		sources->paths[sources->path_count++] = found;
	}
	table_put(&sources->looked_for, (uintptr_t)file, (uintptr_t)extension,
		  found ? (uint32_t)sources->path_count : 0);
	return found;
}
