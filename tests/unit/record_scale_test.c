/* SPDX-License-Identifier: MIT */
/* Work that must grow with the depth of a stack and not with its square: counted, not timed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "merge/internal.h"
#include "python/internal.h"
#include "copy/internal.h"
#include "record/internal.h"
#include "record/queue.h"

enum { FRAME = 0x100, BOTTOM = 0x100000 };

/* Who owns an activation. */
enum owner {
	EVERY_OTHER,   /* each second native frame */
	NOBODY,	       /* its record is not known */
	OTHER_STACK,   /* its record lies above the native stack */
	LOWER_STACK,   /* below it */
	INNERMOST_ALL, /* the innermost native frame */
	OWNERS
};

static remote_addr record_of(enum owner owner, size_t i)
{
	switch (owner) {
	case EVERY_OTHER:
		return BOTTOM + 2 * i * FRAME + 8;
	case OTHER_STACK:
		return (1ull << 40) + i * FRAME;
	case LOWER_STACK:
		return 8 + i % 1000;
	case INNERMOST_ALL:
		return BOTTOM + i % 32;
	default:
		return 0;
	}
}

/* How many looks at activations a merge of so many takes. */
static size_t looks_at(size_t count, enum owner owner, bool *salvaged)
{
	static const struct python_code code;
	struct unwind_stack native = {.frames = alloc_zeroed(2 * count, sizeof(*native.frames)),
				      .count = 2 * count,
				      .end = UNWIND_END_OUTERMOST};
	struct python_stack python = {
		.frames = alloc_zeroed(count, sizeof(*python.frames)),
		.count = count,
		.activations = alloc_zeroed(count, sizeof(*python.activations)),
		.activation_count = count,
	};
	struct module_table modules;
	module_table_init(&modules);
	for (size_t i = 0; i < 2 * count; i++)
		native.frames[i] = (struct unwind_frame){
			.pc = 1 + i, .sp = BOTTOM + i * FRAME, .cfa = BOTTOM + (i + 1) * FRAME};
	for (size_t i = 0; i < count; i++) {
		python.frames[i] = (struct python_frame){.code = &code, .line = 1};
		python.activations[i] = (struct python_activation){
			.record = record_of(owner, i), .first = (uint32_t)i, .count = 1};
	}
	static const struct module interpreter;
	const struct python_runtime runtime = {.module = &interpreter};
	struct eval_code eval = {0};
	struct merge_input input = {.native = &native,
				    .python = &python,
				    .runtime = &runtime,
				    .modules = &modules,
				    .code = &eval};
	struct merged_stack merged = {0};
	merge_stacks(&input, &merged);
	size_t python_frames = 0;
	for (size_t i = 0; i < merged.count; i++)
		python_frames += merged.frames[i].kind == MERGED_PYTHON;
	assert_int_equal(python_frames, count);
	size_t looks = merged.looks;
	*salvaged = merged.salvaged;
	merged_stack_release(&merged);
	module_table_release(&modules);
	free(native.frames);
	free(python.frames);
	free(python.activations);
	return looks;
}

static void a_merge_looks_at_an_activation_a_few_times(void **state)
{
	(void)state;
	for (enum owner owner = EVERY_OTHER; owner < OWNERS; owner++) {
		bool salvaged;
		for (size_t count = 10; count <= 100000; count *= 10)
			assert_true(looks_at(count, owner, &salvaged) <= 8 * count);
		assert_int_equal(salvaged, owner != EVERY_OTHER && owner != INNERMOST_ALL);
	}
}

/* ---- raw samples ---- */

static void touch(struct raw_sample *raw, remote_addr address, size_t size)
{
	uint8_t *bytes = raw_sample_add(raw, address, size);
	assert_non_null(bytes);
	memset(bytes, 1, size);
}

static void memory_of_a_deep_stack_is_given_back(void **state)
{
	enum { DEEP = 8 << 20, FEW = 20, MANY = 100 };
	struct raw_sample *raw = raw_sample_new();
	(void)state;
	touch(raw, 0x1000, DEEP);
	for (int i = 0; i < FEW; i++) {
		raw_sample_reset(raw);
		assert_true(raw_sample_footprint(raw) >= DEEP); /* the next one may be deep, too */
		touch(raw, 0x1000, 4096);
	}
	for (int i = FEW; i < MANY; i++) {
		raw_sample_reset(raw);
		touch(raw, 0x1000, 4096);
	}
	assert_true(raw_sample_footprint(raw) < DEEP / 8);
	raw_sample_free(raw);
}

static void a_clone_holds_what_was_copied_and_no_more(void **state)
{
	enum { RANGES = 50000, SPANS = 100 };
	struct raw_sample *raw = raw_sample_new();
	(void)state;
	for (remote_addr i = 0; i < SPANS; i++) {
		uint8_t *bytes = raw_sample_add_span(raw, 0x100000 + i * 4096, 4096);
		memset(bytes, (int)i, 4096);
	}
	for (remote_addr i = 0; i < RANGES; i++)
		memcpy(raw_sample_add(raw, 0x10000000 + i * 512, 8), &i, 8);
	memset(raw_sample_add(raw, 0x70000000, 5000), 7, 5000);
	struct raw_sample *clone = raw_sample_clone(raw);
	raw_sample_free(raw);
	for (remote_addr i = 0; i < RANGES; i++) {
		uint64_t value;
		assert_true(memory_read_u64(&clone->reader, 0x10000000 + i * 512, &value, NULL));
		assert_int_equal(value, i);
		assert_false(memory_read_u64(&clone->reader, 0x10000008 + i * 512, &value, NULL));
	}
	uint8_t got[16];
	assert_true(memory_read(&clone->reader, 0x100000 + 33 * 4096 + 4080, got, 16, NULL));
	assert_int_equal(got[15], 33);
	assert_true(memory_read(&clone->reader, 0x70000000 + 4984, got, 16, NULL));
	assert_int_equal(got[15], 7);
	assert_null(raw_sample_add(clone, 0x90000000, 8));
	assert_true(raw_sample_footprint(clone) < 6 << 20);
	raw_sample_free(clone);
}

/* ---- the queue ---- */

static void a_queue_is_bound_in_bytes(void **state)
{
	enum { EACH = 8 << 20, ROOM = QUEUE_BYTES / EACH };
	struct queue *queue = alloc_zeroed(1, sizeof(*queue));
	struct watched_thread watched = {0};
	struct queue_entry entry;
	bool closed;
	size_t waiting;
	(void)state;
	queue_init(queue);
	for (int round = 0; round < 3; round++) {
		struct raw_sample *raw;
		unsigned pushed = 0;
		while ((raw = queue_empty(queue))) {
			raw_sample_reset(raw);
			touch(raw, 0x1000, EACH);
			queue_push(queue, raw, &watched);
			pushed++;
		}
		assert_in_range(pushed, 1, ROOM);
		assert_int_equal(atomic_load(&watched.in_use), pushed);
		while (queue_pop(queue, 0, &entry, &waiting, &closed))
			queue_done(queue, &entry);
		assert_int_equal(atomic_load(&watched.in_use), 0);
		assert_int_equal(queue->ready_bytes, 0);
		assert_true(queue->free_bytes <= QUEUE_KEPT + 2 * EACH);
	}
	queue_release(queue);
	free(queue);
}

/* A burst needed eighty; since then one is enough. */
static void raw_samples_that_are_not_needed_are_freed(void **state)
{
	enum { EACH = 48 << 10, BURST = 80 };
	struct queue *queue = alloc_zeroed(1, sizeof(*queue));
	struct raw_sample *raws[BURST];
	(void)state;
	queue_init(queue);
	for (int i = 0; i < BURST; i++) {
		raws[i] = queue_empty(queue);
		raw_sample_reset(raws[i]);
		touch(raws[i], 0x1000, EACH);
	}
	for (int i = 0; i < BURST; i++)
		queue_give_back(queue, raws[i]);
	assert_int_equal(queue->free_count, BURST);
	assert_true(queue->free_bytes >= BURST * EACH);
	for (int i = 0; i < 3 * QUEUE_TURNS; i++) {
		struct raw_sample *raw = queue_empty(queue);
		raw_sample_reset(raw);
		touch(raw, 0x1000, EACH);
		queue_give_back(queue, raw);
	}
	assert_in_range(queue->free_count, 1, 3);
	assert_int_equal(queue->made, queue->free_count);
	assert_true(queue->free_bytes < 3 * EACH);
	queue_release(queue);
	free(queue);
}

static void repeats_need_no_raw_sample_and_leave_room_for_them(void **state)
{
	struct queue *queue = alloc_zeroed(1, sizeof(*queue));
	struct watched_thread watched = {0};
	struct queue_entry entry;
	struct raw_sample *raw;
	bool closed;
	size_t waiting;
	(void)state;
	queue_init(queue);
	size_t repeats = 0, samples = 0;
	while (queue_push_repeat(queue, &watched, 1, 0))
		repeats++;
	assert_int_equal(repeats, QUEUE_ENTRIES - QUEUE_SAMPLES);
	while ((raw = queue_empty(queue))) {
		queue_push(queue, raw, &watched);
		samples++;
	}
	assert_int_equal(samples, QUEUE_SAMPLES);
	for (size_t i = 0; i < repeats + samples; i++) {
		assert_true(queue_pop(queue, 0, &entry, &waiting, &closed));
		assert_ptr_equal(entry.watched, &watched);
		assert_int_equal(waiting, repeats + samples - 1 - i);
		assert_int_equal(entry.raw != NULL, i >= repeats); /* in the order they came */
		queue_done(queue, &entry);
	}
	queue_close(queue);
	assert_false(queue_pop(queue, 0, &entry, &waiting, &closed));
	assert_true(closed);
	queue_release(queue);
	free(queue);
}

struct popper {
	struct queue queue;
	_Atomic unsigned popped;
};

static void *pop_patiently(void *argument)
{
	enum { PATIENCE_MS = 600000 };
	struct popper *popper = argument;
	struct queue_entry entry;
	bool closed = false;
	size_t waiting;
	while (!closed)
		if (queue_pop(&popper->queue, PATIENCE_MS, &entry, &waiting, &closed)) {
			queue_done(&popper->queue, &entry);
			atomic_fetch_add(&popper->popped, 1);
		}
	return NULL;
}

/* A batch of them would be far more memory than is kept. */
static void large_samples_are_not_gathered_to_a_batch(void **state)
{
	enum { ROUNDS = 100 };
	struct popper *popper = alloc_zeroed(1, sizeof(*popper));
	struct watched_thread watched = {0};
	struct timespec rest = {.tv_nsec = 100000};
	const uint64_t deadline = clock_now_ns() + UINT64_C(30000000000);
	pthread_t worker;
	(void)state;
	queue_init(&popper->queue);
	assert_int_equal(pthread_create(&worker, NULL, pop_patiently, popper), 0);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct raw_sample *raw = queue_empty(&popper->queue);
		assert_non_null(raw);
		touch(raw, 0x1000, QUEUE_BATCH_BYTES);
		queue_push(&popper->queue, raw, &watched);
		while (atomic_load(&popper->popped) < round && clock_now_ns() < deadline)
			nanosleep(&rest, NULL);
		assert_int_equal(atomic_load(&popper->popped), round);
	}
	queue_close(&popper->queue);
	pthread_join(worker, NULL);
	queue_release(&popper->queue);
	free(popper);
}

/* ---- what the next sample will need ---- */

static void a_deep_stack_is_learned_from_now_and_then(void **state)
{
	enum { DEEP = 100000 };
	struct prediction prediction = {0};
	struct target_range *reads = alloc_zeroed(DEEP, sizeof(*reads));
	struct target_range stack = {0x10000, 0x1000};
	size_t count = 0;
	(void)state;
	assert_true(prediction_is_due(&prediction, DEEP, DEEP));
	for (size_t i = 0; i < DEEP; i++)
		reads[i] = (struct target_range){0x1000000 + i * 0x10000, 64};
	prediction_learn(&prediction, reads, DEEP);
	unsigned learned = 0;
	for (int i = 0; i < 100; i++) {
		/* The spans are there for sample after sample, learned from or not. */
		assert_non_null(prediction_with_stack(&prediction, stack, &count));
		assert_int_equal(count, DEEP + 1);
		if (!prediction_is_due(&prediction, DEEP, 5))
			continue;
		prediction_learn(&prediction, reads, DEEP);
		learned++;
	}
	assert_in_range(learned, 1, 10);
	assert_true(prediction_is_due(&prediction, DEEP, DEEP / 10));
	assert_true(prediction_is_due(&prediction, 100, 0));
	prediction_release(&prediction);
	free(reads);
}

static void learn(struct prediction *prediction, size_t size)
{
	struct target_range reads[] = {{0x1000, size}, {0x9000, 64}};
	prediction_learn(prediction, reads, size ? 1 : 2);
}

/* A stack that was deeper may be so again; not what turned out to be gone. */
static void what_was_read_lately_is_predicted_in_its_largest_size(void **state)
{
	enum { AGES = 32 };
	struct prediction prediction = {0};
	(void)state;
	learn(&prediction, 0);
	assert_int_equal(prediction.span_count, 2);
	learn(&prediction, 4096);
	for (int i = 1; i < AGES; i++) {
		learn(&prediction, 1024 + (size_t)i);
		assert_int_equal(prediction.spans[0].size, 4096);
		assert_int_equal(prediction.span_count, 2);
	}
	for (int i = 0; i < 2; i++)
		learn(&prediction, 1024);
	assert_int_equal(prediction.spans[0].size, 1024);
	assert_int_equal(prediction.span_count, 1);
	learn(&prediction, 4096);
	prediction.doubtful = true;
	assert_true(prediction_is_due(&prediction, 1, 0));
	learn(&prediction, 1024);
	assert_int_equal(prediction.spans[0].size, 1024);
	assert_false(prediction.doubtful);
	prediction_release(&prediction);
}

/* The heap may begin right behind a thread's stack: what lies there is needed next time, what lies
 * on the stack comes with it. */
static void only_reads_on_the_stack_are_not_learned(void **state)
{
	enum { SP = 0x100000, STACK = 0x8000 };
	static const remote_addr addresses[] = {SP - 64, SP + 16, SP + STACK - 8, SP + STACK,
						SP + STACK + 0x10000};
	struct raw_sample *raw = raw_sample_new();
	struct prediction prediction = {0};
	(void)state;
	for (int prefetched = 0; prefetched < 2; prefetched++) {
		raw_sample_reset(raw);
		raw->registers.value[REGISTER_RSP] = SP;
		if (prefetched)
			raw_sample_add_span(raw, SP - 128, STACK + 128);
		else
			raw_sample_add(raw, SP - 128, STACK + 128);
		raw->reads.count = 0;
		for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
			raw->reads.items[raw->reads.count++] =
				(struct target_range){addresses[i], 8};
		prediction_learn_from(&prediction, raw);
		assert_int_equal(prediction.count, 2);
		assert_int_equal(prediction.reads[0].address, SP + STACK);
		assert_int_equal(prediction.reads[1].address, SP + STACK + 0x10000);
	}
	prediction_release(&prediction);
	raw_sample_free(raw);
}

/* ---- threads that come and go ---- */

static int wake[2];

static void *wait_for_wake(void *argument)
{
	char byte;
	return read(wake[0], &byte, 1) == 1 ? argument : NULL;
}

static void slots_of_ended_threads_are_freed(void **state)
{
	enum { THREADS = 50, ROUNDS = 5 };
	struct session_options options = {0};
	struct target *target;
	struct watched_threads list;
	uint64_t deadline = clock_now_ns() + UINT64_C(30000000000);
	(void)state;
	assert_true(target_open(getpid(), &target, NULL));
	threads_init(&list, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[THREADS];
		assert_int_equal(pipe(wake), 0);
		for (size_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, wait_for_wake, NULL), 0);
		list.looked_ns = list.next_look_ns = 0;
		assert_true(threads_refresh(&list, target, &options, NULL));
		assert_int_equal(list.count, THREADS + 1);
		/* The last round's: only what a raw sample points to is still there. */
		assert_int_equal(list.gone_count, round > 0);
		if (list.gone_count)
			atomic_store(&list.gone[0]->in_use, 0);
		struct watched_thread *used = list.threads[THREADS / 2];
		assert_ptr_equal(threads_find(&list, used->copy.tid), used);
		atomic_store(&used->in_use, 1);
		close(wake[1]);
		for (size_t i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		close(wake[0]);
		/* The kernel wakes who joins a thread a moment before the thread is gone. */
		do {
			list.looked_ns = list.next_look_ns = 0;
			assert_true(threads_refresh(&list, target, &options, NULL));
		} while (list.count > 1 && clock_now_ns() < deadline);
		assert_int_equal(list.count, 1);
		assert_null(threads_find(&list, used->copy.tid));
	}
	threads_release(&list);
	target_free(target);
}

/* The one that lives beside the first thread; 0: none. */
static pid_t other_thread(const struct watched_threads *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (!list->threads[i]->gone && list->threads[i]->copy.tid != getpid())
			return list->threads[i]->copy.tid;
	return 0;
}

static pid_t refresh_until(struct watched_threads *list, const struct target *target,
			   const struct session_options *options, bool there)
{
	const uint64_t deadline = clock_now_ns() + UINT64_C(30000000000);
	while ((other_thread(list) != 0) != there && clock_now_ns() < deadline)
		assert_true(threads_refresh(list, target, options, NULL));
	return other_thread(list);
}

/* By signs: without any, the list is read once a second. */
static void slots_find_threads_that_come_and_go(void **state)
{
	enum { ROUNDS = 20 };
	struct session_options options = {0};
	struct target *target;
	struct watched_threads list;
	(void)state;
	assert_true(target_open(getpid(), &target, NULL));
	threads_init(&list, NULL);
	assert_true(threads_refresh(&list, target, &options, NULL));
	const uint64_t start = clock_now_ns();
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t thread;
		assert_int_equal(pipe(wake), 0);
		assert_int_equal(pthread_create(&thread, NULL, wait_for_wake, NULL), 0);
		const pid_t tid = refresh_until(&list, target, &options, true);
		assert_int_not_equal(tid, 0);
		close(wake[1]);
		pthread_join(thread, NULL);
		close(wake[0]);
		/* Nobody tells of ends when nothing is traced. */
		options.nonblocking = round % 2;
		if (!options.nonblocking)
			threads_end(&list, tid);
		assert_int_equal(refresh_until(&list, target, &options, false), 0);
		assert_null(threads_find(&list, tid));
	}
	assert_true(clock_now_ns() - start < UINT64_C(1000000000) * ROUNDS);
	threads_release(&list);
	target_free(target);
}

static void slots_keep_apart_who_is_asleep(void **state)
{
	enum { THREADS = 5 };
	struct session_options options = {0};
	struct target *target;
	struct watched_threads list;
	pthread_t threads[THREADS];
	(void)state;
	assert_true(target_open(getpid(), &target, NULL));
	threads_init(&list, NULL);
	assert_int_equal(pipe(wake), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_wake, NULL), 0);
	assert_true(threads_refresh(&list, target, &options, NULL));
	assert_int_equal(list.awake_count, THREADS + 1); /* new ones are awake */
	struct watched_thread *first = list.threads[0], *last = list.threads[THREADS];
	threads_mark_asleep(&list, first);
	threads_mark_asleep(&list, last);
	threads_mark_asleep(&list, last); /* once is enough */
	assert_int_equal(list.awake_count, THREADS - 1);
	assert_true(first->index >= list.awake_count && last->index >= list.awake_count);
	threads_mark_awake(&list, last);
	threads_mark_awake(&list, last);
	assert_int_equal(list.awake_count, THREADS);
	assert_int_equal(first->index, THREADS);
	for (size_t i = 0; i < list.count; i++) {
		assert_int_equal(list.threads[i]->index, i);
		assert_ptr_equal(threads_find(&list, list.threads[i]->copy.tid), list.threads[i]);
	}
	/* One that is awake and one that is asleep have ended. */
	threads_mark_asleep(&list, last);
	list.threads[1]->gone = first->gone = true;
	list.looked_ns = list.next_look_ns = 0;
	assert_true(threads_refresh(&list, target, &options, NULL));
	/* Both are on the list still, and so come back as new ones. */
	assert_int_equal(list.count, THREADS + 1);
	assert_int_equal(list.awake_count, THREADS);
	assert_int_equal(last->index, THREADS);
	close(wake[1]);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	close(wake[0]);
	threads_release(&list);
	target_free(target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_merge_looks_at_an_activation_a_few_times),
		cmocka_unit_test(memory_of_a_deep_stack_is_given_back),
		cmocka_unit_test(a_clone_holds_what_was_copied_and_no_more),
		cmocka_unit_test(a_queue_is_bound_in_bytes),
		cmocka_unit_test(raw_samples_that_are_not_needed_are_freed),
		cmocka_unit_test(repeats_need_no_raw_sample_and_leave_room_for_them),
		cmocka_unit_test(large_samples_are_not_gathered_to_a_batch),
		cmocka_unit_test(slots_keep_apart_who_is_asleep),
		cmocka_unit_test(a_deep_stack_is_learned_from_now_and_then),
		cmocka_unit_test(what_was_read_lately_is_predicted_in_its_largest_size),
		cmocka_unit_test(only_reads_on_the_stack_are_not_learned),
		cmocka_unit_test(slots_of_ended_threads_are_freed),
		cmocka_unit_test(slots_find_threads_that_come_and_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
