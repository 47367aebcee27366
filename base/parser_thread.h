/* SPDX-License-Identifier: MIT */
/*
 * Threads of ours that parse what strangers wrote: without rights (base/sandbox.h), beside those
 * that keep them. Without a plan they are threads like all others.
 */
#ifndef BASE_PARSER_THREAD_H
#define BASE_PARSER_THREAD_H

#include "base/sandbox.h"

/* From here on. False with errno: there is no thread to keep the rights (base/errand.h). */
bool parser_thread_plan(struct sandbox_user user);

/* This thread parses from now on. */
void parser_thread_enter(void);

/* This process does, which has been forked and has no other thread: nobody runs errands for it. */
void parser_thread_enter_alone(void);
bool parser_thread_is_alone(void);

/* Runs it in a thread that parses, and waits; here if this one does. */
void parser_thread_run(void (*work)(void *context), void *context);

#endif
