/* SPDX-License-Identifier: MIT */
/* Which reader a file is for. */
#include "read/internal.h"

#include <string.h>

static bool begins(const char *bytes, size_t size, const char *with)
{
	return size >= strlen(with) && memcmp(bytes, with, strlen(with)) == 0;
}

/* A protobuf has its fields in any order, but among its first tags and lengths are bytes that no
 * text has. */
static bool is_text(const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)bytes[i] < ' ' && !strchr("\t\n\r\f\033", bytes[i]))
			return false;
	return !memchr(bytes, '\0', size);
}

static enum read_kind kind_of(struct input *input)
{
	enum { ENOUGH = 64 };
	const char *bytes;
	const size_t size = input_peek(input, ENOUGH, &bytes);
	if (begins(bytes, size, "pdraw "))
		return READ_CAPTURE;
	if (begins(bytes, size, "{\"type\":\"meta\"") || begins(bytes, size, "{\"type\": \"meta\""))
		return READ_JSONL;
	if (size > 0 && (bytes[0] == '{' || bytes[0] == '['))
		return READ_JSON;
	return is_text(bytes, size) ? READ_FOLDED : READ_PPROF;
}

static bool read_as(struct reading *reading, enum read_kind kind, struct error *error)
{
	switch (kind) {
	case READ_FOLDED:
		return read_folded(reading, error);
	case READ_JSONL:
		return read_jsonl(reading, error);
	case READ_JSON:
		return read_json(reading, error);
	case READ_PPROF:
		return read_pprof(reading, error);
	case READ_CAPTURE:
		break;
	}
	return error_set(error, ERROR_UNSUPPORTED,
			 "%.120s: raw samples, which are read twice: give the file",
			 reading->input->name);
}

bool read_profile(const char *path, struct interner *strings, struct profile *profile,
		  enum read_kind *kind, const char **note, struct error *error)
{
	struct input input;
	*kind = READ_FOLDED;
	*note = NULL;
	if (!input_open(&input, path, error))
		return false;
	profile_init(profile, strings);
	struct reading reading = {.profile = profile, .strings = strings, .input = &input};
	*kind = kind_of(&input);
	const bool well = read_as(&reading, *kind, error);
	if (well)
		reading_finish(&reading);
	else
		profile_release(profile);
	*note = reading.note;
	input_close(&input);
	return well;
}
