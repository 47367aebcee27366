/* SPDX-License-Identifier: MIT */
/* A sample of a file of raw samples, as it was taken: records of docs/capture.md. */
#ifndef REPLAY_RAW_RECORD_H
#define REPLAY_RAW_RECORD_H

#include "capture/capture.h"

/* The ranges of memory that come next, added to raw; CORRUPT. */
bool MUST_CHECK raw_record_ranges(struct capture_reader *file, struct raw_sample *raw,
				  struct error *error);

/* The sample that the record is, of either version; runtime: the current one, NULL: none. CORRUPT.
 */
bool MUST_CHECK raw_record_read(struct capture_reader *file, struct line_memory *lines,
				const struct python_runtime *runtime, struct raw_sample *raw,
				struct error *error);

#endif
