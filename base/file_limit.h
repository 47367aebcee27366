/* SPDX-License-Identifier: MIT */
/* How many files may be open. */
#ifndef BASE_FILE_LIMIT_H
#define BASE_FILE_LIMIT_H

#include <sys/resource.h>

/* As many as are allowed: one is kept for each library, three for each thread. *before: the limit
 * as it was. Before any thread is started. */
void file_limit_raise(struct rlimit *before);

#endif
