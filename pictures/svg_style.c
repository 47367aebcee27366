/* SPDX-License-Identifier: MIT */
/*
 * The looks of the SVG: hue says the kind, lightness follows from the function's name alone, so
 * that a function has the same colour in every picture. Blue, yellow and orange against greys
 * and mauve: apart for colour-blind eyes, in lightness too. Text on every box has a contrast of
 * at least 4.5 to 1, in the light and in the dark (a test computes it). Plain classes and
 * colours, no CSS variables: simple viewers know no more.
 */
#include <math.h>

#include "pictures/svg.h"

enum { SHADES = 6 };

struct shades {
	double hue, saturation, from, to; /* degrees, per cent, lightness in per cent */
};

static const struct {
	struct shades light, dark;
} paints[SVG_PAINTS] = {
	[FRAME_PYTHON] = {{211, 82, 68, 80}, {211, 62, 56, 67}},
	[FRAME_PYTHON_LIBRARY] = {{200, 48, 83, 90}, {203, 26, 62, 70}},
	[FRAME_CYTHON] = {{47, 95, 57, 72}, {45, 72, 50, 60}},
	[FRAME_BUILTIN] = {{238, 62, 79, 88}, {238, 42, 66, 74}},
	[FRAME_NATIVE] = {{21, 90, 67, 78}, {20, 68, 55, 65}},
	[FRAME_INTERPRETER] = {{278, 38, 77, 86}, {278, 27, 61, 69}},
	[FRAME_KERNEL] = {{168, 42, 56, 67}, {168, 36, 44, 54}},
	[FRAME_IDLE] = {{220, 6, 82, 88}, {220, 5, 54, 61}},
	[FRAME_GUESSED] = {{335, 55, 79, 87}, {335, 38, 62, 70}},
	[FRAME_THREAD] = {{215, 22, 78, 85}, {215, 16, 55, 62}},
	[FRAME_GAP] = {{55, 12, 84, 90}, {55, 8, 55, 62}},
	[SVG_NOTE] = {{220, 8, 92, 92}, {220, 8, 52, 52}},
	[SVG_ROOT] = {{215, 16, 87, 87}, {215, 10, 56, 56}},
};

static const char common_style[] =
	".fg text{font-size:12px;fill:#1b1f24;"
	"font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',Verdana,sans-serif}\n"
	".fg .boxes text,.fg .status{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,"
	"monospace}\n"
	".fg .boxes text{pointer-events:none}\n"
	".fg .heading{font-size:17px;font-weight:600}\n"
	".fg .live g[data-n]{cursor:pointer}\n"
	".fg .up{opacity:.5}.fg .off{display:none}\n"
	".fg g[data-n]:focus{outline:none}\n"
	".fg .tools{display:flex;gap:8px;justify-content:flex-end;align-items:center;"
	"font:12px system-ui,'DejaVu Sans',sans-serif;padding:2px;white-space:nowrap}\n"
	".fg .tools input,.fg .tools button{font:inherit;height:26px;box-sizing:border-box;"
	"border-radius:6px;border:1px solid;padding:0 9px}\n"
	".fg .tools input{width:190px}.fg .tools button{cursor:pointer}\n"
	".fg .tools [hidden]{display:none}\n";

static const char light_style[] =
	".fg{background:#fff}.fg .page{fill:#fff}\n"
	".fg .head .quiet,.fg .head .status{fill:#57606a}\n"
	".fg g[data-n]:hover rect{stroke:#1b1f24;stroke-width:1}\n"
	".fg g[data-n]:focus rect{stroke:#0b0d10;stroke-width:2}\n"
	".fg .hit rect{fill:#f06ce4}\n"
	".fg .tools{color:#57606a}\n"
	".fg .tools input,.fg .tools button{background:#f6f8fa;color:#1b1f24;"
	"border-color:#c4ccd4}\n";

static const char dark_style[] =
	".fg{background:#15181c;color-scheme:dark}.fg .page{fill:#15181c}\n"
	".fg .head text{fill:#f3f5f7}.fg .empty{fill:#f3f5f7}.fg .boxes text{fill:#0b0d10}\n"
	".fg .head .quiet,.fg .head .status{fill:#a2abb5}\n"
	".fg g[data-n]:hover rect{stroke:#f3f5f7}.fg g[data-n]:focus rect{stroke:#fff}\n"
	".fg .hit rect{fill:#e86bdc}\n"
	".fg .tools{color:#a2abb5}\n"
	".fg .tools input,.fg .tools button{background:#22272e;color:#f3f5f7;"
	"border-color:#444c56}\n";

/* CSS Color Module Level 4, section 7: HSL to RGB. */
static int channel(double hue, double saturation, double lightness, double n)
{
	double k = fmod(n + hue / 30, 12);
	double a = saturation * fmin(lightness, 1 - lightness);
	double value = lightness - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1));
	return (int)lround(255 * value);
}

static void put_color(struct strbuf *out, const struct shades *shades, int shade)
{
	double lightness = shades->from + (shades->to - shades->from) * shade / (SHADES - 1);
	double s = shades->saturation / 100, l = lightness / 100;
	strbuf_printf(out, "#%02x%02x%02x", channel(shades->hue, s, l, 0),
		      channel(shades->hue, s, l, 8), channel(shades->hue, s, l, 4));
}

static void put_paint(struct strbuf *out, int paint, const struct shades *shades)
{
	for (int i = 0; i < SHADES; i++) {
		strbuf_printf(out, ".fg .%c%d rect{fill:", 'a' + paint, i);
		put_color(out, shades, i);
		strbuf_add_char(out, '}');
	}
	strbuf_add_char(out, '\n');
}

const char *svg_paint_name(int paint)
{
	return paint == SVG_NOTE ? "note" : paint == SVG_ROOT ? "root" : frame_kind_name(paint);
}

void svg_put_variables(struct strbuf *out, bool dark)
{
	for (int paint = 0; paint < SVG_PAINTS; paint++)
		for (int i = 0; i < SHADES; i++) {
			strbuf_printf(out, "--%s-%d:", svg_paint_name(paint), i);
			put_color(out, dark ? &paints[paint].dark : &paints[paint].light, i);
			strbuf_add_char(out, ';');
		}
}

void svg_put_style(struct strbuf *out)
{
	strbuf_add_text(out, "<style>\n");
	strbuf_add_text(out, common_style);
	for (int i = 0; i < SVG_PAINTS; i++)
		put_paint(out, i, &paints[i].light);
	/* A guess is seen as one without colours, too. */
	for (int i = 0; i < SHADES; i++)
		strbuf_printf(out, "%s.fg .%c%d rect", i ? "," : "", 'a' + FRAME_GUESSED, i);
	strbuf_add_text(out, "{stroke:#8a4a63;stroke-dasharray:3 2;stroke-width:.8}\n");
	strbuf_add_text(out, light_style);
	strbuf_add_text(out, "@media (prefers-color-scheme:dark){\n");
	for (int i = 0; i < SVG_PAINTS; i++)
		put_paint(out, i, &paints[i].dark);
	strbuf_add_text(out, dark_style);
	strbuf_add_text(out, "}\n</style>\n");
}

unsigned svg_shade(const char *name, size_t size)
{
	/* FNV-1a, 32 bits. */
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	return (hash ^ hash >> 16) % SHADES;
}

void svg_put_class(struct strbuf *out, int paint, const char *name, size_t size)
{
	strbuf_printf(out, "%c%u", 'a' + paint, svg_shade(name, size));
}
