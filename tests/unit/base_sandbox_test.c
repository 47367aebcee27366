/* SPDX-License-Identifier: MIT */
/* What is left to who has entered: bytes, memory and waiting; no file, socket, program or right. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sandbox.h"

enum { NOBODY = 65534, WELL = 7, NO_SANDBOX = 8 };

static const struct sandbox_user nobody = {NOBODY, NOBODY};

/* In a child; its status as waitpid has it. */
static int try(enum sandbox_kind kind, bool (*work)(void))
{
	const pid_t child = fork();
	int status = 0;
	assert_true(child >= 0);
	if (child == 0) {
		if (!sandbox_enter(kind, nobody) || prctl(PR_GET_SECCOMP) == 0)
			_exit(NO_SANDBOX);
		_exit(work() ? WELL : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SANDBOX)
		skip();
	return status;
}

static void expect_well(enum sandbox_kind kind, bool (*work)(void))
{
	const int status = try(kind, work);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), WELL);
}

static bool is_refused(long result)
{
	return result < 0 && errno == EPERM;
}

static bool opens_nothing(void)
{
	return is_refused(open("/dev/null", O_RDONLY)) && is_refused(creat("/tmp/x", 0600)) &&
	       is_refused(syscall(SYS_openat2, AT_FDCWD, "/", NULL, 0)) &&
	       is_refused(socket(AF_INET, SOCK_STREAM, 0)) &&
	       is_refused(socket(AF_UNIX, SOCK_STREAM, 0)) && is_refused(unlink("/nowhere")) &&
	       is_refused(rename("/nowhere", "/elsewhere")) &&
	       is_refused(chmod("/nowhere", 0644)) && is_refused(kill(getpid(), 0)) &&
	       is_refused(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0));
}

static bool has_no_code_of_its_own(void)
{
	const int plain = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_ANONYMOUS;
	void *page = mmap(NULL, 4096, plain, how, -1, 0);
	return page != MAP_FAILED && is_refused(mprotect(page, 4096, PROT_READ | PROT_EXEC)) &&
	       mmap(NULL, 4096, PROT_EXEC, how, -1, 0) == MAP_FAILED && errno == EPERM &&
	       munmap(page, 4096) == 0;
}

static bool has_no_rights(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	return syscall(SYS_capget, &header, sets) == 0 && !sets[0].effective &&
	       !sets[0].permitted && !sets[1].effective && !sets[1].permitted && geteuid() != 0;
}

static bool goes_on(void)
{
	int ends[2];
	char byte = 'x';
	struct stat status;
	return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0 && write(ends[0], &byte, 1) == 1 &&
	       read(ends[1], &byte, 1) == 1 && fstat(ends[0], &status) == 0 &&
	       prctl(PR_SET_NAME, "x") == 0 && isatty(ends[0]) == 0 && malloc(1 << 20);
}

static void its_calls_fail(void **state)
{
	(void)state;
	expect_well(SANDBOX_NO_FILES, opens_nothing);
	expect_well(SANDBOX_NO_FILES, has_no_code_of_its_own);
	expect_well(SANDBOX_NO_FILES, has_no_rights);
	expect_well(SANDBOX_NO_FILES, goes_on);
}

static bool executes(void)
{
	execl("/bin/true", "true", (char *)NULL);
	return false;
}

static bool traces(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static void who_was_taken_over_ends(void **state)
{
	bool (*const calls[])(void) = {executes, traces};
	(void)state;
	for (size_t i = 0; i < 2; i++)
		for (int kind = SANDBOX_NO_FILES; kind <= SANDBOX_FETCHES; kind++) {
			const int status = try((enum sandbox_kind)kind, calls[i]);
			assert_true(WIFSIGNALED(status));
			assert_int_equal(WTERMSIG(status), SIGSYS);
		}
}

static bool fetches(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	return open("/dev/null", O_RDONLY) >= 0 && socket(AF_UNIX, SOCK_STREAM, 0) >= 0 &&
	       syscall(SYS_capget, &header, sets) == 0 && !sets[0].effective && !sets[0].permitted;
}

static void downloads_have_files_and_sockets(void **state)
{
	(void)state;
	expect_well(SANDBOX_FETCHES, fetches);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_calls_fail),
		cmocka_unit_test(who_was_taken_over_ends),
		cmocka_unit_test(downloads_have_files_and_sockets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
