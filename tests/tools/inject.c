/* SPDX-License-Identifier: MIT */
/*
 * inject CALL:N:ERROR COMMAND...: runs a command and lets one of its system calls fail: the Nth,
 * with that errno, counted from its first fork on; "CALL:N+:ERROR": that one and all that follow.
 * inject -c FILE COMMAND...: fails none, and writes how many there were of each, a line each.
 * What the command executes, and the loader of its libraries, are left alone.
 *
 * By a seccomp filter that asks us (seccomp_unotify(2)), not by ptrace: the command is itself a
 * tracer, and what libraries call is met, too. Ends as the command ends; on stderr it says whether
 * there was an Nth.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define CALL(name)                                                                                 \
	{                                                                                          \
#name, SYS_##name, 0                                                               \
	}
static struct call {
	const char *name;
	long number;
	unsigned long count;
} calls[] = {
	/* the first four say where it begins */
	CALL(clone),
	CALL(clone3),
	CALL(fork),
	CALL(vfork),
	CALL(bpf),
	CALL(brk),
	CALL(eventfd2),
	CALL(epoll_ctl),
	CALL(epoll_create1),
	CALL(faccessat2),
	CALL(fchmod),
	CALL(fchown),
	CALL(fcntl),
	CALL(fstatfs),
	CALL(fsync),
	CALL(ftruncate),
	CALL(getdents64),
	CALL(getrandom),
	CALL(inotify_add_watch),
	CALL(inotify_init1),
	CALL(ioctl),
	CALL(linkat),
	CALL(lseek),
	CALL(madvise),
	CALL(mmap),
	CALL(mprotect),
	CALL(mremap),
	CALL(newfstatat),
	CALL(openat),
	CALL(openat2),
	CALL(perf_event_open),
	CALL(pidfd_open),
	CALL(pipe2),
	CALL(pread64),
	CALL(prctl),
	CALL(prlimit64),
	CALL(process_vm_readv),
	CALL(process_vm_writev),
	CALL(ptrace),
	CALL(read),
	CALL(readlink),
	CALL(readlinkat),
	CALL(rename),
	CALL(renameat),
	CALL(renameat2),
	CALL(sched_getaffinity),
	CALL(sched_setaffinity),
	CALL(sched_setscheduler),
	CALL(setpriority),
	CALL(socket),
	CALL(socketpair),
	CALL(timerfd_create),
	CALL(timerfd_settime),
	CALL(unlinkat),
	CALL(wait4),
	CALL(write),
	CALL(writev),
};
enum { CALLS = sizeof(calls) / sizeof(*calls), FORKS = 4, MAX_FILTER = CALLS + 8 };

struct fault {
	const struct call *call; /* NULL: none, they are counted */
	unsigned long first;
	bool following; /* and all that come after it */
	int error;
	unsigned long met;
	bool begun;
	char program[4096];
};

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(125);
}

static void __attribute__((noreturn)) usage(void)
{
	fputs("usage: inject CALL:N[+]:ERROR COMMAND... | inject -c FILE COMMAND...\n", stderr);
	exit(125);
}

/* ---- the command's side ---- */

static void add(struct sock_fprog *program, struct sock_filter instruction)
{
	program->filter[program->len++] = instruction;
}

static int install(const struct call *only)
{
	struct sock_filter filter[MAX_FILTER];
	struct sock_fprog program = {.len = 0, .filter = filter};
	size_t asked = 0;
	for (size_t i = 0; i < CALLS; i++)
		asked += !only || only == &calls[i] || i < FORKS;
	add(&program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offsetof(struct seccomp_data, nr)));
	for (size_t i = 0, at = 0; i < CALLS; i++) {
		if (only && only != &calls[i] && i >= FORKS)
			continue;
		add(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							   (uint32_t)calls[i].number,
							   (uint8_t)(asked - at), 0));
		at++;
	}
	add(&program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	add(&program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
	unsigned long flags =
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (listener < 0 && errno == EINVAL)
		listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				   SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	return (int)listener;
}

union room {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_listener(int channel, int listener)
{
	union room room = {.bytes = {0}};
	char byte = 'x';
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = room.bytes,
				 .msg_controllen = sizeof(room.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &listener, sizeof(int));
	if (sendmsg(channel, &message, 0) != 1)
		die("sendmsg");
}

static void __attribute__((noreturn)) be_command(const struct call *only, char **words, int channel)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (geteuid() != 0)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	const int listener = install(only);
	if (listener < 0)
		die("seccomp");
	send_listener(channel, listener);
	close(listener);
	close(channel);
	execv(words[0], words);
	die(words[0]);
}

/* ---- ours ---- */

static int receive_listener(int channel)
{
	union room room = {.bytes = {0}};
	char byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = room.bytes,
				 .msg_controllen = sizeof(room.bytes)};
	int listener = -1;
	if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return listener;
}

static bool is_of_command(const struct fault *fault, uint32_t pid)
{
	char path[64], program[4096];
	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	const ssize_t size = readlink(path, program, sizeof(program) - 1);
	if (size < 0)
		return false;
	program[size] = '\0';
	return strcmp(program, fault->program) == 0;
}

/* Whether this one is to fail. */
static bool fails(struct fault *fault, const struct seccomp_notif *asked)
{
	size_t at = 0;
	while (at < CALLS && calls[at].number != asked->data.nr)
		at++;
	if (at == CALLS || !is_of_command(fault, asked->pid))
		return false;
	fault->begun |= at < FORKS;
	if (!fault->begun)
		return false;
	struct call *call = &calls[at];
	call->count++;
	if (call != fault->call || call->count < fault->first ||
	    (call->count > fault->first && !fault->following))
		return false;
	fault->met++;
	return true;
}

static void answer(struct fault *fault, int listener)
{
	struct seccomp_notif asked = {0};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
		return;
	struct seccomp_notif_resp given = {.id = asked.id,
					   .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	if (fails(fault, &asked)) {
		given.flags = 0;
		/* It returns the old end then, which is not that asked for. */
		given.error = asked.data.nr == SYS_brk ? 0 : -fault->error;
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &given);
}

static void serve(struct fault *fault, int listener)
{
	struct pollfd polled = {.fd = listener, .events = POLLIN};
	while (poll(&polled, 1, -1) > 0 || errno == EINTR) {
		if (polled.revents & POLLIN)
			answer(fault, listener);
		else if (polled.revents)
			return; /* nobody is left */
	}
}

static bool parse(struct fault *fault, const char *text)
{
	char name[32], plus[2] = "";
	if (sscanf(text, "%31[a-z_0-9]:%lu%1[+]:%d", name, &fault->first, plus, &fault->error) !=
		    4 &&
	    sscanf(text, "%31[a-z_0-9]:%lu:%d", name, &fault->first, &fault->error) != 3)
		return false;
	fault->following = plus[0] == '+';
	for (size_t i = 0; i < CALLS; i++)
		if (strcmp(calls[i].name, name) == 0)
			fault->call = &calls[i];
	return fault->call != NULL;
}

static void write_counts(const char *path)
{
	FILE *file = fopen(path, "we");
	if (!file)
		die(path);
	for (size_t i = 0; i < CALLS; i++)
		if (calls[i].count)
			fprintf(file, "%s %lu\n", calls[i].name, calls[i].count);
	fclose(file);
}

int main(int argc, char **argv)
{
	static struct fault fault;
	int channel[2], status;
	const bool counts = argc > 3 && strcmp(argv[1], "-c") == 0;
	char **words = argv + (counts ? 3 : 2);
	if (argc < 3 || (!counts && !parse(&fault, argv[1])))
		usage();
	if (!realpath(words[0], fault.program))
		die(words[0]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0)
		die("socketpair");
	const pid_t command = fork();
	if (command < 0)
		die("fork");
	if (command == 0)
		be_command(fault.call, words, channel[1]);
	close(channel[1]);
	const int listener = receive_listener(channel[0]);
	if (listener >= 0)
		serve(&fault, listener);
	if (waitpid(command, &status, 0) != command)
		die("waitpid");
	if (counts)
		write_counts(argv[2]);
	else
		fprintf(stderr, "inject: %lu failed\n", fault.met);
	if (WIFSIGNALED(status))
		fprintf(stderr, "inject: ended by signal %d\n", WTERMSIG(status));
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
