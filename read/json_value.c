/* SPDX-License-Identifier: MIT */
/* Members of JSON objects, each with its type and range. null is as good as none. */
#include <stdlib.h>
#include <string.h>

#include "read/internal.h"

static const json_t *member(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_null(value) ? NULL : value;
}

bool json_get_text(struct reading *reading, const json_t *object, const char *key,
		   const char **text)
{
	const json_t *value = member(object, key);
	if (!value)
		return true;
	if (!json_is_string(value))
		return false;
	*text = reading_text(reading, json_string_value(value), json_string_length(value));
	return true;
}

bool json_get_number(const json_t *object, const char *key, uint64_t most, uint64_t *number)
{
	const json_t *value = member(object, key);
	if (!value)
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > most)
		return false;
	*number = (uint64_t)json_integer_value(value);
	return true;
}

bool json_get_real(const json_t *object, const char *key, double most, double *number)
{
	const json_t *value = member(object, key);
	if (!value)
		return true;
	const double real = json_number_value(value);
	if (!json_is_number(value) || !(real >= 0 && real <= most))
		return false;
	*number = real;
	return true;
}

bool json_get_bool(const json_t *object, const char *key, bool *truth)
{
	const json_t *value = member(object, key);
	if (!value)
		return true;
	*truth = json_is_true(value);
	return json_is_boolean(value);
}

bool json_get_hex(const json_t *object, const char *key, bool *known, uint64_t *number)
{
	const json_t *value = member(object, key);
	*known = value != NULL;
	if (!value)
		return true;
	const char *text = json_string_value(value);
	if (!text || strncmp(text, "0x", 2) != 0 || strlen(text) > 18 || !text[2] ||
	    text[2 + strspn(text + 2, "0123456789abcdefABCDEF")])
		return false;
	*number = strtoull(text, NULL, 16);
	return true;
}

bool json_get_kind(struct reading *reading, const json_t *object, enum frame_kind *kind)
{
	const char *name = NULL;
	if (!json_get_text(reading, object, "kind", &name) || !name)
		return false;
	for (unsigned i = 0; i < FRAME_KIND_COUNT; i++) {
		*kind = (enum frame_kind)i;
		if (strcmp(frame_kind_name(*kind), name) == 0)
			return true;
	}
	return false;
}

bool json_get_place(struct reading *reading, const json_t *object, struct frame *frame)
{
	bool has_offset;
	return json_get_text(reading, object, "module", &frame->module) &&
	       json_get_text(reading, object, "module_path", &frame->module_path) &&
	       json_get_text(reading, object, "build_id", &frame->build_id) &&
	       json_get_hex(object, "offset", &has_offset, &frame->offset) &&
	       json_get_hex(object, "function_offset", &frame->has_function,
			    &frame->function_offset);
}

bool json_get_facts(const json_t *object, struct frame *frame)
{
	return json_get_bool(object, "inlined", &frame->inlined) &&
	       json_get_bool(object, "guessed", &frame->guessed) &&
	       json_get_bool(object, "uncertain", &frame->uncertain) &&
	       json_get_bool(object, "estimated", &frame->estimated);
}

bool json_get_counts(const json_t *object, struct profile_counts *counts)
{
	for (size_t i = 0; i < PROFILE_COUNT_FIELDS; i++) {
		uint64_t value = 0;
		if (!json_get_number(object, profile_count_name(i), UINT64_MAX, &value))
			return false;
		profile_set_count(counts, i, value);
	}
	return true;
}
