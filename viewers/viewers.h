/* SPDX-License-Identifier: MIT */
/* The formats of other programs' viewers, one writer a file. */
#ifndef VIEWERS_VIEWERS_H
#define VIEWERS_VIEWERS_H

#include "view/view.h"

profile_writer viewer_speedscope, viewer_firefox, viewer_trace, viewer_cpuprofile;
profile_writer viewer_pprof; /* fails where it was built without protobuf-c */

#endif
