/* SPDX-License-Identifier: MIT */
/*
 * The environment that a process was started with: /proc/PID/environ, "HOME=/root\0RANK=3\0". The
 * process may have written over it, and it may be megabytes: it is read piece by piece, and nothing
 * but the variable asked for is kept.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/internal.h"

enum { PIECE = 4096, MOST = 8 << 20, RANK_DIGITS = 9 };

/* Where a search for "NAME=value" is. */
struct search {
	const char *name;
	char *value;
	size_t size; /* of value */
	size_t at;   /* in the entry that is being read */
	bool differs;
};

/* The next byte; true: the entry that it ends is the one. */
static bool step(struct search *search, char byte)
{
	const size_t length = strlen(search->name), at = search->at++;
	if (byte == '\0') {
		const bool found = !search->differs && at > length;
		if (found)
			search->value[at - length - 1] = '\0';
		search->at = 0;
		search->differs = false;
		return found;
	}
	if (at < length)
		search->differs |= byte != search->name[at];
	else if (at == length)
		search->differs |= byte != '=';
	else if (at - length < search->size)
		search->value[at - length - 1] = byte;
	else
		search->differs = true; /* too long */
	return false;
}

bool target_environment(const struct target *target, const char *name, char *value, size_t size)
{
	struct search search = {.name = name, .value = value, .size = size};
	_cleanup_close_ int fd = target_open_proc(target, "environ");
	char piece[PIECE];
	ssize_t got;
	for (size_t all = 0; fd >= 0 && all < MOST; all += (size_t)got) {
		got = read(fd, piece, sizeof(piece));
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++)
			if (step(&search, piece[i]))
				return true;
	}
	return false;
}

/* "3"; nothing else is a rank. */
static bool parse_rank(const char *text, uint32_t *rank)
{
	const size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > RANK_DIGITS || text[digits])
		return false;
	*rank = (uint32_t)strtoul(text, NULL, 10);
	return true;
}

bool target_job_rank(const struct target *target, uint32_t *rank)
{
	/* The innermost first: a job of Slurm's may be one mpirun, whose processes all inherit 0.
	 */
	static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
					    "SLURM_PROCID"};
	char value[RANK_DIGITS + 1];
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (target_environment(target, names[i], value, sizeof(value)) &&
		    parse_rank(value, rank))
			return true;
	return false;
}
