/* SPDX-License-Identifier: MIT */
/* The broker's side: each kind of request, judged, then done with the rights that we have. */
#include "files/broker_judge.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/broker.h"
#include "files/cache_file.h"
#include "files/far_file.h"
#include "files/foreign_file.h"
#include "files/given_file.h"
#include "files/new_file.h"

enum { MOST_WRITTEN = 4, MOST_OWNERS = 16 };

struct judge {
	const struct broker_rules *rules;
	/* Whose files a file that was given may lead to: its owner's. */
	uid_t owners[MOST_OWNERS];
	size_t owner_count;
	struct written {
		bool used, cached;
		struct new_file file;
		char path[PATH_MAX];
		struct cache_file cache;
	} written[MOST_WRITTEN];
};

static bool is_listed(const char **paths, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(paths[i], path) == 0)
			return true;
	return false;
}

/* ---- files that others choose ---- */

/* Whose rights are to count; who asks may be taken over, and claim to be anybody. */
static uid_t judged_user(const struct judge *judge, uid_t claimed)
{
	const uid_t NOBODY = 65534;
	if (claimed == NOBODY)
		return claimed;
	for (size_t i = 0; i < judge->owner_count; i++)
		if (judge->owners[i] == claimed)
			return claimed;
	return judge->rules->user;
}

/* A person's own choice: who gave the path may read all. */
static uid_t user_of(const struct judge *judge, const struct broker_request *request)
{
	const struct broker_rules *rules = judge->rules;
	if (request->root == FOREIGN_OUR_ROOT &&
	    is_listed(rules->given, rules->given_count, request->path))
		return 0;
	return judged_user(judge, request->user);
}

static struct foreign_root root_of(const struct judge *judge, const struct broker_request *request,
				   int fd)
{
	return (struct foreign_root){
		.fd = fd >= 0				  ? fd
		      : request->root == FOREIGN_OUR_ROOT ? FOREIGN_OUR_ROOT
							  : FOREIGN_NOWHERE,
		.user = user_of(judge, request),
		.far = request->flags & BROKER_FAR,
		.uncopied = !(request->flags & BROKER_COPY),
	};
}

static void add_owner(struct judge *judge, uid_t owner)
{
	for (size_t i = 0; i < judge->owner_count; i++)
		if (judge->owners[i] == owner)
			return;
	if (judge->owner_count < MOST_OWNERS)
		judge->owners[judge->owner_count++] = owner;
}

/* Only who may open folders of /proc has such a descriptor: those that we give out are of no use
 * for this. */
static bool is_process(int fd)
{
	struct statfs system;
	return fd >= 0 && fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC &&
	       !(fcntl(fd, F_GETFL) & O_PATH);
}

/* "\nUid:\treal effective saved files": the last one is who opens its files. */
static bool introduce(struct judge *judge, int process)
{
	char text[4096];
	unsigned ids[4];
	_cleanup_close_ int fd =
		is_process(process) ? openat(process, "status", O_RDONLY | O_CLOEXEC) : -1;
	const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (size <= 0)
		return false;
	text[size] = '\0';
	const char *line = strstr(text, "\nUid:\t");
	if (!line || sscanf(line, "\nUid:\t%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	add_owner(judge, ids[3]);
	return true;
}

static int open_mapped(int process, const char *path)
{
	static const char folder[] = "map_files/";
	const size_t size = sizeof(folder) - 1;
	errno = EPERM;
	if (!is_process(process) || strncmp(path, folder, size) != 0 ||
	    path[size + strspn(path + size, "0123456789abcdef-")])
		return -1;
	return foreign_file_open_mapped(process, path);
}

static int open_found(const struct judge *judge, const struct broker_request *request, int fd)
{
	struct stat status;
	if (fd < 0 || far_file_status(fd, &status) < 0)
		return -1;
	const uid_t user = judged_user(judge, request->user);
	if (foreign_file_is_readable(&status, user))
		return foreign_file_open_found(fcntl(fd, F_DUPFD_CLOEXEC, 0), user);
	errno = EACCES;
	return -1;
}

/* ---- files that the command line names ---- */

static int open_given(struct judge *judge, const struct broker_request *request)
{
	const int may = O_PATH | O_DIRECTORY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	const int flags = (int)request->flags & may;
	struct stat status;
	if (!is_listed(judge->rules->given, judge->rules->given_count, request->path)) {
		errno = EPERM;
		return -1;
	}
	const int fd = given_file_open(request->path, flags);
	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		add_owner(judge, status.st_uid);
	return fd;
}

static struct written *new_written(struct judge *judge, uint32_t *handle)
{
	for (uint32_t i = 0; i < MOST_WRITTEN; i++)
		if (!judge->written[i].used) {
			*handle = i;
			return &judge->written[i];
		}
	errno = EMFILE;
	return NULL;
}

static int open_output(struct judge *judge, const struct broker_request *request,
		       struct broker_reply *reply)
{
	struct written *written = new_written(judge, &reply->handle);
	errno = EPERM;
	if (!written ||
	    !is_listed(judge->rules->outputs, judge->rules->output_count, request->path)) {
		error_set_errno(&reply->error, errno, "cannot write %.120s", request->path);
		return -1;
	}
	if (!new_file_open(&written->file, request->path, &reply->error)) {
		errno = reply->error.os_errno ? reply->error.os_errno : EACCES;
		return -1;
	}
	memcpy(written->path, request->path, strlen(request->path) + 1);
	written->used = true;
	written->cached = false;
	return fcntl(written->file.fd, F_DUPFD_CLOEXEC, 0);
}

static int open_cache(struct judge *judge, const struct broker_request *request,
		      struct broker_reply *reply)
{
	struct written *written = new_written(judge, &reply->handle);
	if (!written || !cache_file_new(&written->cache, request->path))
		return -1;
	written->used = written->cached = true;
	return fcntl(written->cache.fd, F_DUPFD_CLOEXEC, 0);
}

static void end_written(struct written *written, bool keep, struct broker_reply *reply)
{
	reply->os_errno = 0;
	written->used = false;
	if (written->cached)
		reply->os_errno = cache_file_end(&written->cache, keep) ? 0 : EIO;
	else if (!keep)
		new_file_drop(&written->file);
	else if (!new_file_commit(&written->file, written->path, &reply->error))
		reply->os_errno = reply->error.os_errno ? reply->error.os_errno : EIO;
}

static void end_handle(struct judge *judge, const struct broker_request *request,
		       struct broker_reply *reply)
{
	const bool cached = request->op == BROKER_CACHE_KEEP || request->op == BROKER_CACHE_DROP;
	const bool keep = request->op == BROKER_COMMIT || request->op == BROKER_CACHE_KEEP;
	if (request->handle < MOST_WRITTEN && judge->written[request->handle].used &&
	    judge->written[request->handle].cached == cached)
		end_written(&judge->written[request->handle], keep, reply);
}

static void give_up_all(struct judge *judge)
{
	struct broker_reply ignored;
	for (size_t i = 0; i < MOST_WRITTEN; i++)
		if (judge->written[i].used)
			end_written(&judge->written[i], false, &ignored);
}

/* ---- all ---- */

struct search {
	const struct judge *judge;
	const struct broker_request *request;
	int fd, result, os_errno;
};

static void search(void *context)
{
	struct search *of = context;
	const struct broker_request *request = of->request;
	if (request->op == BROKER_FIND)
		of->result =
			foreign_file_find(root_of(of->judge, request, of->fd).fd, request->path);
	else if (request->op == BROKER_MAPPED)
		of->result = open_mapped(of->fd, request->path);
	else
		of->result = open_found(of->judge, request, of->fd);
	of->os_errno = errno;
}

/* We are not to be held up by who does not answer, either. */
static int find_or_open(const struct judge *judge, const struct broker_request *request, int fd)
{
	struct search of = {judge, request, fd, -1, EIO};
	if (!(request->flags & BROKER_FAR))
		search(&of);
	else if (!far_file_await(search, &of))
		of.result = -1;
	errno = of.os_errno;
	return of.result;
}

static int open_folder(int root, const char *path)
{
	const int fd = root < 0 ? -1 : foreign_folder_open(root, path);
	if (!is_process(fd))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

static int open_one(struct judge *judge, const struct broker_request *request, int fd,
		    struct broker_reply *reply)
{
	const struct foreign_root root = root_of(judge, request, fd);
	switch ((enum broker_op)request->op) {
	case BROKER_FOREIGN:
		return foreign_file_open(root, request->path);
	case BROKER_FIND:
	case BROKER_OPEN_FOUND:
	case BROKER_MAPPED:
		return find_or_open(judge, request, fd);
	case BROKER_FOLDER:
		return open_folder(fd, request->path);
	case BROKER_GIVEN:
		return open_given(judge, request);
	case BROKER_SCRATCH:
		return given_file_scratch();
	case BROKER_NEW:
		return open_output(judge, request, reply);
	case BROKER_CACHE_READ:
		return cache_file_read(request->path);
	case BROKER_CACHE_WRITE:
		return open_cache(judge, request, reply);
	default:
		errno = EINVAL;
		return -1;
	}
}

static bool ends_writing(uint32_t op)
{
	return op == BROKER_COMMIT || op == BROKER_DROP || op == BROKER_CACHE_KEEP ||
	       op == BROKER_CACHE_DROP;
}

static int handle(void *context, const struct broker_request *request, int fd,
		  struct broker_reply *reply)
{
	struct judge *judge = context;
	int opened = -1;
	if (!request) {
		give_up_all(judge);
		return -1;
	}
	if (request->op == BROKER_TARGET) {
		reply->os_errno = introduce(judge, fd) ? 0 : EPERM;
	} else if (request->op == BROKER_FINISH) {
		if (judge->rules->finish)
			judge->rules->finish(judge->rules->context);
		reply->os_errno = 0;
	} else if (ends_writing(request->op)) {
		end_handle(judge, request, reply);
	} else {
		opened = open_one(judge, request, fd, reply);
		reply->os_errno = opened < 0 ? errno : 0;
	}
	reply->unanswered = far_file_unanswered();
	return opened;
}

bool broker_judge_start(const struct broker_rules *rules)
{
	static struct judge judge;
	judge = (struct judge){.rules = rules};
	return broker_start(handle, far_file_close, &judge);
}
