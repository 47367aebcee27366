/* SPDX-License-Identifier: MIT */
/*
 * Work with rights, for a thread that has none: rights are of a thread in Linux, and one of ours
 * keeps them. It shares our memory: this holds what a thread does by mistake, not what one does
 * that was taken over (docs/security.md).
 */
#ifndef BASE_ERRAND_H
#define BASE_ERRAND_H

#include <stdbool.h>

/* Starts the thread that keeps the rights that we have now. False with errno. */
bool errand_begin(void);

/* This thread is about to give them up, and sends others from then on. */
void errand_forgo(void);

/* Whether this thread has given them up. */
bool errand_is_needed(void);

/* Runs it with rights, and waits: here where we have them. errno comes back with it. */
void errand_run(void (*work)(void *context), void *context);

#endif
