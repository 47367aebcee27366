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
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "names/names.h"

enum { MAX_OUTPUT = 64 << 10 };

const char *intern_clean(struct interner *interner, const char *text, size_t size)
{
	bool plain = true;

	if (size > NAME_MAX_SIZE)
		size = NAME_MAX_SIZE;
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
	static const char *const words[] = {".cold",
					    ".isra",
					    ".part",
					    ".constprop",
					    ".lto_priv",
					    ".localalias",
					    ".llvm",
					    ".clone",
					    ".resolver",
					    "._omp_fn",
					    "._omp_cpyfn",
					    ".omp_outlined",
					    ".omp_outlined_debug__"};
	const char *dot = name;

	while ((dot = strchr(dot + 1, '.'))) {
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
			const size_t size = strlen(words[i]);
			if (strncmp(dot, words[i], size) == 0 && (!dot[size] || dot[size] == '.'))
				return (size_t)(dot - name);
		}
	}
	return strlen(name);
}

/*
 * What threads run of an OpenMP region: "f._omp_fn.0" (GCC), "f.omp_outlined" (LLVM 17), or of no
 * function's name at all: ".omp_outlined..3", ".omp_outlined._debug__.2", ".omp_task_entry..4".
 */
static bool is_openmp(const char *name)
{
	return strstr(name, "._omp_fn.") || strstr(name, "._omp_cpyfn.") ||
	       strstr(name, ".omp_outlined") || strncmp(name, ".omp_task_entry.", 16) == 0;
}

/* ".omp_outlined..3" -> "omp_outlined.3": which of the module's regions it is. */
static void add_nameless_region(struct strbuf *text, const char *name)
{
	const size_t word = strcspn(name + 1, ".");
	const char *number = strrchr(name, '.');

	strbuf_add(text, name + 1, word);
	if (isdigit((unsigned char)number[1]) && !number[1 + strspn(number + 1, "0123456789")])
		strbuf_add_text(text, number);
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

static bool demangle_start(struct output *output, const char *name, size_t size)
{
	_cleanup_free_ char *plain = strndup(name, size);

	return plain && run_demangler(output, plain, false);
}

static bool demangle(struct output *output, const char *name)
{
	if (strlen(name) >= NAME_MAX_SIZE)
		return false;
	/* Rust: legacy names are C++'s with a hash ("17h0123456789abcdefE") and may hold dots. */
	if (((strncmp(name, "_R", 2) == 0 && !binds_too_many(name)) ||
	     strncmp(name, "_ZN", 3) == 0) &&
	    run_demangler(output, name, true))
		return true;
	if (strncmp(name, "_D", 2) == 0 && isdigit((unsigned char)name[2]))
		return demangle_d(output, name);
	if (strncmp(name, "_Z", 2) && strncmp(name, "_GLOBAL_", 8))
		return false;
	/* A suffix begins with the first dot, unless a name has one: GCC's "._anon_183". */
	if (!demangle_start(output, name, strcspn(name, ".")) &&
	    !demangle_start(output, name, size_without_suffix(name)))
		return false;
	drop_abi_tags(&output->text);
	return output->text.size;
}

/*
 * libiberty cannot read all that GCC writes, as of lambdas in the arguments of templates. The name
 * of a function in no namespace comes first: "_ZL12parallel_forIZN..." -> "parallel_for<...>".
 */
static bool first_name(const char *linkage, struct strbuf *text)
{
	char *name;

	if (strncmp(linkage, "_Z", 2))
		return false;
	linkage += 2 + (linkage[2] == 'L');
	if (!isdigit((unsigned char)*linkage))
		return false;
	const unsigned long size = strtoul(linkage, &name, 10);
	/* Its parameters, or its arguments, follow: else it is cut off. */
	if (!size || size >= strlen(name) || (!isalpha((unsigned char)*name) && *name != '_'))
		return false;
	strbuf_reset(text);
	strbuf_add(text, name, size);
	if (name[size] == 'I')
		strbuf_add_text(text, "<...>");
	return true;
}

const char *names_demangle(struct interner *interner, const char *linkage)
{
	struct output output;
	const char *name;

	if (linkage[0] != '_' && !strchr(linkage, '.'))
		return intern_clean(interner, linkage, strlen(linkage));
	strbuf_init(&output.text);
	const bool openmp = is_openmp(linkage);
	if (!demangle(&output, linkage) && !first_name(linkage, &output.text)) {
		strbuf_reset(&output.text);
		if (openmp && linkage[0] == '.')
			add_nameless_region(&output.text, linkage);
		else
			strbuf_add(&output.text, linkage, size_without_suffix(linkage));
	}
	if (openmp)
		strbuf_add_text(&output.text, " [omp]");
	name = intern_clean(interner, output.text.text, output.text.size);
	strbuf_release(&output.text);
	return name;
}
