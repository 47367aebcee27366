/* SPDX-License-Identifier: MIT */
/*
 * Dumps out of the files that pdump --json has written, here or elsewhere. Knows no process and
 * needs no privilege. Files are hostile: whatever is in them, the outcome is dumps or an error that
 * says where.
 */
#ifndef READ_DUMP_FILE_H
#define READ_DUMP_FILE_H

#include "base/error.h"
#include "base/intern.h"
#include "profile/dump_groups.h"

/*
 * Adds all dumps of a file, gzip or not ("-": stdin), to the list; their strings, clean text, are
 * interned in `strings`, which must outlive them. What comes before an error stays in the list.
 * CORRUPT: it is no dump ("ranks.json:3: threads[1].frames[0]: 'line' ..."); ABSENT, DENIED,
 * SYSTEM: it cannot be read.
 */
bool MUST_CHECK read_dump_file(const char *path, struct interner *strings, struct dump_list *list,
			       struct error *error);

/* The same of what is in memory; name: what it is called in errors. */
bool MUST_CHECK read_dump_bytes(const char *name, const char *bytes, size_t size,
				struct interner *strings, struct dump_list *list,
				struct error *error);

#endif
