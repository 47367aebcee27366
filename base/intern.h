/* SPDX-License-Identifier: MIT */
/* One copy of each distinct string: equal strings have equal pointers. */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include "base/types.h"

struct interner;

struct interner *interner_new(void);
void interner_free(struct interner *interner); /* NULL accepted */

/*
 * Returns the one copy of the given bytes, NUL-terminated, valid until interner_free. A NUL inside
 * is kept as the byte it is, but readers of C strings stop there. Not thread-safe.
 */
const char *intern_bytes(struct interner *interner, const void *bytes, size_t size);
const char *intern_text(struct interner *interner, const char *text);

#endif
