/* SPDX-License-Identifier: MIT */
/* The processes of a control group and of those below it: cgroups(7), version 2 and version 1. */
#ifndef TARGET_CGROUP_H
#define TARGET_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct target_cgroup;

/*
 * By its folder, or by its name below a mount of cgroups ("system.slice/x.service", as
 * /proc/PID/cgroup has it); "self" is our own. Of several hierarchies that have one of that name,
 * the one that has processes in it. GONE: there is none; DENIED; SYSTEM: no cgroups are mounted.
 */
bool MUST_CHECK target_cgroup_open(const char *name, struct target_cgroup **cgroup,
				   struct error *error);
void target_cgroup_free(struct target_cgroup *cgroup); /* NULL accepted */

const char *target_cgroup_path(const struct target_cgroup *cgroup);

/* What is not among the processes that were found. */
struct target_cgroup_rest {
	size_t unread;	  /* groups whose processes may not be read, or that are too many */
	size_t elsewhere; /* processes of PID namespaces that we do not see */
	bool more;	  /* than there was room for */
};

/*
 * The processes in it now, at most `most`, each once, by number; returns how many. Whether they are
 * any of ours is not asked: see target_is_foreign. GONE: the group has been removed; DENIED.
 */
bool MUST_CHECK target_cgroup_processes(const struct target_cgroup *cgroup, pid_t *found,
					size_t most, size_t *count, struct target_cgroup_rest *rest,
					struct error *error);

/*
 * False: it is this process, the one that it was started by (base/guardian.h) or a child of it, has
 * no program of its own (the kernel's), or has ended.
 */
bool target_is_foreign(pid_t pid);

/* ---- for tests ---- */

/* The numbers of a cgroup.procs behind `count` others, in any order; at most `most` in all. False
 * with errno: it cannot be read. */
bool target_cgroup_read_numbers(int fd, pid_t *found, size_t most, size_t *count,
				struct target_cgroup_rest *rest);

/* "cgroup" or "cgroup2" of a line of /proc/PID/mountinfo: where it is, and what of the hierarchy
 * is mounted there; each to be freed. */
struct target_cgroup_mount {
	bool unified;
	char *point, *root;
	char *controllers; /* "rw,cpu,cpuacct"; of version 1 */
};
bool target_cgroup_parse_mount(const char *line, struct target_cgroup_mount *mount);
void target_cgroup_free_mount(struct target_cgroup_mount *mount);

/* A line of /proc/self/cgroup, and a mount: where our group is in it. NULL: it is not that mount's,
 * or outside of it; to be freed. `inner`: it is not the mount's own root. */
char *target_cgroup_own(const char *line, const struct target_cgroup_mount *mount, bool *inner);

#endif
