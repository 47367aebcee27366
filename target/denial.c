/* SPDX-License-Identifier: MIT */
/*
 * Why the kernel does not let us trace a process, and what to do about it: the checks of Linux,
 * kernel/ptrace.c (__ptrace_may_access, ptrace_attach) and security/yama, in an order that finds
 * the cause nearest to the user first. Reads /proc, and asks the two system calls for what harms
 * nobody; guesses nothing it cannot see.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target/internal.h"

/* Either of the last two opens what is the user's alone. */
enum { CAP_SYS_PTRACE_BIT = 19, CAP_DAC_OVERRIDE_BIT = 1, CAP_DAC_READ_SEARCH_BIT = 2 };
enum { STATUS_SIZE = 8192 };

/* What /proc/PID/status says of one side. */
struct side {
	pid_t pid, tracer;
	char state;
	unsigned uid[4], gid[4]; /* real, effective, saved, of files */
	uint64_t permitted, effective, bounding;
	int seccomp;
	bool no_new_privileges;
	unsigned owner;		 /* of its files in /proc: root when it is not dumpable */
	char user_namespace[64]; /* empty: we may not see it */
	char user_map[512];	 /* as we see it, so that it is another one in another namespace */
};

struct view {
	const char *root;
	struct side us, them;
	bool container;
	char *text;
	size_t size, used;
	bool advised;
	bool files; /* the right to read others' files in /proc is needed, too */
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
	struct stat file;
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
	side->no_new_privileges = field(status, "\nNoNewPrivs:\t", 10) != 0;
	/* Not the directory's: that is always its user (Linux fs/proc/base.c: task_dump_owner). */
	snprintf(full, sizeof(full), "%s/%s", view->root, path);
	side->owner = stat(full, &file) == 0 ? file.st_uid : 0;
	snprintf(path, sizeof(path), "proc/%s/uid_map", name);
	if (read_text(view, path, side->user_map, sizeof(side->user_map)) < 0)
		side->user_map[0] = '\0';
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

static bool may_read_files(const struct view *view)
{
	return view->us.permitted >> CAP_DAC_OVERRIDE_BIT & 1 ||
	       view->us.permitted >> CAP_DAC_READ_SEARCH_BIT & 1;
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
		       "sudo setcap cap_sys_ptrace%s+ep %s     "
		       "(anyone who may run it can then read any process)",
		       view->files ? ",cap_dac_read_search" : "", path);
}

static void advise_privilege(struct view *view)
{
	if (lacks_in_container(view)) {
		advise_container(view);
		return;
	}
	if (view->us.no_new_privileges) {
		advise(view,
		       "from another session (no_new_privs is set in this one: sudo and setcap do "
		       "nothing): sudo %s %d",
		       program(), (int)view->them.pid);
		return;
	}
	if (view->files && view->container && view->us.uid[1] == 0)
		advise(view, "docker run --cap-add=SYS_PTRACE --cap-add=DAC_READ_SEARCH ...");
	advise(view, "sudo %s %d", program(), (int)view->them.pid);
	advise_setcap(view);
}

static const char *lacking(const struct view *view)
{
	if (view->files && has_capability(view->us.effective))
		return "; CAP_SYS_PTRACE does not open its files in /proc, CAP_DAC_READ_SEARCH "
		       "does";
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

/* Who has made it may enter it. That we see its link, of another user's process, says that we have.
 */
static bool is_in_our_namespace(const struct view *view)
{
	const struct side *us = &view->us, *them = &view->them;
	return !has_capability(us->effective) && us->user_namespace[0] && them->user_namespace[0] &&
	       strcmp(us->user_namespace, them->user_namespace) != 0;
}

static bool is_foreign(struct view *view)
{
	const struct side *us = &view->us, *them = &view->them;
	if (same_ids(us, them))
		return false;
	view->files = true;
	say(view, "  why: it runs as user %u, group %u, %s as user %u, group %u%s\n", them->uid[1],
	    them->gid[1], program(), us->uid[1], us->gid[1], lacking(view));
	advise_privilege(view);
	if (is_in_our_namespace(view))
		advise(view, "inside that namespace, which is yours: nsenter -U -t %d %s ...",
		       (int)them->pid, program());
	return true;
}

static bool is_undumpable(struct view *view)
{
	if (view->them.owner == view->them.uid[1])
		return false;
	view->files = true;
	say(view,
	    "  why: it is not dumpable: it changed its user, has capabilities or a program "
	    "file that cannot be read, or asked for it by prctl(PR_SET_DUMPABLE)%s\n",
	    lacking(view));
	advise_privilege(view);
	return true;
}

/* "         0          0 4294967295": all users there are. */
static bool is_first_namespace(const struct side *side)
{
	unsigned inside, outside, count;
	return sscanf(side->user_map, "%u %u %u", &inside, &outside, &count) != 3 ||
	       (inside == 0 && outside == 0 && count == UINT_MAX);
}

/*
 * Its link is as secret as its memory; but its users are mapped in another way, or our
 * capability, which would do in our own namespace, does not.
 */
static bool namespaces_differ(const struct view *view)
{
	const struct side *us = &view->us, *them = &view->them;
	if (us->user_namespace[0] && them->user_namespace[0])
		return strcmp(us->user_namespace, them->user_namespace) != 0;
	return us->user_namespace[0] && us->user_map[0] &&
	       (strcmp(us->user_map, them->user_map) != 0 ||
		(has_capability(us->effective) && !is_first_namespace(us)));
}

static bool is_in_other_namespace(struct view *view)
{
	const struct side *us = &view->us, *them = &view->them;
	if (!namespaces_differ(view))
		return false;
	say(view,
	    "  why: it is in another user namespace (%s%sours is %s), where our privileges "
	    "may not hold\n",
	    them->user_namespace, them->user_namespace[0] ? ", " : "", us->user_namespace);
	if (!is_first_namespace(us)) {
		advise(view,
		       "run %s outside of this user namespace, as root of the host: sudo %s %d",
		       program(), program(), (int)them->pid);
		return true;
	}
	if (!has_capability(us->effective))
		advise_privilege(view);
	if (!lacks_in_container(view) && !us->no_new_privileges)
		advise(view,
		       "inside that namespace: sudo nsenter -U -t %d "
		       "%s ...",
		       (int)them->pid, program());
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

/*
 * A call that a filter refuses; NULL: it refuses none, or not always. Without a filter these fail
 * otherwise: we are no tracee, and at that address there is nothing.
 */
static const char *refused_call(void)
{
	char byte;
	const struct iovec local = {&byte, 1}, remote = {NULL, 1};
	errno = 0;
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) < 0 && errno != EFAULT)
		return "process_vm_readv";
	if (ptrace(PTRACE_CONT, getpid(), NULL, NULL) < 0 && errno != ESRCH)
		return "ptrace";
	return NULL;
}

static bool seccomp_denies(struct view *view, bool surely)
{
	const char *call = refused_call();
	if (view->us.seccomp != 2 || (surely && !call))
		return false;
	if (call)
		say(view, "  why: a seccomp filter on %s forbids %s\n", program(), call);
	else
		say(view, "  why: a seccomp filter on %s may forbid ptrace or process_vm_readv\n",
		    program());
	if (view->container) {
		advise(view,
		       "docker run --cap-add=SYS_PTRACE ...   (its filter then permits both)");
		advise(view, "docker run --security-opt seccomp=unconfined ...   kubernetes: "
			     "securityContext.seccompProfile.type: Unconfined");
	}
	advise(view,
	       "run %s outside of the sandbox or service that set the filter, or permit ptrace and "
	       "process_vm_readv there (systemd: SystemCallFilter=)",
	       program());
	return true;
}

static bool module_denies(struct view *view)
{
	char text[128];
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

/* It is there, for all that /proc shows. */
static bool is_hidden(struct view *view)
{
	if (view->root[0] || kill(view->them.pid, 0) == 0 || errno != EPERM)
		return false;
	view->files = true;
	say(view, "  why: it is another user's, and /proc here shows none of these (hidepid)%s\n",
	    lacking(view));
	advise_privilege(view);
	return true;
}

static bool has_gone(struct view *view, pid_t pid, bool seen)
{
	if (!seen && is_hidden(view))
		return true;
	if (seen && !target_state_is_end(view->them.state))
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

/* What may deny it to who has that user's rights, or any user's. */
static bool rest_denies(struct view *view)
{
	const bool privileged = has_capability(view->us.effective);
	return is_in_other_namespace(view) || (!privileged && is_more_capable(view)) ||
	       yama_denies(view) || container_denies(view) || seccomp_denies(view, false) ||
	       module_denies(view);
}

void target_explain_denial_at(const char *root, pid_t pid, int os_errno, char *text, size_t size)
{
	struct view view = {.root = root, .text = text, .size = size, .them.pid = pid};
	char name[16];
	if (!size)
		return;
	text[0] = '\0';
	read_side(&view, "self", &view.us);
	view.container = in_container(&view);
	snprintf(name, sizeof(name), "%d", (int)pid);
	const bool seen = read_side(&view, name, &view.them);
	if (has_gone(&view, pid, seen) || is_traced(&view) || seccomp_denies(&view, true))
		return;
	const bool privileged = has_capability(view.us.effective);
	if (!(privileged && may_read_files(&view)) && (is_foreign(&view) || is_undumpable(&view)))
		return;
	if (rest_denies(&view))
		return;
	say(&view, "  why: the system says: %s\n", strerror(os_errno ? os_errno : EPERM));
	if (!privileged)
		advise_privilege(&view);
}

void target_explain_denial(pid_t pid, int os_errno, char *text, size_t size)
{
	target_explain_denial_at("", pid, os_errno, text, size);
}
