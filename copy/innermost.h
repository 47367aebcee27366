/* SPDX-License-Identifier: MIT */
#ifndef COPY_INNERMOST_H
#define COPY_INNERMOST_H

#include "copy/raw_sample.h"

/*
 * What is known of a copy's native stack without unwinding it: of its innermost frame, which is
 * filled in and what `native` points to, and where the copy ends. May run in the pause.
 */
void raw_sample_native(const struct raw_sample *raw, struct python_native_frame *innermost,
		       struct python_native *native);

#endif
