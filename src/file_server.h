/* SPDX-License-Identifier: MIT */
/* A profile for the page of a viewer: from a file to an address that the page fetches it from. */
#ifndef SRC_FILE_SERVER_H
#define SRC_FILE_SERVER_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define FILE_SERVER_VIEWER "https://profiler.firefox.com"

enum { FILE_SERVER_URL_SIZE = 512 };

/* A process of its own, with no more rights than the user who called sudo(8). */
struct file_server {
	pid_t pid; /* 0: there is none */
	const char *path;
};

/* What this build lacks to serve files; NULL: nothing. */
static inline const char *file_server_missing(void)
{
#ifdef HAVE_LIBMICROHTTPD
	return NULL;
#else
	return "libmicrohttpd";
#endif
}

/*
 * Starts one that serves this file, which must outlive it by name, to the viewer alone: on the
 * loopback address, below a random name, until it has been fetched whole once, at most for a
 * minute. *address: what to open in a browser.
 */
bool MUST_CHECK file_server_start(struct file_server *server, const char *path,
				  char address[FILE_SERVER_URL_SIZE], struct error *error);

/* Until it ends by itself; SIGINT, SIGTERM or SIGHUP end it at once, and nothing else. */
void file_server_wait(struct file_server *server);

void file_server_end(struct file_server *server);

#endif
