/* SPDX-License-Identifier: MIT */
/* The regular expressions of the command line, which was parsed: so they are well formed. */
#include "src/filters.h"

#include "base/log.h"

static const regex_t *compile(const char *text, regex_t *regex)
{
	return text && regcomp(regex, text, REG_EXTENDED | REG_NOSUB) == 0 ? regex : NULL;
}

void filters_apply(const struct options *options, struct profile *profile)
{
	regex_t regexes[4];
	const struct profile_filter filter = {
		.focus = compile(options->writing.focus, &regexes[0]),
		.ignore = compile(options->writing.ignore, &regexes[1]),
		.include = compile(options->writing.include, &regexes[2]),
		.exclude = compile(options->writing.exclude, &regexes[3]),
	};
	const regex_t *const all[] = {filter.focus, filter.ignore, filter.include, filter.exclude};
	const uint64_t before = profile->counts.samples;
	if (!filter.focus && !filter.ignore && !filter.include && !filter.exclude)
		return;
	profile_filter(profile, &filter);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i])
			regfree(&regexes[i]);
	if (before && !profile->counts.samples)
		log_warning(
			"no samples: none of %llu is of a stack that --focus and --ignore leave",
			(unsigned long long)before);
	else if (filter.focus || filter.ignore)
		log_info("%llu of %llu samples are of such stacks",
			 (unsigned long long)profile->counts.samples, (unsigned long long)before);
}
