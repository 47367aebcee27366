/* SPDX-License-Identifier: MIT */
/* Call frame information: one section of CIEs and FDEs, and which of them covers a PC. */
#ifndef CFI_CFI_H
#define CFI_CFI_H

#include "elf/eh.h"
#include "elf/elf.h"
#include "modules/module.h"
#include "target/target.h"

/* ---- section.c, read.c: one section of CIEs and FDEs in .eh_frame's form
 * ------------------------------- */

struct cfi_section {
	uint8_t *bytes;	   /* zero-padded to a multiple of 8; NULL: none */
	size_t size;	   /* without the padding */
	remote_addr start; /* where libunwind sees the bytes */
	/* Read from the file by pages as they are needed: of megabytes few are. NULL: all is there.
	 */
	uint8_t *loaded; /* one for each page */
	const struct module *module;
	uint64_t vaddr;
};

/* A section of the module's image, padded; its bytes are read when they are needed. */
void section_open(struct cfi_section *section, const struct module *module, uint64_t vaddr,
		  size_t size);
void section_close(struct cfi_section *section);

void section_load(const struct cfi_section *section, size_t at, size_t size);

/* Before these bytes, which lie within the section and its padding, are looked at. */
static inline void section_need(const struct cfi_section *section, size_t at, size_t size)
{
	if (section->loaded)
		section_load(section, at, size);
}

/* What is in these bytes of it, for the reader of such. */
struct eh_input section_input(const struct cfi_section *section, size_t at, size_t end);

struct cfi_fde {
	size_t offset;		/* in the section */
	remote_addr start, end; /* the code it covers, at run time */
	size_t program, program_end;
	size_t cie_program, cie_program_end;
	uint64_t code_factor;
	remote_addr lsda; /* where exceptions land; 0: there is none */
	bool signal_frame;
};

enum cfi_kind { CFI_END, CFI_FDE, CFI_OTHER };

/*
 * Reads the entry at `offset`. CFI_OTHER: a CIE, or an FDE that we do not understand; CFI_END: the
 * terminator, or no entry. *next is set unless CFI_END, and *fde for CFI_FDE.
 */
enum cfi_kind cfi_read(const struct cfi_section *section, size_t offset, struct cfi_fde *fde,
		       size_t *next);

/* The CIE at `offset`; false: none, or one that libunwind reads otherwise. */
bool cfi_read_cie(const struct cfi_section *section, size_t offset, struct eh_cie *cie);

/* ---- check.c: what libunwind may run -------------------------------------------------------- */

/* Bytes that libunwind is to see as `first` and zeros: instructions it does not know. */
struct cfi_patch {
	size_t start, end; /* in the section */
	uint8_t first;
};

#define CFI_PATCH_LIMIT 64

struct cfi_verdict {
	bool expressions; /* the row reads the section when it is applied */
	bool moves_sp;	  /* somewhere RSP is in another register */
	size_t patch_count;
	struct cfi_patch patches[CFI_PATCH_LIMIT];
};

/*
 * True when libunwind may run this FDE, with the patches: its programs and expressions stay
 * inside, end, and do nothing that libunwind 1.6.2 does not survive.
 */
bool cfi_check(const struct cfi_section *section, const struct cfi_fde *fde,
	       struct cfi_verdict *verdict);

/* From `start` on so many bytes of arguments are on the stack: a landing pad is without them. */
struct cfi_arguments {
	remote_addr start;
	uint64_t bytes;
};

enum { CFI_ARGUMENTS_LIMIT = 256 };

/* In order. False: there are more, or something else than the program's instructions. */
bool cfi_arguments(const struct cfi_section *section, const struct cfi_fde *fde,
		   struct cfi_arguments rows[CFI_ARGUMENTS_LIMIT], size_t *count);

/* ---- moved_sp.c ------------------------------------------------------------------------------ */

/* Where a caller's registers are. */
enum cfi_where { CFI_SAME, CFI_NOWHERE, CFI_AT_CFA, CFI_IN_REGISTER };
struct cfi_rules {
	uint64_t cfa_register;
	int64_t cfa_offset;
	enum cfi_where where[REGISTER_COUNT];
	int64_t value[REGISTER_COUNT]; /* an offset from the CFA; a register */
};

/* True when at this address RSP is in another register, and RIP to be had; false also for a program
 * with other instructions than such functions have. */
bool cfi_moved_sp(const struct cfi_section *section, const struct cfi_fde *fde, remote_addr address,
		  struct cfi_rules *rules);

/* ---- frame_index.c, debug_frame.c --------------------------------------------------------- */

/* Finds the FDE that covers an ELF address, in .eh_frame, then in .debug_frame. */
bool frame_index_find(struct module *module, uint64_t vaddr, struct cfi_fde *fde,
		      const struct cfi_section **section);
void frame_index_free(void *index); /* a module's unwind_cache; NULL accepted */

/* The start (ELF address) and the size of the function that holds this ELF address; false where no
 * FDE covers it. *size may be NULL. */
bool frame_index_function(struct module *module, uint64_t vaddr, uint64_t *start, uint64_t *size);

/* Where the first FDE's code begins above this ELF address (of .eh_frame); UINT64_MAX: nowhere. */
uint64_t frame_index_next(struct module *module, uint64_t vaddr);

/* Where the code without FDE begins that holds this ELF address: the end of the FDE before. */
uint64_t frame_index_gap(struct module *module, uint64_t vaddr);

/* The functions that the module's symbols say of. */
const struct elf_functions *module_functions(struct module *module);

/* The same, and what its code takes the address of: reads all of that, once. */
const struct elf_functions *module_functions_taken(struct module *module);

/* The last one of those known so far that begins at or below the ELF address, NULL: none. */
const struct elf_function *module_function_before(struct module *module, uint64_t vaddr);

/* No module's section is larger than this in memory. */
#define CFI_SECTION_LIMIT ((size_t)64 << 20)

/* Where .debug_frame is shown to libunwind: in the kernel's half, where no target has memory. */
#define DEBUG_FRAME_ADDRESS 0xffffc00000000000

/* The module's .debug_frame, decompressed, in .eh_frame's form; *section is zeroed without one. */
void debug_frame_load(const struct module *module, struct cfi_section *section);

#endif
