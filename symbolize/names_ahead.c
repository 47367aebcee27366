/* SPDX-License-Identifier: MIT */
/*
 * Stated names of a module that will be opened later, loaded meanwhile: of an interpreter they
 * take longer than most of what else a dump does. Shares nothing with the rest of symbolize/ but
 * the file's description, which is only read at offsets, and the names kept on disk.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "symbolize/internal.h"

struct names_ahead {
	pthread_t thread;
	bool running, taken;
	int fd;
	char *path;
	struct build_id id;
	struct recovered_names names;
};

static void *load(void *argument)
{
	struct names_ahead *ahead = argument;
	Elf *elf = elf_begin(ahead->fd, ELF_C_READ, NULL);

	if (elf_is_supported(elf))
		recovered_names_load(&ahead->names, elf);
	elf_end(elf);
	return NULL;
}

struct names_ahead *names_ahead_start(const struct symbolize_module *module)
{
	if (module->fd < 0 || !module->build_id.size)
		return NULL;
	struct names_ahead *ahead = alloc_zeroed(1, sizeof(*ahead));
	ahead->id = module->build_id;
	ahead->path = alloc_string(module->path);
	ahead->fd = fcntl(module->fd, F_DUPFD_CLOEXEC, 0);
	ahead->running = ahead->fd >= 0 && !pthread_create(&ahead->thread, NULL, load, ahead);
	if (ahead->running)
		return ahead;
	names_ahead_free(ahead);
	return NULL;
}

static void wait_for(struct names_ahead *ahead)
{
	if (ahead->running)
		pthread_join(ahead->thread, NULL);
	ahead->running = false;
}

bool names_ahead_take(struct names_ahead *ahead, const char *path, const struct build_id *id,
		      struct recovered_names *names)
{
	if (!ahead || ahead->taken || !build_id_equal(&ahead->id, id) || strcmp(ahead->path, path))
		return false;
	wait_for(ahead);
	ahead->taken = true;
	*names = ahead->names;
	ahead->names = (struct recovered_names){0};
	return true;
}

void names_ahead_free(struct names_ahead *ahead)
{
	if (!ahead)
		return;
	wait_for(ahead);
	recovered_names_release(&ahead->names);
	if (ahead->fd >= 0)
		close(ahead->fd);
	free(ahead->path);
	free(ahead);
}
