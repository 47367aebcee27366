/* SPDX-License-Identifier: MIT */
/* Text from a hostile process made fit to print. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/strbuf.h"

/*
 * Appends the bytes to out as valid UTF-8: each bad byte, surrogate, U+FFFE and U+FFFF becomes
 * U+FFFD; C0 controls (tab and newline too), DEL, C1 controls and line separators become a space;
 * what is invisible or turns the order of text around (U+202E, U+200B, ...) is written as Python
 * does: "\u202e". Cleaning twice changes nothing more.
 */
void utf8_add_clean(struct strbuf *out, const void *bytes, size_t size);

/* Appends one code point as UTF-8 (a surrogate or out of range: U+FFFD). No other cleaning. */
void utf8_add_code_point(struct strbuf *out, uint32_t code_point);

#endif
