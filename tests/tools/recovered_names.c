/* SPDX-License-Identifier: MIT */
/*
 * recovered_names MODULE: for each address (hexadecimal, one a line) on stdin, what the ELF file's own
 * tables say of the function there: "ADDRESS START NAME MODULE EVIDENCE FLAGS" with tabs between
 * them, and "-" for what is not told. FLAGS: "?" a guess, "c" of Cython's, "h" a helper.
 *
 * recovered_names --lines MODULE: for each return address, "ADDRESS NAME FILE LINE" of the call.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbolize/symbolize.h"

static const char *const evidence_names[] = {
	[EVIDENCE_METHOD] = "method", [EVIDENCE_PROPERTY] = "property",
	[EVIDENCE_SLOT] = "slot",     [EVIDENCE_MODULE_SLOT] = "module",
	[EVIDENCE_EXPORT] = "export", [EVIDENCE_TRACEBACK] = "traceback",
};

static void print_names(struct symbolizer *symbolizer)
{
	uint64_t address;

	while (scanf("%" SCNx64, &address) == 1) {
		struct recovered_name recovered;
		if (symbolize_recovered_name(symbolizer, address, &recovered))
			printf("%" PRIx64 "\t%" PRIx64 "\t%s\t%s\t%s\t-%s%s%s\n", address,
			       recovered.start, recovered.name, recovered.module ? recovered.module : "-",
			       evidence_names[recovered.evidence], recovered.uncertain ? "?" : "",
			       recovered.cython ? "c" : "", recovered.helper ? "h" : "");
		else
			printf("%" PRIx64 "\t-\t-\t-\t-\t-\n", address);
	}
}

static void print_lines(struct symbolizer *symbolizer)
{
	uint64_t address;

	while (scanf("%" SCNx64, &address) == 1) {
		struct symbolize_result result;
		symbolize_pc(symbolizer, address, false, 0, &result);
		const struct symbolize_frame none = {.name = NULL};
		const struct symbolize_frame *frame =
			result.count ? &result.frames[result.count - 1] : &none;
		printf("%" PRIx64 "\t%s\t%s\t%d\n", address, frame->name ? frame->name : "-",
		       frame->file ? frame->file : "-", frame->line);
	}
}

int main(int argc, char **argv)
{
	const bool lines = argc == 3 && strcmp(argv[1], "--lines") == 0;
	if (argc != 2 + lines)
		return 2;
	const char *path = argv[argc - 1];
	setenv("XDG_CACHE_HOME", "/nonexistent", 1); /* what is found now, not what was before */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct symbolize_module module = {.path = path, .fd = fd, .root_fd = -1};
	struct interner *strings = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(strings);
	struct error error;
	const bool opened = symbolizer_open(symbolizer, &module, &error);

	if (opened && lines)
		print_lines(symbolizer);
	else if (opened)
		print_names(symbolizer);
	else
		fprintf(stderr, "%s\n", error.message);
	symbolizer_free(symbolizer);
	interner_free(strings);
	return !opened;
}
