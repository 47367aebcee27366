/* SPDX-License-Identifier: MIT */
/* Perf maps: read in two pieces, then asked for what they say. */
#include "modules/jit.h"
#include "tests/fuzz/fuzz.h"

static void ask(const struct perf_map *map, remote_addr address)
{
	char name[PERF_MAP_NAME];
	struct code_range range, whole;

	if (!code_list_find(&map->ranges, address, &range))
		return;
	if (range.start > address || range.end <= address)
		abort();
	if (perf_map_name(map, range.value, &whole, name) && strlen(name) >= sizeof(name))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map map;

	perf_map_init(&map);
	map.fd = fuzz_file((struct fuzz_input){data, size / 2});
	perf_map_read(&map);
	if (pwrite(map.fd, data + size / 2, size - size / 2, (off_t)(size / 2)) < 0)
		abort();
	perf_map_read(&map);
	for (size_t i = 0; i < map.ranges.count && i < 64; i++) {
		ask(&map, map.ranges.ranges[i].start);
		ask(&map, map.ranges.ranges[i].end - 1);
	}
	perf_map_release(&map);
	return 0;
}
