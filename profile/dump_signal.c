/* SPDX-License-Identifier: MIT */
/* What a core file says of a signal, in words. */
#include "profile/dump_signal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

void dump_signal_name(const struct dump_signal *signal, char name[DUMP_SIGNAL_SIZE])
{
	const char *known = sigabbrev_np(signal->number);
	if (known)
		snprintf(name, DUMP_SIGNAL_SIZE, "SIG%s", known);
	else
		snprintf(name, DUMP_SIGNAL_SIZE, "signal %d", signal->number);
}

/* One that the kernel has sent because of an instruction, and that knows the address. */
bool dump_signal_is_fault(const struct dump_signal *signal)
{
	switch (signal->number) {
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
		return signal->code > 0 && signal->code != SI_KERNEL;
	default:
		return false;
	}
}

bool dump_signal_is_sent(const struct dump_signal *signal)
{
	return signal->code == SI_USER || signal->code == SI_TKILL || signal->code == SI_QUEUE;
}

void dump_signal_text(struct strbuf *out, const struct dump_signal *signal)
{
	char name[DUMP_SIGNAL_SIZE];
	dump_signal_name(signal, name);
	strbuf_add_text(out, name);
	if (dump_signal_is_fault(signal))
		strbuf_printf(out, " at 0x%llx", (unsigned long long)signal->address);
	else if (dump_signal_is_sent(signal))
		strbuf_printf(out, " from process %d", (int)signal->sender);
}
