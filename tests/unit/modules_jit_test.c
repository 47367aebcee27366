/* SPDX-License-Identifier: MIT */
/*
 * Code made at run time, as a process tells of it: ourselves the process. Images that gcc has made,
 * lists and perf maps that are honest, that change, and that want to do harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "modules/jit.h"
#include "tests/unit/module_symbol.h"

/* ---- our own memory as a target's ---- */

static size_t reads_left = SIZE_MAX;
static const struct target *self;

static bool read_counted(const struct memory_reader *reader, remote_addr address, void *buffer,
			 size_t size, struct error *error)
{
	(void)reader;
	if (reads_left == 0)
		return error_set(error, ERROR_GONE, "no more reads");
	reads_left -= reads_left != SIZE_MAX;
	return memory_read(target_memory(self), address, buffer, size, error);
}

static const struct memory_reader counted = {.read = read_counted};

struct list_entry {
	struct list_entry *next, *previous;
	const void *image;
	uint64_t size;
};

static struct {
	uint32_t version, action;
	struct list_entry *relevant, *first;
} descriptor;

/* ---- an image ---- */

static char object[64 << 10];
static size_t object_size;
static char *place;

static Elf64_Shdr *section_of(char *image, const char *name)
{
	Elf64_Ehdr *header = (Elf64_Ehdr *)image;
	Elf64_Shdr *sections = (Elf64_Shdr *)(image + header->e_shoff);
	for (unsigned i = 0; i < header->e_shnum; i++)
		if (strcmp(image + sections[header->e_shstrndx].sh_offset + sections[i].sh_name,
			   name) == 0)
			return &sections[i];
	return NULL;
}

static int build_object(void **state)
{
	char path[] = "/tmp/modules_jit_testXXXXXX", command[600];
	(void)state;
	int fd = mkstemp(path);
	snprintf(command, sizeof(command),
		 "printf '%%s\\n' 'int one(int x) { return x + 1; }' '__attribute__((noinline)) int"
		 " two(int x) { return x * one(x); }' | gcc -x c -O1 -g -fcf-protection=none -c"
		 " -o %s -",
		 path);
	assert_int_equal(system(command), 0);
	object_size = (size_t)read(fd, object, sizeof(object));
	close(fd);
	unlink(path);
	place = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(place, 0xcc, 8192);
	section_of(object, ".text")->sh_addr = (uintptr_t)place;
	section_of(object, ".eh_frame")->sh_addr = (uintptr_t)place + 4096;
	struct target *target;
	struct error error;
	assert_true(target_open(getpid(), &target, &error));
	self = target;
	return 0;
}

static int release_object(void **state)
{
	(void)state;
	munmap(place, 8192);
	target_free((struct target *)(uintptr_t)self);
	return 0;
}

static remote_addr address_of(const void *memory)
{
	return (uintptr_t)memory;
}

static void an_object_becomes_an_image_like_any_other(void **state)
{
	(void)state;
	struct module_table table;
	struct jit_image image;
	struct jit_span spans[JIT_IMAGE_SPANS];
	struct module *module;
	struct error error;
	uint64_t hash, start, size;
	uint8_t code[4];
	module_table_init(&table);
	assert_int_equal(
		jit_image_spans(target_memory(self), address_of(object), object_size, spans, &hash),
		1);
	assert_int_equal(spans[0].start, address_of(place));
	assert_true(jit_image_link(target_memory(self), address_of(object), object_size, &image,
				   &error));
	assert_false(image.python);
	assert_true(module_table_add_made(&table, image.bytes, image.size, MODULE_OF_JIT, &module,
					  &error));
	free(image.bytes);
	assert_int_equal(module->base, address_of(place));
	/* Symbols have run-time addresses, code is what the target has. */
	assert_true(module_symbol(module, "two", &start, &size, &error));
	assert_in_range(start, address_of(place) + 1, address_of(place) + 4095);
	assert_true(module_read(module, start, code, sizeof(code), &error));
	assert_int_equal(code[0], 0xcc);
	/* The first FDE's code, relative to its own place, is the first function. */
	int32_t distance;
	const struct module_section *frames = module_section(module, ".eh_frame");
	uint32_t cie;
	assert_true(module_read(module, frames->vaddr, &cie, sizeof(cie), &error));
	const uint64_t field = frames->vaddr + cie + 4 + 8;
	assert_true(module_read(module, field, &distance, sizeof(distance), &error));
	assert_int_equal(field + (int64_t)distance, address_of(place));
	module_table_release(&table);
}

/* Whatever stands in the image: no harm, and no more than a moment. (Under the sanitizers.) */
static void damaged_images_do_no_harm(void **state)
{
	(void)state;
	static char damaged[sizeof(object)];
	srand(1);
	for (int round = 0; round < 3000; round++) {
		struct jit_span spans[JIT_IMAGE_SPANS];
		struct jit_image image;
		struct module_table table;
		struct module *module;
		uint64_t hash;
		memcpy(damaged, object, object_size);
		const size_t headers = ((Elf64_Ehdr *)object)->e_shoff;
		for (int i = 0; i < 1 + round % 8; i++) {
			/* mostly in the headers */
			const size_t at =
				round % 3 ? headers + (size_t)rand() % (object_size - headers)
					  : (size_t)rand() % object_size;
			damaged[at] = (char)(rand() % 4 ? rand() : 0xff * (rand() % 2));
		}
		const size_t size = round % 5 ? object_size : (size_t)rand() % object_size;
		(void)jit_image_spans(target_memory(self), address_of(damaged), size, spans, &hash);
		if (!jit_image_link(target_memory(self), address_of(damaged), size, &image, NULL))
			continue;
		module_table_init(&table);
		(void)!module_table_add_made(&table, image.bytes, image.size, MODULE_OF_JIT,
					     &module, NULL);
		module_table_release(&table);
		free(image.bytes);
	}
}

static void sizes_are_bounded(void **state)
{
	(void)state;
	struct jit_span spans[JIT_IMAGE_SPANS];
	struct jit_image image;
	struct error error;
	uint64_t hash;
	static const uint64_t sizes[] = {0, 1, 63, (16 << 20) + 1, UINT64_MAX, UINT64_MAX - 4096};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		assert_int_equal(jit_image_spans(target_memory(self), address_of(object), sizes[i],
						 spans, &hash),
				 0);
		assert_false(jit_image_link(target_memory(self), address_of(object), sizes[i],
					    &image, &error));
	}
}

/* ---- the list ---- */

static struct jit_list *list_of_descriptor(void)
{
	struct jit_list *list = alloc_zeroed(1, sizeof(*list));
	list->descriptors[0].at = address_of(&descriptor);
	list->descriptor_count = 1;
	return list;
}

static void free_list(struct jit_list *list)
{
	jit_list_release(list);
	free(list);
}

static void the_list_is_followed(void **state)
{
	(void)state;
	static char second[sizeof(object)];
	struct jit_list *list = list_of_descriptor();
	struct list_entry entries[2] = {{NULL, NULL, object, object_size},
					{NULL, NULL, second, object_size}};
	struct code_range range;
	memcpy(second, object, object_size);
	section_of(second, ".text")->sh_addr += 0x100;
	descriptor.version = 1;
	descriptor.action = 1;
	descriptor.first = descriptor.relevant = &entries[0];
	assert_true(jit_list_is_stale(list, &counted));
	assert_true(jit_list_read(list, &counted, false));
	assert_false(jit_list_is_stale(list, &counted));
	assert_false(jit_list_read(list, &counted, true));
	assert_true(code_list_find(&list->ranges, address_of(place) + 2, &range));
	assert_int_equal(list->entries[range.value].image, address_of(object));
	/* A new one in front of it. */
	entries[1].next = &entries[0];
	descriptor.first = descriptor.relevant = &entries[1];
	assert_true(jit_list_is_stale(list, &counted));
	assert_true(jit_list_read(list, &counted, false));
	assert_int_equal(list->count, 2);
	assert_true(code_list_find(&list->ranges, address_of(place) + 0x102, &range));
	assert_int_equal(list->entries[range.value].image, address_of(second));
	/* The same entry, the same memory, other code. */
	list->entries[0].module = (struct module *)second; /* its code has been met */
	jit_list_note_module(&counted, &list->entries[0], list->entries[0].module);
	assert_false(jit_list_is_stale(list, &counted));
	second[object_size / 2] ^= 1;
	assert_true(jit_list_is_stale(list, &counted));
	assert_true(jit_list_read(list, &counted, false));
	assert_null(list->entries[0].module);
	/* The same, of a JIT that takes back what it said of the newest, as CPython does. */
	descriptor.relevant = NULL;
	assert_false(jit_list_read(list, &counted, false));
	section_of(second, ".text")->sh_addr += 0x100;
	assert_true(jit_list_is_stale(list, &counted));
	assert_true(jit_list_read(list, &counted, false));
	assert_false(jit_list_is_stale(list, &counted));
	assert_false(code_list_find(&list->ranges, address_of(place) + 0x102, &range));
	assert_true(code_list_find(&list->ranges, address_of(place) + 0x202, &range));
	/* Both gone. */
	descriptor.first = NULL;
	assert_true(jit_list_read(list, &counted, false));
	assert_int_equal(list->count, 0);
	assert_false(code_list_find(&list->ranges, address_of(place) + 2, &range));
	free_list(list);
}

static void hostile_lists_end(void **state)
{
	(void)state;
	struct jit_list *list = list_of_descriptor();
	struct list_entry entries[3] = {{NULL, NULL, object, object_size},
					{NULL, NULL, object, UINT64_MAX},
					{NULL, NULL, (void *)1, 4096}};
	descriptor.first = descriptor.relevant = &entries[0];
	/* A circle; sizes and addresses that are none. */
	entries[0].next = &entries[1];
	entries[1].next = &entries[2];
	entries[2].next = &entries[0];
	assert_true(jit_list_read(list, &counted, true));
	assert_int_equal(list->count, 3);
	/* Nowhere. */
	entries[1].next = (void *)(uintptr_t)0xdead0000beef0000;
	assert_true(jit_list_read(list, &counted, true));
	assert_int_equal(list->count, 2);
	descriptor.first = (void *)1;
	assert_true(jit_list_read(list, &counted, true));
	assert_int_equal(list->count, 0);
	/* Another version: it may mean anything. */
	descriptor.first = &entries[0];
	descriptor.version = 2;
	assert_false(jit_list_read(list, &counted, true));
	assert_int_equal(list->count, 0);
	descriptor.version = 1;
	/* Without an end. */
	enum { MANY = 2 * JIT_ENTRIES };
	struct list_entry *many = alloc_zeroed(MANY, sizeof(*many));
	for (size_t i = 0; i < MANY; i++)
		many[i] = (struct list_entry){&many[(i + 1) % MANY], NULL, object, object_size};
	descriptor.first = many;
	assert_true(jit_list_read(list, &counted, true));
	assert_int_equal(list->count, JIT_ENTRIES);
	free(many);
	descriptor.first = NULL;
	free_list(list);
}

static void each_read_may_fail(void **state)
{
	(void)state;
	struct list_entry entries[2] = {{&entries[1], NULL, object, object_size},
					{NULL, NULL, object, object_size}};
	descriptor.first = descriptor.relevant = &entries[0];
	for (size_t reads = 0; reads < 16; reads++) {
		struct jit_list *list = list_of_descriptor();
		struct jit_image image;
		reads_left = reads;
		(void)jit_list_is_stale(list, &counted);
		(void)jit_list_read(list, &counted, true);
		assert_true(list->count <= 2);
		reads_left = reads;
		if (jit_image_link(&counted, address_of(object), object_size, &image, NULL))
			free(image.bytes);
		free_list(list);
	}
	reads_left = SIZE_MAX;
	descriptor.first = NULL;
}

/* ---- unwind tables registered with libgcc ---- */

void __register_frame(void *table);
void __deregister_frame(void *table);

/* The object's .eh_frame, linked, where it says that it is; then the terminator. */
static void place_tables(void)
{
	struct jit_image image;
	struct error error;
	assert_true(jit_image_link(target_memory(self), address_of(object), object_size, &image,
				   &error));
	const Elf64_Shdr *section = section_of((char *)image.bytes, ".eh_frame");
	memset(place + 4096, 0, 4096);
	memcpy(place + 4096, image.bytes + section->sh_offset, section->sh_size);
	free(image.bytes);
}

static void registered_tables_are_found(void **state)
{
	(void)state;
	struct module_table table;
	struct error error;
	place_tables();
	assert_int_equal(mprotect(place, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	module_table_init(&table);
	module_table_use_jit(&table, self);
	assert_true(module_table_refresh(&table, self, NULL, &error));
	assert_null(module_table_find(&table, address_of(place))->module);
	__register_frame(place + 4096);
	/* It is not looked at again before a share of the time has passed. */
	const time_t end = time(NULL) + 20;
	while (!module_table_find(&table, address_of(place))->module && time(NULL) < end)
		module_table_follow_jit(&table);
	const struct mapping *mapping = module_table_find(&table, address_of(place));
	assert_non_null(mapping->module);
	assert_int_equal(mapping->start, address_of(place));
	const struct mapping *other = module_table_find(&table, mapping->end);
	assert_non_null(other->module);
	assert_ptr_not_equal(other->module, mapping->module);
	/* A CIE, then the FDE at its own address. */
	const struct module_section *frames = module_section(mapping->module, ".eh_frame");
	uint32_t length, id;
	assert_true(module_read(mapping->module, frames->vaddr, &length, 4, &error));
	assert_true(module_read(mapping->module, frames->vaddr + 4, &id, 4, &error));
	assert_int_equal(id, 0);
	assert_true(module_read(mapping->module, frames->vaddr + 8 + length, &id, 4, &error));
	assert_int_equal(id, 8 + length);
	__deregister_frame(place + 4096);
	module_table_release(&table);
	mprotect(place, 8192, PROT_READ | PROT_WRITE);
}

/* What libgcc's data could be taken for, at worst. */
static void hostile_tables_end(void **state)
{
	(void)state;
	static uint64_t words[4096];
	srand(4);
	for (int round = 0; round < 200; round++) {
		struct jit_frames frames = {.libgcc_registries = {{address_of(words), 512}},
					    .libgcc_registry_count = 1};
		for (size_t i = 0; i < 4096; i++)
			words[i] = rand() % 3 ? address_of(&words[rand() % 4096])
					      : (uint64_t)rand() % (round % 2 ? 2 : 1 << 20);
		(void)jit_frames_read(&frames, &counted, true);
		for (size_t i = 0; i < frames.ranges.count && i < 16; i++) {
			struct jit_table table;
			if (jit_frames_copy(&counted, frames.ranges.ranges[i].value, &table))
				free(table.bytes);
		}
		jit_frames_release(&frames);
	}
}

/* ---- ranges ---- */

static void later_ranges_hide_earlier_ones(void **state)
{
	(void)state;
	struct code_list list = {0};
	static const struct code_range ranges[] = {
		{0x1000, 0x2000, 0, 1, 1}, {0x1400, 0x1800, 0, 2, 2},
		{0x1600, 0x1700, 0, 3, 3}, {0x3000, 0x3000, 0, 4, 4}, /* empty */
		{0x5000, 0x4000, 0, 5, 5}, {UINT64_MAX - 8, UINT64_MAX, 0, 6, 6}};
	static const struct {
		remote_addr at, start, end;
		uint64_t value;
	} cases[] = {{0x1000, 0x1000, 0x1400, 1},
		     {0x13ff, 0x1000, 0x1400, 1},
		     {0x1400, 0x1400, 0x1600, 2},
		     {0x1650, 0x1600, 0x1700, 3},
		     {0x1700, 0x1700, 0x1800, 2},
		     {0x1800, 0x1800, 0x2000, 1},
		     {0xfff, 0, 0, 0},
		     {0x2000, 0, 0, 0},
		     {0x3000, 0, 0, 0},
		     {UINT64_MAX - 4, 0, 0, 0}};
	struct code_range found;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
		code_list_add(&list, &ranges[i]);
		if (i % 2)
			code_list_sort(&list);
	}
	code_list_sort(&list);
	assert_int_equal(list.count, 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(code_list_find(&list, cases[i].at, &found), cases[i].value > 0);
		if (!cases[i].value)
			continue;
		assert_int_equal(found.value, cases[i].value);
		assert_int_equal(found.start, cases[i].start);
		assert_int_equal(found.end, cases[i].end);
	}
	code_list_release(&list);
}

/* Against the plain way: the last one added that holds the address. */
static void ranges_agree_with_the_plain_way(void **state)
{
	(void)state;
	enum { COUNT = 400, SPACE = 2000 };
	struct code_range ranges[COUNT], found;
	struct code_list list = {0};
	srand(2);
	for (uint64_t i = 0; i < COUNT; i++) {
		const remote_addr start = (remote_addr)rand() % SPACE;
		ranges[i] =
			(struct code_range){start, start + 1 + (remote_addr)rand() % 40, 0, i, i};
		code_list_add(&list, &ranges[i]);
		if (rand() % 20 == 0)
			code_list_sort(&list);
	}
	code_list_sort(&list);
	for (remote_addr at = 0; at < SPACE + 50; at++) {
		size_t wanted = COUNT;
		for (size_t i = 0; i < COUNT; i++)
			if (at >= ranges[i].start && at < ranges[i].end)
				wanted = i;
		assert_int_equal(code_list_find(&list, at, &found), wanted < COUNT);
		if (wanted == COUNT)
			continue;
		assert_int_equal(found.value, wanted);
		assert_true(found.start <= at && at < found.end);
		for (size_t i = wanted + 1; i < COUNT; i++)
			assert_true(ranges[i].end <= found.start || ranges[i].start >= found.end);
	}
	code_list_release(&list);
}

/* ---- perf maps ---- */

static void lines_of_perf_maps(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		uint64_t start, end; /* 0: no such line */
		const char *name;
	} cases[] = {
		{"7f0040001000 2c name with spaces", 0x7f0040001000, 0x7f004000102c,
		 "name with spaces"},
		{"0x10 0x20 f", 0x10, 0x30, "f"},
		{"ABCdef 1 _ZN3fooEv", 0xabcdef, 0xabcdf0, "_ZN3fooEv"},
		{"10 20 ", 0, 0, NULL},
		{"10 20", 0, 0, NULL},
		{"10", 0, 0, NULL},
		{"", 0, 0, NULL},
		{" 10 20 f", 0, 0, NULL},
		{"10  20 f", 0, 0, NULL},
		{"xyz 20 f", 0, 0, NULL},
		{"0x 20 f", 0, 0, NULL},
		{"-1 20 f", 0, 0, NULL},
		{"11111111111111111 20 f", 0, 0, NULL}, /* 17 digits */
		{"10 ffffffffffffffff f", 0, 0, NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct code_range range;
		size_t name;
		const bool good =
			perf_map_parse_line(cases[i].line, strlen(cases[i].line), &range, &name);
		assert_int_equal(good, cases[i].end > 0);
		if (!good)
			continue;
		assert_int_equal(range.start, cases[i].start);
		assert_int_equal(range.end, cases[i].end);
		assert_string_equal(cases[i].line + name, cases[i].name);
	}
}

static int temporary_file(void)
{
	char path[] = "/tmp/modules_jit_testXXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static void append(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static const char *name_at(const struct perf_map *map, remote_addr address)
{
	static char name[PERF_MAP_NAME];
	struct code_range range, whole;
	if (!code_list_find(&map->ranges, address, &range))
		return NULL;
	return perf_map_name(map, range.value, &whole, name) ? name : "?";
}

static void what_is_added_to_a_map_is_seen(void **state)
{
	(void)state;
	struct perf_map map;
	perf_map_init(&map);
	map.fd = temporary_file();
	assert_false(perf_map_read(&map));
	append(map.fd, "1000 100 first\n1100 100 sec");
	assert_true(perf_map_read(&map));
	assert_string_equal(name_at(&map, 0x10ff), "first");
	assert_null(name_at(&map, 0x1100)); /* not whole yet */
	append(map.fd, "ond\nnonsense\n1080 80 third\n2000 b py::f:/x.py\n");
	assert_true(perf_map_read(&map));
	assert_false(perf_map_read(&map));
	assert_string_equal(name_at(&map, 0x1100), "second");
	assert_string_equal(name_at(&map, 0x107f), "first");
	assert_string_equal(name_at(&map, 0x1080), "third");
	struct code_range range;
	assert_true(code_list_find(&map.ranges, 0x2000, &range));
	assert_true(range.value & PERF_MAP_PYTHON);
	/* The file is cut under us: no name, no harm. */
	assert_int_equal(ftruncate(map.fd, 0), 0);
	assert_string_equal(name_at(&map, 0x1080), "?");
	perf_map_release(&map);
}

static void hostile_maps_are_bounded(void **state)
{
	(void)state;
	static char noise[3 << 20];
	struct perf_map map;
	perf_map_init(&map);
	map.fd = temporary_file();
	/* No line end for megabytes; then bytes of every kind; then far too many lines. */
	memset(noise, 'a', sizeof(noise));
	assert_int_equal(write(map.fd, noise, sizeof(noise)), sizeof(noise));
	srand(3);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)(rand() % 8 ? rand() : '\n');
	assert_int_equal(write(map.fd, noise, sizeof(noise)), sizeof(noise));
	for (size_t i = 0; i + 8 <= sizeof(noise); i += 8)
		memcpy(noise + i, "1 fff f\n", 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(write(map.fd, noise, sizeof(noise)), sizeof(noise));
	(void)perf_map_read(&map);
	assert_true(map.lines <= PERF_MAP_LINES);
	assert_string_equal(name_at(&map, 0x10), "f"); /* a million over one another */
	assert_true(map.read_to <= PERF_MAP_LIMIT);
	perf_map_release(&map);
	/* A file of many gigabytes, which has nothing in it. */
	perf_map_init(&map);
	map.fd = temporary_file();
	assert_int_equal(ftruncate(map.fd, (off_t)1 << 36), 0);
	(void)perf_map_read(&map);
	assert_true(map.read_to <= PERF_MAP_LIMIT);
	perf_map_release(&map);
}

/* Only a regular file of the process's own user that is not older than it. */
static void maps_of_others_are_not_believed(void **state)
{
	(void)state;
	struct perf_map map;
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	unlink(path);
	perf_map_init(&map);
	assert_false(perf_map_follow(&map, self));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(perf_map_follow(&map, self));
	assert_int_equal(map.fd, -1);
	unlink(path);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	append(fd, "1000 100 first\n");
	const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	assert_int_equal(futimens(fd, old), 0);
	assert_false(perf_map_follow(&map, self));
	assert_int_equal(futimens(fd, NULL), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(fd, 1234, (gid_t)-1), 0);
		assert_false(perf_map_follow(&map, self));
		assert_int_equal(fchown(fd, 0, (gid_t)-1), 0);
	}
	assert_true(perf_map_follow(&map, self));
	assert_string_equal(name_at(&map, 0x1000), "first");
	/* Begun anew. */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_true(perf_map_follow(&map, self));
	assert_null(name_at(&map, 0x1000));
	close(fd);
	unlink(path);
	assert_false(perf_map_follow(&map, self) && map.fd >= 0);
	perf_map_release(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_becomes_an_image_like_any_other),
		cmocka_unit_test(damaged_images_do_no_harm),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(the_list_is_followed),
		cmocka_unit_test(hostile_lists_end),
		cmocka_unit_test(each_read_may_fail),
		cmocka_unit_test(registered_tables_are_found),
		cmocka_unit_test(hostile_tables_end),
		cmocka_unit_test(later_ranges_hide_earlier_ones),
		cmocka_unit_test(ranges_agree_with_the_plain_way),
		cmocka_unit_test(lines_of_perf_maps),
		cmocka_unit_test(what_is_added_to_a_map_is_seen),
		cmocka_unit_test(hostile_maps_are_bounded),
		cmocka_unit_test(maps_of_others_are_not_believed),
	};
	return cmocka_run_group_tests(tests, build_object, release_object);
}
