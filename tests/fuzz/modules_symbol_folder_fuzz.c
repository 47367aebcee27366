/* SPDX-License-Identifier: MIT */
/*
 * A folder of symbols with files, folders and links of any names and contents. The input: entries
 * of a kind, a name's length and the name, a content's size of 16 bits and the content, which is
 * where a link leads to. Only files of that folder are given out, each with the ID that was asked
 * for; never what lies beside it.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "elf/notes.h"
#include "modules/module.h"
#include "tests/fuzz/fuzz.h"

enum { KIND_FILE, KIND_FOLDER, KIND_LINK, KINDS, MOST = 8, NAME_MOST = 24 };

struct made {
	ino_t files[MOST]; /* of the folder itself */
	size_t file_count;
	struct build_id ids[MOST];
	size_t id_count;
	int base, inside; /* folders: what is beside, what is given */
};

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *where)
{
	(void)status, (void)flag, (void)where;
	return remove(path);
}

static void put_file(int folder, const char *name, struct fuzz_input content, struct made *made)
{
	struct stat status;
	const int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	if (write(fd, content.at, content.size) != (ssize_t)content.size || fstat(fd, &status))
		abort();
	close(fd);
	const struct build_id id = elf_head_build_id(content.at, content.size);
	if (id.size)
		made->ids[made->id_count++] = id;
	if (folder != made->base)
		made->files[made->file_count++] = status.st_ino;
}

/* A name is one component; the last folder made is where the next ones are put. */
static void put_entry(struct fuzz_input *input, int *folder, struct made *made)
{
	const unsigned kind = fuzz_number(input, 1) % KINDS;
	char *name = fuzz_text(fuzz_part(input, fuzz_number(input, 1) % NAME_MOST));
	const struct fuzz_input content = fuzz_part(input, fuzz_number(input, 2));
	for (char *c = name; *c; c++)
		*c = *c == '/' ? '_' : *c;
	if (kind == KIND_FOLDER && *name && mkdirat(*folder, name, 0700) == 0) {
		const int below = openat(*folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below >= 0 && *folder != made->inside)
			close(*folder);
		*folder = below >= 0 ? below : *folder;
	} else if (kind == KIND_LINK && *name) {
		char *to = fuzz_text(content);
		(void)!symlinkat(to, *folder, name);
		free(to);
	} else if (kind == KIND_FILE && *name) {
		put_file(*folder, name, content, made);
	}
	free(name);
}

static void find_all(const struct symbol_folder *folder, const struct made *made)
{
	for (size_t i = 0; i < made->id_count * 2; i++) {
		struct stat status;
		bool known = false;
		const int fd = symbol_folder_find(folder, &made->ids[i / 2], i % 2);
		if (fd < 0)
			continue;
		if (fstat(fd, &status) || !S_ISREG(status.st_mode))
			abort();
		for (size_t k = 0; k < made->file_count; k++)
			known |= made->files[k] == status.st_ino;
		if (!known)
			abort();
		close(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char base[] = "/tmp/symbol_folder_fuzz.XXXXXX", inside[sizeof(base) + 8];
	struct fuzz_input input = {data, size};
	struct made made = {0};
	struct symbol_folder *folder;
	struct error error;

	if (!mkdtemp(base))
		abort();
	snprintf(inside, sizeof(inside), "%s/in", base);
	made.base = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (made.base < 0 || mkdir(inside, 0700))
		abort();
	made.inside = open(inside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* The first one lies beside the folder. */
	put_file(made.base, "out", fuzz_part(&input, fuzz_number(&input, 2)), &made);
	int below = made.inside;
	for (size_t i = 0; i + 1 < MOST && input.size; i++)
		put_entry(&input, &below, &made);
	if (!symbol_folder_open(inside, &folder, &error))
		abort();
	find_all(folder, &made);
	symbol_folder_free(folder);
	if (below != made.inside)
		close(below);
	close(made.inside);
	close(made.base);
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
