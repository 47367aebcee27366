/* SPDX-License-Identifier: MIT */
/* --open: shows a file in the user's browser. */
#ifndef SRC_BROWSER_H
#define SRC_BROWSER_H

#include "base/error.h"
#include "src/file_server.h"
#include "src/options.h"

/*
 * Shows one output (options_browsable) in a browser, which is started as the user who called
 * sudo(8), if one did, and not waited for. A Firefox profile is shown by that program's page, which
 * fetches it from *server: to be waited for, in any case. ABSENT: there is no program that could
 * (xdg-open).
 */
bool MUST_CHECK browser_show(const struct options_output *output, struct file_server *server,
			     struct error *error);

#endif
