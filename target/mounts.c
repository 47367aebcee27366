/* SPDX-License-Identifier: MIT */
/* The words of a line: they are found, not copied. */
#include "target/mounts.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

static struct mount_word next_word(const char **at)
{
	const struct mount_word word = {*at, strcspn(*at, " \n")};
	*at += word.size + (word.text[word.size] == ' ');
	return word;
}

/* "29 23 0:26 /root /point rw,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate" */
bool mount_parse_line(const char *line, struct mount_line *mount)
{
	unsigned major, minor;
	const char *at = line;
	next_word(&at);
	next_word(&at);
	const struct mount_word device = next_word(&at);
	mount->root = next_word(&at);
	mount->point = next_word(&at);
	const char *type = strstr(at, " - ");
	if (!type || !mount->point.size || sscanf(device.text, "%u:%u ", &major, &minor) != 2)
		return false;
	at = type + strlen(" - ");
	mount->type = next_word(&at);
	next_word(&at);
	mount->options = next_word(&at);
	mount->device = makedev(major, minor);
	return true;
}

bool mount_word_is(struct mount_word word, const char *text)
{
	return word.size == strlen(text) && strncmp(word.text, text, word.size) == 0;
}
