/* SPDX-License-Identifier: MIT */
/* Where control groups are mounted, and which is ours: lines of /proc/self/mountinfo and
 * /proc/self/cgroup. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "target/cgroup.h"
#include "target/mounts.h"

/* "/sys/fs/a\040b": a space, tab, newline or backslash is written as an octal number. */
static char *unescaped(struct mount_word word)
{
	char *text = alloc_zeroed(word.size + 1, 1);
	size_t to = 0;
	for (size_t i = 0; i < word.size; i++) {
		const char *at = word.text + i;
		if (word.size - i >= 4 && at[0] == '\\' && at[1] >= '0' && at[1] <= '3' &&
		    at[2] >= '0' && at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
			text[to++] = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + at[3] - '0');
			i += 3;
		} else {
			text[to++] = *at;
		}
	}
	return text;
}

bool target_cgroup_parse_mount(const char *line, struct target_cgroup_mount *mount)
{
	struct mount_line parsed;
	if (!mount_parse_line(line, &parsed))
		return false;
	const bool unified = mount_word_is(parsed.type, "cgroup2");
	if (!unified && !mount_word_is(parsed.type, "cgroup"))
		return false;
	*mount = (struct target_cgroup_mount){
		.unified = unified,
		.point = unescaped(parsed.point),
		.root = unescaped(parsed.root),
		.controllers = unescaped(parsed.options),
	};
	return true;
}

void target_cgroup_free_mount(struct target_cgroup_mount *mount)
{
	free(mount->point);
	free(mount->root);
	free(mount->controllers);
}

/* Whether one of the words of a list is that one. */
static bool lists(const char *list, const char *word, size_t size)
{
	while (*list) {
		const size_t length = strcspn(list, ",");
		if (length == size && strncmp(list, word, size) == 0)
			return true;
		list += length + (list[length] == ',');
	}
	return false;
}

/* Where the path is below what is mounted; NULL: it is not. */
static const char *below(const char *path, const char *root)
{
	const size_t size = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(path, root, size) != 0 || (path[size] && !strchr("/\n", path[size])))
		return NULL;
	/* Outside of our cgroup namespace. */
	if (strncmp(path + size, "/..", 3) == 0 && strchr("/\n", path[size + 3]))
		return NULL;
	return path + size;
}

/* "0::/user.slice", "4:cpu,cpuacct:/jobs", "1:name=systemd:/" */
char *target_cgroup_own(const char *line, const struct target_cgroup_mount *mount, bool *inner)
{
	const char *list = strchr(line, ':');
	const char *path = list ? strchr(list + 1, ':') : NULL;
	if (!path)
		return NULL;
	list++;
	path++;
	const size_t first = strcspn(list, ",:");
	const bool same = mount->unified ? strncmp(line, "0::", 3) == 0
					 : first > 0 && lists(mount->controllers, list, first);
	path = same ? below(path, mount->root) : NULL;
	if (!path)
		return NULL;
	struct strbuf text;
	strbuf_init(&text);
	strbuf_add_text(&text, mount->point);
	const size_t size = strcspn(path, "\n");
	*inner = size > 1;
	if (*inner)
		strbuf_add(&text, path, size);
	return text.text;
}
