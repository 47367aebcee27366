/* SPDX-License-Identifier: MIT */
/*
 * A group's folder is opened once, and is the one that is looked into until the end. Each look
 * reads the cgroup.procs of it and of all that are nested in it. How many these are, how deep, and
 * what stands in them is bounded: who may make groups need not be who looks.
 */
#include "target/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "target/internal.h"

enum {
	MOUNTS_MOST = 64,
	LINES_MOST = 100000,
	DEPTH_MOST = 64,
	GROUPS_MOST = 4096, /* in one look */
	PIECE = 4096,
};

struct target_cgroup {
	int folder;
	char *path;
};

struct mounts {
	struct target_cgroup_mount list[MOUNTS_MOST];
	size_t count;
};

/* ---- which ---- */

static void read_mounts(struct mounts *mounts)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	mounts->count = 0;
	for (int lines = 0; file && lines < LINES_MOST && mounts->count < MOUNTS_MOST; lines++) {
		if (getline(&line, &room, file) < 0)
			return;
		if (target_cgroup_parse_mount(line, &mounts->list[mounts->count]))
			mounts->count++;
	}
}

static void release_mounts(struct mounts *mounts)
{
	for (size_t i = 0; i < mounts->count; i++)
		target_cgroup_free_mount(&mounts->list[i]);
}

/* The folder of a group; -1 with errno, ENOTTY: it is something else. */
static int open_group(const char *path)
{
	struct statfs system;
	const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	if (folder < 0) {
		errno = errno == ENOTDIR ? ENOTTY : errno;
		return -1;
	}
	if (fstatfs(folder, &system) == 0 &&
	    (system.f_type == CGROUP_SUPER_MAGIC || system.f_type == CGROUP2_SUPER_MAGIC) &&
	    faccessat(folder, "cgroup.procs", F_OK, 0) == 0)
		return folder;
	close(folder);
	errno = ENOTTY;
	return -1;
}

/* What a search has come upon. */
struct search {
	int folder; /* the first that there is, or the first that has processes; -1: none yet */
	char *path;
	bool filled;
	int problem; /* the errno that says the most; ENOENT: there is nothing */
};

static bool has_processes(int folder)
{
	const struct target_cgroup group = {.folder = folder};
	struct target_cgroup_rest rest;
	struct error ignored;
	size_t count;
	pid_t one;
	return target_cgroup_processes(&group, &one, 1, &count, &rest, &ignored) &&
	       (count || rest.elsewhere);
}

static void keep(struct search *search, int folder, const char *path)
{
	if (search->folder >= 0)
		close(search->folder);
	free(search->path);
	search->folder = folder;
	search->path = alloc_string(path);
}

static void consider(struct search *search, const char *path)
{
	if (search->filled)
		return;
	const int folder = open_group(path);
	if (folder < 0) {
		if (search->problem == ENOENT || errno == EACCES)
			search->problem = errno;
		return;
	}
	search->filled = has_processes(folder);
	if (search->filled || search->folder < 0)
		keep(search, folder, path);
	else
		close(folder);
}

static void consider_below(struct search *search, const char *above, const char *name)
{
	_cleanup_strbuf_ struct strbuf path;
	strbuf_init(&path);
	strbuf_printf(&path, "%s/%s", above, name);
	consider(search, path.text);
}

/* Version 2 first: that is where groups are made today. */
static void find_named(struct search *search, const char *name, const struct mounts *mounts)
{
	if (name[0] == '/')
		consider(search, name);
	for (int unified = 1; unified >= 0; unified--)
		for (size_t i = 0; i < mounts->count; i++)
			if (mounts->list[i].unified == unified)
				consider_below(search, mounts->list[i].point, name);
	/* "memory/docker/ID": with the name of the hierarchy. */
	if (name[0] != '/')
		consider_below(search, "/sys/fs/cgroup", name);
}

/* In the first hierarchy in which that is more than all there is. */
static void find_own(struct search *search, const struct mounts *mounts)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/cgroup", "re");
	_cleanup_free_ char *line = NULL, *own = NULL;
	size_t room = 0;
	int best = -1;
	for (int lines = 0; file && lines < LINES_MOST && getline(&line, &room, file) >= 0; lines++)
		for (size_t i = 0; i < mounts->count; i++) {
			bool inner = false;
			char *path = target_cgroup_own(line, &mounts->list[i], &inner);
			const int worth = !path ? -1 : 2 * inner + mounts->list[i].unified;
			if (worth > best) {
				free(own);
				own = path;
				best = worth;
			} else {
				free(path);
			}
		}
	if (own)
		consider(search, own);
}

static bool explain(const char *name, const struct search *search, const struct mounts *mounts,
		    struct error *error)
{
	if (search->problem == EACCES)
		return error_set(error, ERROR_DENIED,
				 "cannot open cgroup %.100s: permission denied; be root, or who it "
				 "belongs to",
				 name);
	if (mounts->count == 0)
		return error_set(error, ERROR_SYSTEM, "cgroup %.100s: no cgroups are mounted here",
				 name);
	if (strcmp(name, "self") == 0)
		return error_set(error, ERROR_GONE, "our own cgroup is not mounted here");
	if (search->problem == ENOTTY)
		return error_set(error, ERROR_GONE, "%.120s is no cgroup", name);
	if (search->problem != ENOENT && search->problem != ENAMETOOLONG)
		return error_set_errno(error, search->problem, "cannot open cgroup %.100s", name);
	return error_set(error, ERROR_GONE,
			 "no cgroup %.100s: none of that name is below any mount of cgroups", name);
}

bool target_cgroup_open(const char *name, struct target_cgroup **cgroup, struct error *error)
{
	struct search search = {.folder = -1, .problem = ENOENT};
	struct mounts mounts;
	read_mounts(&mounts);
	if (strcmp(name, "self") == 0)
		find_own(&search, &mounts);
	else if (name[0])
		find_named(&search, name, &mounts);
	const bool well = search.folder >= 0 || explain(name, &search, &mounts, error);
	release_mounts(&mounts);
	if (!well)
		return false;
	*cgroup = alloc_zeroed(1, sizeof(**cgroup));
	**cgroup = (struct target_cgroup){search.folder, search.path};
	return true;
}

void target_cgroup_free(struct target_cgroup *cgroup)
{
	if (!cgroup)
		return;
	close(cgroup->folder);
	free(cgroup->path);
	free(cgroup);
}

const char *target_cgroup_path(const struct target_cgroup *cgroup)
{
	return cgroup->path;
}

/* ---- its processes ---- */

static void note_number(unsigned long number, pid_t *found, size_t most, size_t *count,
			struct target_cgroup_rest *rest)
{
	enum { LARGEST = 1 << 22 }; /* PID_MAX_LIMIT */
	if (number == 0)
		rest->elsewhere++;
	else if (number > LARGEST)
		return;
	else if (*count == most)
		rest->more = true;
	else
		found[(*count)++] = (pid_t)number;
}

/* "812\n813\n0\n": a number that does not end in this piece goes on in the next one. */
bool target_cgroup_read_numbers(int fd, pid_t *found, size_t most, size_t *count,
				struct target_cgroup_rest *rest)
{
	enum { BYTES_MOST = 16 << 20 };
	char piece[PIECE];
	unsigned long number = 0;
	unsigned digits = 0;
	for (size_t all = 0; all < BYTES_MOST && !rest->more;) {
		const ssize_t got = read(fd, piece, sizeof(piece));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return false;
		for (ssize_t i = 0; i < got; i++) {
			if (piece[i] >= '0' && piece[i] <= '9') {
				number = digits < 9 ? number * 10 + (unsigned)(piece[i] - '0')
						    : (unsigned long)-1;
				digits++;
			} else {
				if (digits)
					note_number(number, found, most, count, rest);
				number = digits = 0;
			}
		}
		all += (size_t)got;
		if (got == 0) {
			if (digits)
				note_number(number, found, most, count, rest);
			return true;
		}
	}
	rest->more = true;
	return true;
}

/* One look. */
struct walk {
	pid_t *found;
	size_t most, count, groups;
	struct target_cgroup_rest *rest;
};

/* False with errno. That of a threaded group has its processes in the group above. */
static bool add_own(struct walk *walk, int folder)
{
	_cleanup_close_ int fd =
		openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd >= 0 &&
	       target_cgroup_read_numbers(fd, walk->found, walk->most, &walk->count, walk->rest);
}

static void add_nested(struct walk *walk, int folder, unsigned depth);

static void add_group(struct walk *walk, int above, const char *name, unsigned depth)
{
	if (depth > DEPTH_MOST || ++walk->groups > GROUPS_MOST) {
		walk->rest->unread++;
		return;
	}
	const int folder =
		openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const bool well = folder >= 0 && add_own(walk, folder);
	/* It may have been removed meanwhile. */
	if (!well && errno != ENOENT && errno != ENODEV && errno != EOPNOTSUPP)
		walk->rest->unread++;
	if (folder >= 0)
		add_nested(walk, folder, depth);
}

/* Takes the descriptor over. */
static void add_nested(struct walk *walk, int folder, unsigned depth)
{
	DIR *listing = fdopendir(folder);
	struct dirent *entry;
	if (!listing) {
		close(folder);
		return;
	}
	while (!walk->rest->more && walk->groups <= GROUPS_MOST && (entry = readdir(listing)))
		if (entry->d_name[0] != '.' &&
		    (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
			add_group(walk, folder, entry->d_name, depth + 1);
	closedir(listing);
}

static int by_number(const void *left, const void *right)
{
	const pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;
	return a < b ? -1 : a > b;
}

/* Version 1 may name one twice, and one that moves is in two groups of a look. */
static size_t sort_unique(pid_t *pids, size_t count)
{
	size_t kept = 0;
	qsort(pids, count, sizeof(*pids), by_number);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || pids[i] != pids[kept - 1])
			pids[kept++] = pids[i];
	return kept;
}

bool target_cgroup_processes(const struct target_cgroup *cgroup, pid_t *found, size_t most,
			     size_t *count, struct target_cgroup_rest *rest, struct error *error)
{
	struct walk walk = {.found = found, .most = most, .rest = rest};
	const char *path = cgroup->path ? cgroup->path : "";
	*rest = (struct target_cgroup_rest){0};
	*count = 0;
	if (!add_own(&walk, cgroup->folder)) {
		if (errno == ENOENT || errno == ENODEV)
			return error_set(error, ERROR_GONE, "cgroup %.150s has been removed", path);
		if (errno == EOPNOTSUPP)
			return error_set(error, ERROR_GONE,
					 "cgroup %.80s is threaded: its processes are those of the "
					 "cgroup above it; give that one",
					 path);
		return error_set_errno(error, errno, "cannot read the processes of cgroup %.100s",
				       path);
	}
	const int folder = openat(cgroup->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0)
		add_nested(&walk, folder, 0);
	*count = sort_unique(found, walk.count);
	return true;
}

static bool read_stat_of(pid_t pid, struct proc_stat *stat)
{
	char path[32], text[TARGET_STAT_SIZE];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return proc_read(AT_FDCWD, path, text, sizeof(text)) > 0 && proc_parse_stat(text, stat);
}

/* Who works for us is our child, and so is who asks when that is guarded work. */
bool target_is_foreign(pid_t pid)
{
	const pid_t own = guard_outer_process();
	struct proc_stat stat, ours;
	return pid != own && pid != getpid() && read_stat_of(own, &ours) && pid != ours.parent &&
	       read_stat_of(pid, &stat) && !stat.kernel_thread && stat.parent != own;
}
