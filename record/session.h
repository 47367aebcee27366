/* SPDX-License-Identifier: MIT */
/* What is asked of a look, a recording or a replay. */
#ifndef RECORD_SESSION_H
#define RECORD_SESSION_H

#include <stdbool.h>

#include "copy/options.h"
#include "profile/profile.h"

struct symbolize_fetch;
struct symbol_folder;

struct session_options {
	bool native;	     /* native frames merged with the Python frames */
	bool wall;	     /* threads that are not running, too */
	bool gil_only;	     /* only the thread that holds the GIL */
	bool cpu;	     /* samples count by the CPU time that their threads have used */
	bool internals;	     /* keep the interpreter's own frames */
	bool native_threads; /* threads that Python does not know */
	bool nonblocking;    /* never stop a thread, trace nothing; Python frames only */
	bool python_only;    /* what is not Python is not looked at */
	bool subprocesses;   /* recording: what they have started, and start, too */
	enum root_choice by_thread;
	bool kernel; /* what a blocked thread waits in */
	enum join_method join;
	enum unwinder_choice unwinder;
	enum stop_choice stop;
	const pid_t *threads; /* only these OS threads; count 0: all */
	size_t thread_count;
	bool timed;			     /* the profile has a timeline */
	double rate;			     /* Hz */
	double duration;		     /* seconds; 0: until it is stopped */
	const char *capture;		     /* file for raw samples; NULL: none */
	bool hide_files;		     /* replay: as if no module's file were here */
	const struct symbol_folder *symbols; /* replay: files by build ID; NULL: none */
	const struct symbolize_fetch *fetch; /* from debuginfod's servers, once sampling is over */
};

#endif
