/* SPDX-License-Identifier: MIT */
/* Command lines in, struct options out; a usage error is looked at in a child process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

/* The commands' own files are not part of what tests are linked with. */
#include "src/options.c"
#include "src/pdump_options.c"
#include "src/precord_options.c"

enum { MAX_WORDS = 24 };

struct words {
	int count;
	char *word[MAX_WORDS + 1];
	char text[512];
};

static void split(struct words *words, const char *line)
{
	char *rest = NULL;
	snprintf(words->text, sizeof(words->text), "%s", line);
	words->count = 0;
	for (char *word = strtok_r(words->text, " ", &rest); word && words->count < MAX_WORDS;
	     word = strtok_r(NULL, " ", &rest))
		words->word[words->count++] = word;
	words->word[words->count] = NULL;
}

static void parse_line(const char *line, struct words *words, struct options *options)
{
	split(words, line);
	optind = 0;
	if (strcmp(words->word[0], "pdump") == 0)
		options_parse_pdump(words->count, words->word, options);
	else
		options_parse_precord(words->count, words->word, options);
}

/* The exit status of parsing in a child, and what it printed; -1 when it returned. */
static int parse_in_child(const char *line, char *output, size_t size)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct words words;
		struct options options;
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		parse_line(line, &words, &options);
		_exit(99);
	}
	close(ends[1]);
	size_t used = 0;
	ssize_t got;
	while ((got = read(ends[0], output + used, size - 1 - used)) > 0)
		used += (size_t)got;
	output[used] = '\0';
	close(ends[0]);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == 99 ? -1 : WEXITSTATUS(status);
}

static void defaults_are_those_of_the_man_page(void **state)
{
	(void)state;
	struct words words;
	struct options options;
	parse_line("precord 812", &words, &options);
	assert_int_equal(options.pids[0], 812);
	assert_null(options.command);
	assert_false(options.stacks.native);
	assert_false(options.stacks.native_threads);
	assert_true(options.lines);
	assert_int_equal(options.mode, MODE_RUNNING);
	assert_int_equal(options.stacks.join, JOIN_AUTO);
	assert_int_equal(options.stacks.unwinder, UNWINDER_SNAPSHOT);
	assert_true(options.rate == 100);
	assert_true(options.duration == 0);
	assert_true(options.writing.min_width == 0.1);
	assert_int_equal(options.writing.output_count, 0);
	assert_int_equal(options.log.level, LOG_NORMAL);
}

static void native_threads_follow_native_unless_said_otherwise(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		bool expected;
	} cases[] = {
		{"pdump 1", false},
		{"pdump -n 1", true},
		{"pdump 1 --native", true},
		{"pdump --native-threads=no -n 1", false},
		{"pdump --native-threads=yes 1", true},
		{"precord -n --native-threads no 1", false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct words words;
		struct options options;
		parse_line(cases[i].line, &words, &options);
		assert_int_equal(options.stacks.native_threads, cases[i].expected);
	}
}

static void nonblocking_goes_with_what_needs_no_registers(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"pdump --nonblocking 1",
		"pdump --nonblocking --join=native-id -g -j 1",
		"precord --join=pthread-tid --nonblocking -i -t 1",
		"precord --nonblocking --unwinder=snapshot --native-threads=no -- ls --native",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct words words;
		struct options options;
		parse_line(lines[i], &words, &options);
		assert_true(options.stacks.nonblocking);
		assert_false(options.stacks.native || options.stacks.native_threads);
	}
}

static void pdump_takes_any_number_of_processes(void **state)
{
	(void)state;
	struct words words;
	struct options options;
	parse_line("pdump 7 -p 5 --pid=6 7 -s --native-processes=yes", &words, &options);
	assert_int_equal(options.pid_count, 3);
	assert_int_equal(options.pids[0], 7);
	assert_int_equal(options.pids[1], 5);
	assert_int_equal(options.pids[2], 6);
	assert_true(options.subprocesses && options.others.native_processes);
	parse_line("pdump a.json 7 - --merge 7.json -F", &words, &options);
	assert_int_equal(options.pid_count, 1);
	assert_int_equal(options.file_count, 3);
	assert_string_equal(options.files[0], "a.json");
	assert_string_equal(options.files[1], "-");
	assert_string_equal(options.files[2], "7.json");
	assert_true(options.merge && !options.lines);
	parse_line("pdump 7", &words, &options);
	assert_int_equal(options.pid_count, 1);
	assert_true(options.lines && !options.merge);
	assert_false(options.subprocesses || options.others.native_processes);
}

static void a_cgroup_stands_for_its_processes(void **state)
{
	(void)state;
	struct words words;
	struct options options;
	static const char *const lines[] = {
		"pdump --cgroup system.slice/x.service --merge a.json",
		"precord --cgroup=system.slice/x.service -i -t",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		parse_line(lines[i], &words, &options);
		assert_string_equal(options.others.cgroup, "system.slice/x.service");
		assert_true(options.subprocesses);
		assert_int_equal(options.pid_count, 0);
	}
	parse_line("precord -- ls --cgroup=x", &words, &options);
	assert_null(options.others.cgroup);
}

static void rates_may_have_a_unit(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		double rate;
	} cases[] = {
		{"precord -r 10khz 1", 10000}, {"precord -r 10kHz 1", 10000},
		{"precord --rate=0.1 1", 0.1}, {"precord -r100000 1", 100000},
		{"precord -r 250Hz 1", 250},   {"precord -r 2.5k 1", 2500},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct words words;
		struct options options;
		parse_line(cases[i].line, &words, &options);
		assert_true(options.rate == cases[i].rate);
	}
}

static void everything_behind_two_dashes_is_the_command(void **state)
{
	(void)state;
	struct words words;
	struct options options;
	parse_line("precord -n -d 2.5 -o a.svg -- python3 x.py -r 3 -- -n", &words, &options);
	static const char *const expected[] = {"python3", "x.py", "-r", "3", "--", "-n"};
	for (size_t i = 0; i < 6; i++)
		assert_string_equal(options.command[i], expected[i]);
	assert_null(options.command[6]);
	assert_int_equal(options.pid_count, 0);
	assert_true(options.duration == 2.5);
	assert_true(options.rate == 100);
}

static void formats_come_from_the_suffix_or_from_f(void **state)
{
	(void)state;
	struct words words;
	struct options options;
	parse_line("precord -o a.svg -o b.folded.gz -o c.json -o - 1", &words, &options);
	assert_int_equal(options.writing.output_count, 4);
	assert_int_equal(options.writing.outputs[0].format, OUTPUT_SVG);
	assert_int_equal(options.writing.outputs[1].format, OUTPUT_FOLDED);
	assert_int_equal(options.writing.outputs[2].format, OUTPUT_JSON);
	assert_int_equal(options.writing.outputs[3].format, OUTPUT_FOLDED);
	parse_line("precord -o a.strange -f json 1", &words, &options);
	assert_int_equal(options.writing.outputs[0].format, OUTPUT_JSON);
}

static void threads_and_areas_can_be_given_again(void **state)
{
	(void)state;
	struct words words;
	struct options options;
	parse_line("pdump --thread 5 --thread=6 --debug=unwind --debug python 1", &words, &options);
	assert_int_equal(options.stacks.thread_count, 2);
	assert_true(options_thread_wanted(&options, 6));
	assert_false(options_thread_wanted(&options, 7));
	assert_int_equal(options.log.area_count, 2);
	assert_string_equal(options.log.areas[1], "python");
	parse_line("pdump 1", &words, &options);
	assert_true(options_thread_wanted(&options, 7));
}

static void usage_errors_end_with_status_2_and_say_what_exists(void **state)
{
	(void)state;
	static const struct {
		const char *line, *said;
	} cases[] = {
		{"pdump", "PID"},
		{"pdump abc", "'abc' is not a process id"},
		{"pdump 0", "'0'"},
		{"pdump -5", ""},
		{"pdump 99999999999999999999", "not a process id"},
		{"pdump -s", "which process"},
		{"pdump --merge", "give PIDs or files of dumps"},
		{"pdump 1 a.json", "'a.json' is not a process id"},
		{"pdump -", "'-' is not a process id"},
		{"pdump 1 2x", "'2x' is not a process id"},
		{"pdump --thread=5 1 2", "a thread is of one process"},
		{"pdump -s --thread=5 1", "a thread is of one process"},
		{"precord -s --thread=5 1", "a thread is of one process"},
		{"precord --thread=5 1 2", "a thread is of one process"},
		{"precord -s --nonblocking 1", "give that one alone, without -s"},
		{"precord -s --nonblocking -- ls", "give that one alone, without -s"},
		{"precord --nonblocking 1 2", "give that one alone, without the others"},
		{"precord -s --capture=x 1", "--capture: of one process; give that one alone"},
		{"precord --capture=x 1 2", "give that one alone, without the others"},
		{"precord --cgroup=x --capture=x", "give that one alone, without --cgroup"},
		{"precord --cgroup=x --nonblocking", "give that one alone, without --cgroup"},
		{"precord --cgroup=x 1", "leave out PIDs"},
		{"pdump --cgroup=x 1", "leave out PIDs"},
		{"precord --cgroup=x -- ls", "leave out -- CMD"},
		{"pdump --cgroup=x --cgroup=y", "--cgroup: one"},
		{"pdump --cgroup=", "which?"},
		{"pdump --cgroup", "requires an argument"},
		{"pdump -s --native-processes=all 1", "no, yes"},
		{"pdump -s --nonblocking --native-processes=yes 1", "native stack of a thread"},
		{"pdump --join=magic 1", "auto, native-id, fs-base, rbx, pthread-tid"},
		{"pdump --unwinder=x 1", "snapshot, ptrace"},
		{"pdump --native --nonblocking 1", "native stack of a thread that runs on"},
		{"precord --nonblocking -n -- ls", "--nonblocking and --native"},
		{"precord --nonblocking --unwinder=ptrace 1", "unwinds stopped threads"},
		{"precord --nonblocking --stop=ptrace 1", "--nonblocking and --stop=ptrace"},
		{"precord --nonblocking --stop=interrupt 1", "--nonblocking and --stop=interrupt"},
		{"pdump --join=rbx --nonblocking 1", "there is native-id and pthread-tid"},
		{"pdump --join=fs-base --nonblocking 1", "--join=fs-base: registers"},
		{"precord --native-threads=yes --nonblocking 1", "native frames only"},
		{"pdump --thread=x 1", "not a thread id"},
		{"pdump --native-threads=maybe 1", "no, yes"},
		{"pdump --color=blue 1", "auto, always, never"},
		{"pdump --debug=unwind,python 1", "target, unwind, python, join"},
		{"pdump -o x.svg 1", ""},
		{"precord", "PID"},
		{"precord --", "a command"},
		{"precord 5 -- ls", "not both"},
		{"precord -o x.foo 1", ".svg"},
		{"precord -o x 1", ".folded"},
		{"precord -f foo 1", "folded, json"},
		{"precord --mode=all 1", "running, wall, cpu, gil"},
		{"precord --mode=cpu -g 1", "--mode=cpu and --gil"},
		{"precord --mode=cpu --capture=x 1", "--mode=cpu and --capture"},
		{"precord --open -o x.folded 1", "browser"},
		{"precord --snapshot=0 1", "0.5 to"},
		{"precord --focus=( 1", "--focus"},
		{"precord -r 0 1", "0.1 to 100000"},
		{"precord -r nan 1", "0.1 to 100000"},
		{"precord -r 200khz 1", "0.1 to 100000"},
		{"precord -r 10parsec 1", "0.1 to 100000"},
		{"precord -d -1 1", ""},
		{"precord -d inf 1", "number"},
		{"precord --min-width=101 1", "0 to 100"},
		{"precord -j 1", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char output[4096];
		const int status = parse_in_child(cases[i].line, output, sizeof(output));
		if (status != 2 || !strstr(output, cases[i].said))
			print_message("%s: status %d: %s\n", cases[i].line, status, output);
		assert_int_equal(status, 2);
		assert_non_null(strstr(output, cases[i].said));
		assert_non_null(strstr(output, "--help"));
	}
}

static void options_that_do_not_exist_yet_are_refused(void **state)
{
	(void)state;
	static const char *const options[] = {
		"-l",
		"--locals",
		"--watch=1",
		"--live",
	};
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		char line[64], output[4096];
		snprintf(line, sizeof(line), "precord %s 1", options[i]);
		assert_int_equal(parse_in_child(line, output, sizeof(output)), 2);
		snprintf(line, sizeof(line), "pdump %s 1", options[i]);
		assert_int_equal(parse_in_child(line, output, sizeof(output)), 2);
	}
}

static void a_core_file_takes_the_place_of_a_process(void **state)
{
	static const char *const refused[] = {
		"pdump --core=x -p 1",
		"pdump --core=x a b",
		"pdump --core=x 1",
		"pdump --core=x -s",
		"pdump --core=x --merge a",
		"pdump --core=x --nonblocking",
		"pdump --core=x --kernel",
		"pdump --core=x --unwinder=ptrace",
		"pdump --sysroot=/ 1",
		"pdump --symbols=/ 1",
		"pdump prog",
		"precord --core=x",
	};
	(void)state;
	struct options options;
	char output[4096];
	struct words words;
	parse_line("pdump -n prog --core=x --sysroot=/r --symbols=/s", &words, &options);
	assert_string_equal(options.core.path, "x");
	assert_string_equal(options.core.program, "prog");
	assert_string_equal(options.core.sysroot, "/r");
	assert_string_equal(options.core.symbols, "/s");
	assert_int_equal(options.pid_count, 0);
	assert_int_equal(options.file_count, 0);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		assert_int_equal(parse_in_child(refused[i], output, sizeof(output)), 2);
}

static void help_and_version_end_with_status_0(void **state)
{
	(void)state;
	char output[16384];
	assert_int_equal(parse_in_child("pdump -h", output, sizeof(output)), 0);
	assert_non_null(strstr(output, "--native"));
	assert_int_equal(parse_in_child("precord --help", output, sizeof(output)), 0);
	assert_non_null(strstr(output, "--icicle"));
	assert_int_equal(parse_in_child("precord -V", output, sizeof(output)), 0);
	assert_string_equal(output, "precord " VERSION "\n");
	assert_int_equal(parse_in_child("pdump --version", output, sizeof(output)), 0);
	assert_string_equal(output, "pdump " VERSION "\n");
}

static void the_default_file_name_is_harmless(void **state)
{
	(void)state;
	static const struct {
		const char *command_line, *line, *expected;
	} cases[] = {
		{"/usr/bin/python3.11 train.py", "precord 1", "python3.11-812-19700101-000000.svg"},
		{"python3", "precord -f folded 1", "python3-812-19700101-000000.folded"},
		{"", "precord 1", "python-812-19700101-000000.svg"},
		{"../../ x", "precord 1", "python-812-19700101-000000.svg"},
		{"-rf; x", "precord -f json 1", "python-812-19700101-000000.json"},
		{"a\nb\x1b[31m x", "precord 1", "ab31m-812-19700101-000000.svg"},
	};
	setenv("TZ", "UTC", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct words words;
		struct options options;
		char text[256];
		parse_line(cases[i].line, &words, &options);
		options_add_default_output(&options, cases[i].command_line, 812, 0, text,
					   sizeof(text));
		assert_int_equal(options.writing.output_count, 1);
		assert_string_equal(options.writing.outputs[0].path, cases[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_man_page),
		cmocka_unit_test(native_threads_follow_native_unless_said_otherwise),
		cmocka_unit_test(nonblocking_goes_with_what_needs_no_registers),
		cmocka_unit_test(pdump_takes_any_number_of_processes),
		cmocka_unit_test(a_cgroup_stands_for_its_processes),
		cmocka_unit_test(rates_may_have_a_unit),
		cmocka_unit_test(everything_behind_two_dashes_is_the_command),
		cmocka_unit_test(formats_come_from_the_suffix_or_from_f),
		cmocka_unit_test(threads_and_areas_can_be_given_again),
		cmocka_unit_test(usage_errors_end_with_status_2_and_say_what_exists),
		cmocka_unit_test(options_that_do_not_exist_yet_are_refused),
		cmocka_unit_test(a_core_file_takes_the_place_of_a_process),
		cmocka_unit_test(help_and_version_end_with_status_0),
		cmocka_unit_test(the_default_file_name_is_harmless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
