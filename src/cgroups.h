/* SPDX-License-Identifier: MIT */
/* --cgroup: the processes of a control group in place of those on the command line. */
#ifndef SRC_CGROUPS_H
#define SRC_CGROUPS_H

#include "src/options.h"
#include "target/cgroup.h"

/*
 * Opens the cgroup, to be freed by target_cgroup_free, and lists its processes in options->pids, by
 * number, without ours; *whole: these are all, else it is said which are not. GONE: there is no
 * such cgroup, or no process in it; DENIED; SYSTEM.
 */
bool MUST_CHECK cgroups_list(struct options *options, struct target_cgroup **cgroup, bool *whole,
			     struct error *error);

#endif
