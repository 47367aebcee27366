/* SPDX-License-Identifier: MIT */
/* Questions and answers over sockets (unix(7), SCM_RIGHTS), and the process that answers. */
#include "files/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	MOST_FDS = 2,
	MOST_CHANNELS = 64,
	ONCE = MOST_CHANNELS, /* the first descriptor is where this one question is answered */
	NOWHERE,
};

/*
 * What a message to it begins with: where the answer goes. A channel is made with its first
 * question, whose first descriptor is the answerer's end of it. One for each question would cost 10
 * us of 35; a process that was forked since, or cloned (base/guard.h), has that all the same: its
 * channels would be ours, and it may be killed while it waits.
 */
struct envelope {
	uint32_t channel;
	uint32_t is_new;
};

static int asked = -1;	     /* our end */
static pid_t process, owner; /* that of the broker, and who has started it */

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

/* `head`: comes first, may be NULL. */
static bool send_message(int socket, const struct envelope *head, const void *bytes, size_t size,
			 const int *fds, size_t count)
{
	union control control = {.bytes = {0}};
	const size_t head_size = head ? sizeof(*head) : 0;
	struct iovec parts[] = {{(void *)(uintptr_t)head, head_size},
				{(void *)(uintptr_t)bytes, size}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
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
	return sent == (ssize_t)(head_size + size);
}

/* Fills `count` descriptors, -1 where none came. Returns the size; 0: the other end is gone. */
static ssize_t receive(int socket, struct envelope *head, void *bytes, size_t size, int *fds,
		       size_t count)
{
	union control control;
	struct iovec parts[] = {{head, head ? sizeof(*head) : 0}, {bytes, size}};
	struct msghdr message = {.msg_iov = parts,
				 .msg_iovlen = 2,
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

/* Where one question at a time is answered. */
struct channel {
	int end; /* where we hear; 0: not made yet */
	bool taken;
};

static pthread_mutex_t channels_lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel channels[MOST_CHANNELS];

/* NULL: none is free, or they are another process's. */
static struct channel *take_channel(void)
{
	struct channel *free_one = NULL;
	if (getpid() != owner)
		return NULL;
	pthread_mutex_lock(&channels_lock);
	for (size_t i = 0; i < MOST_CHANNELS && !free_one; i++)
		if (!channels[i].taken)
			free_one = &channels[i];
	if (free_one)
		free_one->taken = true;
	pthread_mutex_unlock(&channels_lock);
	return free_one;
}

static void give_back(struct channel *channel)
{
	pthread_mutex_lock(&channels_lock);
	channel->taken = false;
	pthread_mutex_unlock(&channels_lock);
}

/* Sends the question. *end: where the answer comes; 0: it is made, and goes along. */
static bool send_question(uint32_t channel, int *end, const struct broker_request *request, int fd)
{
	const size_t size = offsetof(struct broker_request, path) + strlen(request->path) + 1;
	struct envelope head = {.channel = channel};
	int ends[2], fds[MOST_FDS], count = 0;
	_cleanup_close_ int theirs = -1;
	if (!*end) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
			return false;
		*end = ends[0];
		theirs = ends[1];
		head.is_new = 1;
		fds[count++] = theirs;
	}
	if (fd >= 0)
		fds[count++] = fd;
	if (send_message(asked, &head, request, size, fds, (size_t)count))
		return true;
	if (head.is_new) {
		close(*end);
		*end = 0;
	}
	return false;
}

static bool hear(int end, struct broker_reply *reply, int *got)
{
	return receive(end, NULL, reply, sizeof(*reply), got, 1) == sizeof(*reply);
}

static bool ask_once(const struct broker_request *request, int fd, struct broker_reply *reply,
		     int *got)
{
	int end = 0;
	if (!send_question(ONCE, &end, request, fd))
		return false;
	const bool heard = hear(end, reply, got);
	close(end);
	return heard;
}

static bool ask_by(struct channel *channel, const struct broker_request *request, int fd,
		   struct broker_reply *reply, int *got)
{
	const bool heard =
		send_question((uint32_t)(channel - channels), &channel->end, request, fd) &&
		hear(channel->end, reply, got);
	give_back(channel);
	return heard;
}

int broker_ask(const struct broker_request *request, int fd, struct broker_reply *reply)
{
	struct broker_reply ignored;
	struct channel *const channel = take_channel();
	int got = -1;
	if (!reply)
		reply = &ignored;
	*reply = (struct broker_reply){.os_errno = EIO};
	error_set_errno(&reply->error, EIO, "nobody opens files for us");
	const bool heard = channel ? ask_by(channel, request, fd, reply, &got)
				   : ask_once(request, fd, reply, &got);
	errno = heard ? reply->os_errno : EIO;
	if (!heard || reply->os_errno)
		return -1;
	return got >= 0 ? got : 0;
}

void broker_hurry(void)
{
	const struct broker_request nothing = {.op = BROKER_FINISH};
	const struct envelope nowhere = {.channel = NOWHERE};
	(void)send_message(asked, &nowhere, &nothing, offsetof(struct broker_request, path) + 1,
			   NULL, 0);
}

/* At our end: who waits in a file system for ever (base/guard.h) keeps our descriptors. */
static void leave(void)
{
	if (asked >= 0 && owner == getpid())
		shutdown(asked, SHUT_RDWR);
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

static int take_first(int fds[MOST_FDS])
{
	const int first = fds[0];
	fds[0] = fds[1];
	fds[1] = -1;
	return first;
}

/* Where the answer goes; -1: nowhere. What came along for that is taken off `fds`. */
static int answer_end(int ends[MOST_CHANNELS], const struct envelope *head, int fds[MOST_FDS],
		      int *once)
{
	if (head->channel == ONCE)
		return *once = take_first(fds);
	if (head->channel >= MOST_CHANNELS)
		return -1;
	int *const end = &ends[head->channel];
	if (head->is_new) {
		if (*end >= 0)
			close(*end);
		*end = take_first(fds);
	}
	return *end;
}

static void __attribute__((noreturn))
serve(int socket, broker_handler *handler, broker_closer *closer, void *context)
{
	int ends[MOST_CHANNELS]; /* -1: no such channel */
	struct broker_request request;
	struct envelope head;
	memset(ends, -1, sizeof(ends));
	for (;;) {
		int fds[MOST_FDS];
		const ssize_t got =
			receive(socket, &head, &request, sizeof(request), fds, MOST_FDS);
		const ssize_t size = got - (ssize_t)sizeof(head);
		_cleanup_close_ int once = -1;
		const int answer = size > 0 ? answer_end(ends, &head, fds, &once) : -1;
		_cleanup_close_ int with = fds[0];
		if (fds[1] >= 0) /* nobody has a use for it */
			close(fds[1]);
		struct broker_reply reply = {.os_errno = EINVAL};
		if (got <= 0)
			break;
		if (answer < 0)
			continue;
		if (request.op == BROKER_FINISH)
			listen_for_hurry(socket);
		const int given =
			is_whole(&request, size) ? handler(context, &request, with, &reply) : -1;
		(void)send_message(answer, NULL, &reply, sizeof(reply), &given, given >= 0);
		if (given >= 0 && (request.flags & BROKER_FAR))
			closer(given);
		else if (given >= 0)
			close(given);
	}
	/* Nobody is left who asks: what is half written is given up. */
	handler(context, NULL, -1, NULL);
	/* Who waits in a file system for ever (base/guard.h) shares our descriptors, and to close
	 * one may be to wait: those that others wait for come first. */
	close_range(0, ~0u, 0);
	_exit(0);
}

bool broker_start(broker_handler *handler, broker_closer *closer, void *context)
{
	int ends[2];
	sigset_t all, before;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	/* It ends when we have. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	owner = getpid();
	process = fork();
	if (process == 0) {
		close(ends[0]);
		serve(ends[1], handler, closer, context);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	asked = ends[0];
	if (process > 0) {
		(void)!atexit(leave);
		return true;
	}
	close(asked);
	asked = -1;
	process = 0;
	return false;
}
