/* SPDX-License-Identifier: MIT */
/*
 * symbolize_many COUNT FILE...: symbolizes COUNT addresses, spread over the code of all the files,
 * one file after the other, each closed before the next is opened. Prints the seconds it took, the
 * peak of the memory in MB, and how many addresses got a name and how many a line; on stderr what
 * debug information could not be used.
 */
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "symbolize/symbolize.h"

struct totals {
	size_t named, with_line;
};

/* The file's .text; false: it has none. */
static bool find_text(int fd, uint64_t *start, uint64_t *size)
{
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	*size = 0;
	if (elf_getshdrstrndx(elf, &names) == 0)
		while (!*size && (section = elf_nextscn(elf, section))) {
			const char *name = gelf_getshdr(section, &header)
						   ? elf_strptr(elf, names, header.sh_name)
						   : NULL;
			if (name && strcmp(name, ".text") == 0) {
				*start = header.sh_addr;
				*size = header.sh_size;
			}
		}
	elf_end(elf);
	return *size > 0;
}

static bool symbolize_file(struct symbolizer *symbolizer, const char *path, uint64_t count,
			   struct totals *totals)
{
	struct symbolize_module module = {
		.path = path, .root_fd = -1, .fd = open(path, O_RDONLY | O_CLOEXEC)};
	static struct symbolize_result result;
	struct error error;
	uint64_t start, size;
	bool well = module.fd >= 0 && find_text(module.fd, &start, &size) &&
		    symbolizer_open(symbolizer, &module, &error);

	for (uint64_t i = 0; well && i < count; i++) {
		symbolize_pc(symbolizer, start + size / count * i, true, 0, &result);
		totals->named += result.count && result.frames[result.count - 1].name;
		totals->with_line += result.count && result.frames[0].line > 0;
	}
	close(module.fd);
	return well;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct totals totals = {0};
	struct rusage usage;
	const uint64_t files = (uint64_t)argc - 2;
	const double begin = now();

	if (argc < 3) {
		fputs("usage: symbolize_many COUNT FILE...\n", stderr);
		return 2;
	}
	const uint64_t count = strtoull(argv[1], NULL, 10);
	for (uint64_t i = 0; i < files; i++)
		if (!symbolize_file(symbolizer, argv[2 + i],
				    (count * (i + 1) / files) - (count * i / files), &totals)) {
			fprintf(stderr, "symbolize_many: cannot read %s\n", argv[2 + i]);
			return 1;
		}
	struct strbuf problems;
	strbuf_init(&problems);
	symbolizer_add_problems(symbolizer, &problems);
	fprintf(stderr, "%s%s", problems.text, problems.size ? "\n" : "");
	strbuf_release(&problems);
	symbolizer_free(symbolizer);
	interner_free(interner);
	getrusage(RUSAGE_SELF, &usage);
	printf("%.3f s %ld MB %zu named %zu with a line\n", now() - begin, usage.ru_maxrss >> 10,
	       totals.named, totals.with_line);
	return 0;
}
