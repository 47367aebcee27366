/* SPDX-License-Identifier: MIT */
/*
 * Files of /proc, some of whose bytes are the process's to choose: its name, its arguments, its
 * environment. The input is what all of them have.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "target/far_files.h"
#include "target/internal.h"
#include "tests/fuzz/fuzz.h"

enum { TID = 7 };

static const char *const names[] = {
	"stat",		  "status",	  "environ",	      "task/7/comm",  "task/7/status",
	"task/7/syscall", "task/7/stack", "task/7/schedstat", "task/7/wchan", "task/7/stat",
	"mountinfo"};
static char folder[] = "/tmp/fuzz-XXXXXX";
static int directory, file;

static void remove_folder(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlinkat(directory, names[i], 0);
	unlinkat(directory, "task/7", AT_REMOVEDIR);
	unlinkat(directory, "task", AT_REMOVEDIR);
	unlinkat(directory, "all", 0);
	rmdir(folder);
}

/* One file by all the names, so that an input is written once. */
static void set_up(void)
{
	if (!mkdtemp(folder) || (directory = open(folder, O_RDONLY | O_DIRECTORY)) < 0 ||
	    mkdirat(directory, "task", 0700) < 0 || mkdirat(directory, "task/7", 0700) < 0 ||
	    (file = openat(directory, "all", O_RDWR | O_CREAT, 0600)) < 0)
		abort();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (linkat(directory, "all", directory, names[i], 0) < 0)
			abort();
	atexit(remove_folder);
}

static void read_mounts(const struct target *target)
{
	struct seen_devices seen = {.count = 0};
	for (uint64_t device = 38; device < 44; device++)
		(void)device_is_far(&seen, target, device);
	device_answers(&seen, 40);
	if (device_is_far(&seen, target, 40) && seen.count > SEEN_DEVICES_MOST)
		abort();
}

static void read_thread(const struct target *target)
{
	struct target_thread_files *files;
	struct target_thread thread;
	struct target_wait wait = {.number = 0};
	struct error error;
	char text[TARGET_KERNEL_SIZE];
	uint64_t value;
	if (target_thread_read(target, TID, &thread, &error) &&
	    !memchr(thread.name, 0, sizeof(thread.name)))
		abort();
	(void)target_thread_tracer(target, TID);
	if (!target_thread_files_open(target, TID, &files, &error))
		abort();
	(void)!target_thread_wait(files, &wait, &error);
	(void)!target_thread_runs(files, &value, &error);
	(void)!target_thread_cpu_ns(files, &value, &error);
	(void)target_thread_state(files);
	target_thread_kernel(files, &wait, text);
	if (!memchr(text, 0, sizeof(text)))
		abort();
	target_thread_files_close(files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!directory)
		set_up();
	struct target_state state = {.living_tid = TID, .user = 0};
	const struct target target = {
		.pid = TID, .directory = directory, .root = -1, .newest = file, .state = &state};
	struct target_births births = {0};
	char value[16];
	uint32_t rank;
	if (pwrite(file, data, size, 0) != (ssize_t)size || ftruncate(file, (off_t)size) < 0)
		abort();
	read_mounts(&target);
	read_thread(&target);
	(void)target_alive(&target);
	(void)target_start_stack(&target);
	(void)target_user(&target);
	(void)target_no_births(&target, &births);
	if (target_environment(&target, "A", value, sizeof(value)) &&
	    !memchr(value, 0, sizeof(value)))
		abort();
	(void)target_job_rank(&target, &rank);
	return 0;
}
