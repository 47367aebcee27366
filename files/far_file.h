/* SPDX-License-Identifier: MIT */
/*
 * An open file of a file system that may never answer (FUSE, NFS). Each operation on it may wait
 * for ever, closing it too (FUSE asks its server), and who waits so cannot even be killed. So all
 * are done by a process that can be left (far_file_await), and who needs much of the file, or
 * its descriptor, gets a copy in memory.
 */
#ifndef FILES_FAR_FILE_H
#define FILES_FAR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Does what looks for files, or opens them, in a process of its own (base/guard.h), which is left
 * where a file system does not answer for a quarter of a second. False: so it was, or one has not
 * answered before.
 */
bool far_file_await(void (*work)(void *context), void *context);

/* In that: fstat(2). */
int far_file_status(int fd, struct stat *status);

/* In that: has who serves the file answer now, whatever is known of it here. False with errno. Not
 * into memory of who waits: the kernel may write there later. */
bool far_file_ask_server(int fd, struct stat *status);

/* Whether one has not answered, ever. */
bool far_file_unanswered(void);

/* As the broker has found. */
void far_file_note_unanswered(void);

/* ---- one of them ---- */

struct far_file;

/* Takes over the descriptor. */
struct far_file *far_file_new(int fd);

/* NULL accepted. The copy's descriptor is closed, too. */
void far_file_free(struct far_file *file);

/* As pread(2); EIO: nobody answers. Any thread. The first few reads are of the file itself. */
ssize_t far_file_read(struct far_file *file, void *buffer, size_t size, off_t offset);

/* A copy of the whole file, in memory, to be read and not to be closed; made once. -1 with errno:
 * nobody answers, or it has more than 2 GiB. */
int far_file_copy(struct far_file *file);

/* ---- in what far_file_await runs ---- */

/* Copies and closes it. -1 with errno. */
int far_file_copy_here(int fd);

ssize_t far_file_read_here(int fd, void *buffer, size_t size, off_t offset);
void far_file_close_here(int fd);

/* ---- elsewhere ---- */

/* Closes what was opened there; waits a quarter of a second at most. */
void far_file_close(int fd);

#endif
