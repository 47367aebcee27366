/* SPDX-License-Identifier: MIT */
/* Judges JSON text by a schema file with python3-jsonschema; skips where that is not installed. */
#ifndef TESTS_UNIT_OUTPUT_SCHEMA_H
#define TESTS_UNIT_OUTPUT_SCHEMA_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/strbuf.h"

#define SCHEMA_COMMAND \
	"import sys, json\n" \
	"try: import jsonschema\n" \
	"except ImportError: sys.exit(77)\n" \
	"jsonschema.Draft7Validator.check_schema(json.load(open(sys.argv[1])))\n" \
	"jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])))\n"

/* The test runs in the source folder, or SOURCE_DIR says where that is. */
static inline void check_schema(const char *schema, const struct strbuf *text)
{
	const char *folder = getenv("SOURCE_DIR");
	char path[4096], command[8192];
	snprintf(path, sizeof(path), "%s/%s", folder ? folder : ".", schema);
	snprintf(command, sizeof(command), "python3 -c '%s' '%s'", SCHEMA_COMMAND, path);
	FILE *pipe = popen(command, "w");
	assert_non_null(pipe);
	assert_int_equal(fwrite(text->text, 1, text->size, pipe), text->size);
	int status = pclose(pipe);
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) {
		print_message("skipped: python3-jsonschema is not installed\n");
		skip();
	}
	assert_int_equal(status, 0);
}

#endif
