/* SPDX-License-Identifier: MIT */
#include "src/cgroups.h"

#include "base/log.h"

static bool say_rest(const struct target_cgroup_rest *rest)
{
	if (rest->unread)
		log_warning("%zu cgroup%s below it cannot be read: what runs there is left out",
			    rest->unread, rest->unread == 1 ? "" : "s");
	if (rest->elsewhere)
		log_warning("%zu of its processes have no number here (another PID namespace)",
			    rest->elsewhere);
	if (rest->more)
		log_warning("it has more than %d processes: only those are looked at",
			    OPTIONS_MAX_PROCESSES);
	return !rest->unread && !rest->elsewhere && !rest->more;
}

bool cgroups_list(struct options *options, struct target_cgroup **result, bool *whole,
		  struct error *error)
{
	struct target_cgroup_rest rest;
	struct target_cgroup *cgroup;
	size_t count;
	if (!target_cgroup_open(options->others.cgroup, &cgroup, error))
		return false;
	bool well = target_cgroup_processes(cgroup, options->pids, OPTIONS_MAX_PROCESSES, &count,
					    &rest, error);
	for (size_t i = 0; well && i < count; i++)
		if (target_is_foreign(options->pids[i]))
			options->pids[options->pid_count++] = options->pids[i];
	if (well && !options->pid_count)
		well = error_set(error, ERROR_GONE, "cgroup %.120s has no process%s",
				 target_cgroup_path(cgroup),
				 rest.elsewhere ? " that has a number in this PID namespace"
				 : count	? " but ours"
						: "");
	if (!well) {
		target_cgroup_free(cgroup);
		return false;
	}
	log_verbose("cgroup %s has %zu processes", target_cgroup_path(cgroup), options->pid_count);
	*whole = say_rest(&rest);
	*result = cgroup;
	return true;
}
