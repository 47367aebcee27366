/* SPDX-License-Identifier: MIT */
/*
 * A core file as a target: its threads, its mappings, and the files behind these. The input: a
 * number N of 16 bits, N bytes of a file that is wherever the core file says that one is, the core
 * file.
 */
#include <fcntl.h>
#include <stdio.h>

#include "modules/module.h"
#include "target/core.h"
#include "tests/fuzz/fuzz.h"

/* A folder where nothing is: no name of the input is looked up in our own. */
static char folder[] = "/tmp/fuzz-XXXXXX";

static void remove_folder(void)
{
	rmdir(folder);
}

static void set_up(void)
{
	static bool done;
	if (done)
		return;
	if (!mkdtemp(folder))
		abort();
	atexit(remove_folder);
	done = true;
}

static int fetch(void *context, const struct build_id *id, const char *path)
{
	const struct fuzz_input *const file = context;
	if (!id->size || !*path)
		abort();
	return file->size ? fuzz_file(*file) : -1;
}

static void read_threads(const struct target *target)
{
	pid_t *tids;
	size_t count;
	if (!target_thread_list(target, &tids, &count, NULL))
		return;
	for (size_t i = 0; i < count && i < 8; i++) {
		struct registers registers;
		struct target_crash crash;
		struct target_thread thread;
		if (!target_core_registers(target, tids[i], &registers))
			abort();
		(void)target_core_crash(target, tids[i], &crash);
		(void)!target_thread_read(target, tids[i], &thread, NULL);
	}
	free(tids);
}

static void read_memory(const struct target *target, const struct module_table *table)
{
	uint8_t bytes[64];
	remote_addr end = 0;
	for (size_t i = 0; i < table->mapping_count; i++) {
		const struct mapping *const mapping = &table->mappings[i];
		if (mapping->start < end || mapping->start >= mapping->end)
			abort();
		end = mapping->end;
		(void)!memory_read(target_memory(target), mapping->start, bytes, sizeof(bytes),
				   NULL);
		(void)!memory_read(target_memory(target), mapping->end - 1, bytes, 1, NULL);
	}
}

static void use(const struct target *target)
{
	struct module_table table;
	struct error error;
	char value[64];
	uint64_t inode;
	module_table_init(&table);
	if (module_table_refresh(&table, target, NULL, &error))
		read_memory(target, &table);
	module_table_release(&table);
	read_threads(target);
	(void)target_core_program(target, &inode);
	(void)target_start_stack(target);
	(void)target_environment(target, "A", value, sizeof(value));
	if (!target_command_line(target) || !target_executable(target))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct fuzz_input file = fuzz_part(&input, fuzz_number(&input, 2));
	const int fd = fuzz_file(input);
	char path[64];
	struct target *target;
	struct error error;
	set_up();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const struct target_core_options options = {.path = path,
						    .sysroot = folder,
						    .symbols = folder,
						    .fetch = fetch,
						    .context = &file};
	if (target_open_core(&options, &target, &error)) {
		use(target);
		target_free(target);
	}
	close(fd);
	return 0;
}
