/* SPDX-License-Identifier: MIT */
/*
 * All mappings of the target and the ELF images among them, kept up to date. A mapping that has not
 * changed keeps its module without a look at the file, and an image that comes back to its place
 * gets its old struct again: ids, caches and earlier samples stay valid. Relies on /proc/PID/maps
 * being in order of address; bounds its size.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sorted.h"
#include "modules/jit.h"
#include "target/core.h"
#include "target/far_files.h"

enum {
	LINES_LIMIT = 1000000,
	COPIES_LIMIT = 512 * 1024 * 1024,
	TEXT_LIMIT = 256 * 1024 * 1024,
	READ_STEP = 256 * 1024,
	IMAGE_LINES_LIMIT = 4096, /* mappings of one file */
	BIASES_LIMIT = 8,
	ATTEMPTS_LIMIT = 8, /* refreshes in which an image is tried to be opened */
};

/* In one refresh, but for the first one; the rest is left to the next. */
static const uint64_t OPENING_NS = 100000000;

void module_table_init(struct module_table *table)
{
	memset(table, 0, sizeof(*table));
}

void module_table_release(struct module_table *table)
{
	for (size_t i = 0; i < table->module_count; i++)
		module_free(table->modules[i]);
	free(table->modules);
	free(table->mappings);
	jit_code_free(table->jit);
	module_table_init(table);
}

/* ---- reading the lines ---- */

struct maps {
	char *text;
	struct maps_line *lines;
	size_t count;
};

static void maps_release(struct maps *maps)
{
	free(maps->text);
	free(maps->lines);
}

static bool read_text(int fd, char **text, size_t *size, struct error *error)
{
	size_t capacity = 0, used = 0;
	while (used < TEXT_LIMIT) {
		*text = alloc_room(*text, &capacity, used + READ_STEP + 1, 1);
		ssize_t got = read(fd, *text + used, capacity - used - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set_errno(error, errno, "cannot read the memory map");
		if (got == 0)
			break;
		used += (size_t)got;
	}
	(*text)[used] = '\0';
	*size = used;
	return true;
}

/* The map may change between two reads of it: a line that goes back is left out. */
static void split_lines(struct maps *maps, size_t size)
{
	size_t capacity = 0;
	char *at = maps->text, *end = maps->text + size;
	remote_addr reached = 0;
	while (at < end && maps->count < LINES_LIMIT) {
		char *newline = memchr(at, '\n', (size_t)(end - at));
		if (!newline)
			break;
		*newline = '\0';
		maps->lines =
			alloc_room(maps->lines, &capacity, maps->count + 1, sizeof(*maps->lines));
		struct maps_line *line = &maps->lines[maps->count];
		if (maps_parse_line(at, line) && line->start >= reached) {
			reached = line->end;
			maps->count++;
		}
		at = newline + 1;
	}
}

static bool read_once(const struct target *target, struct maps *maps, struct error *error)
{
	size_t size = 0;
	if (target_is_core(target)) {
		maps->text = target_core_maps(target, &size);
		split_lines(maps, size);
		return true;
	}
	_cleanup_close_ int fd = target_open_proc(target, "maps");
	if (fd < 0)
		return error_set_errno(error, errno == ENOENT ? ESRCH : errno,
				       "cannot read the memory map of process %d",
				       (int)target_pid(target));
	if (!read_text(fd, &maps->text, &size, error))
		return false;
	split_lines(maps, size);
	return true;
}

static bool read_maps(const struct target *target, struct maps *maps, struct error *error)
{
	if (!read_once(target, maps, error))
		return false;
	if (maps->count)
		return true;
	/* Empty: the thread we asked by has ended. Others may go on. */
	maps_release(maps);
	*maps = (struct maps){0};
	if (target_find_living_thread(target) && !read_once(target, maps, error))
		return false;
	return maps->count ||
	       error_set(error, ERROR_GONE, "process %d has ended", (int)target_pid(target));
}

/* ---- which module is it? ---- */

static bool is_image_candidate(const struct maps_line *line)
{
	if (!(line->protection & PROT_EXEC))
		return false;
	return line->path[0] == '/' ? line->inode != 0 : strcmp(line->path, "[vdso]") == 0;
}

static bool same_file(const struct maps_line *a, const struct maps_line *b)
{
	return a->inode == b->inode && a->device == b->device && strcmp(a->path, b->path) == 0;
}

static bool is_of_file(const struct module *module, const struct maps_line *line)
{
	return module->file.inode == line->inode && module->file.device == line->device &&
	       strcmp(module->path, line->path) == 0;
}

/* The same mapping as before, and not of another file that took the same path. */
static bool unchanged(const struct mapping *old, const struct maps_line *line)
{
	return old->start == line->start && old->end == line->end && old->offset == line->offset &&
	       old->protection == line->protection && strcmp(old->path, line->path) == 0 &&
	       (!old->module || is_of_file(old->module, line));
}

/* The mapping of the last refresh that holds the address. */
static const struct mapping *old_mapping(const struct module_table *table, remote_addr address)
{
	size_t at = upper_bound(table->mappings, table->mapping_count, sizeof(*table->mappings),
				offsetof(struct mapping, end), address);
	if (at < table->mapping_count && table->mappings[at].start <= address)
		return &table->mappings[at];
	return NULL;
}

/* Whether the line is of the module's file, where that was loaded. `code`: of a segment of code. */
static bool fits(const struct module *module, const struct maps_line *line, bool code)
{
	uint64_t biases[BIASES_LIMIT];
	if (!is_of_file(module, line))
		return false;
	size_t count = module_biases(module, line->start, line->offset, code, biases, BIASES_LIMIT);
	for (size_t i = 0; i < count; i++)
		if (biases[i] == module->load_bias)
			return true;
	return false;
}

static struct module *known_module(const struct module_table *table, const struct maps_line *line)
{
	for (size_t i = table->module_count; i-- > 0;)
		if (!table->modules[i]->unplaced && fits(table->modules[i], line, true))
			return table->modules[i];
	return NULL;
}

/* What one refresh builds. */
struct refresh {
	struct module_table *table;
	const struct target *target;
	const struct maps *maps;
	struct module **modules; /* of each line */
	uint8_t *attempts;	 /* likewise: see struct mapping */
	struct maps_line *image; /* room for the lines of one; NULL: not needed yet */
	struct seen_devices seen;
	uint64_t begun_ns;
};

/* All lines of the file of line `index`, from the first of them on that follows without another
 * image in between: those of one loading, or of several next to each other. */
static size_t gather_lines(const struct refresh *refresh, size_t index, struct maps_line *lines)
{
	const struct maps *maps = refresh->maps;
	const struct maps_line *line = &maps->lines[index];
	size_t first = index, count = 0;
	while (first > 0 &&
	       (same_file(&maps->lines[first - 1], line) || maps->lines[first - 1].inode == 0) &&
	       index - first < 64)
		first--;
	for (size_t i = first; i < maps->count && count < IMAGE_LINES_LIMIT; i++) {
		if (same_file(&maps->lines[i], line))
			lines[count++] = maps->lines[i];
		else if (maps->lines[i].inode != 0)
			break;
	}
	return count;
}

/* What may still be copied out of the target's memory, for all modules together. */
static uint64_t copies_left(const struct module_table *table)
{
	uint64_t left = COPIES_LIMIT;
	for (size_t i = 0; i < table->module_count; i++) {
		uint64_t used = table->modules[i]->bytes_size;
		left -= used < left ? used : left;
	}
	return left;
}

static struct module *open_image(struct refresh *refresh, size_t index)
{
	struct module *module = NULL;
	if (!refresh->image)
		refresh->image = alloc_zeroed(IMAGE_LINES_LIMIT, sizeof(*refresh->image));
	size_t count = gather_lines(refresh, index, refresh->image);
	const uint64_t device = refresh->image->device;
	const bool far = device_is_far(&refresh->seen, refresh->target, device);
	if (!module_open(refresh->target, refresh->image, count, far, copies_left(refresh->table),
			 &module, NULL))
		return NULL;
	if (module->fd >= 0)
		device_answers(&refresh->seen, device);
	return module;
}

static bool same_contents(const struct module *a, const struct module *b)
{
	if (a->fd >= 0 && b->fd >= 0)
		return a->file.size == b->file.size &&
		       a->file.changed.tv_sec == b->file.changed.tv_sec &&
		       a->file.changed.tv_nsec == b->file.changed.tv_nsec;
	return a->fd < 0 && b->fd < 0 && a->bytes_size == b->bytes_size &&
	       memcmp(a->bytes, b->bytes, a->bytes_size) == 0;
}

/*
 * The image's module in the program that the target executed before, or this one, newly opened. A
 * target that executes the same program again and again would have us keep its files each time.
 */
static struct module *adopt(struct module_table *table, struct module *fresh)
{
	for (size_t i = table->module_count; i-- > 0;) {
		struct module *module = table->modules[i];
		if (!module->unplaced || module->file.device != fresh->file.device ||
		    module->file.inode != fresh->file.inode ||
		    strcmp(module->path, fresh->path) != 0 || !same_contents(module, fresh))
			continue;
		module_table_place(table, module, fresh->load_bias);
		module_free(fresh);
		return module;
	}
	module_table_take(table, fresh);
	return fresh;
}

/*
 * The module of an executable mapping whose file was not at this place before. One that was loaded
 * elsewhere is opened again: it may have been rewritten.
 */
static struct module *new_module(struct refresh *refresh, size_t index)
{
	const struct maps_line *line = &refresh->maps->lines[index];
	uint64_t bias;
	struct module *module = open_image(refresh, index);
	if (!module)
		return NULL;
	if (!module_biases(module, line->start, line->offset, true, &bias, 1)) {
		module_free(module);
		return NULL;
	}
	module->load_bias = bias;
	return adopt(refresh->table, module);
}

/* A program whose mappings come and go would have us open files all the time. */
static bool may_open(struct refresh *refresh, const struct maps_line *line)
{
	struct module_table *table = refresh->table;
	if (table->near_alone && device_is_far(&refresh->seen, refresh->target, line->device)) {
		table->has_put_off = true;
		return false;
	}
	if (table->mapping_count == 0)
		return true;
	if (table->hurry && atomic_load_explicit(table->hurry, memory_order_relaxed))
		return false;
	return clock_now_ns() - refresh->begun_ns < OPENING_NS;
}

static void find_executable(struct refresh *refresh)
{
	refresh->table->has_put_off = false;
	for (size_t i = 0; i < refresh->maps->count; i++) {
		const struct maps_line *line = &refresh->maps->lines[i];
		if (!is_image_candidate(line))
			continue;
		const struct mapping *old = old_mapping(refresh->table, line->start);
		bool same = old && unchanged(old, line);
		if (same)
			refresh->attempts[i] = old->attempts;
		if (same && (old->module || old->attempts >= ATTEMPTS_LIMIT)) {
			refresh->modules[i] = old->module;
			continue;
		}
		refresh->modules[i] = known_module(refresh->table, line);
		if (refresh->modules[i] || !may_open(refresh, line))
			continue;
		/* In the middle of an exec a file can be refused that is there a moment later. */
		refresh->modules[i] = new_module(refresh, i);
		if (!refresh->modules[i])
			refresh->attempts[i]++;
	}
}

/*
 * Read-only and data mappings belong to the nearest image of their file whose bias explains them.
 * One that no image explains is somebody's plain mmap of the file. `step` is the direction in which
 * the image is looked for.
 */
static void spread_modules(const struct refresh *refresh, int step)
{
	const struct maps *maps = refresh->maps;
	struct module *nearest = NULL;
	for (size_t n = 0; n < maps->count; n++) {
		size_t i = step > 0 ? n : maps->count - 1 - n;
		if (refresh->modules[i])
			nearest = refresh->modules[i];
		else if (nearest && maps->lines[i].inode && fits(nearest, &maps->lines[i], false))
			refresh->modules[i] = nearest;
	}
}

/* ---- the new list ---- */

static void set_spans(const struct refresh *refresh)
{
	for (size_t pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < refresh->maps->count; i++) {
			const struct maps_line *line = &refresh->maps->lines[i];
			struct module *module = refresh->modules[i];
			if (!module)
				continue;
			if (pass == 0)
				module->start = module->end = 0;
			else if (!module->end)
				module->start = line->start;
			if (pass == 1)
				module->end = line->end;
		}
	}
}

/* The list and the texts of its paths in one piece of memory. */
static struct mapping *build_mappings(const struct refresh *refresh)
{
	const struct maps *maps = refresh->maps;
	size_t texts = 0;
	for (size_t i = 0; i < maps->count; i++)
		texts += strlen(maps->lines[i].path) + 1;
	struct mapping *mappings = alloc_zeroed(1, maps->count * sizeof(*mappings) + texts);
	char *text = (char *)(mappings + maps->count);
	for (size_t i = 0; i < maps->count; i++) {
		const struct maps_line *line = &maps->lines[i];
		size_t size = strlen(line->path) + 1;
		memcpy(text, line->path, size);
		mappings[i] = (struct mapping){
			.start = line->start,
			.end = line->end,
			.offset = line->offset,
			.protection = line->protection,
			.module = refresh->modules[i],
			.attempts = refresh->attempts[i],
			.path = text,
		};
		text += size;
	}
	return mappings;
}

static bool matters(const struct mapping *mapping)
{
	return mapping->module || (mapping->protection & PROT_EXEC);
}

static size_t next_that_matters(const struct mapping *mappings, size_t count, size_t at)
{
	while (at < count && !matters(&mappings[at]))
		at++;
	return at;
}

static bool same_code(const struct mapping *old, size_t old_count, const struct mapping *new,
		      size_t new_count)
{
	size_t i = next_that_matters(old, old_count, 0), k = next_that_matters(new, new_count, 0);
	while (i < old_count && k < new_count) {
		if (old[i].start != new[k].start || old[i].end != new[k].end ||
		    old[i].offset != new[k].offset || old[i].protection != new[k].protection ||
		    old[i].module != new[k].module)
			return false;
		i = next_that_matters(old, old_count, i + 1);
		k = next_that_matters(new, new_count, k + 1);
	}
	return i == old_count && k == new_count;
}

static bool replace_mappings(struct module_table *table, struct mapping *mappings, size_t count)
{
	bool moved = !same_code(table->mappings, table->mapping_count, mappings, count);
	free(table->mappings);
	table->mappings = mappings;
	table->mapping_count = count;
	table->last_hit = 0;
	table->generation += moved;
	return moved;
}

bool module_table_refresh(struct module_table *table, const struct target *target, bool *changed,
			  struct error *error)
{
	__attribute__((cleanup(maps_release))) struct maps maps = {0};
	if (!read_maps(target, &maps, error))
		return false;
	struct refresh refresh = {
		.table = table, .target = target, .maps = &maps, .begun_ns = clock_now_ns()};
	refresh.modules = alloc_zeroed(maps.count, sizeof(*refresh.modules));
	refresh.attempts = alloc_zeroed(maps.count, sizeof(*refresh.attempts));
	find_executable(&refresh);
	spread_modules(&refresh, 1);
	spread_modules(&refresh, -1);
	set_spans(&refresh);
	bool moved = replace_mappings(table, build_mappings(&refresh), maps.count);
	free(refresh.modules);
	free(refresh.attempts);
	free(refresh.image);
	if (changed)
		*changed = moved;
	return true;
}

void module_table_place(struct module_table *table, struct module *module, uint64_t load_bias)
{
	table->placements++;
	module->load_bias = load_bias;
	module->unplaced = false;
}

void module_table_forget_program(struct module_table *table)
{
	module_table_forget_jit(table);
	for (size_t i = 0; i < table->module_count; i++) {
		table->modules[i]->unplaced = table->modules[i]->origin == MODULE_OF_FILE;
		table->modules[i]->start = table->modules[i]->end = 0;
	}
	free(table->mappings);
	table->mappings = NULL;
	table->mapping_count = 0;
	table->last_hit = 0;
	table->generation++;
}

void module_table_set_mappings(struct module_table *table, const struct mapping *mappings,
			       size_t count)
{
	struct mapping *copy = alloc_zeroed(count ? count : 1, sizeof(*copy));
	if (count)
		memcpy(copy, mappings, count * sizeof(*copy));
	free(table->mappings);
	table->mappings = copy;
	table->mapping_count = count;
	table->last_hit = 0;
	table->generation++;
}

static const struct mapping *find_mapped(struct module_table *table, remote_addr address)
{
	if (table->last_hit < table->mapping_count) {
		const struct mapping *last = &table->mappings[table->last_hit];
		if (address >= last->start && address < last->end)
			return last;
	}
	const struct mapping *mapping = old_mapping(table, address);
	if (mapping)
		table->last_hit = (size_t)(mapping - table->mappings);
	return mapping;
}

const struct mapping *module_table_find(struct module_table *table, remote_addr address)
{
	const struct mapping *mapping = find_mapped(table, address);
	if (!table->jit || !mapping || mapping->module || !(mapping->protection & PROT_EXEC))
		return mapping;
	const struct mapping *made = jit_code_find(table, address);
	return made ? made : mapping;
}
