/* SPDX-License-Identifier: MIT */
/* The reasons for a denial, each from a tree of files that looks like such a machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/internal.h"

#define ALL "000001ffffffffff"
#define NONE "0000000000000000"
#define FIRST_MAP "         0          0 4294967295\n"
#define PTRACE "0000000000080000"
#define DOCKER "00000000a80425fb"

enum { OUR_PID = 900, THEIR_PID = 4242 };

static char root[] = "/tmp/target_denial_testXXXXXX";

static void put(const char *path, const char *text)
{
	char full[300];
	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(full, 0755);
	}
	FILE *file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

struct person {
	unsigned uid;
	int tracer, parent;
	const char *state, *permitted, *effective, *bounding;
	int seccomp;
	bool no_new_privileges;
	const char *map; /* of users, as we see it */
};

static void put_person(const char *name, int pid, const struct person *who)
{
	char path[64], text[600], full[300];
	if (who->map) {
		snprintf(path, sizeof(path), "proc/%s/uid_map", name);
		put(path, who->map);
	}
	snprintf(path, sizeof(path), "proc/%s/status", name);
	snprintf(text, sizeof(text),
		 "Name:\tpython3\nState:\t%s\nPid:\t%d\nPPid:\t%d\nTracerPid:\t%d\n"
		 "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nCapPrm:\t%s\nCapEff:\t%s\n"
		 "CapBnd:\t%s\nNoNewPrivs:\t%d\nSeccomp:\t%d\n",
		 who->state ? who->state : "S (sleeping)", pid, who->parent, who->tracer, who->uid,
		 who->uid, who->uid, who->uid, who->uid, who->uid, who->uid, who->uid,
		 who->permitted ? who->permitted : NONE, who->effective ? who->effective : NONE,
		 who->bounding ? who->bounding : ALL, who->no_new_privileges, who->seccomp);
	put(path, text);
	snprintf(full, sizeof(full), "%s/%s", root, path);
	(void)!chown(full, who->uid, who->uid);
	snprintf(full, sizeof(full), "%s/proc/%s", root, name);
	(void)!chown(full, who->uid, who->uid);
}

struct row {
	const char *why, *advice, *never; /* pieces of the text */
	struct person us, them;
	const char *yama, *file, *content;
	const char *our_namespace, *their_namespace;
	bool missing, undumpable;
};

static const struct row rows[] = {
	{.why = "no process 4242", .advice = "pgrep", .missing = true},
	{.why = "zombie", .advice = "pgrep", .them = {.state = "Z (zombie)"}},
	{.why = "already traced by process 77 (gdb)",
	 .advice = "end that one",
	 .them = {.tracer = 77},
	 .file = "proc/77/comm",
	 .content = "gdb\n"},
	{.why = "runs as user 1000",
	 .advice = "try: sudo ",
	 .us = {.uid = 1001},
	 .them = {.uid = 1000}},
	{.why = "runs as user 0",
	 .advice = "--cap-add=SYS_PTRACE",
	 .never = "try: sudo ",
	 .us = {.uid = 1000, .bounding = DOCKER},
	 .file = ".dockerenv",
	 .content = ""},
	{.why = "not dumpable",
	 .advice = "try: sudo ",
	 .us = {.uid = 1000},
	 .them = {.uid = 1000},
	 .undumpable = true},
	{.why = "another user namespace (user:[2], ours is user:[1])",
	 .advice = "nsenter",
	 .us = {.effective = ALL, .permitted = ALL},
	 .our_namespace = "user:[1]",
	 .their_namespace = "user:[2]"},
	{.why = "has capabilities that", .advice = "try: sudo ", .them = {.permitted = ALL}},
	{.why = "ptrace_scope is 1 and 4242 is not a child",
	 .advice = "try: sudo ",
	 .us = {.uid = 1000},
	 .them = {.uid = 1000},
	 .yama = "1\n"},
	{.why = "ptrace_scope is 1",
	 .advice = "or: sudo sysctl kernel.yama.ptrace_scope=0",
	 .us = {.uid = 1000},
	 .them = {.uid = 1000},
	 .yama = "1\n"},
	{.why = "ptrace_scope is 1",
	 .advice = "docker run --cap-add=SYS_PTRACE",
	 .never = "setcap",
	 .us = {.bounding = DOCKER},
	 .yama = "1\n",
	 .file = "run/.containerenv",
	 .content = ""},
	{.why = "the system says",
	 .never = "ptrace_scope",
	 .us = {.uid = 1000},
	 .them = {.uid = 1000, .parent = OUR_PID},
	 .yama = "1\n"},
	{.why = "ptrace_scope is 2",
	 .advice = "setcap",
	 .never = "sysctl",
	 .us = {.uid = 1000},
	 .them = {.uid = 1000, .parent = OUR_PID},
	 .yama = "2\n"},
	{.why = "ptrace_scope is 3",
	 .advice = "reboot",
	 .never = "sudo",
	 .us = {.effective = ALL, .permitted = ALL},
	 .yama = "3\n"},
	{.why = "this container lacks CAP_SYS_PTRACE (root here is not enough)",
	 .advice = "kubernetes: securityContext",
	 .never = "try: sudo ",
	 .us = {.bounding = DOCKER},
	 .file = "proc/self/cgroup",
	 .content = "0::/kubepods/pod1/x\n"},
	{.why = "seccomp filter",
	 .advice = "seccomp=unconfined",
	 .us = {.effective = ALL, .permitted = ALL, .seccomp = 2},
	 .file = ".dockerenv",
	 .content = ""},
	{.why = "seccomp filter",
	 .advice = "outside of the sandbox",
	 .never = "docker",
	 .us = {.effective = ALL, .permitted = ALL, .seccomp = 2}},
	{.why = "another user namespace (ours is user:[1])",
	 .advice = "outside of this user",
	 .never = "nsenter",
	 .us = {.effective = ALL, .permitted = ALL, .map = "0 1000 1\n"},
	 .them = {.map = "0 1000 1\n"},
	 .our_namespace = "user:[1]"},
	{.why = "another user namespace (ours is user:[1])",
	 .advice = "try: sudo ",
	 .us = {.uid = 1000, .map = FIRST_MAP},
	 .them = {.uid = 1000, .map = "0 1000 1\n"},
	 .our_namespace = "user:[1]"},
	{.why = "the system says",
	 .us = {.uid = 1000, .map = FIRST_MAP},
	 .them = {.uid = 1000, .map = FIRST_MAP},
	 .our_namespace = "user:[1]"},
	{.why = "runs as user 1000",
	 .advice = "inside that namespace, which is yours: nsenter -U -t 4242",
	 .us = {.uid = 1001},
	 .them = {.uid = 1000},
	 .our_namespace = "user:[1]",
	 .their_namespace = "user:[2]"},
	{.why = "CAP_SYS_PTRACE does not open its files in /proc",
	 .advice = "setcap cap_sys_ptrace,cap_dac_read_search+ep",
	 .us = {.uid = 1001, .effective = PTRACE, .permitted = PTRACE},
	 .them = {.uid = 1000}},
	{.why = "runs as user 1000",
	 .advice = "try: docker run --cap-add=SYS_PTRACE --cap-add=DAC_READ_SEARCH",
	 .us = {.effective = PTRACE, .permitted = PTRACE},
	 .them = {.uid = 1000},
	 .file = ".dockerenv",
	 .content = ""},
	{.why = "runs as user 1000",
	 .advice = "try: from another session (no_new_privs",
	 .never = "setcap cap",
	 .us = {.uid = 1001, .no_new_privileges = true},
	 .them = {.uid = 1000}},
	{.why = "SELinux",
	 .advice = "setsebool",
	 .us = {.effective = ALL, .permitted = ALL},
	 .file = "sys/fs/selinux/booleans/deny_ptrace",
	 .content = "1 1"},
	{.why = "AppArmor profile snap.x",
	 .advice = "apparmor=unconfined",
	 .us = {.effective = ALL, .permitted = ALL},
	 .file = "proc/self/attr/apparmor/current",
	 .content = "snap.x (enforce)\n"},
	{.why = "system says: Operation not permitted", .us = {.effective = ALL, .permitted = ALL}},
};

/* NULL: there is one that we may not see. */
static void put_namespace(const char *name, const char *target)
{
	char full[300];
	if (!target)
		return;
	snprintf(full, sizeof(full), "proc/%s/ns/pid", name);
	put(full, "");
	snprintf(full, sizeof(full), "%s/proc/%s/ns/user", root, name);
	assert_int_equal(symlink(target, full), 0);
}

static void build_tree(const struct row *row)
{
	char command[100];
	snprintf(command, sizeof(command), "rm -rf %s/* %s/.dockerenv", root, root);
	assert_int_equal(system(command), 0);
	put_person("self", OUR_PID, &row->us);
	if (!row->missing)
		put_person("4242", THEIR_PID, &row->them);
	if (row->undumpable) {
		/* The folder stays its user's. */
		snprintf(command, sizeof(command), "%s/proc/4242/status", root);
		assert_int_equal(chown(command, 0, 0), 0);
	}
	if (row->yama)
		put("proc/sys/kernel/yama/ptrace_scope", row->yama);
	if (row->file)
		put(row->file, row->content);
	if (row->our_namespace) {
		put_namespace("self", row->our_namespace);
		put_namespace("4242", row->their_namespace);
	}
}

static void each_cause_is_named_with_what_helps(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can make files of other users\n");
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		char text[2000];
		build_tree(row);
		target_explain_denial_at(root, THEIR_PID, EPERM, text, sizeof(text));
		if (strncmp(text, "  why: ", 7) != 0 || !strstr(text, row->why) ||
		    (row->advice && !strstr(text, row->advice)) ||
		    (row->never && strstr(text, row->never)) || text[strlen(text) - 1] != '\n')
			fail_msg("row %zu (%s):\n%s", i, row->why, text);
	}
}

static void a_short_buffer_is_never_overrun(void **state)
{
	(void)state;
	char text[300];
	build_tree(&rows[3]);
	for (size_t size = 0; size < 200; size++) {
		memset(text, '#', sizeof(text));
		target_explain_denial_at(root, THEIR_PID, EPERM, text, size);
		assert_int_equal(text[size], '#');
		if (size)
			assert_non_null(memchr(text, '\0', size));
	}
}

static int set_up(void **state)
{
	(void)state;
	return !mkdtemp(root);
}

static int tear_down(void **state)
{
	(void)state;
	char command[64];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_cause_is_named_with_what_helps),
		cmocka_unit_test(a_short_buffer_is_never_overrun),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
