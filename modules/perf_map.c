/* SPDX-License-Identifier: MIT */
/*
 * Perf maps (Linux tools/perf/Documentation/jit-interface.txt): a program that makes code writes
 *     START SIZE symbolname
 * for each function, two hexadecimal numbers and the rest of the line, to /tmp/perf-PID.map, where
 * PID is its own in its innermost PID namespace. Only what was added is read; names stay in the
 * file until they are asked for. The file is the target's, or somebody's who wishes it were: it
 * must be a regular one of the target's user, not older than the target, and all in it is bounded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "modules/jit.h"

enum { READ_STEP = 1 << 20 };

void perf_map_init(struct perf_map *map)
{
	*map = (struct perf_map){.fd = -1};
}

void perf_map_release(struct perf_map *map)
{
	if (map->fd >= 0)
		close(map->fd);
	code_list_release(&map->ranges);
	perf_map_init(map);
}

/* ---- lines ---- */

static size_t parse_hex(const char *text, size_t size, uint64_t *value)
{
	size_t at = size > 2 && text[0] == '0' && (text[1] | 0x20) == 'x' ? 2 : 0;
	const size_t first = at;
	*value = 0;
	for (; at < size && at - first < 16; at++) {
		const char c = (char)(text[at] | 0x20);
		if (text[at] >= '0' && text[at] <= '9')
			*value = *value << 4 | (uint64_t)(text[at] - '0');
		else if (c >= 'a' && c <= 'f')
			*value = *value << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	return at > first && at < size && text[at] == ' ' ? at + 1 : 0;
}

bool perf_map_parse_line(const char *text, size_t size, struct code_range *range, size_t *name)
{
	uint64_t start, length;
	const size_t second = parse_hex(text, size, &start);
	const size_t third = second ? parse_hex(text + second, size - second, &length) : 0;
	if (!third || second + third >= size || length > UINT64_C(1) << 47)
		return false;
	*range = (struct code_range){.start = start, .end = start + length};
	*name = second + third;
	return true;
}

static void add_line(struct perf_map *map, const char *text, size_t size, uint64_t offset)
{
	struct code_range range;
	size_t name;
	if (!perf_map_parse_line(text, size, &range, &name))
		return;
	range.order = map->lines++;
	range.value = offset;
	if (size - name > 4 && memcmp(text + name, "py::", 4) == 0)
		range.value |= PERF_MAP_PYTHON;
	code_list_add(&map->ranges, &range);
}

/* ---- the file ---- */

/* Takes the whole lines of a piece of the file; returns how many bytes they have. */
static size_t take_lines(struct perf_map *map, const char *text, size_t size)
{
	size_t at = 0;
	const char *newline;
	while (map->lines < PERF_MAP_LINES && (newline = memchr(text + at, '\n', size - at))) {
		const size_t length = (size_t)(newline - text) - at;
		add_line(map, text + at, length, map->read_to + at);
		at += length + 1;
	}
	/* A line as long as that is none. */
	return at == 0 && size == READ_STEP ? size : at;
}

bool perf_map_read(struct perf_map *map)
{
	_cleanup_free_ char *buffer = malloc(READ_STEP);
	const size_t before = map->ranges.count;
	while (buffer && map->read_to < PERF_MAP_LIMIT && map->lines < PERF_MAP_LINES) {
		const ssize_t got = pread(map->fd, buffer, READ_STEP, (off_t)map->read_to);
		const size_t taken = got > 0 ? take_lines(map, buffer, (size_t)got) : 0;
		if (taken == 0)
			break;
		map->read_to += taken;
	}
	code_list_sort(&map->ranges);
	return map->ranges.count > before;
}

/* The one that is open is not there any more, or has been begun anew. */
static bool is_stale(const struct perf_map *map)
{
	struct stat status;
	return fstat(map->fd, &status) != 0 || status.st_nlink == 0 ||
	       (uint64_t)status.st_size < map->read_to;
}

/* When the process began, as files have it. */
static time_t start_of(const struct target *target)
{
	struct timespec now, up;
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	return now.tv_sec - up.tv_sec +
	       (time_t)(target_start_time(target) / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Not somebody else's, nor left behind by a process that had this number before. */
static bool is_of_target(const struct target *target, int fd)
{
	enum { SLACK = 2 }; /* seconds: the clock is set now and then */
	struct stat map, process;
	return fstat(fd, &map) == 0 && fstat(target_directory(target), &process) == 0 &&
	       map.st_uid == process.st_uid && map.st_mtime >= start_of(target) - SLACK;
}

static void open_map(struct perf_map *map, const struct target *target)
{
	struct target_thread thread;
	char path[64];
	if (!target_thread_read(target, target_pid(target), &thread, NULL))
		return;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)thread.namespace_tid);
	map->fd = target_open_file(target, path, NULL);
	if (map->fd >= 0 && !is_of_target(target, map->fd)) {
		close(map->fd);
		map->fd = -1;
	}
}

bool perf_map_follow(struct perf_map *map, const struct target *target)
{
	bool lost = map->fd >= 0 && is_stale(map);
	if (lost)
		perf_map_release(map);
	if (map->fd < 0)
		open_map(map, target);
	return (map->fd >= 0 && perf_map_read(map)) || lost;
}

bool perf_map_name(const struct perf_map *map, uint64_t value, struct code_range *whole,
		   char name[PERF_MAP_NAME])
{
	char text[64 + PERF_MAP_NAME];
	size_t at;
	const ssize_t got = pread(map->fd, text, sizeof(text), (off_t)(value & ~PERF_MAP_PYTHON));
	if (got <= 0)
		return false;
	const char *newline = memchr(text, '\n', (size_t)got);
	const size_t size = newline ? (size_t)(newline - text) : (size_t)got;
	if (!perf_map_parse_line(text, size, whole, &at))
		return false;
	const size_t length = size - at < PERF_MAP_NAME ? size - at : PERF_MAP_NAME - 1;
	memcpy(name, text + at, length);
	name[length] = '\0';
	return strlen(name) == length && length > 0;
}
