/* SPDX-License-Identifier: MIT */
/* What a core file's process ended by, in words. */
#ifndef PROFILE_DUMP_SIGNAL_H
#define PROFILE_DUMP_SIGNAL_H

#include "base/strbuf.h"
#include "profile/profile.h"

enum { DUMP_SIGNAL_SIZE = 32 };

/* "SIGSEGV" */
void dump_signal_name(const struct dump_signal *signal, char name[DUMP_SIGNAL_SIZE]);
bool dump_signal_is_fault(const struct dump_signal *signal); /* its address says where */
bool dump_signal_is_sent(const struct dump_signal *signal);  /* by its sender */

/* Appends "SIGSEGV at 0x10", "SIGABRT from process 77". */
void dump_signal_text(struct strbuf *out, const struct dump_signal *signal);

#endif
