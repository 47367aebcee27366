/* SPDX-License-Identifier: MIT */
/* What the files of frames/ share. */
#ifndef FRAMES_INTERNAL_H
#define FRAMES_INTERNAL_H

#include "base/strbuf.h"
#include "frames/frames.h"
#include "symbolize/symbolize.h"

/* ---- c_functions.c -------------------------------------------------------------------------- */

/* Whether a function that is stated so is, and appends the name it is shown by: "math.sqrt". */
bool c_function_is_shown(const struct recovered_name *recovered);
void c_function_name(const struct recovered_name *recovered, struct strbuf *name);

/* What symbolize/ is to open; target NULL: none, the module's file was found on this machine. */
struct symbolize_module module_to_symbolize(const struct module *module,
					    const struct target *target);

#endif
