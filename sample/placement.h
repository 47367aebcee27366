/* SPDX-License-Identifier: MIT */
/* The scheduling of our own threads. */
#ifndef SAMPLE_PLACEMENT_H
#define SAMPLE_PLACEMENT_H

#include <pthread.h>
#include <sched.h>

/* Lets the calling thread preempt others when it wakes. */
void placement_run_soon(void);

/* Pins the calling thread to one CPU. May run between samples, costs about 2 us. */
void placement_pin(int cpu);

/* Keeps another thread of ours off a CPU, if it is allowed on others. */
void placement_keep_off(pthread_t thread, const cpu_set_t *allowed, int cpu);

#endif
