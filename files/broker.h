/* SPDX-License-Identifier: MIT */
/*
 * Files for who may open none. A process that was forked before the rights were given up keeps
 * them, parses nothing but the struct below, and answers with opened descriptors: what it gives is
 * judged in files/broker_judge.c. A question has a socket for the answer that no other one has
 * meanwhile, so that any thread may ask, and one that is killed while it waits disturbs nobody.
 */
#ifndef FILES_BROKER_H
#define FILES_BROKER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum broker_op {
	BROKER_FOREIGN,	   /* root, path, user, far: files/foreign_file.h */
	BROKER_FIND,	   /* root, path */
	BROKER_OPEN_FOUND, /* what a descriptor was found for; user */
	BROKER_TARGET,	   /* /proc/PID: its user's files may be asked for */
	BROKER_MAPPED,	   /* /proc/PID, path: map_files/... */
	BROKER_FOLDER,	   /* root, path: to be listed */
	BROKER_GIVEN,	   /* path, flags: named on the command line */
	BROKER_SCRATCH,	   /* a file without a name */
	BROKER_NEW,	   /* path: an output of the command line; a handle comes with it */
	BROKER_COMMIT,	   /* handle */
	BROKER_DROP,	   /* handle */
	BROKER_CACHE_READ, /* path: "folder/name" in our own cache */
	BROKER_CACHE_WRITE,
	BROKER_CACHE_KEEP, /* handle */
	BROKER_CACHE_DROP, /* handle */
	BROKER_FINISH, /* what is left to do at the very end, with rights; it gets a SIGTERM when
			* the other end of the socket that comes along is shut down, or gone */
	BROKER_OPS,
};

/* Of flags: the file system may never answer. */
enum { BROKER_FAR = 1, BROKER_COPY = 2 };

struct broker_request {
	uint32_t op;
	int32_t root; /* as struct foreign_root has it; >= 0: the descriptor that comes along */
	uint32_t user;
	uint32_t flags; /* of open(2); BROKER_FOREIGN: BROKER_FAR, BROKER_COPY */
	uint32_t handle;
	char path[PATH_MAX];
};

struct broker_reply {
	int32_t os_errno; /* 0: done */
	uint32_t handle;
	uint32_t unanswered; /* far_file_unanswered() */
	struct error error;  /* BROKER_NEW, BROKER_COMMIT */
};

/* A number of the request's kinds of file; -1: no descriptor comes back. */
typedef int broker_handler(void *context, const struct broker_request *request, int fd,
			   struct broker_reply *reply);

/* Closes what was given for a request with BROKER_FAR: that may wait for ever. */
typedef void broker_closer(int fd);

/* Forks it. False with errno: there is none, and files are opened as ever. */
bool broker_start(broker_handler *handler, broker_closer *closer, void *context);

/* Whether files come from one; its number (0: none), which is no process to look at. */
bool broker_is_used(void);
pid_t broker_process(void);

/* Sets the request's path; false with errno: it is too long. */
bool broker_set_path(struct broker_request *request, const char *path);

/*
 * Asks. fd: goes along; -1: none. Gives the descriptor that came, -1 if none did, with errno; 0 in
 * place of one where none belongs to the answer. *reply may be NULL.
 */
int broker_ask(const struct broker_request *request, int fd, struct broker_reply *reply);

#endif
