/* SPDX-License-Identifier: MIT */
/*
 * The looks of the SVG: hue says the kind, lightness follows from the function's name alone, so
 * that a function has the same colour in every picture. Blue, yellow and orange against greys
 * and mauve: apart for colour-blind eyes, in lightness too. Text on every box has a contrast of
 * at least 4.5 to 1, in the light and in the dark (tests/svg computes it). Plain classes and
 * colours, no CSS variables: simple viewers know no more.
 */
#include <math.h>

#include "output/internal.h"

enum { SHADES = 6 };

struct shades {
	double hue, saturation, from, to; /* degrees, per cent, lightness in per cent */
};

static const struct {
	struct shades light, dark;
} paints[SVG_PAINTS] = {
	[FRAME_PYTHON] = {{211, 82, 68, 80}, {211, 58, 33, 43}},
	[FRAME_PYTHON_LIBRARY] = {{200, 48, 83, 90}, {203, 30, 26, 33}},
	[FRAME_CYTHON] = {{47, 95, 57, 72}, {45, 85, 21, 27}},
	[FRAME_NATIVE] = {{21, 90, 67, 78}, {18, 66, 32, 41}},
	[FRAME_INTERPRETER] = {{278, 38, 77, 86}, {278, 24, 35, 43}},
	[FRAME_KERNEL] = {{168, 42, 56, 67}, {168, 48, 19, 27}},
	[FRAME_IDLE] = {{220, 6, 82, 88}, {220, 6, 27, 33}},
	[FRAME_GUESSED] = {{335, 55, 79, 87}, {335, 32, 33, 41}},
	[FRAME_THREAD] = {{215, 22, 78, 85}, {215, 18, 29, 36}},
	[SVG_NOTE] = {{220, 8, 92, 92}, {220, 8, 22, 22}},
	[SVG_ROOT] = {{215, 16, 87, 87}, {215, 14, 25, 25}},
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
	".fg .quiet,.fg .status{fill:#57606a}.fg .rule{stroke:#d8dee4}\n"
	".fg g[data-n]:hover rect{stroke:#1b1f24;stroke-width:1}\n"
	".fg g[data-n]:focus rect{stroke:#0b0d10;stroke-width:2}\n"
	".fg .hit rect{fill:#f06ce4}\n"
	".fg .tools{color:#57606a}\n"
	".fg .tools input,.fg .tools button{background:#f6f8fa;color:#1b1f24;"
	"border-color:#c4ccd4}\n";

static const char dark_style[] =
	".fg{background:#15181c;color-scheme:dark}.fg .page{fill:#15181c}.fg text{fill:#f3f5f7}\n"
	".fg .quiet,.fg .status{fill:#a2abb5}.fg .rule{stroke:#30363d}\n"
	".fg g[data-n]:hover rect{stroke:#f3f5f7}.fg g[data-n]:focus rect{stroke:#fff}\n"
	".fg .hit rect{fill:#a32597}\n"
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

static void put_paint(struct strbuf *out, int paint, const struct shades *shades)
{
	for (int i = 0; i < SHADES; i++) {
		double lightness = shades->from + (shades->to - shades->from) * i / (SHADES - 1);
		double s = shades->saturation / 100, l = lightness / 100;
		strbuf_printf(out, ".fg .%c%d rect{fill:#%02x%02x%02x}", 'a' + paint, i,
			      channel(shades->hue, s, l, 0), channel(shades->hue, s, l, 8),
			      channel(shades->hue, s, l, 4));
	}
	strbuf_add_char(out, '\n');
}

void output_svg_put_style(struct strbuf *out)
{
	strbuf_add_text(out, "<style>\n");
	strbuf_add_text(out, common_style);
	for (int i = 0; i < SVG_PAINTS; i++)
		put_paint(out, i, &paints[i].light);
	strbuf_add_text(out, light_style);
	strbuf_add_text(out, "@media (prefers-color-scheme:dark){\n");
	for (int i = 0; i < SVG_PAINTS; i++)
		put_paint(out, i, &paints[i].dark);
	strbuf_add_text(out, dark_style);
	strbuf_add_text(out, "}\n</style>\n");
}

void output_svg_put_class(struct strbuf *out, int paint, const char *name, size_t size)
{
	/* FNV-1a, 32 bits. */
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	strbuf_printf(out, "%c%u", 'a' + paint, (hash ^ hash >> 16) % SHADES);
}
