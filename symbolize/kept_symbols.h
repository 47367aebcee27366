/* SPDX-License-Identifier: MIT */
/* Names of a file's addresses for where the file is not. */
#ifndef SYMBOLIZE_KEPT_SYMBOLS_H
#define SYMBOLIZE_KEPT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct kept_symbol {
	uint64_t first, last; /* that it was met at */
	uint64_t start;
	const char *name; /* not terminated */
	size_t size;
	bool stub; /* of a PLT, that leads to the function of that name */
};

struct kept_symbols {
	struct kept_symbol *rows;
	size_t count, capacity;
};

/* The rows of a file's addresses, in their order: *open is the one that is not written yet, all
 * zero at first. next NULL: that was the last. */
void kept_symbols_put(struct kept_symbol *open, const struct kept_symbol *next,
		      struct strbuf *bytes);

/* What makes no sense ends it. The bytes have to live as long. */
void kept_symbols_read(struct kept_symbols *kept, const void *bytes, size_t size);
void kept_symbols_release(struct kept_symbols *kept);
const struct kept_symbol *kept_symbols_find(const struct kept_symbols *kept, uint64_t pc);

#endif
