/* SPDX-License-Identifier: MIT */
/* Questions and answers over sockets (unix(7), SCM_RIGHTS), and the process that answers. */
#include "base/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { MOST_FDS = 2 };

static int asked = -1; /* our end */
static pid_t process;

bool broker_is_used(void)
{
	return asked >= 0;
}

pid_t broker_process(void)
{
	return process;
}

/* ---- messages ---- */

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
};

static bool send_message(int socket, const void *bytes, size_t size, const int *fds, size_t count)
{
	union control control = {.bytes = {0}};
	struct iovec part = {(void *)(uintptr_t)bytes, size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t sent;
	if (count > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	do
		sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size;
}

/* Fills `count` descriptors, -1 where none came. Returns the size; 0: the other end is gone. */
static ssize_t receive(int socket, void *bytes, size_t size, int *fds, size_t count)
{
	union control control;
	struct iovec part = {bytes, size};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t got;
	for (size_t i = 0; i < count; i++)
		fds[i] = -1;
	do
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (!header || header->cmsg_type != SCM_RIGHTS)
		return got;
	const size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < came; i++) {
		int fd;
		memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
		if (i < count)
			fds[i] = fd;
		else
			close(fd);
	}
	return got;
}

/* ---- who asks ---- */

bool broker_set_path(struct broker_request *request, const char *path)
{
	const size_t size = strlen(path);
	errno = ENAMETOOLONG;
	if (size >= sizeof(request->path))
		return false;
	memcpy(request->path, path, size + 1);
	return true;
}

int broker_ask(const struct broker_request *request, int fd, struct broker_reply *reply)
{
	struct broker_reply ignored;
	int ends[2], got;
	if (!reply)
		reply = &ignored;
	*reply = (struct broker_reply){.os_errno = EIO};
	error_set_errno(&reply->error, EIO, "nobody opens files for us");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	const int fds[MOST_FDS] = {ends[1], fd};
	const size_t size = offsetof(struct broker_request, path) + strlen(request->path) + 1;
	const bool sent = send_message(asked, request, size, fds, fd >= 0 ? 2 : 1);
	close(ends[1]);
	const bool heard =
		sent && receive(ends[0], reply, sizeof(*reply), &got, 1) == sizeof(*reply);
	close(ends[0]);
	errno = heard ? reply->os_errno : EIO;
	if (!heard || reply->os_errno)
		return -1;
	return got >= 0 ? got : 0;
}

void broker_hurry(void)
{
	const struct broker_request nothing = {.op = BROKER_FINISH};
	(void)send_message(asked, &nothing, offsetof(struct broker_request, path) + 1, NULL, 0);
}

/* ---- who answers ---- */

/* What comes in then is broker_hurry's, or our end. */
static void listen_for_hurry(int socket)
{
	(void)fcntl(socket, F_SETOWN, getpid());
	(void)fcntl(socket, F_SETSIG, SIGTERM);
	(void)fcntl(socket, F_SETFL, O_ASYNC);
}

static bool is_whole(const struct broker_request *request, ssize_t size)
{
	const size_t head = offsetof(struct broker_request, path);
	return size > (ssize_t)head && size <= (ssize_t)sizeof(*request) &&
	       request->path[(size_t)size - head - 1] == '\0' && request->op < BROKER_OPS;
}

static void __attribute__((noreturn)) serve(int socket, broker_handler *handler, void *context)
{
	struct broker_request request;
	for (;;) {
		int fds[MOST_FDS];
		const ssize_t size = receive(socket, &request, sizeof(request), fds, MOST_FDS);
		_cleanup_close_ int answer = fds[0];
		_cleanup_close_ int with = fds[1];
		struct broker_reply reply = {.os_errno = EINVAL};
		if (size <= 0)
			break;
		if (answer < 0)
			continue;
		if (request.op == BROKER_FINISH)
			listen_for_hurry(socket);
		_cleanup_close_ int given =
			is_whole(&request, size) ? handler(context, &request, with, &reply) : -1;
		(void)send_message(answer, &reply, sizeof(reply), &given, given >= 0);
	}
	/* Nobody is left who asks: what is half written is given up. */
	handler(context, NULL, -1, NULL);
	/* Who waits in a file system for ever (base/guard.h) shares our descriptors. */
	close_range(0, ~0u, 0);
	_exit(0);
}

bool broker_start(broker_handler *handler, void *context)
{
	int ends[2];
	sigset_t all, before;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	/* It ends when we have. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	process = fork();
	if (process == 0) {
		close(ends[0]);
		serve(ends[1], handler, context);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	asked = ends[0];
	if (process > 0)
		return true;
	close(asked);
	asked = -1;
	process = 0;
	return false;
}
