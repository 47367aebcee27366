/* SPDX-License-Identifier: MIT */
/* A thread whose stack is being replaced is copied again, some times, and not for ever. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "copy/copy.h"
#include "target/tracer.h"

enum { TRIES = 3 };

/* Two functions with nothing between them: `replacing` calls `copying`, which never ends. */
void replacing(void);
extern const char replacing_end[], copying[], copying_end[];
__asm__(".text\n"
	"replacing: call copying\n"
	"	    ud2\n"
	"replacing_end:\n"
	"	    .balign 64\n"
	"copying:   push $0\n"
	"1:	    pause\n"
	"	    jmp 1b\n"
	"copying_end:\n");

struct stage {
	pid_t pid;
	struct target *target;
	struct copy_means means;
	struct taker taker;
	struct copy_state state;
	struct raw_sample *raw;
};

static int set_up(void **state)
{
	static struct stage stage;
	int ready[2];
	char byte;
	*state = &stage;
	assert_int_equal(pipe(ready), 0);
	stage.pid = fork();
	if (stage.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "", 1) == 1)
			replacing();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	struct target_thread_files *files;
	assert_true(target_open(stage.pid, &stage.target, NULL));
	assert_true(target_thread_files_open(stage.target, stage.pid, &files, NULL));
	copy_state_init(&stage.state, stage.pid, stage.pid, files);
	stage.means.tracer = tracer_new(stage.target);
	assert_true(tracer_seize(stage.means.tracer, stage.pid, NULL));
	stage.taker = (struct taker){.means = &stage.means,
				     .target = stage.target,
				     .known = python_known_codes_new()};
	stage.raw = raw_sample_new();
	return 0;
}

static int tear_down(void **state)
{
	struct stage *stage = *state;
	raw_sample_free(stage->raw);
	python_known_codes_free(stage->taker.known);
	copy_state_release(&stage->state);
	tracer_free(stage->means.tracer);
	target_free(stage->target);
	kill(stage->pid, SIGKILL);
	waitpid(stage->pid, NULL, __WALL);
	return 0;
}

/* How often it was stopped for one sample, where that code replaces stacks. */
static uint64_t stops(struct stage *stage, const void *begin, const void *end)
{
	const uint64_t before = stage->means.stopped;
	atomic_store(&stage->state.advice.switches[1].begin, (remote_addr)(uintptr_t)begin);
	atomic_store(&stage->state.advice.switches[1].end, (remote_addr)(uintptr_t)end);
	assert_int_equal(copy_running(&stage->taker, &stage->state, stage->raw), COPY_OK);
	return stage->means.stopped - before;
}

static void what_replaces_the_stack_is_waited_for(void **state)
{
	struct stage *stage = *state;
	/* It may not have got there yet. */
	while (stops(stage, copying, copying_end) != TRIES)
		continue;
	assert_int_equal(stops(stage, copying, copying_end), TRIES);
	assert_int_equal(stops(stage, (const char *)replacing, replacing_end), TRIES);
	const uint64_t pc = stage->raw->registers.value[REGISTER_RIP];
	assert_in_range(pc, (uintptr_t)copying, (uintptr_t)copying_end - 1);
}

static void no_other_code_is(void **state)
{
	struct stage *stage = *state;
	assert_int_equal(stops(stage, NULL, NULL), 1);
	assert_int_equal(stops(stage, copying, copying), 1);
	assert_int_equal(stops(stage, copying_end, copying_end + 64), 1);
	assert_int_equal(stops(stage, replacing_end, copying), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_replaces_the_stack_is_waited_for),
		cmocka_unit_test(no_other_code_is),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
