/* SPDX-License-Identifier: MIT */
/*
 * Long template arguments left out of a name, for people:
 *     std::vector<int, std::allocator<int> >::push_back    std::vector<...>::push_back
 *     shop::Box<int>::get                                  as it is
 *     <alloc::vec::Vec<T> as core::ops::Drop>::drop        as it is: the type itself, in Rust
 * A '<' is one of arguments only behind a name (or Rust's "::"): "<module>", "operator<<" and
 * "f.<locals>.g" stay. A name whose brackets do not match stays from there on.
 */
#include <ctype.h>
#include <string.h>

#include "base/strbuf.h"
#include "profile/profile.h"

enum { LONGEST_SHOWN = 24 };

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* How many characters of "<", "<<=", "->" ... are behind "operator", or 0. */
static size_t operator_size(const char *name, const char *at)
{
	static const char word[] = "operator";
	const size_t size = sizeof(word) - 1;

	if ((size_t)(at - name) < size || memcmp(at - size, word, size) != 0 ||
	    ((size_t)(at - name) > size && in_word(at[-(ptrdiff_t)size - 1])))
		return 0;
	return strspn(at, "<>=-*");
}

/* Behind the bracket that closes the one at `open`; NULL: there is none. */
static const char *closing(const char *name, const char *open)
{
	size_t depth = 0;

	for (const char *at = open; *at; at++) {
		const size_t skipped = operator_size(name, at);
		if (skipped) {
			at += skipped - 1;
			continue;
		}
		if (*at == '<')
			depth++;
		else if (*at == '>' && at[-1] != '-' && --depth == 0)
			return at + 1;
	}
	return NULL;
}

/* Whether template arguments begin at this '<'. */
static bool are_arguments(const char *name, const char *at)
{
	if (at == name)
		return false;
	if (at - name > 2 && at[-1] == ':' && at[-2] == ':')
		return strncmp(at, "<impl ", 6) != 0;
	return in_word(at[-1]);
}

void short_name_add(struct strbuf *out, const char *name)
{
	for (const char *at = name; *at;) {
		const size_t raw = operator_size(name, at);
		const char *end = at + (raw ? raw : 1);
		if (!raw && *at == '<' && are_arguments(name, at)) {
			end = closing(name, at);
			if (!end)
				end = at + strlen(at);
			else if (end - at - 2 > LONGEST_SHOWN) {
				strbuf_add_text(out, "<...>");
				at = end;
				continue;
			}
		}
		strbuf_add(out, at, (size_t)(end - at));
		at = end;
	}
}
