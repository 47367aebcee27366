/* SPDX-License-Identifier: MIT */
/*
 * Files by a path that somebody else has chosen: a process, an ELF file, a recording. The one way
 * to them: first found without being opened, then judged, then opened as the very file that was
 * judged. So no device, fifo or file of the kernel's is ever opened, and none that its chooser
 * could not read. Nothing blocks, except in a file system that does not answer, for which see
 * far_file_await.
 */
#ifndef FILES_FOREIGN_FILE_H
#define FILES_FOREIGN_FILE_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/types.h"

enum { FOREIGN_OUR_ROOT = -1, FOREIGN_NOWHERE = -2 };

/* Where paths start, and whose they are. */
struct foreign_root {
	int fd;	       /* a directory that no link leads out of, or one of those two */
	uid_t user;    /* who chose the path: only what this user may read is opened; 0: all is */
	bool far;      /* what is there may never answer: it is awaited (below), and copied */
	bool uncopied; /* ... but for who copies it himself (files/far_file.h) */
};

/*
 * Finds what is there, without touching it (O_PATH); -1 with errno set. For what only has to be
 * known to be there, and for judges of their own.
 */
int foreign_file_find(int root, const char *path);

/* Opens a folder below another one to be listed, through no link. -1 with errno set. */
int foreign_folder_open(int root, const char *path);

/* A file that a process has mapped, by its /proc/PID and the mapping's name in map_files there.
 * Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. -1 with errno set. */
int foreign_file_open_mapped(int process, const char *path);

/* That process is looked at: the broker may give out what its user may read. */
void foreign_file_introduce(int process);

/*
 * Opens what was found for reading, if it is a regular file on a disk; takes `found` over. -1 with
 * errno set. Whose it is has been judged; for the broker (files/broker.h), which does so again, the
 * user comes along.
 */
int foreign_file_open_found(int found, uid_t user);

/*
 * Whether that user may read the file, as its mode has it: its owner's, or everybody's. Groups are
 * not known. True for root, and for us: then the kernel judges.
 */
bool foreign_file_is_readable(const struct stat *status, uid_t user);

/* All three. */
int foreign_file_open(struct foreign_root root, const char *path);

#endif
