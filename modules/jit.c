/* SPDX-License-Identifier: MIT */
/*
 * Code that no file has, as the target tells of it: by images registered for debuggers, else by its
 * perf map. A module is made of an image, or of a function with a name, when its code is met in a
 * stack, and not before: a JIT may have made thousands that never run again. It stays when the code
 * is thrown away, so that samples taken before keep their names; new code at its place is another
 * module.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "modules/jit.h"

/* Of the worker's time, one part in so many goes into looking for news. */
enum { IDLE_PARTS = 20, MODULES_LIMIT = 65536 };

static const uint64_t IDLE_LIMIT_NS = 100000000;
static const uint64_t THOROUGH_NS = 1000000000;

struct jit_code {
	const struct target *target; /* NULL: nobody is asked */
	struct jit_list list;
	struct perf_map map;
	struct jit_frames frames;
	uint32_t modules_seen;	/* of the table: looked through for who may know */
	struct table functions; /* (start, hash of size and name) -> id of its module */
	uint64_t bytes;		/* of images */
	size_t modules;
	/* What was met since `epoch` changed: disjoint, each in memory of its own. */
	uint64_t epoch;
	struct mapping **met;
	size_t met_count, met_capacity;
	struct code_list places; /* value: index of met */
	bool asked;
	bool of_python; /* CPython's own JIT is at work */
	bool missed;	/* code was met that nobody knows */
	uint64_t next_look, next_thorough;
};

void module_table_use_jit(struct module_table *table, const struct target *target)
{
	struct jit_code *jit = alloc_zeroed(1, sizeof(*jit));
	jit->target = target;
	perf_map_init(&jit->map);
	table_init(&jit->functions);
	jit_code_free(table->jit);
	table->jit = jit;
}

static void forget_met(struct jit_code *jit)
{
	for (size_t i = 0; i < jit->met_count; i++)
		free(jit->met[i]);
	jit->met_count = 0;
	jit->epoch++;
	code_list_clear(&jit->places);
}

void jit_code_free(struct jit_code *jit)
{
	if (!jit)
		return;
	forget_met(jit);
	free(jit->met);
	code_list_release(&jit->places);
	jit_list_release(&jit->list);
	jit_frames_release(&jit->frames);
	perf_map_release(&jit->map);
	table_release(&jit->functions);
	free(jit);
}

/* ---- news ---- */

static void look(struct module_table *table)
{
	struct jit_code *jit = table->jit;
	const struct memory_reader *memory = target_memory(jit->target);
	const size_t before = jit->list.descriptor_count;
	for (; jit->modules_seen < table->module_count; jit->modules_seen++) {
		jit_list_find_descriptor(&jit->list, table->modules[jit->modules_seen]);
		jit_frames_find_registry(&jit->frames, table->modules[jit->modules_seen]);
	}
	const uint64_t now = clock_now_ns(), begun = clock_thread_cpu_ns();
	const bool thorough = now >= jit->next_thorough;
	bool changed = perf_map_follow(&jit->map, jit->target);
	changed |= jit_frames_read(&jit->frames, memory, thorough || jit->missed);
	/* After the unwind tables: CPython registers an image first. */
	if (thorough || jit->list.descriptor_count != before ||
	    jit_list_is_stale(&jit->list, memory))
		changed |= jit_list_read(&jit->list, memory, thorough);
	jit->missed = false;
	const uint64_t idle = IDLE_PARTS * (clock_thread_cpu_ns() - begun);
	jit->next_look = now + (idle < IDLE_LIMIT_NS ? idle : IDLE_LIMIT_NS);
	if (thorough)
		jit->next_thorough = now + THOROUGH_NS;
	if (!changed)
		return;
	forget_met(jit);
	table->generation++;
	log_debug("target", "code made at run time: %zu images, %zu named functions, %zu FDEs",
		  jit->list.count, jit->map.ranges.count, jit->frames.ranges.count);
}

void module_table_follow_jit(struct module_table *table)
{
	const struct jit_code *jit = table->jit;
	if (jit && jit->target && jit->asked && clock_now_ns() >= jit->next_look)
		look(table);
}

void module_table_forget_jit(struct module_table *table)
{
	if (!table->jit)
		return;
	const struct target *target = table->jit->target;
	const uint64_t epoch = table->jit->epoch;
	const uint32_t seen = table->jit->modules_seen;
	module_table_use_jit(table, target);
	table->jit->epoch = epoch + 1;
	table->jit->modules_seen = seen;
	table->generation++;
}

/* ---- what was met ---- */

static struct mapping *add_met(struct jit_code *jit, const struct mapping *mapping)
{
	struct mapping *own = alloc_zeroed(1, sizeof(*own));
	*own = *mapping;
	jit->met = alloc_room(jit->met, &jit->met_capacity, jit->met_count + 1, sizeof(*jit->met));
	const struct code_range place = {.start = own->start,
					 .end = own->end,
					 .order = jit->met_count,
					 .value = jit->met_count};
	jit->met[jit->met_count++] = own;
	code_list_add(&jit->places, &place);
	code_list_sort(&jit->places);
	return own;
}

const struct mapping *const *module_table_jit(const struct module_table *table, uint64_t *epoch,
					      size_t *count)
{
	const struct jit_code *jit = table->jit;
	*epoch = jit ? jit->epoch : 0;
	*count = jit ? jit->met_count : 0;
	return jit ? (const struct mapping *const *)jit->met : NULL;
}

void module_table_add_jit(struct module_table *table, const struct mapping *mapping)
{
	if (table->jit)
		add_met(table->jit, mapping);
}

/* ---- modules ---- */

/* Takes over the image's bytes. */
static struct module *make_module(struct module_table *table, const struct jit_image *image)
{
	struct jit_code *jit = table->jit;
	struct module *module = NULL;
	struct error error = {0};
	if (image->size <= JIT_BYTES_LIMIT - jit->bytes && jit->modules < MODULES_LIMIT &&
	    module_table_add_made(table, image->bytes, image->size,
				  image->python ? MODULE_OF_PYTHON : MODULE_OF_JIT, &module,
				  &error)) {
		jit->bytes += image->size;
		jit->modules++;
		jit->of_python |= image->python;
	} else {
		log_debug("target", "code made at run time: %s",
			  error.message[0] ? error.message : "more than can be kept");
	}
	free(image->bytes);
	return module;
}

static struct module *image_module(struct module_table *table, struct jit_entry *entry)
{
	const struct memory_reader *memory = target_memory(table->jit->target);
	struct jit_image image = {0};
	struct error error;
	if (entry->module || entry->refused)
		return entry->module;
	struct module *module = NULL;
	if (jit_image_link(memory, entry->image, entry->size, &image, &error))
		module = make_module(table, &image);
	else
		log_debug("target", "code made at run time: %s", error.message);
	jit_list_note_module(memory, entry, module);
	return module;
}

/* What a perf map and registered unwind tables say about the code at an address. */
struct described {
	struct code_range range; /* where both hold */
	struct jit_function function;
	char name[PERF_MAP_NAME];
	bool python;
	remote_addr fde; /* 0: none */
};

static void cut(struct code_range *range, const struct code_range *other)
{
	range->start = range->start > other->start ? range->start : other->start;
	range->end = range->end < other->end ? range->end : other->end;
}

static bool describe(const struct jit_code *jit, remote_addr address, struct described *described)
{
	struct code_range whole, named, framed;
	const bool has_name = code_list_find(&jit->map.ranges, address, &named) &&
			      perf_map_name(&jit->map, named.value, &whole, described->name);
	const bool has_frame = code_list_find(&jit->frames.ranges, address, &framed);
	if (!has_name && !has_frame)
		return false;
	described->range = has_name ? named : framed;
	if (has_name && has_frame)
		cut(&described->range, &framed);
	if (!has_name) {
		described->name[0] = '\0';
		whole = framed;
	}
	described->function.start = whole.start;
	described->function.size = whole.end - whole.start;
	described->function.name = described->name;
	described->python = has_name && (named.value & PERF_MAP_PYTHON);
	described->fde = has_frame ? framed.value : 0;
	return true;
}

/* The same function has the same module whenever it is met, also when there is news. */
static struct module *function_module(struct module_table *table, struct described *described)
{
	struct jit_code *jit = table->jit;
	const struct memory_reader *memory = target_memory(jit->target);
	struct jit_function *function = &described->function;
	struct jit_image image;
	uint32_t id;
	const uint64_t key = hash_pair(hash_bytes(function->name, strlen(function->name)),
				       hash_pair(function->size, described->fde));
	if (table_find(&jit->functions, function->start, key, &id))
		return table->modules[id];
	if (described->fde && !jit_frames_copy(memory, described->fde, &function->table))
		function->table = (struct jit_table){0};
	jit_image_of_function(memory, function, &image);
	free(function->table.bytes);
	image.python = described->python;
	struct module *module = make_module(table, &image);
	if (module)
		table_put(&jit->functions, function->start, key, module->id);
	return module;
}

static struct module *find_module(struct module_table *table, remote_addr address,
				  struct code_range *range)
{
	struct jit_code *jit = table->jit;
	if (code_list_find(&jit->list.ranges, address, range)) {
		struct module *module = image_module(table, &jit->list.entries[range->value]);
		if (module)
			return module;
	}
	struct described described = {0};
	if (!describe(jit, address, &described))
		return NULL;
	/* CPython registers its code with both; the newest image says whether it does at all. */
	if (!described.name[0] && !jit->of_python && jit->list.count > 0)
		(void)image_module(table, &jit->list.entries[0]);
	described.python |= !described.name[0] && jit->of_python;
	*range = described.range;
	return function_module(table, &described);
}

const struct mapping *jit_code_find(struct module_table *table, remote_addr address)
{
	struct jit_code *jit = table->jit;
	struct code_range range;
	if (code_list_find(&jit->places, address, &range))
		return jit->met[range.value];
	if (!jit->target)
		return NULL;
	if (!jit->asked) {
		jit->asked = true;
		look(table);
	}
	struct module *module = find_module(table, address, &range);
	if (!module) {
		jit->missed = true;
		return NULL;
	}
	const struct mapping mapping = {
		.start = range.start,
		.end = range.end,
		.protection = PROT_READ | PROT_EXEC,
		.module = module,
		.path = "",
	};
	return add_met(jit, &mapping);
}
