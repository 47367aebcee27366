/* SPDX-License-Identifier: MIT */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. May run in the pause. */
uint64_t clock_now_ns(void);

/* CPU time that the calling thread has had, in nanoseconds. May run in the pause. */
uint64_t clock_thread_cpu_ns(void);

/* The CPU that it runs on, by the kernel: libc may have noted that of another thread whose place
 * this one has (base/guard.h). -1: not known. May run in the pause. */
int clock_cpu(void);

#endif
