/* SPDX-License-Identifier: MIT */
/*
 * A target that has ended: what a core file has of it, behind the same struct target. Its threads
 * are all asleep for ever, nothing of /proc is there, and nothing can be traced.
 */
#ifndef TARGET_CORE_H
#define TARGET_CORE_H

#include "target/target.h"

/* Where things are; all but `path` may be NULL. */
struct target_core_options {
	const char *path;    /* the core file */
	const char *program; /* its program; NULL: as the core file names it */
	const char *sysroot; /* a folder that its names are looked up below; NULL: our root */
	const char *symbols; /* a folder with files by build ID or name */
	/* Opens a file that is nowhere here, by its build ID; -1. `path`: as the core file names it
	 */
	int (*fetch)(void *context, const struct build_id *id, const char *path);
	void *context;
};

/*
 * What its owner may not read is not opened for it, by whatever name. CORRUPT: it is no core file.
 * ABSENT: it has no threads, or something is not there. DENIED, UNSUPPORTED, SYSTEM. The options
 * live as long as the target.
 */
bool MUST_CHECK target_open_core(const struct target_core_options *options, struct target **target,
				 struct error *error);

/* False: it is a process. */
bool target_is_core(const struct target *target);

/* When it was written, seconds since 1970. */
uint64_t target_core_time(const struct target *target);

/* Of a thread of it; false: there is none of that number. */
bool target_core_registers(const struct target *target, pid_t tid, struct registers *registers);

/* A signal that the process has ended by; as sigaction(2) has it. */
struct target_crash {
	int number, code;
	remote_addr address;
	pid_t sender;
};

/* False: it is not the thread that took it, or it was no crash. */
bool target_core_crash(const struct target *target, pid_t tid, struct target_crash *crash);

/* It is a core file of which some that was written is missing. */
bool target_core_is_cut_off(const struct target *target);

/* Its mappings as lines of /proc/PID/maps, to be freed; inodes are numbers of files, the device 0.
 */
char *target_core_maps(const struct target *target, size_t *size);

/* Reads what the core file itself has of these bytes; false: not all of them. */
bool MUST_CHECK target_core_read(const struct target *target, remote_addr address, void *buffer,
				 size_t size);

/*
 * A file that was mapped, found and verified: from now on memory that was not written down, as it
 * stood in that file, is read from there. The descriptor is duplicated.
 */
void target_core_use_file(const struct target *target, uint64_t inode, int fd);

/* A folder of debug files that a person has named for the target, owned by it; NULL: none, or it is
 * a process. */
const struct foreign_root *target_symbols(const struct target *target);

/* Fetches a file by its build ID; -1: nobody is asked, or has it. */
int target_core_fetch(const struct target *target, const struct build_id *id, const char *path);

/* The program by its path, or NULL, and the inode of its mappings. */
const char *target_core_program(const struct target *target, uint64_t *inode);

/* Files that were looked for in vain, or given and not the right ones: for a message. */
void target_core_add_problem(const struct target *target, const char *text);
size_t target_core_problems(const struct target *target, const char *const **texts);

#endif
