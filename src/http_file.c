/* SPDX-License-Identifier: MIT */
/*
 * Who asks for what, and is given the file: its name is random, the asker's socket is the user's
 * own, and the host is this machine by number or as localhost, so that no page whose name leads
 * here (DNS rebinding) is answered. All else is refused. libmicrohttpd brings TLS with it, which
 * takes longer to load than all of us: so it is loaded at use.
 */
#include "src/http_file.h"

#include <stddef.h>

#ifndef HAVE_LIBMICROHTTPD

bool http_file_open(const struct http_file *file, struct http_server **server,
		    char url[HTTP_FILE_URL_SIZE], struct error *error)
{
	(void)file, (void)server, (void)url;
	return error_set(error, ERROR_UNSUPPORTED, "built without libmicrohttpd");
}

bool http_file_serve(struct http_server *server, unsigned seconds)
{
	(void)server, (void)seconds;
	return false;
}

#else

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { TOKEN_BYTES = 16, MOST_CONNECTIONS = 16, SILENT_SECONDS = 20, MOST_SECONDS = 600 };

#define FUNCTIONS(X)                                                                               \
	X(MHD_start_daemon)                                                                        \
	X(MHD_run_wait)                                                                            \
	X(MHD_get_daemon_info)                                                                     \
	X(MHD_create_response_from_fd64)                                                           \
	X(MHD_create_response_from_buffer)                                                         \
	X(MHD_add_response_header)                                                                 \
	X(MHD_queue_response)                                                                      \
	X(MHD_lookup_connection_value)

struct functions {
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
};

struct http_server {
	struct functions mhd;
	struct MHD_Daemon *daemon;
	struct MHD_Response *file, *nothing; /* with what a browser asks of them */
	const char *viewer;
	char path[HTTP_FILE_URL_SIZE], hosts[2][32];
	unsigned port, under_way;
	bool fetched;
};

static bool load(struct functions *functions)
{
	void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return false;
#define X(name)                                                                                    \
	functions->name = (__typeof__(functions->name))dlsym(library, #name);                      \
	if (!functions->name)                                                                      \
		return false;
	FUNCTIONS(X)
#undef X
	return true;
}

/* ---- who asks ---- */

/* "  0: 0100007F:9C40 0100007F:0016 01 00000000:00000000 00:00000000 00000000  1000 ...": an end of
 * a connection, the other one, and whose the socket is. */
static bool is_users(const char *line, const struct sockaddr_in *peer, unsigned port)
{
	unsigned address, from, to, user;
	return sscanf(line, " %*u: %8X:%4X %*8X:%4X %*X %*X:%*X %*X:%*X %*X %u", &address, &from,
		      &to, &user) == 4 &&
	       address == peer->sin_addr.s_addr && from == ntohs(peer->sin_port) && to == port &&
	       (user == geteuid() || user == 0);
}

/* The address is an argument of the browser's, which other users of this machine may read. */
static enum MHD_Result accept_peer(void *context, const struct sockaddr *address, socklen_t size)
{
	const struct http_server *server = context;
	struct sockaddr_in peer;
	char line[512];
	FILE *sockets = size >= sizeof(peer) ? fopen("/proc/self/net/tcp", "re") : NULL;
	bool found = false;
	if (!sockets)
		return MHD_NO;
	memcpy(&peer, address, sizeof(peer));
	while (!found && fgets(line, sizeof(line), sockets))
		found = is_users(line, &peer, server->port);
	fclose(sockets);
	return found ? MHD_YES : MHD_NO;
}

/* No page of another origin, which could not read the answer, is to be the one that fetched it. */
static bool is_for_us(const struct http_server *server, struct MHD_Connection *connection)
{
	const char *host =
		server->mhd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
	const char *origin =
		server->mhd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
	if (!host || (origin && strcmp(origin, server->viewer) != 0))
		return false;
	return strcasecmp(host, server->hosts[0]) == 0 || strcasecmp(host, server->hosts[1]) == 0;
}

/* ---- what is answered ---- */

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path,
			      const char *method, const char *version, const char *data,
			      size_t *size, void **state)
{
	struct http_server *server = context;
	struct MHD_Response *response = server->nothing;
	unsigned status = MHD_HTTP_METHOD_NOT_ALLOWED;
	(void)version, (void)data, (void)size;
	if (!is_for_us(server, connection)) {
		status = MHD_HTTP_FORBIDDEN;
	} else if (server->fetched || strcmp(path, server->path) != 0) {
		status = MHD_HTTP_NOT_FOUND;
	} else if (strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0) {
		status = MHD_HTTP_NO_CONTENT;
	} else if (strcmp(method, MHD_HTTP_METHOD_GET) == 0) {
		status = MHD_HTTP_OK;
		response = server->file;
		if (!*state)
			server->under_way++;
		*state = server;
	}
	return server->mhd.MHD_queue_response(connection, status, response);
}

/* An aborted one may be tried again. */
static void note_end(void *context, struct MHD_Connection *connection, void **state,
		     enum MHD_RequestTerminationCode how)
{
	struct http_server *server = context;
	(void)connection;
	if (!*state)
		return;
	*state = NULL;
	server->under_way--;
	server->fetched |= how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
}

static bool make_answers(struct http_server *server, const struct http_file *file)
{
	static const char *const headers[][2] = {
		{"Access-Control-Allow-Methods", "GET"},
		{"Access-Control-Allow-Private-Network", "true"},
		{"Allow", "GET, OPTIONS"},
		{"Cache-Control", "no-store"},
		{"Connection", "close"},
		{"Vary", "Origin"},
		{"X-Content-Type-Options", "nosniff"},
	};
	const struct functions *mhd = &server->mhd;
	server->file = mhd->MHD_create_response_from_fd64(file->size, file->fd);
	server->nothing = mhd->MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	struct MHD_Response *const both[] = {server->file, server->nothing};
	for (size_t n = 0; n < 2; n++) {
		if (!both[n] || !mhd->MHD_add_response_header(
					both[n], "Access-Control-Allow-Origin", file->viewer))
			return false;
		for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++)
			if (!mhd->MHD_add_response_header(both[n], headers[i][0], headers[i][1]))
				return false;
	}
	return mhd->MHD_add_response_header(server->file, "Content-Type", "application/json") &&
	       (!file->packed ||
		mhd->MHD_add_response_header(server->file, "Content-Encoding", "gzip"));
}

/* ---- where and how long ---- */

static bool listen_on_loopback(struct http_server *server)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	server->daemon = server->mhd.MHD_start_daemon(
		MHD_USE_EPOLL, 0, accept_peer, server, answer, server, MHD_OPTION_SOCK_ADDR,
		&address, MHD_OPTION_NOTIFY_COMPLETED, note_end, server,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_SECONDS,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	const union MHD_DaemonInfo *port =
		server->daemon
			? server->mhd.MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)
			: NULL;
	server->port = port ? port->port : 0;
	return server->port != 0;
}

/* "/0123456789abcdef0123456789abcdef/out.firefox.json" */
static bool choose_path(struct http_server *server, const char *name)
{
	unsigned char token[TOKEN_BYTES];
	char *to = server->path;
	if (getrandom(token, sizeof(token), 0) != (ssize_t)sizeof(token))
		return false;
	*to++ = '/';
	for (size_t i = 0; i < sizeof(token); i++)
		to += snprintf(to, 3, "%02x", token[i]);
	snprintf(to, (size_t)(server->path + sizeof(server->path) - to), "/%s", name);
	return true;
}

bool http_file_open(const struct http_file *file, struct http_server **result,
		    char url[HTTP_FILE_URL_SIZE], struct error *error)
{
	struct http_server *server = alloc_zeroed(1, sizeof(*server));
	server->viewer = file->viewer;
	if (!load(&server->mhd))
		return error_set(error, ERROR_ABSENT, "there is no libmicrohttpd.so.12 here");
	if (!choose_path(server, file->name))
		return error_set_errno(error, errno, "cannot choose a random name");
	if (!make_answers(server, file) || !listen_on_loopback(server))
		return error_set(error, ERROR_SYSTEM, "cannot listen on the loopback address");
	snprintf(server->hosts[0], sizeof(server->hosts[0]), "127.0.0.1:%u", server->port);
	snprintf(server->hosts[1], sizeof(server->hosts[1]), "localhost:%u", server->port);
	if (snprintf(url, HTTP_FILE_URL_SIZE, "http://%s%s", server->hosts[0], server->path) >=
	    HTTP_FILE_URL_SIZE)
		return error_set(error, ERROR_SYSTEM, "the file's name is too long");
	*result = server;
	return true;
}

bool http_file_serve(struct http_server *server, unsigned seconds)
{
	const uint64_t begin_ms = clock_now_ns() / 1000000;
	const uint64_t patience_ms = seconds * UINT64_C(1000), most_ms = MOST_SECONDS * 1000;
	while (!server->fetched) {
		const uint64_t passed_ms = clock_now_ns() / 1000000 - begin_ms;
		/* What is being fetched at the end of the time may be fetched to its end. */
		const uint64_t limit_ms = server->under_way ? most_ms : patience_ms;
		if (passed_ms >= limit_ms ||
		    server->mhd.MHD_run_wait(server->daemon, (int32_t)(limit_ms - passed_ms)) !=
			    MHD_YES)
			return false;
	}
	return true;
}

#endif
