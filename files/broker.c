/* SPDX-License-Identifier: MIT */
/* Questions and answers over sockets (unix(7), SCM_RIGHTS), and the process that answers. */
#include "files/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/guard.h"
#include "files/fd_message.h"

enum {
	MOST_CHANNELS = 64,
	ONCE = MOST_CHANNELS, /* the first descriptor is where this one question is answered */
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

static bool send_to_broker(const struct envelope *head, const struct broker_request *request,
			   const int *fds, size_t count)
{
	const size_t size = offsetof(struct broker_request, path) + strlen(request->path) + 1;
	const struct iovec parts[] = {{(void *)(uintptr_t)head, sizeof(*head)},
				      {(void *)(uintptr_t)request, size}};
	return fd_message_send(asked, parts, 2, fds, count, 0);
}

/* Sends the question. *end: where the answer comes; 0: it is made, and goes along. */
static bool send_question(uint32_t channel, int *end, const struct broker_request *request, int fd)
{
	struct envelope head = {.channel = channel};
	int ends[2], fds[FD_MESSAGE_MOST], count = 0;
	_cleanup_close_ int theirs = -1;
	if (!*end) {
		if (!fd_message_pair(ends))
			return false;
		*end = ends[0];
		theirs = ends[1];
		head.is_new = 1;
		fds[count++] = theirs;
	}
	if (fd >= 0)
		fds[count++] = fd;
	if (send_to_broker(&head, request, fds, (size_t)count))
		return true;
	if (head.is_new) {
		close(*end);
		*end = 0;
	}
	return false;
}

static bool hear(int end, struct broker_reply *reply, int *got)
{
	const struct iovec part = {reply, sizeof(*reply)};
	return fd_message_receive(end, &part, 1, got, 1) == sizeof(*reply);
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

/* At our end: who waits in a file system for ever (base/guard.h) keeps our descriptors. */
static void leave(void)
{
	if (asked >= 0 && owner == getpid())
		shutdown(asked, SHUT_RDWR);
}

/* ---- who answers ---- */

/* Not of the socket that questions come by: that may tell of this one when it is read already. */
static void listen_for_hurry(int socket)
{
	struct pollfd ended = {.fd = socket, .events = POLLIN};
	(void)fcntl(socket, F_SETOWN, getpid());
	(void)fcntl(socket, F_SETSIG, SIGTERM);
	(void)fcntl(socket, F_SETFL, O_ASYNC);
	if (poll(&ended, 1, 0) > 0)
		kill(getpid(), SIGTERM);
}

static bool is_whole(const struct broker_request *request, ssize_t size)
{
	const size_t head = offsetof(struct broker_request, path);
	return size > (ssize_t)head && size <= (ssize_t)sizeof(*request) &&
	       request->path[(size_t)size - head - 1] == '\0' && request->op < BROKER_OPS;
}

static int take_first(int fds[FD_MESSAGE_MOST])
{
	const int first = fds[0];
	fds[0] = fds[1];
	fds[1] = -1;
	return first;
}

/* Where the answer goes; -1: nowhere. What came along for that is taken off `fds`. */
static int answer_end(int ends[MOST_CHANNELS], const struct envelope *head,
		      int fds[FD_MESSAGE_MOST], int *once)
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
	struct broker_reply reply;
	const struct iovec question[] = {{&head, sizeof(head)}, {&request, sizeof(request)}};
	const struct iovec said = {&reply, sizeof(reply)};
	memset(ends, -1, sizeof(ends));
	for (;;) {
		int fds[FD_MESSAGE_MOST];
		const ssize_t got = fd_message_receive(socket, question, 2, fds, FD_MESSAGE_MOST);
		const ssize_t size = got - (ssize_t)sizeof(head);
		_cleanup_close_ int once = -1;
		const int answer = size > 0 ? answer_end(ends, &head, fds, &once) : -1;
		_cleanup_close_ int with = fds[0];
		if (fds[1] >= 0) /* nobody has a use for it */
			close(fds[1]);
		reply = (struct broker_reply){.os_errno = EINVAL};
		if (got <= 0)
			break;
		if (answer < 0)
			continue;
		if (request.op == BROKER_FINISH && with >= 0)
			listen_for_hurry(with);
		const int given =
			is_whole(&request, size) ? handler(context, &request, with, &reply) : -1;
		(void)fd_message_send(answer, &said, 1, &given, given >= 0, 0);
		if (given >= 0 && (request.flags & BROKER_FAR))
			closer(given);
		else if (given >= 0)
			close(given);
	}
	/* Nobody is left who asks: what is half written is given up. */
	handler(context, NULL, -1, NULL);
	/* Who waits in a file system for ever (base/guard.h) shares our descriptors. */
	guard_close_standard();
	close_range(0, ~0u, 0);
	_exit(0);
}

bool broker_start(broker_handler *handler, broker_closer *closer, void *context)
{
	int end;
	owner = getpid();
	process = fd_message_fork(&end);
	if (process == 0)
		serve(end, handler, closer, context);
	if (process < 0) {
		process = 0;
		return false;
	}
	asked = end;
	(void)!atexit(leave);
	return true;
}
