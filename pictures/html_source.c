/* SPDX-License-Identifier: MIT */
/*
 * Source texts for the page's lines: of those files that can be read now, those with most samples
 * first, as many as there is room for. Their names come from the process, so they are opened as
 * files/foreign_file.h has it: what its user may read, in its root. Text only; what turns the order
 * of characters around is shown as an escape, as in names.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "pictures/html.h"

enum { TAB = 8, LONGEST_LINE = 1000 };

struct file {
	const char *path; /* interned */
	uint64_t samples; /* that passed through it, for each frame */
};

struct files {
	struct table numbers; /* (path, 0) -> index */
	struct file *list;
	size_t count, capacity;
};

static void add_file(struct files *files, const char *path, uint64_t samples)
{
	uint32_t number;
	if (!table_find(&files->numbers, (uintptr_t)path, 0, &number)) {
		number = (uint32_t)files->count;
		files->list = alloc_room(files->list, &files->capacity, files->count + 1,
					 sizeof(*files->list));
		files->list[files->count++] = (struct file){.path = path};
		table_put(&files->numbers, (uintptr_t)path, 0, number);
	}
	files->list[number].samples += samples;
}

/* Only those with lines; a relative name says nothing about where. */
static void collect(struct files *files, const struct html_tree *tree)
{
	const struct view *view = tree->view;
	for (size_t i = 1; i < tree->count; i++) {
		const uint32_t node = tree->nodes[i].node;
		if (node == HTML_SMALLER)
			continue;
		const struct frame *frame = &view->profile->frames[view->nodes[node].frame];
		if (frame->file && frame->file[0] == '/' && frame->line > 0 &&
		    strlen(frame->file) < PATH_MAX)
			add_file(files, frame->file, view->totals[node]);
	}
}

static int heaviest_first(const void *a, const void *b)
{
	const struct file *one = a, *two = b;
	if (one->samples != two->samples)
		return one->samples > two->samples ? -1 : 1;
	return strcmp(one->path, two->path);
}

/* The whole file, if it is text and no longer than `most`. */
static bool read_text(int fd, size_t most, struct strbuf *text)
{
	char chunk[1 << 14];
	for (;;) {
		ssize_t size = read(fd, chunk, sizeof(chunk));
		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0 || text->size + (size_t)size > most)
			return false;
		if (size == 0)
			return true;
		if (memchr(chunk, '\0', (size_t)size))
			return false;
		strbuf_add(text, chunk, (size_t)size);
	}
}

static void put_line(struct strbuf *out, const char *line, size_t size)
{
	struct strbuf _cleanup_strbuf_ wide;
	strbuf_init(&wide);
	for (size_t i = 0; i < size && wide.size < LONGEST_LINE; i++) {
		if (line[i] == '\t')
			for (size_t room = TAB - wide.size % TAB; room; room--)
				strbuf_add_char(&wide, ' ');
		else
			strbuf_add_char(&wide, line[i]);
	}
	/* Its quotes are those of the whole text. */
	size_t start = out->size;
	html_put_text(out, wide.text, wide.size);
	memmove(out->text + start, out->text + start + 1, out->size - start - 2);
	out->size -= 2;
	out->text[out->size] = '\0';
}

static void put_lines(struct strbuf *out, const struct strbuf *text)
{
	const char *line = text->text, *end = text->text + text->size;
	while (line < end) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t size = (size_t)((newline ? newline : end) - line);
		put_line(out, line, size && line[size - 1] == '\r' ? size - 1 : size);
		if (!newline)
			return;
		if (newline + 1 < end)
			strbuf_add_text(out, "\\n");
		line = newline + 1;
	}
}

/* Later than it was recorded, a file may have other lines. */
static bool has_changed(const struct stat *status, const struct profile *profile)
{
	const uint64_t seconds = (uint64_t)status->st_mtim.tv_sec;
	const uint64_t changed = seconds * UINT64_C(1000000000) + (uint64_t)status->st_mtim.tv_nsec;
	return status->st_mtim.tv_sec > 0 && profile->start_time_ns &&
	       changed > profile->start_time_ns;
}

/* Appends one file; false when it cannot be read or is too long. */
static bool put_source(struct strbuf *out, const struct profile *profile, const char *path,
		       const struct view_options *options, size_t most,
		       struct html_strings *strings)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	_cleanup_close_ int fd = foreign_file_open(options->source_root, path);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) != 0 || status.st_size > (off_t)most ||
	    !read_text(fd, most, &text))
		return false;
	strbuf_add_text(out, "{\"file\":");
	html_put_number(out, html_string(strings, path));
	strbuf_printf(out, ",\"changed\":%s,\"text\":\"",
		      has_changed(&status, profile) ? "true" : "false");
	put_lines(out, &text);
	strbuf_add_text(out, "\"}");
	return true;
}

void html_put_sources(struct strbuf *out, const struct html_tree *tree,
		      const struct view_options *options, struct html_strings *strings)
{
	struct files files = {0};
	const size_t start = out->size;
	bool first = true;
	strbuf_add_text(out, "\"sources\":[");
	if (options->source == SOURCE_AUTO)
		collect(&files, tree);
	if (files.count)
		qsort(files.list, files.count, sizeof(*files.list), heaviest_first);
	for (size_t i = 0; i < files.count && i < HTML_MAX_FILES; i++) {
		const size_t used = out->size - start;
		const size_t room = used < HTML_MAX_SOURCES ? HTML_MAX_SOURCES - used : 0;
		const size_t before = out->size;
		if (!first)
			strbuf_add_text(out, ",\n");
		if (put_source(out, tree->view->profile, files.list[i].path, options,
			       room < HTML_MAX_SOURCE ? room : HTML_MAX_SOURCE, strings)) {
			first = false;
		} else {
			out->size = before;
			out->text[before] = '\0';
		}
	}
	strbuf_add_char(out, ']');
	table_release(&files.numbers);
	free(files.list);
}
