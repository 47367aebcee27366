/* SPDX-License-Identifier: MIT */
/* What lazy_dwarf.c asks of one section. The file may be hostile: nothing of it is believed. */
#ifndef SYMBOLIZE_LAZY_SECTION_H
#define SYMBOLIZE_LAZY_SECTION_H

#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

/* Larger images are not made. */
static const uint64_t LAZY_IMAGE_LIMIT = UINT64_C(1) << 31;

struct lazy_section {
	bool compressed, failed;
	uint64_t packed;     /* where in the file the deflated bytes begin */
	uint64_t at, end;    /* what of the file is still to be read */
	uint8_t *out;	     /* the caller's, `size` zeroed bytes */
	uint64_t size, done; /* of out */
	uint64_t filled;     /* so many bytes of it, in parts */
	uint8_t *pieces; /* a bit for each that is there; NULL: it is filled from the start on */
	z_stream stream;
	uint8_t *input;
};

/* Where the section is and how large it will be; false: this is not for us. */
bool lazy_section_plan(struct lazy_section *section, int fd, const GElf_Shdr *header);

/* After plan and before need; large: in pieces, where it is not compressed. */
bool lazy_section_start(struct lazy_section *section, bool large);
void lazy_section_release(struct lazy_section *section);

/* Fills in a part; false: it is not in the section, or the file is damaged. */
bool lazy_section_need(struct lazy_section *section, int fd, uint64_t start, uint64_t size);

#endif
