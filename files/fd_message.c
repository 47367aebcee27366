/* SPDX-License-Identifier: MIT */
#include "files/fd_message.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(FD_MESSAGE_MOST * sizeof(int))];
};

bool fd_message_pair(int ends[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
}

pid_t fd_message_fork(int *end)
{
	int ends[2];
	sigset_t all, before;
	if (!fd_message_pair(ends))
		return -1;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	const pid_t pid = fork();
	if (pid != 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[pid == 0 ? 0 : 1]);
	*end = ends[pid == 0 ? 1 : 0];
	if (pid >= 0)
		return pid;
	close(*end);
	*end = -1;
	return -1;
}

bool fd_message_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
		     size_t fd_count, int flags)
{
	union control control = {.bytes = {0}};
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
				 .msg_iovlen = part_count};
	size_t size = 0;
	ssize_t sent;
	for (size_t i = 0; i < part_count; i++)
		size += parts[i].iov_len;
	if (fd_count > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
	}
	do
		sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size;
}

ssize_t fd_message_receive(int socket, const struct iovec *parts, size_t part_count, int *fds,
			   size_t fd_count)
{
	union control control;
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
				 .msg_iovlen = part_count,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t got;
	for (size_t i = 0; i < fd_count; i++)
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
		if (i < fd_count)
			fds[i] = fd;
		else
			close(fd);
	}
	return got;
}
