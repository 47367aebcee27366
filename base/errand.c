/* SPDX-License-Identifier: MIT */
#include "base/errand.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
	void (*work)(void *context); /* NULL: none */
	void *context;
	int os_errno;
} errand;
static _Thread_local bool has_no_rights;

static void *keep_rights(void *argument)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!errand.work)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		errno = 0;
		errand.work(errand.context);
		errand.os_errno = errno;
		pthread_mutex_lock(&lock);
		errand.work = NULL;
		pthread_cond_broadcast(&changed);
	}
	return argument;
}

bool errand_begin(void)
{
	pthread_t thread;
	const int failure = pthread_create(&thread, NULL, keep_rights, NULL);
	errno = failure;
	return failure == 0 && pthread_detach(thread) == 0;
}

void errand_forgo(void)
{
	has_no_rights = true;
}

bool errand_is_needed(void)
{
	return has_no_rights;
}

void errand_run(void (*work)(void *context), void *context)
{
	if (!has_no_rights) {
		work(context);
		return;
	}
	pthread_mutex_lock(&one_at_a_time);
	pthread_mutex_lock(&lock);
	errand.work = work;
	errand.context = context;
	pthread_cond_broadcast(&changed);
	while (errand.work)
		pthread_cond_wait(&changed, &lock);
	const int os_errno = errand.os_errno;
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&one_at_a_time);
	errno = os_errno;
}
