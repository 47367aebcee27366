/* SPDX-License-Identifier: MIT */
/*
 * Samples: when to take one, the take itself, the merge of native and Python frames, and the
 * profile or dump that comes of it. What output/ needs to know stands in sample/profile.h.
 */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include "sample/profile.h"

#endif
