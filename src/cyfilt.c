/* SPDX-License-Identifier: MIT */
/* cyfilt: names of the C functions that Cython generates in, the author's names out, like c++filt.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cython/cython.h"
#include "src/report.h"
#include "symbolize/symbolize.h"

struct filter {
	const char *module, *extension;
	char **names; /* of the command line; NULL: standard input */
	struct interner *strings;
	struct cython_symbols *symbols;
};

static const struct argp_option arguments[] = {
	{"module", 'm', "NAME", 0, "The extension module that the names are of: pkg.mod", 0},
	{"so", 's', "FILE", 0,
	 "The extension module's file: its name and its symbols decide between the meanings that "
	 "one name alone may have",
	 0},
	{"help", 'h', NULL, 0, "Print this help and exit", -1},
	{"version", 'V', NULL, 0, "Print the version and exit", -1},
	{NULL, 0, NULL, 0, NULL, 0},
};

static error_t take_argument(int key, char *value, struct argp_state *state)
{
	struct filter *filter = state->input;
	switch (key) {
	case 'm':
		filter->module = value;
		return 0;
	case 's':
		filter->extension = value;
		return 0;
	case ARGP_KEY_ARGS:
		filter->names = state->argv + state->next;
		return 0;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case 'V':
		puts("cyfilt " VERSION);
		exit(EXIT_DONE);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The folders that it is in are its packages. */
static void name_module(struct filter *filter)
{
	_cleanup_free_ char *whole = realpath(filter->extension, NULL);
	filter->module = cython_module_of_path(filter->strings, whole ? whole : filter->extension);
}

static void add_symbol(void *context, const char *name)
{
	cython_symbols_add(context, name);
}

/* Reads the symbols of --so, also those of its debug file. */
static bool read_symbols(struct filter *filter, struct error *error)
{
	_cleanup_close_ int fd =
		foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT}, filter->extension);
	if (fd < 0)
		return error_set_errno(error, errno, "cannot open %s", filter->extension);
	const struct symbolize_module module = {.path = filter->extension, .fd = fd, .root_fd = -1};
	struct symbolizer *symbolizer = symbolizer_new(filter->strings);
	bool opened = symbolizer_open(symbolizer, &module, error);
	if (opened) {
		filter->symbols = cython_symbols_new();
		symbolizer_each_symbol(symbolizer, add_symbol, filter->symbols);
	}
	symbolizer_free(symbolizer);
	return opened;
}

/* A word of it is replaced where it is a name of Cython's; all else stands. */
static void filter_word(const struct filter *filter, char *word)
{
	const struct cython_name name =
		cython_demangle_in(filter->strings, filter->symbols, word, filter->module);
	fputs(name.kind == CYTHON_NOT || !name.name ? word : name.name, stdout);
}

static bool in_name(char c)
{
	return c == '_' || c == '.' || c == '$' || (c >= '0' && c <= '9') ||
	       ((c | 32) >= 'a' && (c | 32) <= 'z') || (unsigned char)c >= 0x80;
}

static void filter_line(const struct filter *filter, char *line)
{
	for (char *at = line; *at;) {
		char *end = at;
		while (in_name(*end))
			end++;
		if (end == at) {
			putchar(*at++);
			continue;
		}
		char after = *end;
		*end = '\0';
		filter_word(filter, at);
		*end = after;
		at = end;
	}
}

/* A line may hold anything, also NUL. */
static void filter_text(const struct filter *filter, char *text, size_t size)
{
	for (size_t at = 0; at < size; at++) {
		filter_line(filter, text + at);
		at += strlen(text + at);
		if (at < size)
			putchar('\0');
	}
}

static int run(struct filter *filter)
{
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	for (; filter->names && *filter->names; filter->names++) {
		filter_line(filter, *filter->names);
		putchar('\n');
	}
	ssize_t size;
	while (!filter->names && (size = getline(&line, &room, stdin)) >= 0) {
		filter_text(filter, line, (size_t)size);
		if (!isatty(STDOUT_FILENO))
			continue;
		fflush(stdout);
	}
	if (fflush(stdout) != 0 || ferror(stdout) || (!filter->names && ferror(stdin))) {
		log_error("%s", strerror(errno));
		return EXIT_IO;
	}
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	static const struct argp parser = {
		.options = arguments,
		.parser = take_argument,
		.args_doc = "[NAME...]",
		.doc = "Replaces the names that Cython generates by those that the author wrote: "
		       "in "
		       "each NAME, or in each line of the standard input.",
	};
	struct filter filter = {0};
	struct error error;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, ARGP_NO_HELP, NULL, &filter);
	filter.strings = interner_new();
	if (filter.extension && !filter.module)
		name_module(&filter);
	int status = EXIT_IO;
	if (filter.extension && !read_symbols(&filter, &error))
		log_error("%s", error.message);
	else
		status = run(&filter);
	cython_symbols_free(filter.symbols);
	interner_free(filter.strings);
	return status;
}
