/* SPDX-License-Identifier: MIT */
/*
 * Bytes to a file, whole or not at all: a temporary file beside the wanted one, synced, renamed.
 * Until the rename an existing file stays as it was; on any failure the temporary is removed.
 * Symbolic links are followed, so that the file behind them is replaced and the link stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "output/internal.h"

enum { MAX_LINKS = 40, GZIP_WINDOW = 15 + 16, CHUNK = 1 << 16, MAX_NAME = 200 };

static bool wants_gzip(const char *path)
{
	size_t size = strlen(path);
	return size > 3 && strcasecmp(path + size - 3, ".gz") == 0;
}

static bool compress_bytes(struct strbuf *out, const unsigned char *bytes, size_t size,
			   struct error *error)
{
	z_stream stream = {0};
	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return error_set(error, ERROR_SYSTEM, "cannot start zlib");
	unsigned char chunk[CHUNK];
	int result = Z_OK;
	while (result == Z_OK) {
		/* zlib counts in unsigned int; the bytes may be more. */
		size_t part = size < INT_MAX ? size : INT_MAX;
		stream.next_in = (unsigned char *)bytes;
		stream.avail_in = (unsigned)part;
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		result = deflate(&stream, part == size ? Z_FINISH : Z_NO_FLUSH);
		size_t taken = part - stream.avail_in;
		bytes += taken;
		size -= taken;
		strbuf_add(out, chunk, sizeof(chunk) - stream.avail_out);
	}
	deflateEnd(&stream);
	if (result != Z_STREAM_END)
		return error_set(error, ERROR_SYSTEM, "cannot compress (zlib error %d)", result);
	return true;
}

static bool write_all(int fd, const char *path, const char *bytes, size_t size, struct error *error)
{
	while (size) {
		ssize_t written = write(fd, bytes, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return error_set_errno(error, errno, "cannot write %s", path);
		bytes += written;
		size -= (size_t)written;
	}
	return true;
}

/* Where the name's last part really is: follows links, also one whose target is not there yet. */
static bool resolve(const char *path, char real[PATH_MAX], struct error *error)
{
	if (snprintf(real, PATH_MAX, "%s", path) >= PATH_MAX)
		return error_set_errno(error, ENAMETOOLONG, "cannot write %.100s...", path);
	for (int i = 0; i < MAX_LINKS; i++) {
		char target[PATH_MAX], joined[2 * PATH_MAX];
		ssize_t size = readlink(real, target, sizeof(target) - 1);
		if (size < 0)
			return true; /* no link (or nothing there at all) */
		target[size] = '\0';
		const char *slash = strrchr(real, '/');
		int folder = target[0] == '/' || !slash ? 0 : (int)(slash - real) + 1;
		int length = snprintf(joined, sizeof(joined), "%.*s%s", folder, real, target);
		if (length >= PATH_MAX)
			return error_set_errno(error, ENAMETOOLONG, "cannot write %s", path);
		memcpy(real, joined, (size_t)length + 1);
	}
	return error_set_errno(error, ELOOP, "cannot write %s", path);
}

/* Opens a new file beside `real`, hidden and with a random name; its mode follows the umask. */
static int open_temporary(const char *real, char temporary[PATH_MAX])
{
	const char *slash = strrchr(real, '/');
	const char *base = slash ? slash + 1 : real;
	for (int i = 0; i < 100; i++) {
		uint64_t random = 0;
		if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
			random = (uint64_t)getpid() << 32 | (uint64_t)i;
		if (snprintf(temporary, PATH_MAX, "%.*s.%.*s.%016llx.tmp", (int)(base - real), real,
			     MAX_NAME, base, (unsigned long long)random) >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

/* A replaced file keeps its mode and, where we may, its owner. */
static bool copy_mode(int fd, const char *path, const struct stat *old, struct error *error)
{
	if (fchown(fd, old->st_uid, old->st_gid) < 0 && errno != EPERM && errno != EINVAL)
		return error_set_errno(error, errno, "cannot set the owner of %s", path);
	if (fchmod(fd, old->st_mode & 07777) < 0)
		return error_set_errno(error, errno, "cannot set the mode of %s", path);
	return true;
}

/* A rename is on the disk when its folder is; failing here no longer harms the file. */
static void sync_folder(char *real)
{
	char *slash = strrchr(real, '/');
	if (slash)
		slash[slash == real] = '\0';
	int _cleanup_close_ fd = open(slash ? real : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)fsync(fd);
}

static bool fill(int fd, const char *path, const struct stat *old, const struct strbuf *bytes,
		 struct error *error)
{
	if (!write_all(fd, path, bytes->text, bytes->size, error))
		return false;
	if (old && !copy_mode(fd, path, old, error))
		return false;
	/* EINVAL: a file system that cannot sync. */
	if (fsync(fd) < 0 && errno != EINVAL)
		return error_set_errno(error, errno, "cannot write %s", path);
	return true;
}

static bool replace(const char *path, const struct stat *old, const struct strbuf *bytes,
		    struct error *error)
{
	char real[PATH_MAX], temporary[PATH_MAX];
	if (!resolve(path, real, error))
		return false;
	if (old && faccessat(AT_FDCWD, real, W_OK, AT_EACCESS) < 0)
		return error_set_errno(error, errno, "cannot write %s", path);
	int fd = open_temporary(real, temporary);
	if (fd < 0)
		return error_set_errno(error, errno, "cannot write %s", path);
	bool good = fill(fd, path, old, bytes, error);
	if (close(fd) < 0 && good)
		good = error_set_errno(error, errno, "cannot write %s", path);
	if (good && rename(temporary, real) < 0)
		good = error_set_errno(error, errno, "cannot write %s", path);
	if (!good) {
		unlink(temporary);
		return false;
	}
	sync_folder(real);
	return true;
}

static bool write_as_it_is(const char *path, const struct strbuf *bytes, struct error *error)
{
	int _cleanup_close_ fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, errno, "cannot write %s", path);
	return write_all(fd, path, bytes->text, bytes->size, error);
}

bool output_file_write(const char *path, const void *bytes, size_t size, struct error *error)
{
	struct strbuf _cleanup_strbuf_ packed;
	strbuf_init(&packed);
	struct strbuf plain = {.text = (char *)bytes, .size = size};
	const struct strbuf *content = &plain;
	if (strcmp(path, "-") == 0)
		return write_all(STDOUT_FILENO, "standard output", bytes, size, error);
	if (wants_gzip(path)) {
		if (!compress_bytes(&packed, bytes, size, error))
			return false;
		content = &packed;
	}
	struct stat old;
	if (stat(path, &old) < 0) {
		if (errno != ENOENT)
			return error_set_errno(error, errno, "cannot write %s", path);
		return replace(path, NULL, content, error);
	}
	if (!S_ISREG(old.st_mode))
		return write_as_it_is(path, content, error);
	return replace(path, &old, content, error);
}

/* The folder must let us make a file in it: that is what the temporary needs. */
static bool check_folder(const char *path, struct error *error)
{
	char real[PATH_MAX];
	if (!resolve(path, real, error))
		return false;
	char *slash = strrchr(real, '/');
	if (slash && !slash[1])
		return error_set_errno(error, EISDIR, "cannot write %s", path);
	if (slash)
		slash[slash == real] = '\0';
	const char *folder = slash ? real : ".";
	struct stat info;
	if (stat(folder, &info) < 0)
		return error_set_errno(error, errno, "cannot write %s", path);
	if (!S_ISDIR(info.st_mode))
		return error_set_errno(error, ENOTDIR, "cannot write %s", path);
	if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0)
		return error_set_errno(error, errno, "cannot write %s", path);
	return true;
}

bool output_file_check(const char *path, struct error *error)
{
	if (strcmp(path, "-") == 0)
		return true;
	struct stat old;
	if (stat(path, &old) < 0) {
		if (errno != ENOENT || !*path)
			return error_set_errno(error, errno, "cannot write %s", path);
		return check_folder(path, error);
	}
	if (S_ISDIR(old.st_mode))
		return error_set_errno(error, EISDIR, "cannot write %s", path);
	if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
		return error_set_errno(error, errno, "cannot write %s", path);
	return S_ISREG(old.st_mode) ? check_folder(path, error) : true;
}
