/* SPDX-License-Identifier: MIT */
/*
 * From a line of /proc/PID/maps to the ELF image behind it: the file as the target sees it, or as
 * we do, or by the mapping itself, or, when there is no way to a file, what is in memory. A file is
 * taken only when it is the mapped one; paths and files are the target's to choose and never
 * trusted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/broker.h"
#include "files/far_file.h"
#include "files/foreign_file.h"
#include "modules/internal.h"
#include "target/core.h"

enum { VDSO_LIMIT = 64 * 1024, IMAGE_LIMIT = 256 * 1024 * 1024, PATH_LIMIT = 4096 };

/* ---- lines ---- */

/* The kernel writes a newline in a path as "\012"; other bytes stand for themselves. */
static void decode_newlines(char *path)
{
	char *out = strchr(path, '\\');
	if (!out)
		return;
	for (const char *in = out; *in; out++) {
		bool newline = strncmp(in, "\\012", 4) == 0;
		*out = newline ? '\n' : *in;
		in += newline ? 4 : 1;
	}
	*out = '\0';
}

static bool parse_number(char **at, int base, char end, uint64_t *value)
{
	char *after;
	*value = strtoull(*at, &after, base);
	if (after == *at || *after != end)
		return false;
	*at = after + (end != '\0');
	return true;
}

/* "7f1c2a0d5000-7f1c2a0d9000 r-xp 00002000 fe:00 247026        /usr/bin/cat" */
bool maps_parse_line(char *text, struct maps_line *line)
{
	uint64_t major_number, minor_number;
	char *at = text;
	*line = (struct maps_line){0};
	if (!parse_number(&at, 16, '-', &line->start) || !parse_number(&at, 16, ' ', &line->end))
		return false;
	if (strlen(at) < 5 || at[4] != ' ')
		return false;
	line->protection = (at[0] == 'r' ? PROT_READ : 0u) | (at[1] == 'w' ? PROT_WRITE : 0u) |
			   (at[2] == 'x' ? PROT_EXEC : 0u);
	at += 5;
	if (!parse_number(&at, 16, ' ', &line->offset) ||
	    !parse_number(&at, 16, ':', &major_number) ||
	    !parse_number(&at, 16, ' ', &minor_number))
		return false;
	char *after;
	line->inode = strtoull(at, &after, 10);
	if (after == at || line->start >= line->end)
		return false;
	line->device = makedev((unsigned)major_number, (unsigned)minor_number);
	while (*after == ' ')
		after++;
	decode_newlines(after);
	line->path = after;
	return true;
}

/* ---- is this the mapped file? ---- */

static const struct maps_line *first_page_of(const struct maps_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (lines[i].offset == 0 && (lines[i].protection & PROT_READ))
			return &lines[i];
	return NULL;
}

/*
 * The first page holds the headers and, as linkers place it, the build ID. It is never written to
 * by the loader, so an equal page means the same build.
 */
static bool same_first_page(const struct target *target, const struct maps_line *lines,
			    size_t count, int fd)
{
	char mapped[TARGET_PAGE], in_file[TARGET_PAGE];
	const struct maps_line *line = first_page_of(lines, count);
	memset(in_file, 0, sizeof(in_file));
	return line && far_file_read_here(fd, in_file, sizeof(in_file), 0) > 0 &&
	       memory_read(target_memory(target), line->start, mapped, sizeof(mapped), NULL) &&
	       memcmp(mapped, in_file, sizeof(mapped)) == 0;
}

/* The build ID is in the first page: else an equal page proves little. */
static bool page_identifies(int fd)
{
	struct module probe = {.path = "", .fd = fd};
	bool identified = module_read_headers(&probe, NULL) && probe.build_id.size;
	free(probe.segments);
	free(probe.sections);
	return identified;
}

/*
 * On btrfs and overlayfs fstat gives another device than the mapping has, on some overlays another
 * inode as well: then the contents decide.
 */
static bool is_mapped_file(const struct target *target, const struct maps_line *lines, size_t count,
			   int fd)
{
	struct stat status;
	if (far_file_status(fd, &status) < 0)
		return false;
	if (status.st_ino == lines->inode && status.st_dev == lines->device)
		return true;
	if (!same_first_page(target, lines, count, fd))
		return false;
	return status.st_ino == lines->inode || page_identifies(fd);
}

/* ---- ways to the file ---- */

/* Gives fd back when it is the mapped file, else closes it and gives -1. */
static int keep_if_mapped(const struct target *target, const struct maps_line *lines, size_t count,
			  int fd)
{
	if (fd < 0 || is_mapped_file(target, lines, count, fd))
		return fd;
	far_file_close_here(fd);
	return -1;
}

/* Something else may be at the path by now: then it is opened only if the target could. */
static int open_found(const struct target *target, const struct maps_line *line, int found)
{
	struct stat status;
	if (found < 0 || (far_file_status(found, &status) == 0 &&
			  ((status.st_ino == line->inode && status.st_dev == line->device) ||
			   foreign_file_is_readable(&status, target_user(target)))))
		return foreign_file_open_found(found, target_user(target));
	close(found);
	return -1;
}

/* The broker finds, judges and opens at once. */
static int open_at(const struct target *target, const struct maps_line *line, int root,
		   const char *path)
{
	const struct foreign_root where = {.fd = root, .user = target_user(target)};
	if (broker_is_used())
		return foreign_file_open(where, path);
	return open_found(target, line, foreign_file_find(root, path));
}

static int open_path(const struct target *target, const struct maps_line *lines, size_t count,
		     const char *path, bool *in_our_root)
{
	const int root = target_files(target).fd;
	if (path[0] != '/')
		return -1;
	int fd = open_at(target, lines, root, path);
	fd = keep_if_mapped(target, lines, count, fd);
	/* After a plain chroot the kernel shows paths of the root that we have. */
	if (fd < 0 && target_shares_mounts(target)) {
		fd = open_at(target, lines, FOREIGN_OUR_ROOT, path);
		fd = keep_if_mapped(target, lines, count, fd);
		*in_our_root = fd >= 0;
	}
	return fd;
}

/* The mapping's own link; needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. */
static int open_map_file(const struct target *target, const struct maps_line *line)
{
	char path[80];
	snprintf(path, sizeof(path), "map_files/%llx-%llx", (unsigned long long)line->start,
		 (unsigned long long)line->end);
	return foreign_file_open_mapped(target_directory(target), path);
}

static int open_mapped(const struct target *target, const struct maps_line *lines, size_t count,
		       bool *in_our_root)
{
	char path[PATH_LIMIT];
	int fd = open_path(target, lines, count, lines->path, in_our_root);
	const size_t size = module_path_size(lines->path);
	if (fd < 0 && lines->path[size] && size < sizeof(path)) {
		/* Deleted and put back, as package upgrades of the same build do. */
		memcpy(path, lines->path, size);
		path[size] = '\0';
		fd = open_path(target, lines, count, path, in_our_root);
	}
	if (fd < 0)
		fd = open_map_file(target, &lines[0]);
	return fd;
}

struct far_opening {
	const struct target *target;
	const struct maps_line *lines;
	size_t count;
	bool in_our_root;
	int fd;
	struct stat status;
};

static void open_mapped_far(void *context)
{
	struct far_opening *opening = context;
	struct stat status = {0};
	opening->fd =
		open_mapped(opening->target, opening->lines, opening->count, &opening->in_our_root);
	if (opening->fd < 0 || far_file_ask_server(opening->fd, &status)) {
		opening->status = status;
		return;
	}
	far_file_close_here(opening->fd);
	opening->fd = -1;
}

/* Without fd, also where the file system does not answer. */
static void open_far(const struct target *target, const struct maps_line *lines, size_t count,
		     struct module *module, struct stat *status)
{
	struct far_opening opening = {.target = target, .lines = lines, .count = count, .fd = -1};
	if (!far_file_await(open_mapped_far, &opening) || opening.fd < 0)
		return;
	module->in_our_root = opening.in_our_root;
	module->fd = opening.fd;
	module->far = far_file_new(opening.fd);
	*status = opening.status;
}

/* ---- the image in memory ---- */

static bool is_vdso(const struct maps_line *line)
{
	return strcmp(line->path, "[vdso]") == 0;
}

/* The vDSO is mapped as one piece: its memory is its file. */
static bool copy_vdso(const struct target *target, const struct maps_line *line,
		      struct module *module, struct error *error)
{
	uint64_t size = line->end - line->start;
	if (size > VDSO_LIMIT)
		return error_set(error, ERROR_CORRUPT, "the vDSO has %llu bytes",
				 (unsigned long long)size);
	void *bytes = alloc_zeroed(1, size);
	module->bytes = bytes;
	module->bytes_size = size;
	return memory_read(target_memory(target), line->start, bytes, size, error);
}

/*
 * Puts the mapped parts of an image back to where they are in the file. Holes read as zeros; the
 * section headers are not in memory, so they are missing.
 */
static bool copy_image(const struct target *target, const struct maps_line *lines, size_t count,
		       uint64_t limit, struct module *module, struct error *error)
{
	uint64_t size = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t room = lines[i].end - lines[i].start;
		if (lines[i].offset > limit || room > limit - lines[i].offset)
			return error_set(error, ERROR_ABSENT, "%s is too large to be copied",
					 lines->path);
		if (lines[i].offset + room > size)
			size = lines[i].offset + room;
	}
	char *bytes = alloc_zeroed(1, size);
	module->bytes = bytes;
	module->bytes_size = size;
	/* From the last to the first: where a page is mapped twice, the earlier one is the
	 * unmodified one (text before data). A part that cannot be read stays zero. */
	for (size_t i = count; i-- > 0;) {
		if (lines[i].protection & PROT_READ)
			(void)!memory_read(target_memory(target), lines[i].start,
					   bytes + lines[i].offset, lines[i].end - lines[i].start,
					   NULL);
	}
	return true;
}

/* The file, or what is in memory. */
static bool open_contents(const struct target *target, const struct maps_line *lines, size_t count,
			  uint64_t limit, struct module *module, struct stat *status,
			  struct error *error)
{
	const bool core = target_is_core(target);
	bool whole = true;
	if (is_vdso(lines))
		return copy_vdso(target, lines, module, error);
	if (core)
		module->fd = core_image_open(target, lines, count, &whole);
	else if (module->file.far)
		open_far(target, lines, count, module, status);
	else
		module->fd = open_mapped(target, lines, count, &module->in_our_root);
	if (module->fd >= 0)
		return true;
	/* What is not there of its mapping does not come, either. */
	if (module->file.far && far_file_unanswered())
		target_forgo_memory(target);
	if (!whole)
		return error_set(error, ERROR_ABSENT, "%s is neither here nor in the core file",
				 lines->path);
	return copy_image(target, lines, count, limit < IMAGE_LIMIT ? limit : IMAGE_LIMIT, module,
			  error);
}

bool module_open(const struct target *target, const struct maps_line *lines, size_t count, bool far,
		 uint64_t limit, struct module **out, struct error *error)
{
	struct module *module = module_new(lines->path);
	module->file.far = far;
	module->file.device = lines->device;
	module->file.inode = lines->inode;
	struct stat status = {0};
	const bool done = open_contents(target, lines, count, limit, module, &status, error);
	if (module->fd >= 0 && !module->far)
		(void)!fstat(module->fd, &status);
	module->file.size = (uint64_t)status.st_size;
	module->file.changed = status.st_ctim;
	if (!done || !module_read_headers(module, error)) {
		module_free(module);
		return false;
	}
	*out = module;
	return true;
}
