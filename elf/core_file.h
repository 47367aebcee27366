/* SPDX-License-Identifier: MIT */
/*
 * A core file: what a process was at its end, or when a debugger wrote it down. The kernel's and
 * gdb's, also compressed (gzip, zstd), also cut off. Its bytes are hostile: everything is bounded,
 * and what cannot be right is left out or refused.
 */
#ifndef ELF_CORE_FILE_H
#define ELF_CORE_FILE_H

#include "base/error.h"
#include "base/types.h"

/*
 * A piece of the process's memory. Of [start, end) the first `dumped` bytes were written down, and
 * of these the file has `file_size`: less where it is cut off.
 */
struct core_segment {
	uint64_t start, end;
	uint64_t file_offset, file_size, dumped;
	uint32_t flags; /* PF_R ... */
};

/* What file was mapped there (NT_FILE). */
struct core_mapping {
	uint64_t start, end, offset; /* bytes */
	uint32_t file;		     /* equal for mappings of one path, from 1 on */
	const char *path; /* as the process named it; its bytes may be anything but NUL */
};

/* In the order of struct user_regs_struct (Linux arch/x86/include/asm/user_64.h). */
enum core_register {
	CORE_R15,
	CORE_R14,
	CORE_R13,
	CORE_R12,
	CORE_RBP,
	CORE_RBX,
	CORE_R11,
	CORE_R10,
	CORE_R9,
	CORE_R8,
	CORE_RAX,
	CORE_RCX,
	CORE_RDX,
	CORE_RSI,
	CORE_RDI,
	CORE_ORIG_RAX,
	CORE_RIP,
	CORE_CS,
	CORE_EFLAGS,
	CORE_RSP,
	CORE_SS,
	CORE_FS_BASE,
	CORE_REGISTERS = 27
};

struct core_thread {
	int tid;    /* in the process's own PID namespace */
	int signal; /* that it was about to take; 0: none */
	uint64_t registers[CORE_REGISTERS];
};

/* What the first thread in the file ended by (NT_SIGINFO). */
struct core_signal {
	int number, code; /* number 0: not known */
	uint64_t address; /* of faults: si_addr */
	int sender;	  /* of kill(2) and its like: si_pid */
};

struct core_file {
	int fd;
	uint64_t size; /* of the file, unpacked */
	bool truncated;
	struct core_segment *segments; /* in order of address, not overlapping */
	size_t segment_count;
	struct core_mapping *mappings; /* likewise */
	size_t mapping_count;
	struct core_thread *threads; /* as in the file: the one that ended it first */
	size_t thread_count;
	struct core_signal signal;
	int pid;
	char name[17];	    /* pr_fname */
	char arguments[81]; /* pr_psargs: the first 80 bytes of the command line */
	uint8_t *auxv;
	size_t auxv_size;
	char *texts; /* the paths */
};

/*
 * Takes the descriptor over, also on failure. CORRUPT: it is no core file. UNSUPPORTED: of another
 * machine, or packed in a way that this build does not know. ABSENT: cut off before its threads.
 */
bool MUST_CHECK core_file_open(int fd, struct core_file **core, struct error *error);
void core_file_free(struct core_file *core); /* NULL accepted */

/* The segment that holds the address, also what of it is not in the file; NULL: none. */
const struct core_segment *core_file_segment(const struct core_file *core, uint64_t address);
const struct core_mapping *core_file_mapping(const struct core_file *core, uint64_t address);

/* Copies what the file has of these bytes from the address on; returns how many, which may be 0. */
size_t core_file_read(const struct core_file *core, uint64_t address, void *buffer, size_t size);

/* The value of an entry of the auxiliary vector (AT_*); false: there is none. */
bool core_file_auxv(const struct core_file *core, uint64_t type, uint64_t *value);

/* ---- core_notes.c: notes into the struct ------------------------------------------------------
 */

/* What does not fit ends the reading. */
void core_notes_read(struct core_file *core, const uint8_t *notes, size_t size);

/* ---- core_unpack.c: compressed files ----------------------------------------------------------
 */

/*
 * Of a compressed file *fd becomes an unlinked one with its contents, at most `limit` bytes;
 * another one stays as it is. *cut: what is packed ends early, or is damaged, from there on nothing
 * is known. On failure *fd stays as it was.
 */
bool MUST_CHECK core_unpack(int *fd, uint64_t limit, bool *cut, struct error *error);

#endif
