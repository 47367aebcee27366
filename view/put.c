/* SPDX-License-Identifier: MIT */
/*
 * Numbers and names as every format wants them. printf's %f follows the locale, and a decimal
 * comma breaks SVG and JSON: so numbers are made of integers here.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "view/view.h"

void view_put_fixed(struct strbuf *out, double value, int decimals)
{
	static const int64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
	if (decimals < 0 || decimals > 6)
		decimals = 6;
	if (!isfinite(value) || fabs(value) > 1e12)
		value = 0;
	int64_t scaled = llround(value * (double)powers[decimals]);
	if (scaled < 0)
		strbuf_add_char(out, '-');
	scaled = llabs(scaled);
	strbuf_printf(out, "%" PRId64, scaled / powers[decimals]);
	if (decimals)
		strbuf_printf(out, ".%0*" PRId64, decimals, scaled % powers[decimals]);
}

void view_put_grouped(struct strbuf *out, uint64_t value)
{
	char digits[32];
	int size = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	for (int i = 0; i < size; i++) {
		if (i && (size - i) % 3 == 0)
			strbuf_add_char(out, ',');
		strbuf_add_char(out, digits[i]);
	}
}

void view_put_time(struct strbuf *out, uint64_t seconds)
{
	time_t when = (time_t)seconds;
	struct tm parts;
	char text[40];
	if (gmtime_r(&when, &parts) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts))
		strbuf_add_text(out, text);
	else
		strbuf_add_text(out, "1970-01-01T00:00:00Z");
}

void view_put_percent(struct strbuf *out, double part, double whole)
{
	double percent = whole > 0 ? part / whole * 100 : 0;
	int decimals = 1;
	for (double small = percent; decimals < 5 && small > 0 && small < 1; decimals++)
		small *= 10;
	view_put_fixed(out, percent, decimals);
	/* "0.1", not "0.10"; but "5.0" stays, so that columns of shares look alike. */
	for (; decimals > 1 && out->text[out->size - 1] == '0'; decimals--)
		out->text[--out->size] = '\0';
}

void view_put_clean(struct strbuf *out, const char *text)
{
	utf8_add_clean(out, text, strlen(text));
}

/* A backslash in figures: Perfetto 52 takes the quote behind two of them for an escaped one. */
void view_put_json(struct strbuf *out, const char *text)
{
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	view_put_clean(&clean, text);
	strbuf_add_char(out, '"');
	for (size_t i = 0; i < clean.size; i++) {
		const char c = clean.text[i];
		if (c == '<')
			strbuf_add_text(out, "\\u003c");
		else if (c == '\\')
			strbuf_add_text(out, "\\u005c");
		else if (c == '"')
			strbuf_add_text(out, "\\\"");
		else
			strbuf_add_char(out, c);
	}
	strbuf_add_char(out, '"');
}

void view_put_xml(struct strbuf *out, const char *text, size_t size)
{
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, text, size);
	for (size_t i = 0; i < clean.size; i++) {
		char c = clean.text[i];
		if (c == '&')
			strbuf_add_text(out, "&amp;");
		else if (c == '<')
			strbuf_add_text(out, "&lt;");
		else if (c == '>')
			strbuf_add_text(out, "&gt;");
		else if (c == '"')
			strbuf_add_text(out, "&quot;");
		else if (c == '\'')
			strbuf_add_text(out, "&#39;");
		else
			strbuf_add_char(out, c);
	}
}

/* Bytes and cells of the character at p, in valid UTF-8. From U+1000 on, most are wide. */
static size_t step(const char *p, size_t *cells)
{
	unsigned char lead = (unsigned char)*p;
	*cells = lead >= 0xe1 ? 2 : 1;
	return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

size_t view_text_cells(const char *text, size_t size)
{
	size_t total = 0, cells;
	for (size_t i = 0; i < size; total += cells)
		i += step(text + i, &cells);
	return total;
}

void view_put_xml_cut(struct strbuf *out, const char *text, size_t room)
{
	/* A cell takes at most four bytes, and a name may have a megabyte. */
	size_t size = strnlen(text, 4 * (room + 2));
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, text, size);
	size_t used = 0, cells, fits = 0;
	for (size_t i = 0; i < clean.size && used <= room; used += cells) {
		if (used + 1 <= room)
			fits = i; /* so much leaves a cell for the ellipsis */
		i += step(clean.text + i, &cells);
	}
	if (used <= room) {
		view_put_xml(out, clean.text, clean.size);
		return;
	}
	view_put_xml(out, clean.text, fits);
	strbuf_add_text(out, "\xe2\x80\xa6");
}
