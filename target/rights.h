/* SPDX-License-Identifier: MIT */
/* What a program file's capabilities are used for: rights.c. */
#ifndef TARGET_RIGHTS_H
#define TARGET_RIGHTS_H

/*
 * Before anything is opened: the rights over others' files that our program file gives to who is
 * not root hold for what /proc tells of a target alone. Of this thread and those that it makes.
 */
void target_rights_begin(void);

#endif
