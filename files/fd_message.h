/* SPDX-License-Identifier: MIT */
/*
 * Messages with descriptors between processes of ours: over sockets of SOCK_SEQPACKET (unix(7),
 * SCM_RIGHTS). What is received is close-on-exec.
 */
#ifndef FILES_FD_MESSAGE_H
#define FILES_FD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { FD_MESSAGE_MOST = 2 }; /* descriptors in one message */

/* Two ends that only we have. False with errno. */
bool fd_message_pair(int ends[2]);

/* fork(2), with an end for each of the two. No signal reaches the child: it is to end when the
 * other end is gone. */
pid_t fd_message_fork(int *end);

/* False with errno: it was not sent as a whole. The descriptors stay the caller's. `flags`: of
 * sendmsg(2). */
bool fd_message_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
		     size_t fd_count, int flags);

/*
 * Fills the parts and `fd_count` descriptors, -1 where none came; what came beyond those is closed.
 * Gives the size; 0: the other end is gone; -1 with errno.
 */
ssize_t fd_message_receive(int socket, const struct iovec *parts, size_t part_count, int *fds,
			   size_t fd_count);

#endif
