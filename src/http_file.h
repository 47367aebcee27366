/* SPDX-License-Identifier: MIT */
/* One file by HTTP, to one page of one user: by libmicrohttpd, which is loaded when it is needed.
 */
#ifndef SRC_HTTP_FILE_H
#define SRC_HTTP_FILE_H

#include "base/error.h"

struct http_file {
	int fd; /* is taken over */
	uint64_t size;
	bool packed;	    /* its bytes are gzip's */
	const char *name;   /* in the address: letters, digits, '.', '_' and '-' */
	const char *viewer; /* the origin whose pages may read it; a literal */
};

enum { HTTP_FILE_URL_SIZE = 160 };

struct http_server;

/* Listens. *url: where the file is. ABSENT: the library is not here. Never freed: the process is
 * for this alone. */
bool MUST_CHECK http_file_open(const struct http_file *file, struct http_server **server,
			       char url[HTTP_FILE_URL_SIZE], struct error *error);

/* True: it has been fetched whole. False: nobody has done so within these seconds. */
bool http_file_serve(struct http_server *server, unsigned seconds);

#endif
