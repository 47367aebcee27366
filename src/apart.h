/* SPDX-License-Identifier: MIT */
/* Privileges apart: who parses what strangers wrote has none. The design: docs/security.md. */
#ifndef SRC_APART_H
#define SRC_APART_H

#include "src/options.h"

struct apart {
	const struct options *options;
	const char **inputs; /* files beside those that the options name */
	size_t input_count;
	const char *symbols; /* a folder; NULL: none */
	bool fetches;	     /* downloads are to be made */
	void (*finish)(void *context);
	void *context;
};

/*
 * From here on this process, which has no other thread yet, opens files by the broker alone, and
 * has no rights of its own. Not with --no-sandbox; *apart is to live as long as the process.
 */
void apart_begin(const struct apart *apart);

/* The same of threads that parse alone (base/parser_thread.h): of what looks at processes. */
void apart_begin_live(const struct apart *apart);

/* What is to be done with rights at the end; it is waited for. */
void apart_finish(const struct apart *apart);

#endif
