/* SPDX-License-Identifier: MIT */
/*
 * Lines of /proc/self/mountinfo and /proc/self/cgroup, whose paths are whoever's that may mount or
 * make groups, up to a NUL; behind it a cgroup.procs.
 */
#include "target/cgroup.h"
#include "tests/fuzz/fuzz.h"

enum { ROOM = 16 };

static void try_own(const char *text, const struct target_cgroup_mount *mount, size_t size)
{
	char *copy = strdup(text), *rest = copy, *line;
	while ((line = strsep(&rest, "\n"))) {
		bool inner;
		char *own = target_cgroup_own(line, mount, &inner);
		if (own && strlen(own) > 2 * size)
			abort();
		free(own);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text((struct fuzz_input){data, size});
	const size_t length = strlen(text);
	char *copy = strdup(text), *rest = copy, *line;
	/* Each mount with each group: a few of them. */
	for (int mounts = 0; mounts < ROOM && (line = strsep(&rest, "\n"));) {
		struct target_cgroup_mount mount;
		if (!target_cgroup_parse_mount(line, &mount))
			continue;
		try_own(text, &mount, size);
		target_cgroup_free_mount(&mount);
		mounts++;
	}
	if (length < size) {
		const int fd = fuzz_file((struct fuzz_input){data + length + 1, size - length - 1});
		struct target_cgroup_rest more = {0};
		pid_t found[ROOM];
		size_t count = 0;
		if (!target_cgroup_read_numbers(fd, found, ROOM, &count, &more) || count > ROOM)
			abort();
		for (size_t i = 0; i < count; i++)
			if (found[i] <= 0)
				abort();
		close(fd);
	}
	free(copy);
	free(text);
	return 0;
}
