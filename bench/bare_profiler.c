/* SPDX-License-Identifier: MIT */
/*
 * The least that a profiler can do which copies a thread's stack, and nothing else: no look whether
 * the thread runs, no Python, no decoding, no naming, no output. What it costs is what this machine
 * asks for any such profiler.
 *
 *	bare_profiler stop|hold PID RATE BYTES
 *
 * stop: by ptrace. hold: by being awake on the thread's CPU, which perf events tell (copy/cpu_hold.h
 * has the idea). Until SIGINT; then prints "SAMPLES P50_US P99_US", the pauses: from before the stop to
 * before the resume, or as long as the thread was off its CPU.
 */
#include <elf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 60000, MAX_PAUSES = 1 << 22, MAX_BYTES = 1 << 20, PAGE = 4096, NICE = -10 };

static volatile sig_atomic_t ended;
static uint32_t pauses[MAX_PAUSES];
static size_t pause_count;
static char bytes[MAX_BYTES];
static pid_t pid;
static size_t size;

static void end(int number)
{
	(void)number;
	ended = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note_pause(uint64_t ns)
{
	if (pause_count < MAX_PAUSES)
		pauses[pause_count++] = (uint32_t)ns;
}

static void copy_stack(uint64_t sp)
{
	struct iovec local = {bytes, size}, remote = {(void *)sp, size};
	process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

/* ---- stop ---- */

static int begin_stop(void)
{
	return ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
}

static int wait_for_stop(void)
{
	int status;
	const uint64_t start = now_ns();
	while (now_ns() - start < SPIN_NS)
		if (waitpid(pid, &status, __WALL | WNOHANG) != 0)
			return WIFSTOPPED(status);
	return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);
}

static int sample_stopped(void)
{
	struct user_regs_struct registers;
	struct iovec into = {&registers, sizeof(registers)};
	const uint64_t start = now_ns();
	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || !wait_for_stop())
		return 0;
	ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &into);
	copy_stack(registers.rsp);
	note_pause(now_ns() - start);
	return ptrace(PTRACE_CONT, pid, NULL, NULL) == 0;
}

/* ---- hold ---- */

struct change {
	struct perf_event_header header;
	uint64_t time;
	uint32_t cpu, reserved;
};

struct out {
	struct change change;
	struct perf_event_header header;
	uint64_t time;
	uint32_t cpu, reserved;
	uint64_t abi, sp;
};

static const volatile struct perf_event_mmap_page *page;
static uint64_t held_at, held_since;
static int cpu = -1;

static int begin_hold(void)
{
	struct perf_event_attr wanted = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(wanted),
		.config = PERF_COUNT_SW_CONTEXT_SWITCHES,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER,
		.sample_regs_user = 1 << 7, /* SP */
		.sample_id_all = 1,
		.context_switch = 1,
		.write_backward = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	const int fd = (int)syscall(SYS_perf_event_open, &wanted, pid, -1, -1, 0);
	if (fd < 0)
		return 0;
	page = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	return page != MAP_FAILED;
}

static uint64_t head(void)
{
	return __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
}

static void read_log(uint64_t at, void *into, size_t count)
{
	const char *data = (const char *)page + PAGE;
	for (size_t i = 0; i < count; i++)
		((char *)into)[i] = data[(at + i) % PAGE];
}

static void follow(int to)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)to, &set);
	cpu = to;
	sched_setaffinity(0, sizeof(set), &set);
}

/* How long it was off its CPU the last time. */
static void note_hold(uint64_t at, uint64_t since)
{
	struct change in;
	read_log(held_at - sizeof(in), &in, sizeof(in));
	if (held_at && held_at - at < PAGE / 2 && in.header.type == PERF_RECORD_SWITCH)
		note_pause(in.time - held_since);
	held_at = at;
	held_since = since;
}

static int sample_held(void)
{
	struct out out;
	const uint64_t at = head();
	read_log(at, &out, sizeof(out));
	if (out.change.header.type != PERF_RECORD_SWITCH)
		return 1;
	if ((int)out.change.cpu != cpu)
		follow((int)out.change.cpu);
	else if (out.change.header.misc & PERF_RECORD_MISC_SWITCH_OUT) {
		copy_stack(out.sp);
		if (head() == at)
			note_hold(at, out.change.time);
	}
	return 1;
}

/* ---- both ---- */

static timer_t make_timer(int number)
{
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
				 .sigev_signo = SIGUSR1,
				 .sigev_value.sival_int = number};
	event._sigev_un._tid = gettid();
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
		exit(1);
	return timer;
}

static void set_timer(timer_t timer, uint64_t at)
{
	const struct itimerspec when = {
		.it_value = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)}};
	timer_settime(timer, TIMER_ABSTIME, &when, NULL);
}

/* Two timers take turns, so that one is always set already when the other one goes off. */
static void run(uint64_t period, int (*sample)(void))
{
	timer_t timers[] = {make_timer(0), make_timer(1)};
	uint64_t next = now_ns() + 2 * period;
	siginfo_t info;
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	set_timer(timers[0], next - period);
	set_timer(timers[1], next);
	while (!ended) {
		if (sigwaitinfo(&signals, &info) < 0)
			continue;
		const uint64_t now = now_ns();
		for (next += period; next < now; next += period)
			;
		set_timer(timers[info.si_value.sival_int & 1], next);
		if (!sample())
			break;
	}
}

static int by_length(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	const int hold = strcmp(argv[1], "hold") == 0;
	pid = atoi(argv[2]);
	size = (size_t)atol(argv[4]);
	size = size < MAX_BYTES ? size : MAX_BYTES;
	/* Without SA_RESTART: a sleep ends, too. */
	sigaction(SIGINT, &(struct sigaction){.sa_handler = end}, NULL);
	setpriority(PRIO_PROCESS, 0, NICE);
	if (!(hold ? begin_hold : begin_stop)()) {
		perror(argv[1]);
		return 1;
	}
	run((uint64_t)(1e9 / atof(argv[3])), hold ? sample_held : sample_stopped);
	qsort(pauses, pause_count, sizeof(*pauses), by_length);
	if (pause_count > 0)
		printf("%zu %.1f %.1f\n", pause_count, pauses[pause_count / 2] / 1e3,
		       pauses[pause_count * 99 / 100] / 1e3);
	return 0;
}
