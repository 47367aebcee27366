/* SPDX-License-Identifier: MIT */
/*
 * Why the kernel does not let us trace a process, and what to do about it: the checks of Linux,
 * kernel/ptrace.c (__ptrace_may_access, ptrace_attach) and security/yama, in an order that finds
 * the cause nearest to the user first. Reads /proc only; guesses nothing it cannot see.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/internal.h"

enum { CAP_SYS_PTRACE_BIT = 19, STATUS_SIZE = 8192 };

/* What /proc/PID/status says of one side. */
struct side {
	pid_t pid, tracer;
	char state;
	unsigned uid[4], gid[4]; /* real, effective, saved, of files */
	uint64_t permitted, effective, bounding;
	int seccomp;
	unsigned owner; /* of /proc/PID: root's when it is not dumpable */
	char user_namespace[64];
};

struct view {
	const char *root;
	struct side us, them;
	bool container;
	char *text;
	size_t size, used;
	bool advised;
};

static void __attribute__((format(printf, 2, 3))) say(struct view *view, const char *format, ...)
{
	va_list arguments;
	if (view->used >= view->size)
		return;
	va_start(arguments, format);
	int added = vsnprintf(view->text + view->used, view->size - view->used, format, arguments);
	va_end(arguments);
	if (added > 0)
		view->used += (size_t)added;
}

/* The first piece of advice is a "try:", the others are an "or:". */
static void __attribute__((format(printf, 2, 3))) advise(struct view *view, const char *format, ...)
{
	char line[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	say(view, "  %s %s\n", view->advised ? " or:" : "try:", line);
	view->advised = true;
}

/* ---- reading ---- */

static ssize_t read_text(const struct view *view, const char *path, char *text, size_t size)
{
	char full[512];
	snprintf(full, sizeof(full), "%s/%s", view->root, path);
	return proc_read(AT_FDCWD, full, text, size);
}

static bool exists(const struct view *view, const char *path)
{
	char full[512];
	snprintf(full, sizeof(full), "%s/%s", view->root, path);
	return access(full, F_OK) == 0;
}

static uint64_t field(const char *status, const char *name, int base)
{
	const char *at = strstr(status, name);
	return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

static void read_ids(const char *status, const char *name, unsigned ids[4])
{
	const char *at = strstr(status, name);
	if (at)
		sscanf(at + strlen(name), "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]);
}

static bool read_side(const struct view *view, const char *name, struct side *side)
{
	char path[64], full[512], status[STATUS_SIZE];
	struct stat directory;
	snprintf(path, sizeof(path), "proc/%s/status", name);
	if (read_text(view, path, status, sizeof(status)) <= 0)
		return false;
	const char *state = strstr(status, "\nState:\t");
	side->state = state ? state[8] : '?';
	side->pid = (pid_t)field(status, "\nPid:\t", 10);
	side->tracer = (pid_t)field(status, "\nTracerPid:\t", 10);
	read_ids(status, "\nUid:\t", side->uid);
	read_ids(status, "\nGid:\t", side->gid);
	side->permitted = field(status, "\nCapPrm:\t", 16);
	side->effective = field(status, "\nCapEff:\t", 16);
	side->bounding = field(status, "\nCapBnd:\t", 16);
	side->seccomp = (int)field(status, "\nSeccomp:\t", 10);
	snprintf(full, sizeof(full), "%s/proc/%s", view->root, name);
	side->owner = stat(full, &directory) == 0 ? directory.st_uid : 0;
	snprintf(full, sizeof(full), "%s/proc/%s/ns/user", view->root, name);
	ssize_t size = readlink(full, side->user_namespace, sizeof(side->user_namespace) - 1);
	side->user_namespace[size > 0 ? size : 0] = '\0';
	return true;
}

/* In a container: its marks, or the names of its control groups. */
static bool in_container(const struct view *view)
{
	char groups[4096];
	if (exists(view, ".dockerenv") || exists(view, "run/.containerenv"))
		return true;
	return read_text(view, "proc/self/cgroup", groups, sizeof(groups)) > 0 &&
	       (strstr(groups, "docker") || strstr(groups, "kubepods") ||
		strstr(groups, "containerd") || strstr(groups, "libpod"));
}

static bool has_capability(uint64_t set)
{
	return set >> CAP_SYS_PTRACE_BIT & 1;
}

static int yama_scope(const struct view *view)
{
	char text[16];
	return read_text(view, "proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) > 0
		       ? (int)strtol(text, NULL, 10)
		       : 0;
}

/* Whether the process descends from us: then scope 1 allows tracing it. */
static bool is_descendant(const struct view *view)
{
	pid_t pid = view->them.pid;
	for (int depth = 0; depth < 64 && pid > 1; depth++) {
		char path[64], status[STATUS_SIZE];
		snprintf(path, sizeof(path), "proc/%d/status", (int)pid);
		if (read_text(view, path, status, sizeof(status)) <= 0)
			return false;
		pid = (pid_t)field(status, "\nPPid:\t", 10);
		if (pid == view->us.pid)
			return true;
	}
	return false;
}

/* ---- advice ---- */

static const char *program(void)
{
	return program_invocation_short_name;
}

/* A container whose root lacks the capability: sudo in it does not help. */
static bool lacks_in_container(const struct view *view)
{
	return !has_capability(view->us.bounding);
}

static void advise_container(struct view *view)
{
	advise(view, "docker run --cap-add=SYS_PTRACE ...   compose: cap_add: [SYS_PTRACE]");
	say(view, "       kubernetes: securityContext.capabilities.add: [\"SYS_PTRACE\"]   "
		  "(side-car: also shareProcessNamespace: true)\n");
	advise(view, "from the host: sudo %s <host pid>   (docker top NAME shows it)", program());
}

static void advise_setcap(struct view *view)
{
	char path[256];
	ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[size > 0 ? size : 0] = '\0';
	if (size > 0)
		advise(view,
		       "sudo setcap cap_sys_ptrace+ep %s     "
		       "(anyone who may run it can then read any process)",
		       path);
}

static void advise_privilege(struct view *view)
{
	if (lacks_in_container(view)) {
		advise_container(view);
		return;
	}
	advise(view, "sudo %s %d", program(), (int)view->them.pid);
	advise_setcap(view);
}

static const char *lacking(const struct view *view)
{
	if (!lacks_in_container(view))
		return "";
	return view->container ? "; this container lacks CAP_SYS_PTRACE (root here is not enough)"
			       : "; CAP_SYS_PTRACE is taken away here (root is not enough)";
}

/* ---- the checks, each true when it was the cause ---- */

static bool is_traced(struct view *view)
{
	char path[64], name[64];
	pid_t tracer = view->them.tracer;
	if (!tracer || tracer == view->us.pid)
		return false;
	snprintf(path, sizeof(path), "proc/%d/comm", (int)tracer);
	if (read_text(view, path, name, sizeof(name)) <= 0)
		snprintf(name, sizeof(name), "?");
	name[strcspn(name, "\n")] = '\0';
	for (char *at = name; *at; at++)
		if ((unsigned char)*at < 32 || (unsigned char)*at > 126)
			*at = '?';
	say(view, "  why: it is already traced by process %d (%s); only one tracer is possible\n",
	    (int)tracer, name);
	advise(view, "end that one, or let it detach, and run %s again", program());
	return true;
}

static bool same_ids(const struct side *us, const struct side *them)
{
	for (size_t i = 0; i < 3; i++)
		if (them->uid[i] != us->uid[3] || them->gid[i] != us->gid[3])
			return false;
	return true;
}

static bool is_foreign(struct view *view)
{
	const struct side *us = &view->us, *them = &view->them;
	if (same_ids(us, them))
		return false;
	say(view, "  why: it runs as user %u, group %u, %s as user %u, group %u%s\n", them->uid[1],
	    them->gid[1], program(), us->uid[1], us->gid[1], lacking(view));
	advise_privilege(view);
	return true;
}

static bool is_undumpable(struct view *view)
{
	if (view->them.owner == view->them.uid[1])
		return false;
	say(view,
	    "  why: it is not dumpable: it changed its user, has capabilities or a program "
	    "file that cannot be read, or asked for it by prctl(PR_SET_DUMPABLE)%s\n",
	    lacking(view));
	advise_privilege(view);
	return true;
}

static bool is_in_other_namespace(struct view *view)
{
	const char *ours = view->us.user_namespace, *theirs = view->them.user_namespace;
	if (!ours[0] || !theirs[0] || strcmp(ours, theirs) == 0)
		return false;
	say(view,
	    "  why: it is in another user namespace (%s, ours is %s), where our privileges "
	    "may not hold\n",
	    theirs, ours);
	advise(view,
	       "run %s as root of the host, or inside that namespace: "
	       "sudo nsenter -U --preserve-credentials -t %d %s ...",
	       program(), (int)view->them.pid, program());
	return true;
}

static bool is_more_capable(struct view *view)
{
	if (!(view->them.permitted & ~view->us.permitted))
		return false;
	say(view, "  why: it has capabilities that %s has not%s\n", program(), lacking(view));
	advise_privilege(view);
	return true;
}

static bool yama_denies(struct view *view)
{
	int scope = yama_scope(view);
	if (scope >= 3) {
		say(view,
		    "  why: kernel.yama.ptrace_scope is %d: nobody may trace, and that "
		    "cannot be changed before the next boot\n",
		    scope);
		advise(view, "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot");
		return true;
	}
	if (scope <= 0 || has_capability(view->us.effective) || (scope == 1 && is_descendant(view)))
		return false;
	if (scope == 2)
		say(view, "  why: kernel.yama.ptrace_scope is 2: only CAP_SYS_PTRACE may trace%s\n",
		    lacking(view));
	else
		say(view, "  why: kernel.yama.ptrace_scope is 1 and %d is not a child of %s%s\n",
		    (int)view->them.pid, program(), lacking(view));
	if (!lacks_in_container(view))
		advise(view, "sudo %s %d", program(), (int)view->them.pid);
	if (scope == 1)
		advise(view, "start it under the profiler:  precord -o out.svg -- COMMAND");
	if (lacks_in_container(view))
		advise_container(view);
	else
		advise_setcap(view);
	if (scope == 1)
		advise(view, "sudo sysctl kernel.yama.ptrace_scope=0           "
			     "(until reboot, all users)");
	return true;
}

static bool container_denies(struct view *view)
{
	if (!lacks_in_container(view) || has_capability(view->us.effective))
		return false;
	say(view, "  why: %s\n", lacking(view) + 2);
	advise_container(view);
	return true;
}

static bool filter_denies(struct view *view)
{
	char text[128];
	if (view->us.seccomp == 2) {
		say(view, "  why: a seccomp filter on %s may forbid ptrace or process_vm_readv\n",
		    program());
		advise(view, "docker run --security-opt seccomp=unconfined ...");
		advise_privilege(view);
		return true;
	}
	if (read_text(view, "sys/fs/selinux/booleans/deny_ptrace", text, sizeof(text)) > 0 &&
	    text[0] == '1') {
		say(view, "  why: SELinux forbids it (deny_ptrace is on)\n");
		advise(view, "sudo setsebool deny_ptrace 0");
		return true;
	}
	if (read_text(view, "proc/self/attr/apparmor/current", text, sizeof(text)) > 0 &&
	    strstr(text, "(enforce)")) {
		text[strcspn(text, "\n")] = '\0';
		say(view, "  why: the AppArmor profile %s may forbid it\n", text);
		advise(view, "allow ptrace in that profile, or docker run "
			     "--security-opt apparmor=unconfined ...");
		return true;
	}
	return false;
}

static bool has_gone(struct view *view, pid_t pid, bool seen)
{
	if (seen && view->them.state != 'Z' && view->them.state != 'X')
		return false;
	if (seen)
		say(view, "  why: it has ended and waits for its parent to notice (a zombie)\n");
	else
		say(view, "  why: there is no process %d here%s\n", (int)pid,
		    view->container ? " (in a container, processes have other numbers than "
				      "outside)"
				    : "");
	advise(view, "pgrep -af python     (shows what runs)");
	return true;
}

void target_explain_denial_at(const char *root, pid_t pid, int os_errno, char *text, size_t size)
{
	struct view view = {.root = root, .text = text, .size = size};
	char name[16];
	if (!size)
		return;
	text[0] = '\0';
	read_side(&view, "self", &view.us);
	view.container = in_container(&view);
	snprintf(name, sizeof(name), "%d", (int)pid);
	bool seen = read_side(&view, name, &view.them);
	if (has_gone(&view, pid, seen) || is_traced(&view))
		return;
	bool privileged = has_capability(view.us.effective);
	if (!privileged && (is_foreign(&view) || is_undumpable(&view)))
		return;
	if (is_in_other_namespace(&view) || (!privileged && is_more_capable(&view)) ||
	    yama_denies(&view) || container_denies(&view) || filter_denies(&view))
		return;
	say(&view, "  why: the system says: %s\n", strerror(os_errno ? os_errno : EPERM));
	if (!privileged)
		advise_privilege(&view);
}

void target_explain_denial(pid_t pid, int os_errno, char *text, size_t size)
{
	target_explain_denial_at("", pid, os_errno, text, size);
}
