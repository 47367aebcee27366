/* SPDX-License-Identifier: MIT */
/* Files that a person has named on the command line, and files without a name. */
#ifndef FILES_GIVEN_FILE_H
#define FILES_GIVEN_FILE_H

/* Opens for reading; flags of open(2) are added. Nothing is judged: who gave the path chose it. -1
 * with errno. */
int given_file_open(const char *path, int flags);

/* A new one to be read and written, in $TMPDIR, or on a disk where there is one. -1 with errno. */
int given_file_scratch(void);

#endif
