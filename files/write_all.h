/* SPDX-License-Identifier: MIT */
#ifndef FILES_WRITE_ALL_H
#define FILES_WRITE_ALL_H

#include <stdbool.h>
#include <stddef.h>

/* All of the bytes, in as many writes as it takes. False with errno. */
bool write_all(int fd, const void *bytes, size_t size);

#endif
