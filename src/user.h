/* SPDX-License-Identifier: MIT */
/* What a person is shown must not be shown with more rights than that person has. */
#ifndef SRC_USER_H
#define SRC_USER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/sandbox.h"

/*
 * For a process of its own: it becomes, for good, the user who called sudo(8), if one did, with
 * what is known of the session; all others give up what our program file lets them do. False with
 * errno: it is not to go on.
 */
bool user_become(void);

/* Whose rights count: the user who called sudo, else who we are. */
uid_t user_invoking(void);

/* Who root becomes where files are parsed: that user, or nobody. */
struct sandbox_user user_of_parsing(void);

#endif
