/* SPDX-License-Identifier: MIT */
/*
 * Functions that a tool has made around an author's function, and which of them are one call with
 * it: .omp_outlined..3, .omp_outlined._debug__.2     of clang, an OpenMP region with debug
 * information: the first one only calls the second one mod::Point::__pymethod_go__ of PyO3: unpacks
 * arguments for mod::Point::go pybind11::cpp_function::initialize<int (*&)(Point&),
 * ...>(...)::{lambda(...)#3}::_FUN of pybind11, of nanobind much the same: the type of what is
 * called is all that it has of it, which for the author's own lambda is its name
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "names/names.h"

/* ---- OpenMP ------------------------------------------------------------------------------- */

/* Between two regions there is always the run-time library: the next one inside is the same. */
static bool set_clang_region(struct interner *interner, const char *linkage,
			     struct names_author *author)
{
	if (!strstr(linkage, ".omp_outlined"))
		return false;
	author->function = intern_text(interner, ".omp_outlined");
	author->layer = strstr(linkage, "_debug__") != NULL;
	return true;
}

/* ---- PyO3 --------------------------------------------------------------------------------- */

/* "_ZN3mod5Point2go17h0123456789abcdefE", "_RNv..." */
static bool is_rust(const char *linkage)
{
	const size_t size = strcspn(linkage, ".");

	return strncmp(linkage, "_R", 2) == 0 ||
	       (strncmp(linkage, "_ZN", 3) == 0 && size > 20 && linkage[size - 1] == 'E' &&
		strncmp(linkage + size - 20, "17h", 3) == 0);
}

/* What is between them; NULL: they are not around it. */
static const char *between(struct interner *interner, const char *text, const char *first,
			   const char *last)
{
	const size_t size = strlen(text), before = strlen(first), after = strlen(last);

	if (size <= before + after || strncmp(text, first, before) ||
	    strcmp(text + size - after, last))
		return NULL;
	return intern_bytes(interner, text + before, size - before - after);
}

/* Of "get_x" nobody knows whether the author calls it so, or "x" with #[getter]. */
static bool is_authors(const char *name)
{
	return strncmp(name, "get_", 4) && strncmp(name, "set_", 4) &&
	       strncmp(name, "delete_", 7) && strncmp(name, "__default_", 10);
}

/* "mod::_::<impl mod::Point>::" -> "mod::Point::" */
static void add_path(struct strbuf *out, const char *path, size_t size)
{
	static const char first[] = "<impl ", last[] = ">::";
	const char *at = memmem(path, size, first, strlen(first));
	const size_t rest = at ? size - (size_t)(at + strlen(first) - path) : 0;

	if (!at || memmem(at, rest, " for ", 5) || rest < strlen(last) ||
	    memcmp(path + size - strlen(last), last, strlen(last))) {
		strbuf_add(out, path, size);
		return;
	}
	strbuf_add(out, at + strlen(first), rest - strlen(last));
	strbuf_add_text(out, "::");
}

static bool set_rust(struct interner *interner, const char *name, struct names_author *author)
{
	const char *leaf = name, *own;

	for (const char *at = name; (at = strstr(at, "::")); at += 2)
		leaf = at + 2;
	own = between(interner, leaf, "__pymethod_", "__");
	if (!own)
		own = between(interner, leaf, "__pyfunction_", "");
	author->function = name;
	author->layer = 1;
	if (!own || !is_authors(own))
		return true;
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	add_path(&text, name, (size_t)(leaf - name));
	strbuf_add_text(&text, own);
	author->name = author->function = intern_bytes(interner, text.text, text.size);
	author->layer = 0;
	return true;
}

/* ---- pybind11, nanobind -----------------------------------------------------------------------
 */

/* Where the argument that starts there ends: at a comma or a bracket that closes what is around it.
 */
static size_t argument_size(const char *text)
{
	size_t depth = 0, at = 0;

	for (; text[at]; at++) {
		if (strchr("<([{", text[at])) {
			depth++;
		} else if (strchr(">)]}", text[at]) && (at == 0 || text[at - 1] != '-')) {
			if (!depth)
				break;
			depth--;
		} else if (text[at] == ',' && !depth) {
			break;
		}
	}
	return at;
}

/* The argument of that number behind the bracket; size 0: there is none. */
static const char *argument(const char *text, int number, size_t *size)
{
	for (; number > 0; number--) {
		text += argument_size(text);
		if (*text != ',')
			break;
		text += 1 + (text[1] == ' ');
	}
	*size = number ? 0 : argument_size(text);
	if (text[*size] != ',' && text[*size] != '>')
		*size = 0; /* cut off */
	return text;
}

/* What follows the bracket that closes the arguments; NULL: none does. */
static const char *behind_arguments(const char *text)
{
	text += argument_size(text);
	while (*text == ',') {
		text++;
		text += argument_size(text);
	}
	return *text == '>' ? text + 1 : NULL;
}

/* Through a pointer to a method it is called by a lambda of pybind11's own:
 * "pybind11::cpp_function::initialize<int, Point>(int (Point::*)())::{lambda(Point*)#1}". */
static const char *own_callee(const char *callee, size_t *size)
{
	static const char *const starts[] = {"pybind11::cpp_function::initialize<",
					     "pybind11::cpp_function::cpp_function<"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		const size_t length = strlen(starts[i]);
		if (*size <= length || strncmp(callee, starts[i], length))
			continue;
		const char *behind = behind_arguments(callee + length);
		*size = behind && *behind == '(' ? argument_size(behind + 1) : 0;
		return behind + 1;
	}
	return callee;
}

/* "int (*&)(int)" -> "int (*)(int)", "void f()::{lambda(int)#1}&" -> without "&" */
static void add_callee(struct strbuf *out, const char *callee, size_t size)
{
	while (size && (callee[size - 1] == '&' || callee[size - 1] == ' '))
		size--;
	for (size_t i = 0; i < size; i++) {
		strbuf_add_char(out, callee[i]);
		if (size - i >= 4 && memcmp(callee + i, "(*&)", 4) == 0) {
			strbuf_add_text(out, "*)");
			i += 3;
		}
	}
}

static bool ends(const char *text, const char *with)
{
	const size_t size = strlen(text), length = strlen(with);

	return size >= length && strcmp(text + size - length, with) == 0;
}

static bool set_bound(struct interner *interner, const char *name, struct names_author *author)
{
	static const struct {
		const char *start, *tool;
		int argument; /* that is called */
	} tools[] = {{"pybind11::cpp_function::initialize<", " [pybind11]", 0},
		     {"nanobind::detail::func_create<", " [nanobind]", 2}};

	if (!ends(name, "}::_FUN") && !ends(name, "}::__invoke"))
		return false;
	for (size_t i = 0; i < sizeof(tools) / sizeof(*tools); i++) {
		_cleanup_strbuf_ struct strbuf text;
		size_t size;
		strbuf_init(&text);
		if (strncmp(name, tools[i].start, strlen(tools[i].start)))
			continue;
		const char *callee =
			argument(name + strlen(tools[i].start), tools[i].argument, &size);
		if (size)
			callee = own_callee(callee, &size);
		if (!size)
			return false;
		add_callee(&text, callee, size);
		strbuf_add_text(&text, tools[i].tool);
		author->name = author->function = intern_bytes(interner, text.text, text.size);
		return true;
	}
	return false;
}

bool names_author(struct interner *interner, const char *linkage, const char *name,
		  struct names_author *author)
{
	*author = (struct names_author){0};
	if (set_clang_region(interner, linkage, author))
		return true;
	if (!name)
		return false;
	return is_rust(linkage) ? set_rust(interner, name, author)
				: set_bound(interner, name, author);
}
