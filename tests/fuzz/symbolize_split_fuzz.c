/* SPDX-License-Identifier: MIT */
/* Split DWARF. The input: a number N of 16 bits, N bytes of a .dwo file, the module; the module
 * finds the .dwo file wherever its skeleton says it is, as long as that is called x.dwo. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/fuzz/symbolize.h"

/* A folder that has /fuzz/x.dwo, gone when we are. */
static char folder[] = "/tmp/symbolize_split_fuzz.XXXXXX";

static void remove_folder(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/fuzz/x.dwo", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/fuzz", folder);
	rmdir(path);
	rmdir(folder);
}

static int make_folder(void)
{
	if (!mkdtemp(folder))
		abort();
	const int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || mkdirat(root, "fuzz", 0700))
		abort();
	atexit(remove_folder);
	return root;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int root = -1;
	struct fuzz_input input = {data, size};
	const struct fuzz_input dwo = fuzz_part(&input, fuzz_number(&input, 2));

	if (root < 0)
		root = make_folder();
	const int fd = openat(root, "fuzz/x.dwo", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, dwo.at, dwo.size) != (ssize_t)dwo.size)
		abort();
	close(fd);
	const struct symbolize_module module = {.path = "/fuzz/x.so",
						.fd = -1,
						.bytes = input.at,
						.bytes_size = input.size,
						.root_fd = root};
	fuzz_symbolize(&module, input);
	return 0;
}
