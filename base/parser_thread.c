/* SPDX-License-Identifier: MIT */
#include "base/parser_thread.h"

#include <pthread.h>
#include <stddef.h>

#include "base/errand.h"

static struct {
	bool made, alone;
	struct sandbox_user user;
} plan;

bool parser_thread_plan(struct sandbox_user user)
{
	plan.user = user;
	plan.made = errand_begin();
	return plan.made;
}

void parser_thread_enter(void)
{
	if (!plan.made || errand_is_needed())
		return;
	errand_forgo();
	sandbox_enter(SANDBOX_NO_FILES, plan.user);
}

void parser_thread_enter_alone(void)
{
	if (plan.made)
		sandbox_enter(SANDBOX_NO_FILES, plan.user);
	plan.alone = plan.made;
	plan.made = false;
}

bool parser_thread_is_alone(void)
{
	return plan.alone;
}

struct parsing {
	void (*work)(void *context);
	void *context;
};

static void *parse(void *argument)
{
	const struct parsing *parsing = argument;
	parser_thread_enter();
	parsing->work(parsing->context);
	return NULL;
}

void parser_thread_run(void (*work)(void *context), void *context)
{
	struct parsing parsing = {work, context};
	pthread_t thread;
	if (!plan.made || errand_is_needed() || pthread_create(&thread, NULL, parse, &parsing))
		work(context);
	else
		pthread_join(thread, NULL);
}
