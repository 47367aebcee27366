/* SPDX-License-Identifier: MIT */
/* Profiles and their differences as a person looks at them: an SVG, and a page with all views. */
#ifndef PICTURES_PICTURES_H
#define PICTURES_PICTURES_H

#include "view/diff.h"
#include "view/view.h"

profile_writer picture_svg, picture_html;
diff_writer picture_diff_svg, picture_diff_html;

#endif
