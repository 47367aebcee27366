/* SPDX-License-Identifier: MIT */
/* Files are written whole or not at all. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>
#include <zlib.h>

#include "output/output.h"

static char folder[PATH_MAX];

static int start(void **state)
{
	(void)state;
	const char *parent = getenv("TMPDIR");
	snprintf(folder, sizeof(folder), "%s/output_file.XXXXXX", parent ? parent : "/tmp");
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

/* Removes everything in the folder; returns how many names there were. */
static int empty_folder(void)
{
	int count = 0;
	DIR *dir = opendir(".");
	for (struct dirent *entry; (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
			count++;
			if (unlink(entry->d_name) < 0)
				rmdir(entry->d_name);
		}
	closedir(dir);
	return count;
}

static int stop(void **state)
{
	(void)state;
	empty_folder();
	return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static void assert_content(const char *path, const char *text)
{
	char buffer[256] = "";
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	ssize_t size = read(fd, buffer, sizeof(buffer) - 1);
	close(fd);
	assert_int_equal(size, strlen(text));
	assert_string_equal(buffer, text);
}

static bool put(const char *path, const char *text, struct error *error)
{
	return output_file_check(path, error) &&
	       output_file_write(path, text, strlen(text), error);
}

static void a_new_file_follows_the_umask(void **state)
{
	(void)state;
	struct error error;
	struct stat info;
	mode_t old = umask(027);
	assert_true(put("new.svg", "hello", &error));
	umask(old);
	assert_content("new.svg", "hello");
	assert_int_equal(stat("new.svg", &info), 0);
	assert_int_equal(info.st_mode & 07777, 0640);
	assert_int_equal(empty_folder(), 1);
}

static void a_replaced_file_keeps_its_mode(void **state)
{
	(void)state;
	struct error error;
	struct stat info;
	assert_true(put("old.svg", "one", &error));
	assert_int_equal(chmod("old.svg", 0604), 0);
	assert_true(put("old.svg", "two", &error));
	assert_content("old.svg", "two");
	assert_int_equal(stat("old.svg", &info), 0);
	assert_int_equal(info.st_mode & 07777, 0604);
	assert_int_equal(empty_folder(), 1);
}

static void links_stay_and_their_target_is_replaced(void **state)
{
	(void)state;
	struct error error;
	struct stat info;
	assert_int_equal(mkdir("sub", 0777), 0);
	assert_true(put("sub/target.svg", "one", &error));
	assert_int_equal(symlink("sub/link.svg", "link.svg"), 0);
	assert_int_equal(symlink("target.svg", "sub/link.svg"), 0);
	assert_true(put("link.svg", "two", &error));
	assert_int_equal(lstat("link.svg", &info), 0);
	assert_true(S_ISLNK(info.st_mode));
	assert_content("sub/target.svg", "two");
	assert_int_equal(unlink("sub/target.svg"), 0);
	assert_true(put("link.svg", "three", &error)); /* the target is made */
	assert_content("sub/target.svg", "three");
	unlink("sub/target.svg");
	unlink("sub/link.svg");
	empty_folder();
}

static void link_loops_are_an_error(void **state)
{
	(void)state;
	struct error error;
	assert_int_equal(symlink("b", "a"), 0);
	assert_int_equal(symlink("a", "b"), 0);
	assert_false(output_file_write("a", "x", 1, &error));
	assert_int_equal(error.os_errno, ELOOP);
	empty_folder();
}

/* No room for the bytes: the child cannot write more than 100 bytes to a file. */
static void a_failed_write_leaves_the_old_file_and_no_temporary(void **state)
{
	(void)state;
	struct error error;
	char big[5000];
	memset(big, 'x', sizeof(big));
	assert_true(put("kept.svg", "old", &error));
	pid_t child = fork();
	if (child == 0) {
		const struct rlimit limit = {100, 100};
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		bool good = output_file_write("kept.svg", big, sizeof(big), &error);
		_exit(good || error.os_errno != EFBIG);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_content("kept.svg", "old");
	assert_int_equal(empty_folder(), 1);
}

static void names_with_gz_are_compressed(void **state)
{
	(void)state;
	struct error error;
	const size_t size = 3000000;
	char *text = malloc(size), *back = malloc(size + 1);
	for (size_t i = 0; i < size; i++)
		text[i] = (char)('a' + (i * i >> 7) % 26);
	assert_true(output_file_write("x.folded.gz", text, size, &error));
	gzFile file = gzopen("x.folded.gz", "rb");
	assert_false(gzdirect(file));
	assert_int_equal(gzread(file, back, (unsigned)size + 1), size);
	assert_memory_equal(text, back, size);
	gzclose(file);
	free(text);
	free(back);
	empty_folder();
}

static void pipes_and_devices_are_written_as_they_are(void **state)
{
	(void)state;
	struct error error;
	char name[32], buffer[8];
	int ends[2];
	assert_true(put("/dev/null", "x", &error));
	assert_int_equal(pipe(ends), 0);
	snprintf(name, sizeof(name), "/dev/fd/%d", ends[1]);
	assert_true(put(name, "pipe", &error));
	assert_int_equal(read(ends[0], buffer, sizeof(buffer)), 4);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(empty_folder(), 0);
}

static void what_cannot_be_written_is_found_early(void **state)
{
	(void)state;
	struct error error;
	assert_false(output_file_check("no/such/folder.svg", &error));
	assert_int_equal(error.kind, ERROR_ABSENT);
	assert_false(output_file_check(".", &error));
	assert_int_equal(error.os_errno, EISDIR);
	assert_false(output_file_check("", &error));
	assert_false(output_file_check("/dev/null/x.svg", &error));
	char name[PATH_MAX + 10];
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_false(output_file_check(name, &error));
	assert_true(output_file_check("-", &error));
	/* A name of the greatest length: the temporary's must not be longer. */
	name[255] = '\0';
	assert_true(put(name, "x", &error));
	assert_int_equal(empty_folder(), 1);
}

enum { NOBODY = 65534 };

static void give(const char *name, uid_t owner)
{
	assert_int_equal(lchown(name, owner, owner), 0);
}

/* In folders of that mode and owner: who owns what stands at the path, and may it be written to? */
static const struct {
	const char *what; /* f: a file; l: a link to one of ours; p: a fifo; d: through a link */
	mode_t mode;
	uid_t folder, owner;
	bool written;
} strangers[] = {
	{"f", 01777, 0, 0, true},
	{"l", 01777, 0, 0, true},
	{"d", 01777, 0, 0, true},
	{"f", 01777, 0, NOBODY, false},
	{"l", 01777, 0, NOBODY, false},
	{"d", 01777, 0, NOBODY, false},
	{"p", 01777, 0, NOBODY, false},
	/* The folder's owner could have made anything of it anyway. */
	{"f", 01777, NOBODY, NOBODY, true},
	{"l", 01777, NOBODY, NOBODY, true},
	{"l", 0755, 0, NOBODY, true},
	{"l", 01775, 0, NOBODY, true},
};

static void what_strangers_put_into_shared_folders_is_left_alone(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		printf("skip: needs root\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(strangers) / sizeof(*strangers); i++) {
		const char what = strangers[i].what[0];
		const char *path = what == 'd' ? "shared/out/f.svg" : "shared/out";
		const char *real = what == 'd' ? "ours/f.svg" : what == 'l' ? "ours.svg" : path;
		struct error error;
		struct stat info;
		assert_int_equal(mkdir("ours", 0700), 0);
		assert_true(put("ours.svg", "kept", &error));
		assert_true(put("ours/f.svg", "kept", &error));
		assert_int_equal(mkdir("shared", 0777), 0);
		if (what == 'p')
			assert_int_equal(mkfifo(path, 0666), 0);
		else if (what == 'f')
			assert_true(put(path, "kept", &error));
		else
			assert_int_equal(symlink(what == 'd' ? "../ours" : "../ours.svg",
						 "shared/out"), 0);
		give("shared/out", strangers[i].owner);
		give("shared", strangers[i].folder);
		assert_int_equal(chmod("shared", strangers[i].mode), 0);
		const bool early = output_file_check(path, &error);
		const bool written = early && output_file_write(path, "new", 3, &error);
		if (early != strangers[i].written || written != early)
			fail_msg("%zu: %d, %d", i, early, written);
		if (!written) {
			assert_int_equal(error.kind, ERROR_DENIED);
			assert_non_null(strstr(error.message, "out is another user's"));
		}
		if (what != 'p')
			assert_content(real, written ? "new" : "kept");
		assert_int_equal(lstat("shared/out", &info), 0);
		assert_int_equal(info.st_uid, strangers[i].owner);
		unlink("ours/f.svg");
		unlink("shared/out");
		assert_int_equal(rmdir("shared"), 0); /* and nothing else is there */
		empty_folder();
	}
}

static void no_right_goes_over_to_a_new_file(void **state)
{
	(void)state;
	struct error error;
	struct stat info;
	assert_true(put("old.svg", "one", &error));
	assert_int_equal(chmod("old.svg", 06755), 0);
	assert_true(put("old.svg", "two", &error));
	assert_int_equal(stat("old.svg", &info), 0);
	assert_int_equal(info.st_mode & 07777, 0755);
	assert_int_equal(empty_folder(), 1);
}

static void formats_follow_names(void **state)
{
	(void)state;
	static const struct {
		const char *file;
		enum output_format format;
	} cases[] = {
		{"a.svg", OUTPUT_SVG}, {"a.SVG.gz", OUTPUT_SVG}, {"b.folded", OUTPUT_FOLDED},
		{"b.txt.gz", OUTPUT_FOLDED}, {"c.json", OUTPUT_JSON}, {"c.json.gz", OUTPUT_JSON},
		{"c.speedscope.json", OUTPUT_SPEEDSCOPE}, {"c.trace.json.gz", OUTPUT_TRACE},
		{"c.pb.gz", OUTPUT_PPROF}, {"c.pb", OUTPUT_PPROF}, {"c.md", OUTPUT_MARKDOWN},
		{"c.firefox.json.gz", OUTPUT_FIREFOX}, {"c.cpuprofile", OUTPUT_CPUPROFILE},
		{"c.profile.json", OUTPUT_UNKNOWN},
		{"d", OUTPUT_UNKNOWN}, {"", OUTPUT_UNKNOWN}, {".gz", OUTPUT_UNKNOWN},
		{"-", OUTPUT_UNKNOWN}, {"x.svg.bak", OUTPUT_UNKNOWN}, {"xsvg", OUTPUT_UNKNOWN},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(output_format_by_file(cases[i].file), cases[i].format);
	assert_int_equal(output_format_by_name("svg"), OUTPUT_SVG);
	assert_int_equal(output_format_by_name("folded"), OUTPUT_FOLDED);
	assert_int_equal(output_format_by_name("json"), OUTPUT_JSON);
	assert_int_equal(output_format_by_name("nonsense"), OUTPUT_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_file_follows_the_umask),
		cmocka_unit_test(a_replaced_file_keeps_its_mode),
		cmocka_unit_test(links_stay_and_their_target_is_replaced),
		cmocka_unit_test(link_loops_are_an_error),
		cmocka_unit_test(a_failed_write_leaves_the_old_file_and_no_temporary),
		cmocka_unit_test(names_with_gz_are_compressed),
		cmocka_unit_test(pipes_and_devices_are_written_as_they_are),
		cmocka_unit_test(what_cannot_be_written_is_found_early),
		cmocka_unit_test(what_strangers_put_into_shared_folders_is_left_alone),
		cmocka_unit_test(no_right_goes_over_to_a_new_file),
		cmocka_unit_test(formats_follow_names),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
