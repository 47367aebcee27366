/* SPDX-License-Identifier: MIT */
/* What the files of modules/ share: reading one image, and opening the one of some mappings. */
#ifndef MODULES_INTERNAL_H
#define MODULES_INTERNAL_H

#include <elf.h>

#include "base/alloc.h"
#include "modules/module.h"

/* ---- elf_file.c ---- */

/* Reads the headers of module->fd or module->bytes into the module. CORRUPT, UNSUPPORTED. */
bool MUST_CHECK module_read_headers(struct module *module, struct error *error);

/* The sections and the build ID alone: a separate debug file's segments are not in it. */
bool module_read_sections(struct module *module);

/* Releases what module_read_headers and the opening allocated, not the struct. */
void module_release(struct module *module);

/*
 * The load bias of a mapping of the module's file, as each segment that could be mapped there gives
 * it: up to `size` different values, the likeliest first. Returns their number.
 */
size_t module_biases(const struct module *module, remote_addr start, uint64_t offset,
		     bool executable, uint64_t *biases, size_t size);

/* ---- symbol_folder.c ---- */

/* False of a debug file. */
bool module_has_code(const struct module *module);

/* ---- module_record.c ---- */

void module_note_file(const struct module *module, uint64_t offset, size_t size);

/* What a question to module_find_* is known by; and its answer, NULL: it was not asked, or nothing
 * was found. */
uint64_t module_question(char kind, const char *const names[], size_t count);
const struct module_answer *module_record_find(const struct module_record *record,
					       uint64_t question);

/* ---- module.c ---- */

/* One line of /proc/PID/maps. */
struct maps_line {
	remote_addr start, end;
	uint64_t offset, device, inode;
	uint32_t protection;
	const char *path; /* "\012" decoded; points into the caller's text */
};

/*
 * Reads one line (without its newline, NUL-terminated, changed in place); false: not such a line.
 */
bool maps_parse_line(char *text, struct maps_line *line);

/*
 * Opens the file behind the lines of one image (they differ in address and offset only) into a new
 * module whose bias is not set yet. At most `limit` bytes are copied out of memory when there is no
 * way to a file. `far`: the file may never be had (target/far_files.h). ABSENT, CORRUPT,
 * UNSUPPORTED, GONE.
 */
bool MUST_CHECK module_open(const struct target *target, const struct maps_line *lines,
			    size_t count, bool far, uint64_t limit, struct module **module,
			    struct error *error);

/* ---- core_image.c: of a core file's mappings ---- */

/* Finds the file and opens it; -1: it is not here, or another one is in its place. *whole, if so:
 * all of it was written down. */
int core_image_open(const struct target *target, const struct maps_line *lines, size_t count,
		    bool *whole);

/* Adds it, the table's from now on. module_add.c */
void module_table_take(struct module_table *table, struct module *module);

/* A module without a file yet: path copied, fd -1. */
struct module *module_new(const char *path);

/* How long "/tmp/libx.so" of "/tmp/libx.so (deleted)" is, as the kernel has the path of a file that
 * is gone. */
size_t module_path_size(const char *path);
void module_free(struct module *module); /* NULL accepted */

#endif
