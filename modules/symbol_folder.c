/* SPDX-License-Identifier: MIT */
/*
 * A folder of programs, libraries and debug files in any layout, by the build IDs that they have:
 * looked through once, and no further than the limits. Links of its own lead to files of it alone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "files/given_file.h"
#include "modules/internal.h"

enum { DEPTH_LIMIT = 16, FILES_LIMIT = 200000, PATH_LIMIT = 4096 };

struct symbol_file {
	char *path; /* below the folder */
	struct build_id id;
	bool has_code;
};

struct symbol_folder {
	struct foreign_root root;
	struct symbol_file *files;
	size_t count, capacity, seen;
};

/* A debug file has the same build ID, and no code. */
bool module_has_code(const struct module *module)
{
	for (size_t i = 0; i < module->section_count; i++)
		if ((module->sections[i].flags & SHF_EXECINSTR) &&
		    module->sections[i].type != SHT_NOBITS)
			return true;
	return module->section_count == 0;
}

/* False: not an ELF file, or one without a build ID. */
static bool identify(int fd, struct symbol_file *file)
{
	struct module probe = {.path = "", .fd = fd};
	/* The segments of a debug file are not in it. */
	bool well = module_read_sections(&probe) && probe.build_id.size;
	if (!well) {
		free(probe.sections);
		probe = (struct module){.path = "", .fd = fd};
		well = module_read_headers(&probe, NULL) && probe.build_id.size;
	}
	file->id = probe.build_id;
	file->has_code = module_has_code(&probe);
	free(probe.segments);
	free(probe.sections);
	return well;
}

static void add_file(struct symbol_folder *folder, const char *path)
{
	struct symbol_file file = {0};
	_cleanup_close_ int fd = foreign_file_open(folder->root, path);
	if (fd < 0 || !identify(fd, &file))
		return;
	file.path = alloc_string(path);
	folder->files = alloc_room(folder->files, &folder->capacity, folder->count + 1,
				   sizeof(*folder->files));
	folder->files[folder->count++] = file;
}

/* False: it is no folder that can be listed. */
static bool scan(struct symbol_folder *folder, const char *path, unsigned depth);

static void look_at(struct symbol_folder *folder, const char *path, const struct dirent *entry,
		    unsigned depth)
{
	char below[PATH_LIMIT];
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
	    snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >= (int)sizeof(below))
		return;
	/* Not every file system says which. */
	const bool folder_of_its_own = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
	if (!folder_of_its_own || (!scan(folder, below, depth + 1) && entry->d_type != DT_DIR))
		add_file(folder, below);
}

static bool scan(struct symbol_folder *folder, const char *path, unsigned depth)
{
	const char *name = path[0] ? path + 1 : ".";
	const int fd = depth <= DEPTH_LIMIT ? foreign_folder_open(folder->root.fd, name) : -1;
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (const struct dirent *entry; folder->seen < FILES_LIMIT && (entry = readdir(stream));) {
		if (++folder->seen == FILES_LIMIT)
			log_warning("--symbols: more than %d files; the others are left out",
				    FILES_LIMIT);
		look_at(folder, path, entry, depth);
	}
	closedir(stream);
	return true;
}

static int by_id(const void *left, const void *right)
{
	const struct symbol_file *a = left, *b = right;
	const int ids = memcmp(&a->id, &b->id, sizeof(a->id));
	return ids ? ids : strcmp(a->path, b->path);
}

bool symbol_folder_open(const char *path, struct symbol_folder **result, struct error *error)
{
	const int fd = given_file_open(path, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return error_set_errno(error, errno, "cannot open %s", path);
	struct symbol_folder *folder = alloc_zeroed(1, sizeof(*folder));
	folder->root.fd = fd;
	scan(folder, "", 0);
	if (folder->count)
		qsort(folder->files, folder->count, sizeof(*folder->files), by_id);
	log_debug("symbolize", "%s: %zu files with a build ID", path, folder->count);
	*result = folder;
	return true;
}

void symbol_folder_free(struct symbol_folder *folder)
{
	if (!folder)
		return;
	for (size_t i = 0; i < folder->count; i++)
		free(folder->files[i].path);
	free(folder->files);
	close(folder->root.fd);
	free(folder);
}

const struct foreign_root *symbol_folder_root(const struct symbol_folder *folder)
{
	return &folder->root;
}

int symbol_folder_find(const struct symbol_folder *folder, const struct build_id *id, bool code)
{
	for (size_t i = 0; id->size && i < folder->count; i++)
		if (build_id_equal(&folder->files[i].id, id) && folder->files[i].has_code == code)
			return foreign_file_open(folder->root, folder->files[i].path);
	return -1;
}
