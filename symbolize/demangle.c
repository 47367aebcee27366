/* SPDX-License-Identifier: MIT */
/*
 * From a linkage name to the name people wrote: "_ZN3foo3barIiEEvT_.cold" -> "foo::bar<int>".
 * libiberty does the languages. Its callback interface is used because names are hostile: a few
 * hundred bytes of back references can stand for terabytes of text, so the output is cut off
 * where it grows too long.
 */
#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "symbolize/internal.h"

enum { MAX_OUTPUT = 64 << 10 };

const char *intern_clean(struct interner *interner, const char *text, size_t size)
{
	bool plain = true;

	if (size > SYMBOLIZE_MAX_NAME)
		size = SYMBOLIZE_MAX_NAME;
	for (size_t i = 0; i < size && plain; i++)
		plain = text[i] >= ' ' && text[i] < 0x7f;
	if (plain)
		return intern_bytes(interner, text, size);
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, text, size);
	return intern_bytes(interner, clean.text, clean.size);
}

struct output {
	struct strbuf text;
	jmp_buf too_long;
};

static void collect(const char *text, size_t size, void *context)
{
	struct output *output = context;

	if (output->text.size + size > MAX_OUTPUT)
		longjmp(output->too_long, 1);
	strbuf_add(&output->text, text, size);
}

/*
 * Rust: a function's or trait object's type binds so many lifetimes, "FG" or "DG" and a number in
 * base 62 up to "_". libiberty counts them one by one, up to 2^64, even where none of them is
 * printed. Nobody writes thousands.
 */
static bool binds_too_many(const char *name)
{
	enum { MOST_DIGITS = 2 };
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (const char *at = name; (at = strpbrk(at, "DF")); at++) {
		const size_t count = at[1] == 'G' ? strspn(at + 2, digits) : 0;
		if (count > MOST_DIGITS && at[2 + count] == '_')
			return true;
	}
	return false;
}

/*
 * Without DMGL_PARAMS there are neither parameters nor a return type; without DMGL_VERBOSE Rust's
 * hash is left out.
 */
static bool run_demangler(struct output *output, const char *name, bool rust)
{
	strbuf_reset(&output->text);
	/* Printing keeps nothing on the heap (demangle.h), so that jumping out of it is safe. */
	if (setjmp(output->too_long))
		return false;
	const int done = rust ? rust_demangle_callback(name, DMGL_NO_OPTS, collect, output)
			      : cplus_demangle_v3_callback(name, DMGL_ANSI, collect, output);
	return done && output->text.size;
}

/* Where a clone's suffix starts: "foo.part.0.cold" -> 3; the whole size when there is none. */
static size_t size_without_suffix(const char *name)
{
	static const char *const words[] = {".cold",	 ".isra",    ".part",	    ".constprop",
					    ".lto_priv", "._omp_fn", ".localalias", ".llvm",
					    ".clone",	 ".resolver"};
	const char *dot = name;

	while ((dot = strchr(dot + 1, '.'))) {
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
			const size_t size = strlen(words[i]);
			if (!strncmp(dot, words[i], size) && (!dot[size] || dot[size] == '.'))
				return (size_t)(dot - name);
		}
	}
	return strlen(name);
}

/* "std::basic_string[abi:cxx11]" -> "std::basic_string" */
static void drop_abi_tags(struct strbuf *text)
{
	char *to = text->text;

	for (const char *from = text->text; *from;) {
		const char *end = strncmp(from, "[abi:", 5) ? NULL : strchr(from, ']');
		if (end)
			from = end + 1;
		else
			*to++ = *from++;
	}
	*to = '\0';
	text->size = (size_t)(to - text->text);
}

/* D: the parameters cannot be left out by an option; they are the last parentheses. */
static void drop_parameters(struct strbuf *text)
{
	int depth = 0;

	if (!text->size || text->text[text->size - 1] != ')')
		return;
	for (size_t i = text->size; i-- > 0;) {
		depth += (text->text[i] == ')') - (text->text[i] == '(');
		if (!depth) {
			text->size = i;
			text->text[i] = '\0';
			return;
		}
	}
}

static bool demangle_d(struct output *output, const char *name)
{
	_cleanup_free_ char *text = NULL;

	if (strlen(name) > 1024) /* its output is not streamed; names this long are rare */
		return false;
	text = dlang_demangle(name, DMGL_NO_OPTS);
	if (!text || strlen(text) > MAX_OUTPUT)
		return false;
	strbuf_reset(&output->text);
	strbuf_add_text(&output->text, text);
	drop_parameters(&output->text);
	return output->text.size;
}

static bool demangle(struct output *output, const char *name)
{
	_cleanup_free_ char *plain = NULL;

	if (strlen(name) >= SYMBOLIZE_MAX_NAME)
		return false;
	/* Rust: legacy names are C++'s with a hash ("17h0123456789abcdefE") and may hold dots. */
	if (((!strncmp(name, "_R", 2) && !binds_too_many(name)) || !strncmp(name, "_ZN", 3)) &&
	    run_demangler(output, name, true))
		return true;
	if (!strncmp(name, "_D", 2) && isdigit((unsigned char)name[2]))
		return demangle_d(output, name);
	if (strncmp(name, "_Z", 2) && strncmp(name, "_GLOBAL_", 8))
		return false;
	plain = strndup(name, strcspn(name, "."));
	if (!plain || !run_demangler(output, plain, false))
		return false;
	drop_abi_tags(&output->text);
	return output->text.size;
}

const char *symbolize_demangle(struct interner *interner, const char *linkage)
{
	struct output output;
	const char *name;

	if (linkage[0] != '_' && !strchr(linkage, '.'))
		return intern_clean(interner, linkage, strlen(linkage));
	strbuf_init(&output.text);
	if (demangle(&output, linkage))
		name = intern_clean(interner, output.text.text, output.text.size);
	else
		name = intern_clean(interner, linkage, size_without_suffix(linkage));
	strbuf_release(&output.text);
	return name;
}
