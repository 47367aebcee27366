/* SPDX-License-Identifier: MIT */
#include "src/apart.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/parser_thread.h"
#include "base/sandbox.h"
#include "base/signals.h"
#include "files/broker.h"
#include "files/broker_judge.h"
#include "files/fd_message.h"
#include "src/user.h"
#include "symbolize/symbolize.h"

static void add(const char ***paths, size_t *count, const char *path)
{
	if (path && strcmp(path, "-") != 0)
		(*paths)[(*count)++] = path;
}

/* All that the command line names. */
static void list_given(const struct apart *apart, struct broker_rules *rules)
{
	const struct options *options = apart->options;
	const struct target_core_options *core = &options->core;
	enum { OTHERS = 8 };
	const size_t most = options->file_count + apart->input_count + OTHERS;
	rules->given = alloc_zeroed(most, sizeof(*rules->given));
	for (size_t i = 0; i < options->file_count; i++)
		add(&rules->given, &rules->given_count, options->files[i]);
	for (size_t i = 0; i < apart->input_count; i++)
		add(&rules->given, &rules->given_count, apart->inputs[i]);
	add(&rules->given, &rules->given_count, core->path);
	add(&rules->given, &rules->given_count, core->program);
	add(&rules->given, &rules->given_count, core->sysroot);
	add(&rules->given, &rules->given_count, core->symbols);
	add(&rules->given, &rules->given_count, apart->symbols);
	rules->outputs = alloc_zeroed(OPTIONS_MAX_OUTPUTS + 1, sizeof(*rules->outputs));
	add(&rules->outputs, &rules->output_count, options->writing.capture);
	for (size_t i = 0; i < options->writing.output_count; i++)
		add(&rules->outputs, &rules->output_count, options->writing.outputs[i].path);
}

static bool start_broker(const struct apart *apart)
{
	static struct broker_rules rules;
	if (apart->options->log.no_sandbox)
		return false;
	tzset(); /* reads a file */
	rules = (struct broker_rules){
		.user = user_invoking(), .finish = apart->finish, .context = apart->context};
	list_given(apart, &rules);
	if (broker_judge_start(&rules))
		return true;
	log_verbose("files are read with all rights: %s", strerror(errno));
	return false;
}

/* The processes that keep what parsers have not. False: files are read as ever. */
static bool start_helpers(const struct apart *apart)
{
	if (apart->fetches && !symbolize_fetcher_start(!apart->options->log.no_sandbox))
		log_verbose("no server is asked for debug files: %s", strerror(errno));
	return start_broker(apart);
}

void apart_begin(const struct apart *apart)
{
	if (start_helpers(apart))
		sandbox_enter(SANDBOX_NO_FILES, user_of_parsing());
}

void apart_begin_live(const struct apart *apart)
{
	if (start_helpers(apart) && !parser_thread_plan(user_of_parsing()))
		log_verbose("files are parsed with all rights: %s", strerror(errno));
}

struct ending {
	sigset_t signals;
	int ends[2];
};

static void *pass_on(void *context)
{
	const struct ending *ending = context;
	int number;
	if (sigwait(&ending->signals, &number) == 0)
		shutdown(ending->ends[0], SHUT_RDWR);
	return NULL;
}

/* Signals that end what the broker does are sent to us. */
static void ask_to_finish(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	static struct ending ending;
	const struct broker_request request = {.op = BROKER_FINISH};
	pthread_t waits;
	sigemptyset(&ending.signals);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!signals_ignored(numbers[i]))
			sigaddset(&ending.signals, numbers[i]);
	if (!fd_message_pair(ending.ends)) {
		log_warning("nothing is opened: %s", strerror(errno));
		return;
	}
	pthread_sigmask(SIG_BLOCK, &ending.signals, NULL);
	if (pthread_create(&waits, NULL, pass_on, &ending) == 0)
		pthread_detach(waits);
	(void)broker_ask(&request, ending.ends[1], NULL);
}

void apart_finish(const struct apart *apart)
{
	if (!apart->finish)
		return;
	if (broker_is_used())
		ask_to_finish();
	else
		apart->finish(apart->context);
}
