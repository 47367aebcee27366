/* SPDX-License-Identifier: MIT */
/*
 * From a core file to a target. The kernel writes down what a program has changed; what it only
 * mapped is in the files it mapped, and read from there once somebody has found them. What neither
 * has is ABSENT: it is never made up.
 */
#include "target/core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "base/utf8.h"
#include "elf/core_file.h"
#include "files/given_file.h"
#include "target/internal.h"

enum { COMMAND_LINE_LIMIT = 4096, PROBLEMS_LIMIT = 1024 };

struct target_core {
	struct core_file *file;
	int *files; /* by number; -1: not found (yet) */
	size_t file_count;
	struct foreign_root symbols;
	const struct target_core_options *options;
	uid_t user;
	uint64_t time;
	bool in_our_root;
	remote_addr start_stack;
	const char **problems;
	size_t problem_count, problem_capacity;
	struct table by_tid; /* -> index in file->threads */
};

static const struct target *target_of(const struct memory_reader *reader)
{
	return (const struct target *)(const void *)reader;
}

/* ---- memory ---- */

/* What no segment has, or no more than was written down of it, is as it stands in the file. */
static size_t read_mapped(const struct target_core *core, remote_addr address, void *buffer,
			  size_t size)
{
	const struct core_segment *segment = core_file_segment(core->file, address);
	const struct core_mapping *mapping = core_file_mapping(core->file, address);
	if (!mapping || (segment && address - segment->start < segment->dumped) ||
	    core->files[mapping->file] < 0)
		return 0;
	if (size > mapping->end - address)
		size = mapping->end - address;
	const ssize_t got = pread(core->files[mapping->file], buffer, size,
				  (off_t)(mapping->offset + (address - mapping->start)));
	return got > 0 ? (size_t)got : 0;
}

static size_t read_some(const struct target_core *core, remote_addr address, void *buffer,
			size_t size)
{
	size_t done = 0;
	while (done < size) {
		char *at = (char *)buffer + done;
		size_t got = core_file_read(core->file, address + done, at, size - done);
		if (!got)
			got = read_mapped(core, address + done, at, size - done);
		if (!got)
			break;
		done += got;
	}
	return done;
}

static bool read_memory(const struct memory_reader *reader, remote_addr address, void *buffer,
			size_t size, struct error *error)
{
	return read_some(target_of(reader)->core, address, buffer, size) == size ||
	       error_set(error, ERROR_ABSENT, "the core file has no %zu bytes at 0x%llx", size,
			 (unsigned long long)address);
}

bool target_core_read(const struct target *target, remote_addr address, void *buffer, size_t size)
{
	return core_file_read(target->core->file, address, buffer, size) == size;
}

ssize_t core_read_ranges(const struct target_core *core, const struct target_range *ranges,
			 size_t count, void *buffer)
{
	size_t total = 0;
	for (size_t i = 0; i < count; i++) {
		const size_t got =
			read_some(core, ranges[i].address, (char *)buffer + total, ranges[i].size);
		total += got;
		if (got < ranges[i].size)
			break;
	}
	return (ssize_t)total;
}

void target_core_use_file(const struct target *target, uint64_t inode, int fd)
{
	const struct target_core *core = target->core;
	if (inode >= core->file_count || core->files[inode] >= 0)
		return;
	core->files[inode] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* ---- mappings ---- */

static void add_path(struct strbuf *text, const char *path)
{
	for (; *path; path++) {
		if (*path == '\n')
			strbuf_add_text(text, "\\012");
		else
			strbuf_add_char(text, *path);
	}
}

static void add_line(struct strbuf *text, uint64_t start, uint64_t end, uint32_t flags,
		     const struct core_mapping *mapping, const char *path)
{
	strbuf_printf(
		text, "%llx-%llx %c%c%cp %llx 00:00 %u ", (unsigned long long)start,
		(unsigned long long)end, flags & PF_R ? 'r' : '-', flags & PF_W ? 'w' : '-',
		flags & PF_X ? 'x' : '-',
		(unsigned long long)(mapping ? mapping->offset + (start - mapping->start) : 0),
		mapping ? mapping->file : 0);
	add_path(text, mapping ? mapping->path : path);
	strbuf_add_char(text, '\n');
}

/* A name that the kernel gives; "": anonymous memory. */
static const char *special_name(const struct core_file *file, const struct core_segment *segment)
{
	uint64_t vdso, random;
	if (core_file_auxv(file, AT_SYSINFO_EHDR, &vdso) && segment->start == vdso)
		return "[vdso]";
	if (core_file_auxv(file, AT_RANDOM, &random) && segment->start <= random &&
	    random < segment->end)
		return "[stack]";
	return "";
}

/*
 * gdb leaves out what it does not write, and with that whether it is code: then it is taken for
 * that, which says no more than that its file is to be looked at.
 */
static void add_unwritten(struct strbuf *text, const struct core_file *file, size_t *next,
			  uint64_t below)
{
	for (; *next < file->mapping_count && file->mappings[*next].start < below; ++*next) {
		const struct core_mapping *mapping = &file->mappings[*next];
		const struct core_segment *segment = core_file_segment(file, mapping->start);
		if (!segment)
			add_line(text, mapping->start, mapping->end, PF_R | PF_X, mapping, "");
	}
}

char *target_core_maps(const struct target *target, size_t *size)
{
	const struct core_file *file = target->core->file;
	struct strbuf text;
	size_t next = 0;
	strbuf_init(&text);
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct core_segment *segment = &file->segments[i];
		add_unwritten(&text, file, &next, segment->start);
		add_line(&text, segment->start, segment->end, segment->flags,
			 core_file_mapping(file, segment->start), special_name(file, segment));
	}
	add_unwritten(&text, file, &next, UINT64_MAX);
	*size = text.size;
	return text.text;
}

/* ---- the program's arguments ---- */

static uint64_t word_at(const struct core_file *file, uint64_t address)
{
	uint64_t word = 0;
	return core_file_read(file, address, &word, sizeof(word)) == sizeof(word) ? word : 0;
}

/* The vector stands on the stack, below the random bytes that it points to; 0: it is not there. */
static remote_addr find_auxv(const struct core_file *file)
{
	enum { SEARCH = 64 << 10, LEAST = 32 };
	uint64_t random;
	if (!core_file_auxv(file, AT_RANDOM, &random) || random < SEARCH || file->auxv_size < LEAST)
		return 0;
	_cleanup_free_ uint8_t *bytes = alloc_zeroed(1, SEARCH);
	const uint64_t top = random & ~UINT64_C(15);
	/* The stack may begin further up. */
	for (size_t size = SEARCH; size >= 1024; size /= 2) {
		if (core_file_read(file, top - size, bytes, size) != size)
			continue;
		for (size_t at = size - LEAST; at > 0; at -= 8)
			if (memcmp(bytes + at, file->auxv, LEAST) == 0)
				return top - size + at;
	}
	return 0;
}

/* Below it are, downwards: 0, the environment, 0, the arguments, their number. */
static remote_addr find_start_stack(const struct core_file *file)
{
	enum { MOST = 256 << 10 }; /* words */
	remote_addr at = find_auxv(file);
	unsigned ends = 0;
	uint64_t arguments = 0;
	if (!at)
		return 0;
	for (size_t i = 0; i < MOST; i++) {
		at -= 8;
		const uint64_t word = word_at(file, at);
		if (ends == 2 && word == arguments)
			return at;
		ends += word == 0;
		arguments += ends == 2 && word != 0;
	}
	return 0;
}

/* As /proc/PID/cmdline has it, and as much of it. */
static char *read_arguments(const struct target_core *core)
{
	const struct core_file *file = core->file;
	char bytes[COMMAND_LINE_LIMIT];
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	const uint64_t count = core->start_stack ? word_at(file, core->start_stack) : 0;
	const uint64_t first = count ? word_at(file, core->start_stack + 8) : 0;
	size_t size = first ? core_file_read(file, first, bytes, sizeof(bytes)) : 0, used = 0;
	for (uint64_t i = 0; i < count && used < size; i++)
		used += strnlen(bytes + used, size - used) + 1;
	used = used < size ? used : size;
	while (used > 0 && bytes[used - 1] == '\0')
		used--;
	for (size_t i = 0; i < used; i++)
		if (bytes[i] == '\0')
			bytes[i] = ' ';
	if (used)
		utf8_add_clean(&clean, bytes, used);
	else
		utf8_add_clean(&clean, file->arguments, strlen(file->arguments));
	return alloc_string(clean.text);
}

/* The mapping of the program's own headers; NULL: not known. */
static const struct core_mapping *program_mapping(const struct core_file *file)
{
	uint64_t headers;
	return core_file_auxv(file, AT_PHDR, &headers) ? core_file_mapping(file, headers) : NULL;
}

/* ---- the target ---- */

static bool open_folder(const char *path, int *fd, struct error *error)
{
	*fd = path ? given_file_open(path, O_PATH | O_DIRECTORY) : -1;
	return !path || *fd >= 0 || error_set_errno(error, errno, "cannot open %s", path);
}

static pid_t process_id(const struct core_file *file)
{
	return file->pid ? file->pid : file->threads[0].tid;
}

static void close_one(int fd)
{
	if (fd >= 0)
		close(fd);
}

void core_free(struct target_core *core)
{
	for (size_t i = 0; i < core->file_count; i++)
		close_one(core->files[i]);
	for (size_t i = 0; i < core->problem_count; i++)
		free((void *)(uintptr_t)core->problems[i]);
	close_one(core->symbols.fd);
	free(core->problems);
	free(core->files);
	table_release(&core->by_tid);
	core_file_free(core->file);
	free(core);
}

/* Of a number that there is twice, the first. */
static void index_threads(struct target_core *core)
{
	uint32_t index;
	table_init(&core->by_tid);
	for (size_t i = 0; i < core->file->thread_count; i++)
		if (!table_find(&core->by_tid, (uint64_t)core->file->threads[i].tid, 0, &index))
			table_put(&core->by_tid, (uint64_t)core->file->threads[i].tid, 0,
				  (uint32_t)i);
}

static struct target *make_target(struct core_file *file, const struct target_core_options *options)
{
	struct target *target = alloc_zeroed(1, sizeof(*target));
	struct target_core *core = alloc_zeroed(1, sizeof(*core));
	target->memory.read = read_memory;
	target->pid = process_id(file);
	target->directory = target->root = target->newest = -1;
	target->state = alloc_zeroed(1, sizeof(*target->state));
	target->core = core;
	core->file = file;
	core->symbols.fd = -1;
	core->options = options;
	core->in_our_root = !options->sysroot;
	core->file_count = file->mapping_count + 1;
	core->files = alloc_zeroed(core->file_count, sizeof(*core->files));
	for (size_t i = 0; i < core->file_count; i++)
		core->files[i] = -1;
	core->start_stack = find_start_stack(file);
	index_threads(core);
	target->command_line = read_arguments(core);
	const struct core_mapping *program = program_mapping(file);
	target->executable = alloc_string(program ? program->path : file->name);
	return target;
}

/* A person's own choice: no more than that it is a file is asked. */
static bool open_file(const char *path, int *fd, struct stat *status, struct error *error)
{
	*fd = given_file_open(path, O_NONBLOCK | O_NOCTTY);
	bool well = *fd >= 0 && fstat(*fd, status) == 0;
	if (!well)
		error_set_errno(error, errno, "cannot open %s", path);
	else if (!(well = S_ISREG(status->st_mode)))
		error_set(error, ERROR_SYSTEM, "%s is not a file", path);
	if (!well && *fd >= 0)
		close(*fd);
	return well;
}

bool target_open_core(const struct target_core_options *options, struct target **out,
		      struct error *error)
{
	struct core_file *file = NULL;
	struct stat status;
	struct error why;
	int fd, root = -1, symbols = -1;
	bool opened = open_folder(options->sysroot, &root, error) &&
		      open_folder(options->symbols, &symbols, error) &&
		      open_file(options->path, &fd, &status, error);
	if (opened && !core_file_open(fd, &file, &why))
		opened = error_set(error, why.kind, "%s: %s", options->path, why.message);
	if (!opened) {
		close_one(root);
		close_one(symbols);
		return false;
	}
	struct target *target = make_target(file, options);
	target->root = root;
	target->core->symbols.fd = symbols;
	target->core->user = status.st_uid;
	target->core->time = (uint64_t)status.st_mtime;
	*out = target;
	return true;
}

bool target_is_core(const struct target *target)
{
	return target->core != NULL;
}

bool target_core_is_cut_off(const struct target *target)
{
	return target->core && target->core->file->truncated;
}

uint64_t target_core_time(const struct target *target)
{
	return target->core->time;
}

remote_addr core_start_stack(const struct target_core *core)
{
	return core->start_stack;
}

struct foreign_root core_files(const struct target *target)
{
	return (struct foreign_root){.fd = target->core->in_our_root ? FOREIGN_OUR_ROOT
								     : target->root,
				     .user = target->core->user};
}

const struct foreign_root *target_symbols(const struct target *target)
{
	return target->core && target->core->symbols.fd >= 0 ? &target->core->symbols : NULL;
}

int target_core_fetch(const struct target *target, const struct build_id *id, const char *path)
{
	const struct target_core_options *options = target->core->options;
	return options->fetch && id->size ? options->fetch(options->context, id, path) : -1;
}

const char *target_core_program(const struct target *target, uint64_t *inode)
{
	const struct core_mapping *program = program_mapping(target->core->file);
	*inode = program ? program->file : 0;
	return target->core->options->program;
}

void target_core_add_problem(const struct target *target, const char *text)
{
	struct target_core *core = target->core;
	for (size_t i = 0; i < core->problem_count; i++)
		if (strcmp(core->problems[i], text) == 0)
			return;
	if (core->problem_count == PROBLEMS_LIMIT)
		return;
	core->problems = alloc_room(core->problems, &core->problem_capacity,
				    core->problem_count + 1, sizeof(*core->problems));
	core->problems[core->problem_count++] = alloc_string(text);
}

size_t target_core_problems(const struct target *target, const char *const **texts)
{
	*texts = target->core->problems;
	return target->core->problem_count;
}

/* ---- threads ---- */

static const struct core_thread *find_thread(const struct target_core *core, pid_t tid)
{
	uint32_t index;
	return table_find(&core->by_tid, (uint64_t)tid, 0, &index) ? &core->file->threads[index]
								   : NULL;
}

bool target_core_registers(const struct target *target, pid_t tid, struct registers *registers)
{
	static const uint8_t from[REGISTER_COUNT] = {
		[REGISTER_RAX] = CORE_RAX, [REGISTER_RDX] = CORE_RDX, [REGISTER_RCX] = CORE_RCX,
		[REGISTER_RBX] = CORE_RBX, [REGISTER_RSI] = CORE_RSI, [REGISTER_RDI] = CORE_RDI,
		[REGISTER_RBP] = CORE_RBP, [REGISTER_RSP] = CORE_RSP, [REGISTER_R8] = CORE_R8,
		[REGISTER_R9] = CORE_R9,   [REGISTER_R10] = CORE_R10, [REGISTER_R11] = CORE_R11,
		[REGISTER_R12] = CORE_R12, [REGISTER_R13] = CORE_R13, [REGISTER_R14] = CORE_R14,
		[REGISTER_R15] = CORE_R15, [REGISTER_RIP] = CORE_RIP,
	};
	const struct core_thread *thread = find_thread(target->core, tid);
	if (!thread)
		return false;
	for (size_t i = 0; i < REGISTER_COUNT; i++)
		registers->value[i] = thread->registers[from[i]];
	registers->fs_base = thread->registers[CORE_FS_BASE];
	registers->known = (1u << REGISTER_COUNT) - 1;
	return true;
}

/* Signals that make core files by default (signal(7)). */
static bool is_crash(int number)
{
	static const int numbers[] = {SIGQUIT, SIGILL,	SIGTRAP, SIGABRT, SIGBUS,
				      SIGFPE,  SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i] == number)
			return true;
	return false;
}

bool target_core_crash(const struct target *target, pid_t tid, struct target_crash *crash)
{
	const struct core_file *file = target->core->file;
	*crash = (struct target_crash){.number = file->signal.number,
				       .code = file->signal.code,
				       .address = file->signal.address,
				       .sender = file->signal.sender};
	return tid == file->threads[0].tid && is_crash(file->signal.number);
}

static int by_number(const void *left, const void *right)
{
	const pid_t *a = left, *b = right;
	return *a < *b ? -1 : *a > *b;
}

/* The one that crashed first, the others in the order in which they were made, more or less. */
bool core_thread_list(const struct target_core *core, pid_t **tids, size_t *count)
{
	*count = core->file->thread_count;
	*tids = alloc_zeroed(*count, sizeof(**tids));
	for (size_t i = 0; i < *count; i++)
		(*tids)[i] = core->file->threads[i].tid;
	const size_t first = is_crash(core->file->signal.number);
	qsort(*tids + first, *count - first, sizeof(**tids), by_number);
	return true;
}

/*
 * It was in a system call if the call's number is there still, and the result is what the kernel
 * has for one that a signal, be it the last one, has ended (include/linux/errno.h).
 */
static bool is_blocked(const struct core_thread *thread)
{
	enum { ERESTARTSYS = 512, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK = 516 };
	switch (-thread->registers[CORE_RAX]) {
	case EINTR:
	case ERESTARTSYS:
	case ERESTARTNOINTR:
	case ERESTARTNOHAND:
	case ERESTART_RESTARTBLOCK:
		return (int64_t)thread->registers[CORE_ORIG_RAX] >= 0;
	default:
		return false;
	}
}

bool core_thread_wait(const struct target_core *core, pid_t tid, struct target_wait *wait)
{
	static const uint8_t arguments[] = {CORE_RDI, CORE_RSI, CORE_RDX,
					    CORE_R10, CORE_R8,	CORE_R9};
	const struct core_thread *thread = find_thread(core, tid);
	if (!thread)
		return false;
	*wait = (struct target_wait){.running = true, .number = -1};
	if (!is_blocked(thread))
		return true;
	*wait = (struct target_wait){.number = (long)thread->registers[CORE_ORIG_RAX],
				     .sp = thread->registers[CORE_RSP],
				     .pc = thread->registers[CORE_RIP]};
	for (size_t i = 0; i < sizeof(arguments); i++)
		wait->arguments[i] = thread->registers[arguments[i]];
	return true;
}

bool core_thread_read(const struct target_core *core, pid_t tid, struct target_thread *thread)
{
	struct target_wait wait;
	*thread = (struct target_thread){.tid = tid, .state = '?'};
	if (!core_thread_wait(core, tid, &wait))
		return false;
	thread->state = wait.running ? 'R' : 'S';
	return true;
}
