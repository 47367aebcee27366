/* SPDX-License-Identifier: MIT */
/*
 * Reads the heads of functions in a C file that Cython generated: what the function is called, and
 * whose code it holds. Looks at one line at a time, of which nothing is believed.
 */
#include "cython/internal.h"

#include <string.h>

static struct piece without_blanks(struct piece text)
{
	while (text.size && strchr(" \t\r", text.text[text.size - 1]))
		text.size--;
	return text;
}

/* A comment may follow: "proto" behind prototypes, "generator body" behind heads. */
static struct piece without_comment(struct piece text)
{
	if (!piece_ends(text, "*/"))
		return text;
	for (size_t size = text.size - 2; size >= 2; size--)
		if (text.text[size - 2] == '/' && text.text[size - 1] == '*')
			return without_blanks((struct piece){text.text, size - 2});
	return text;
}

/* The C name in front of the first '(' : "static PyObject *__pyx_pf_3mod_run(PyObject ...". */
static struct piece name_before_parenthesis(struct piece text)
{
	const char *parenthesis = memchr(text.text, '(', text.size);
	/* "x = call(y)" is no head, though it may be in column 0. */
	if (!parenthesis || memchr(text.text, '=', (size_t)(parenthesis - text.text)))
		return (struct piece){0};
	const char *end = parenthesis;
	while (end > text.text && end[-1] == ' ')
		end--;
	const char *start = end;
	while (start > text.text && start[-1] != ' ' && start[-1] != '*' && start[-1] != '\t')
		start--;
	return (struct piece){start, (size_t)(end - start)};
}

struct piece c_head_name(struct piece line)
{
	static const struct piece none = {"", 0};
	line = without_comment(without_blanks(line));
	if (!line.size || piece_ends(line, ";") || piece_ends(line, "*/") ||
	    piece_starts(line, "typedef"))
		return none;
	return name_before_parenthesis(line);
}

enum c_owner c_head_owner(struct piece name)
{
	static const char *const user[] = {"pf_",
					   "pw_",
					   "f_",
					   "gb_",
					   "Upf_",
					   "Upw_",
					   "Uf_",
					   "Ugb_",
					   "lambda_funcdef_",
					   "Ulambda_funcdef_",
					   "fuse_",
					   "pymod_exec_"};
	static const char *const slots[] = {"tp_",	"mp_",	    "sq_",	     "nb_",
					    "getprop_", "setprop_", "Utp_",	     "Ump_",
					    "Usq_",	"Unb_",	    "Ugetprop_",     "Usetprop_",
					    "bf_",	"am_",	    "specialmethod_"};
	if (piece_starts(name, "PyInit_"))
		return OWNER_USER;
	if (!piece_skip(&name, "__pyx_"))
		return piece_starts(name, "__Pyx") ? OWNER_OTHER : OWNER_SLOT;
	for (size_t i = 0; i < sizeof(user) / sizeof(*user); i++)
		if (piece_starts(name, user[i]))
			return OWNER_USER;
	/* "__pyx_t_4cppk_MyCpp::meth": a method of a cppclass. */
	if (piece_starts(name, "t_") && memmem(name.text, name.size, "::", 2))
		return OWNER_USER;
	for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++)
		if (piece_starts(name, slots[i]))
			return OWNER_SLOT;
	return OWNER_OTHER;
}

bool c_head_is_class(struct piece line)
{
	return piece_starts(line, "struct __pyx_t_") && piece_ends(without_blanks(line), "{");
}
