/* SPDX-License-Identifier: MIT */
/* The choices of how to sample that a person can make on the command line, as types. */
#ifndef COPY_OPTIONS_H
#define COPY_OPTIONS_H

/* Which evidence ties an OS thread to a Python thread state. */
enum join_method {
	JOIN_AUTO,	  /* all there is, compared with one another */
	JOIN_NATIVE_ID,	  /* PyThreadState.native_thread_id (3.11+) */
	JOIN_FS_BASE,	  /* fs_base is PyThreadState.thread_id */
	JOIN_RBX,	  /* RBX of the outermost frames is a thread_id */
	JOIN_PTHREAD_TID, /* struct pthread.tid behind the thread_id */
};

/* Who unwinds, and what. */
enum unwinder_choice {
	UNWINDER_SNAPSHOT, /* the copy, after the thread runs again */
	UNWINDER_PTRACE,   /* libunwind-ptrace on the stopped thread, with its own table lookup */
};

/* How a running thread is kept still while it is copied. */
enum stop_choice {
	STOP_AUTO,	/* as suits the rate, and can be */
	STOP_INTERRUPT, /* by an interrupt of its CPU where that can be, else as the next */
	STOP_CPU,	/* by its CPU where that can be, else as the next */
	STOP_PTRACE,	/* by ptrace */
};

/* Which threads a recording counts. */
enum sample_mode {
	MODE_RUNNING, /* those on a CPU, or waiting for one */
	MODE_WALL,    /* all, idle ones too */
	MODE_CPU,     /* as running, each sample with the CPU time that its thread has used */
};

#endif
