/* SPDX-License-Identifier: MIT */
/* What whoever started us wants of signals. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* nohup(1), or a script's "&": it stays ignored. */
static inline bool signals_ignored(int number)
{
	struct sigaction action;
	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

#endif
