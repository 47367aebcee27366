/* SPDX-License-Identifier: MIT */
/* The formats of our own, as profile_writer and diff_writer, and the parts of a dump. */
#ifndef OUTPUT_INTERNAL_H
#define OUTPUT_INTERNAL_H

#include <jansson.h>

#include "output/output.h"
#include "view/diff.h"

profile_writer output_folded, output_jsonl, output_profile_json, output_markdown;
diff_writer output_diff_markdown, output_diff_folded;

/* ---- text.c, dump_json.c: parts of a dump --------------------------------------------------- */

const char *output_activity(enum thread_activity activity); /* "idle" */

/* "Thread 14990 (idle): "worker"", and the lines of its stack. */
void output_put_thread(struct strbuf *out, const struct dump_thread *thread, bool color);
void output_put_stack(struct strbuf *out, const struct dump_thread *thread,
		      const struct view_options *options);

/* Headings, when there is colour. */
void output_put_bold(struct strbuf *out, bool color);
void output_put_plain(struct strbuf *out, bool color);

json_t *output_json_dump_frame(const struct frame *frame);

#endif
