/* SPDX-License-Identifier: MIT */
/* A core file, made here: two threads, four pieces of memory, two mappings of one file. */
#ifndef TESTS_CORE_BYTES_H
#define TESTS_CORE_BYTES_H

#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <unistd.h>

enum {
	CORE_BYTES_SEGMENTS = 4,
	CORE_BYTES_SIZE = 0x8000,
	CORE_BYTES_FIRST = 4242, /* threads */
	CORE_BYTES_SECOND = 4243,
};

/* Addresses: written whole; its first page alone; not at all, of a file; not at all, of none. */
#define CORE_BYTES_STACK UINT64_C(0x7ffd00000000)
#define CORE_BYTES_TEXT UINT64_C(0x7f0000000000)
#define CORE_BYTES_RODATA UINT64_C(0x7f0000004000)
#define CORE_BYTES_LOST UINT64_C(0x7f0000008000)

static const char core_bytes_path[] = "/usr/lib/libone.so";

struct core_bytes {
	uint8_t bytes[CORE_BYTES_SIZE];
	size_t size;
};

static inline void core_bytes_put(struct core_bytes *core, const void *bytes, size_t size)
{
	memcpy(core->bytes + core->size, bytes, size);
	core->size += size;
}

static inline void core_bytes_note(struct core_bytes *core, uint32_t type, const void *bytes,
				   size_t size)
{
	const Elf64_Nhdr header = {5, (Elf64_Word)size, type};
	core_bytes_put(core, &header, sizeof(header));
	core_bytes_put(core, "CORE\0\0\0", 8);
	core_bytes_put(core, bytes, size);
	core->size = (core->size + 3) & ~(size_t)3;
}

static inline void core_bytes_thread(struct core_bytes *core, int tid, uint64_t sp)
{
	prstatus_t status = {.pr_pid = tid, .pr_cursig = tid == CORE_BYTES_FIRST ? SIGSEGV : 0};
	status.pr_reg[19] = sp;						/* rsp */
	status.pr_reg[16] = CORE_BYTES_TEXT + 16;			/* rip */
	status.pr_reg[15] = tid == CORE_BYTES_FIRST ? UINT64_MAX : 202; /* orig_rax: futex */
	status.pr_reg[10] = tid == CORE_BYTES_FIRST ? 1 : (uint64_t)-512;
	status.pr_reg[21] = CORE_BYTES_STACK + 64; /* fs_base */
	core_bytes_note(core, NT_PRSTATUS, &status, sizeof(status));
}

static inline void core_bytes_files(struct core_bytes *core)
{
	struct {
		uint64_t count, page, ranges[6];
		char paths[2 * sizeof(core_bytes_path)];
	} files = {2,
		   4096,
		   {CORE_BYTES_TEXT, CORE_BYTES_TEXT + 0x4000, 0, CORE_BYTES_RODATA,
		    CORE_BYTES_RODATA + 0x2000, 4},
		   ""};
	memcpy(files.paths, core_bytes_path, sizeof(core_bytes_path));
	memcpy(files.paths + sizeof(core_bytes_path), core_bytes_path, sizeof(core_bytes_path));
	core_bytes_note(core, NT_FILE, &files, sizeof(files) - 2);
}

static inline void core_bytes_notes(struct core_bytes *core)
{
	const prpsinfo_t process = {
		.pr_pid = CORE_BYTES_FIRST, .pr_fname = "python3", .pr_psargs = "python3 train.py"};
	const uint64_t auxv[] = {AT_PAGESZ, 4096, AT_PHDR, CORE_BYTES_TEXT + 64, AT_NULL, 0};
	siginfo_t signal = {.si_signo = SIGSEGV, .si_code = SEGV_MAPERR};
	signal.si_addr = (void *)(uintptr_t)0x10;
	core_bytes_thread(core, CORE_BYTES_FIRST, CORE_BYTES_STACK + 256);
	core_bytes_note(core, NT_PRPSINFO, &process, sizeof(process));
	core_bytes_note(core, NT_SIGINFO, &signal, sizeof(signal));
	core_bytes_note(core, NT_AUXV, auxv, sizeof(auxv));
	core_bytes_files(core);
	core_bytes_thread(core, CORE_BYTES_SECOND, CORE_BYTES_STACK + 512);
}

/* What stands at the n-th byte of each piece that was written. */
static inline uint8_t core_bytes_at(size_t piece, size_t n)
{
	return (uint8_t)(piece * 57 + n * 31 + 1);
}

static inline struct core_bytes *core_bytes_new(void)
{
	static const struct {
		uint64_t start, size, written;
		uint32_t flags;
	} pieces[CORE_BYTES_SEGMENTS] = {
		{CORE_BYTES_TEXT, 0x4000, 0x1000, PF_R | PF_X},
		{CORE_BYTES_RODATA, 0x2000, 0, PF_R},
		{CORE_BYTES_LOST, 0x1000, 0, PF_R},
		{CORE_BYTES_STACK, 0x2000, 0x2000, PF_R | PF_W},
	};
	struct core_bytes *core = calloc(1, sizeof(*core));
	Elf64_Phdr headers[CORE_BYTES_SEGMENTS + 1] = {0};
	const Elf64_Ehdr header = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_CORE,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(*headers),
		.e_phnum = CORE_BYTES_SEGMENTS + 1,
	};
	core->size = sizeof(header) + sizeof(headers);
	headers[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = core->size};
	core_bytes_notes(core);
	headers[0].p_filesz = core->size - headers[0].p_offset;
	core->size = (core->size + 0xfff) & ~(size_t)0xfff;
	for (size_t i = 0; i < CORE_BYTES_SEGMENTS; i++) {
		headers[i + 1] = (Elf64_Phdr){.p_type = PT_LOAD,
					      .p_flags = pieces[i].flags,
					      .p_offset = core->size,
					      .p_vaddr = pieces[i].start,
					      .p_filesz = pieces[i].written,
					      .p_memsz = pieces[i].size};
		for (size_t n = 0; n < pieces[i].written; n++)
			core->bytes[core->size++] = core_bytes_at(i, n);
	}
	memcpy(core->bytes, &header, sizeof(header));
	memcpy(core->bytes + sizeof(header), headers, sizeof(headers));
	return core;
}

static inline int core_bytes_file(const void *bytes, size_t size)
{
	const int fd = memfd_create("core", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	return fd;
}

#endif
