/* SPDX-License-Identifier: MIT */
/* Files of raw samples; zlib reads those that are not compressed as they are. */
#include <stdio.h>

#include "replay/replay.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct session_options options = {.native = true, .native_threads = true};
	const int fd = fuzz_file((struct fuzz_input){data, size});
	struct interner *strings = interner_new();
	struct profile profile;
	struct error error;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (replay_file(path, &options, strings, &profile, &error))
		profile_release(&profile);
	interner_free(strings);
	close(fd);
	return 0;
}
