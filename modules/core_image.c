/* SPDX-License-Identifier: MIT */
/*
 * The files behind a core file's mappings. A core file has names alone, and what is at such a name
 * here may be another build, on another machine most likely is: so a file is taken only when it has
 * the build ID, or the same first page, that the process had in memory. Looked for: what was given
 * as the program; its name below the sysroot; by build ID or by name in --symbols; by build ID from
 * servers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/notes.h"
#include "modules/internal.h"
#include "target/core.h"

enum { PATH_LIMIT = 4096, WHOLE_LIMIT = 256 << 20 };

/* What the process had in memory where the file begins. */
struct identity {
	uint8_t page[TARGET_PAGE];
	bool known, writable;
	struct build_id id;
};

static void identify(const struct target *target, const struct maps_line *lines, size_t count,
		     struct identity *identity)
{
	*identity = (struct identity){0};
	for (size_t i = 0; i < count && !identity->known; i++) {
		identity->known = lines[i].offset == 0 &&
				  target_core_read(target, lines[i].start, identity->page,
						   sizeof(identity->page));
		identity->writable = lines[i].protection & PROT_WRITE;
	}
	if (identity->known)
		identity->id = elf_head_build_id(identity->page, sizeof(identity->page));
}

static bool same_build(const struct identity *identity, int fd)
{
	struct module probe = {.path = "", .fd = fd};
	const bool same = module_read_headers(&probe, NULL) &&
			  build_id_equal(&probe.build_id, &identity->id) && module_has_code(&probe);
	free(probe.segments);
	free(probe.sections);
	return same;
}

/* The ELF header and the program headers, which have the places of all that is in the file. */
static size_t headers_size(const uint8_t *page)
{
	Elf64_Ehdr header;
	memcpy(&header, page, sizeof(header));
	const uint64_t size = header.e_phnum * sizeof(Elf64_Phdr);
	return header.e_phoff < TARGET_PAGE && size <= TARGET_PAGE - header.e_phoff
		       ? header.e_phoff + size
		       : sizeof(header);
}

/* patchelf puts what the dynamic linker writes to into the first page. */
static bool same_page(const struct identity *identity, const uint8_t *page)
{
	const size_t size =
		identity->writable ? headers_size(identity->page) : sizeof(identity->page);
	return memcmp(page, identity->page, size) == 0;
}

static bool is_file(const struct identity *identity, int fd)
{
	uint8_t page[TARGET_PAGE] = {0};
	if (pread(fd, page, sizeof(page), 0) <= 0)
		return false;
	return same_page(identity, page) || same_build(identity, fd);
}

/* Gives fd back if it is the file, else closes it; *other: something was there. Where the core file
 * has nothing to tell it by, the name has to do. */
static int judge(const struct identity *identity, int fd, bool by_name, bool *other)
{
	if (fd < 0 || (identity->known ? is_file(identity, fd) : by_name))
		return fd;
	*other = true;
	close(fd);
	return -1;
}

static int open_below(int root, uid_t user, const char *path)
{
	return foreign_file_open((struct foreign_root){.fd = root, .user = user}, path);
}

/* ---- where it may be ---- */

static int open_program(const struct target *target, const struct maps_line *line,
			const struct identity *identity)
{
	uint64_t inode;
	bool other = false;
	const char *program = target_core_program(target, &inode);
	if (!program || inode != line->inode)
		return -1;
	const int found = open_below(FOREIGN_OUR_ROOT, 0, program);
	const int fd = judge(identity, found, true, &other);
	char text[PATH_LIMIT + 64];
	if (found < 0)
		snprintf(text, sizeof(text), "%s: %s", program, strerror(errno));
	else if (fd < 0)
		snprintf(text, sizeof(text), "%s is not the program of this core file", program);
	if (fd < 0)
		target_core_add_problem(target, text);
	return fd;
}

/* DIR/.build-id/xx/yyyy, DIR/usr/lib/libx.so, DIR/libx.so */
static int open_symbols(const struct target *target, const char *path,
			const struct identity *identity)
{
	const struct foreign_root *folder = target_symbols(target);
	const char *slash = strrchr(path, '/');
	char names[3][PATH_LIMIT + 1], hex[65];
	bool other;
	int fd = -1;
	if (!folder || !identity->known)
		return -1;
	build_id_hex(&identity->id, hex);
	snprintf(names[0], sizeof(names[0]), ".build-id/%.2s/%s", hex, hex[0] ? hex + 2 : "");
	snprintf(names[1], sizeof(names[1]), "%s", path + (path[0] == '/'));
	snprintf(names[2], sizeof(names[2]), "%s", slash ? slash + 1 : path);
	for (size_t i = identity->id.size < 2; i < 3 && fd < 0; i++)
		fd = judge(identity, foreign_file_open(*folder, names[i]), false, &other);
	return fd;
}

static void note_missing(const struct target *target, const char *path,
			 const struct identity *identity, bool other)
{
	char text[PATH_LIMIT + 160], hex[65];
	build_id_hex(&identity->id, hex);
	snprintf(text, sizeof(text), "%s%s%s%s: %s", path, hex[0] ? " (build ID " : "", hex,
		 hex[0] ? ")" : "", other ? "another build of it is here" : "is not here");
	target_core_add_problem(target, text);
}

static bool is_whole(const struct target *target, const struct maps_line *lines, size_t count)
{
	uint8_t page[TARGET_PAGE];
	uint64_t size = 0;
	for (size_t i = 0; i < count; i++) {
		size += lines[i].end - lines[i].start;
		if (size > WHOLE_LIMIT)
			return false;
		for (remote_addr at = lines[i].start; at < lines[i].end; at += sizeof(page))
			if ((lines[i].protection & PROT_READ) &&
			    !target_core_read(target, at, page, sizeof(page)))
				return false;
	}
	return true;
}

int core_image_open(const struct target *target, const struct maps_line *lines, size_t count,
		    bool *whole)
{
	const struct foreign_root root = target_files(target);
	struct identity identity;
	char path[PATH_LIMIT];
	bool other = false;
	identify(target, lines, count, &identity);
	/* The process may have had it open after it was deleted, and put back since. */
	snprintf(path, sizeof(path), "%.*s", (int)module_path_size(lines->path), lines->path);
	int fd = open_program(target, lines, &identity);
	if (fd < 0)
		fd = judge(&identity, open_below(root.fd, root.user, path), true, &other);
	if (fd < 0)
		fd = open_symbols(target, path, &identity);
	*whole = fd < 0 && is_whole(target, lines, count);
	if (fd < 0 && !*whole)
		fd = judge(&identity, target_core_fetch(target, &identity.id, path), false, &other);
	if (fd >= 0)
		target_core_use_file(target, lines->inode, fd);
	else if (!*whole)
		note_missing(target, path, &identity, other);
	return fd;
}
