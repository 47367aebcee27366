/* SPDX-License-Identifier: MIT */
/*
 * A thread's context switches, as perf_event_open(2) tells them: the software event
 * context-switches, a sample of the user's registers each time that the thread leaves its CPU, and
 * PERF_RECORD_SWITCH before it runs on and after it has left. The kernel writes them into memory
 * that it shares with us, each record before the one before (write_backward), so that the newest
 * stands at data_head, none is ever lost but the oldest, and a look costs no system call.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/internal.h"

/* The registers in the order of their bits (Linux arch/x86/include/uapi/asm/perf_regs.h). */
static const uint8_t ORDER[] = {
	REGISTER_RAX, REGISTER_RBX, REGISTER_RCX, REGISTER_RDX, REGISTER_RSI, REGISTER_RDI,
	REGISTER_RBP, REGISTER_RSP, REGISTER_RIP, REGISTER_R8,	REGISTER_R9,  REGISTER_R10,
	REGISTER_R11, REGISTER_R12, REGISTER_R13, REGISTER_R14, REGISTER_R15,
};
static const uint64_t WANTED = 0xff01ff; /* AX to IP, then (flags and segments are) R8 to R15 */
enum {
	ORDER_COUNT = sizeof(ORDER),
	MAX_LOGS = 256,
	DATA_SIZE = TARGET_PAGE, /* 18 switches */
	TRIES = 3,		 /* while the thread comes and goes */
};

/* What PERF_SAMPLE_TIME and PERF_SAMPLE_CPU add to each record. */
struct stamp {
	uint64_t time;
	uint32_t cpu, reserved;
};

/* PERF_RECORD_SWITCH */
struct switch_record {
	struct perf_event_header header;
	struct stamp stamp;
};

/* PERF_RECORD_SAMPLE */
struct sample_record {
	struct perf_event_header header;
	struct stamp stamp;
	uint64_t abi;
	uint64_t registers[ORDER_COUNT];
};

_Static_assert(2 * sizeof(struct switch_record) + sizeof(struct sample_record) == SWITCH_LOG_BYTES,
	       "what a switch takes");

struct switch_log {
	const struct target *target;
	const struct perf_event_mmap_page *page;
	const uint8_t *data;
	int fd;
};

static int open_event(pid_t tid)
{
	struct perf_event_attr wanted = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(wanted),
		.config = PERF_COUNT_SW_CONTEXT_SWITCHES,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER,
		.sample_regs_user = WANTED,
		.sample_id_all = 1,
		.context_switch = 1,
		.write_backward = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.exclude_hv = 1,
		.watermark = 1,
		.wakeup_watermark = DATA_SIZE, /* nobody waits for them */
	};
	return (int)syscall(SYS_perf_event_open, &wanted, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void switch_log_expect(void)
{
	/* Where it may not be, nobody follows a thread. */
	(void)open_event(0);
}

/* As many as there may be; false: no more. */
static bool reserve(const struct target *target)
{
	if (atomic_fetch_add(&target->state->switch_logs, 1) < MAX_LOGS)
		return true;
	atomic_fetch_sub(&target->state->switch_logs, 1);
	return false;
}

static bool open_failed(struct switch_log *log, pid_t tid, struct error *error)
{
	int os_errno = errno;
	switch_log_close(log);
	return error_set_errno(error, os_errno, "cannot follow the context switches of thread %d",
			       (int)tid);
}

bool switch_log_open(const struct target *target, pid_t tid, struct switch_log **out,
		     struct error *error)
{
	if (!reserve(target))
		return error_set(error, ERROR_BUSY,
				 "the context switches of %d threads are followed already",
				 MAX_LOGS);
	struct switch_log *log = alloc_zeroed(1, sizeof(*log));
	log->target = target;
	log->fd = open_event(tid);
	if (log->fd < 0)
		return open_failed(log, tid, error);
	void *memory = mmap(NULL, TARGET_PAGE + DATA_SIZE, PROT_READ, MAP_SHARED, log->fd, 0);
	if (memory == MAP_FAILED)
		return open_failed(log, tid, error);
	log->page = memory;
	log->data = (const uint8_t *)memory + TARGET_PAGE;
	*out = log;
	return true;
}

void switch_log_close(struct switch_log *log)
{
	if (!log)
		return;
	if (log->page)
		munmap((void *)(uintptr_t)log->page, TARGET_PAGE + DATA_SIZE);
	if (log->fd >= 0) {
		/* A child that we have forked may have it, too. */
		ioctl(log->fd, PERF_EVENT_IOC_DISABLE, 0);
		close(log->fd);
	}
	atomic_fetch_sub(&log->target->state->switch_logs, 1);
	free(log);
}

bool switch_log_copy(const struct switch_log *log, const struct copier *copier, struct error *error)
{
	return copier_attach(copier, log->fd) ||
	       error_set_errno(error, errno, "nothing can be copied at context switches");
}

uint64_t switch_log_position(const struct switch_log *log)
{
	return __atomic_load_n(&log->page->data_head, __ATOMIC_ACQUIRE);
}

/* Copies from the record at that position on, towards the older ones. */
static void copy(const struct switch_log *log, uint64_t position, void *buffer, size_t size)
{
	size_t start = position % DATA_SIZE;
	size_t first = DATA_SIZE - start < size ? DATA_SIZE - start : size;
	memcpy(buffer, log->data + start, first);
	memcpy((uint8_t *)buffer + first, log->data, size - first);
}

struct newest {
	struct switch_record change;
	struct sample_record sample;
};

static bool is_switch(const struct switch_record *record)
{
	return record->header.type == PERF_RECORD_SWITCH && record->header.size == sizeof(*record);
}

static bool is_sample(const struct sample_record *record)
{
	return record->header.type == PERF_RECORD_SAMPLE &&
	       record->header.size == sizeof(*record) && record->abi == PERF_SAMPLE_REGS_ABI_64;
}

static bool understand(const struct newest *newest, struct thread_switch *last)
{
	const struct switch_record *change = &newest->change;
	if (!is_switch(change))
		return false;
	last->time_ns = change->stamp.time;
	last->cpu = (int)change->stamp.cpu;
	last->on_cpu = !(change->header.misc & PERF_RECORD_MISC_SWITCH_OUT);
	last->runnable = last->on_cpu || change->header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	if (last->on_cpu)
		return true;
	if (!is_sample(&newest->sample))
		return false;
	last->registers = (struct registers){.known = (1u << REGISTER_COUNT) - 1};
	for (size_t i = 0; i < ORDER_COUNT; i++)
		last->registers.value[ORDER[i]] = newest->sample.registers[i];
	return true;
}

bool switch_log_last(const struct switch_log *log, struct thread_switch *last)
{
	for (int i = 0; i < TRIES; i++) {
		struct newest newest;
		last->position = switch_log_position(log);
		copy(log, last->position, &newest, sizeof(newest));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (switch_log_position(log) == last->position)
			return understand(&newest, last);
	}
	return false;
}

static struct thread_change change_of(const struct switch_record *record)
{
	const uint16_t misc = record->header.misc;
	const bool on_cpu = !(misc & PERF_RECORD_MISC_SWITCH_OUT);
	return (struct thread_change){
		.time_ns = record->stamp.time,
		.on_cpu = on_cpu,
		.runnable = on_cpu || misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
	};
}

size_t switch_log_since(const struct switch_log *log, uint64_t position,
			struct thread_change *changes, size_t capacity, bool *all)
{
	const uint64_t newest = switch_log_position(log);
	size_t count = 0;
	uint64_t at = newest;
	while (at != position && count < capacity) {
		struct switch_record record;
		copy(log, at, &record, sizeof(record));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* What is that far back is about to be written over, or was. */
		if (at - switch_log_position(log) > DATA_SIZE - 2 * sizeof(struct newest))
			break;
		if (is_switch(&record)) {
			changes[count++] = change_of(&record);
			at += sizeof(record);
		} else if (record.header.size == sizeof(struct sample_record)) {
			at += sizeof(struct sample_record);
		} else {
			break;
		}
	}
	*all = at == position;
	return count;
}

uint64_t switch_log_off_cpu(const struct switch_log *log, const struct thread_switch *out)
{
	/* It was the next to be written after that one. */
	uint64_t position = out->position - sizeof(struct switch_record);
	struct switch_record next;
	copy(log, position, &next, sizeof(next));
	/* What is that far back is about to be written over, or was. */
	if (position - switch_log_position(log) > DATA_SIZE - sizeof(struct newest) ||
	    !is_switch(&next) || next.header.misc & PERF_RECORD_MISC_SWITCH_OUT)
		return 0;
	return next.stamp.time - out->time_ns;
}
