/* SPDX-License-Identifier: MIT */
/*
 * The root frames of threads, and what is shown of them: those of one name are alike, and many that
 * differ only in the number that threading has given them (Python/Lib/threading.py: "Thread-%d",
 * from 3.10 on "Thread-%d (target)").
 */
#include "frames/frames.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void thread_roots_release(struct thread_roots *roots)
{
	free(roots->roots);
	memset(roots, 0, sizeof(*roots));
}

static size_t add(struct thread_roots *roots, struct frame_table *frames, struct interner *strings,
		  pid_t tid)
{
	/* Numbers of threads are used again. */
	char id[64];
	snprintf(id, sizeof(id), "thread %d, the %zuth", (int)tid, roots->count);
	roots->roots =
		alloc_room(roots->roots, &roots->capacity, roots->count + 1, sizeof(*roots->roots));
	roots->roots[roots->count] = (struct thread_root){
		.frame = frame_table_mark(frames, intern_text(strings, id)),
		.tid = tid,
	};
	return roots->count++;
}

uint32_t thread_roots_name(struct thread_roots *roots, struct frame_table *frames,
			   struct interner *strings, size_t *index, pid_t tid, const char *name)
{
	if (*index == NO_ROOT)
		*index = add(roots, frames, strings, tid);
	roots->roots[*index].name = name;
	return roots->roots[*index].frame;
}

/* "Thread-N (serve)" for "Thread-12 (serve)"; NULL: it has a name of its own. */
static const char *numbered_name(struct interner *strings, const char *name)
{
	static const char start[] = "Thread-";
	const char *rest = name + sizeof(start) - 1;
	char text[PYTHON_NAME_SIZE + 1];
	if (strncmp(name, start, sizeof(start) - 1) != 0 || !isdigit((unsigned char)*rest))
		return NULL;
	while (isdigit((unsigned char)*rest))
		rest++;
	if (*rest && strncmp(rest, " (", 2) != 0)
		return NULL;
	snprintf(text, sizeof(text), "%sN%s", start, rest);
	return intern_text(strings, text);
}

static uint32_t count_of(const struct table *counts, const char *name, uint32_t process)
{
	uint32_t found = 0;
	table_find(counts, (uint64_t)(uintptr_t)name, process, &found);
	return found;
}

static void count(struct table *counts, const char *name, uint32_t process)
{
	table_put(counts, (uint64_t)(uintptr_t)name, process, count_of(counts, name, process) + 1);
}

/* What several threads are shown as; NULL: it is shown for itself. */
static const char *shared_name(const struct table *counts, struct interner *strings,
			       const struct thread_root *root)
{
	const char *const name = root->name;
	enum { MANY = 16 }; /* a pool has fewer, a server with a thread a request has more */
	const char *const numbered = numbered_name(strings, name);
	if (numbered && count_of(counts, numbered, root->process) > MANY)
		return numbered;
	return count_of(counts, name, root->process) > 1 ? name : NULL;
}

void thread_roots_show(const struct thread_roots *roots, struct frame_table *frames,
		       struct interner *strings, enum root_choice choice)
{
	struct table counts; /* of threads, by name */
	table_init(&counts);
	for (size_t i = 0; i < roots->count; i++) {
		const char *const numbered = numbered_name(strings, roots->roots[i].name);
		count(&counts, roots->roots[i].name, roots->roots[i].process);
		if (numbered)
			count(&counts, numbered, roots->roots[i].process);
	}
	for (size_t i = 0; i < roots->count; i++) {
		const struct thread_root *const root = &roots->roots[i];
		const char *const shared =
			choice == ROOTS_NAME ? shared_name(&counts, strings, root) : NULL;
		char text[PYTHON_NAME_SIZE + 40];
		if (shared)
			snprintf(text, sizeof(text), "thread \"%s\"", shared);
		else
			snprintf(text, sizeof(text), "thread %d \"%s\"", (int)root->tid,
				 root->name);
		frames->frames[root->frame].shown = intern_text(strings, text);
	}
	table_release(&counts);
}
