/* SPDX-License-Identifier: MIT */
/* Lines of /proc/PID/maps: the paths in them are the target's to choose. */
#include "modules/internal.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text((struct fuzz_input){data, size}), *rest = text, *line;
	struct maps_line parsed;

	while ((line = strsep(&rest, "\n")))
		if (maps_parse_line(line, &parsed) && strlen(parsed.path) > size)
			abort();
	free(text);
	return 0;
}
