/* SPDX-License-Identifier: MIT */
/*
 * blas_stepped [-v] [-a] [-s SIZE] [-p BYTES] LIBRARY [CALL...]: walks the stack at each
 * instruction of BLAS calls, and compares. A child makes the calls, as "dgemm", step by step
 * (PTRACE_SINGLESTEP); a shadow stack knows for each call that has not returned where its return
 * address stands and what the callee-saved registers were. At an instruction's 1st, 2nd, 4th, 8th
 * ... turn unwind_thread() has to give the same for all of them. -a: all variants of each call
 * (order, sides, transposed), not one; -p: the child's stack begins that much lower.
 *
 * Prints which kernels the library has taken, and counts; ends with 1 when something differs.
 */
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cfi/cfi.h"
#include "base/alloc.h"
#include "unwind/unwind.h"

enum { SHADOW_LIMIT = 256, CODE_BYTES = 8, MATRIX_MOST = 160, SHOWN_MOST = 20 };

/* ---- the calls: by CBLAS's conventions, arguments by letters ---- */

/*
 *   O T U D S     order, transposed, upper or lower, diagonal, side: one bit each of the variant
 *   m n k v       sizes: of what is square or has many rows, few columns, even fewer, of a vector
 *   1             the distance between elements
 *   a b           factors: numbers of real calls, addresses of complex ones
 *   A B C X Y r   matrices with `m` elements a row, vectors, a result: addresses
 */
static const struct call {
	const char *name, *types, *arguments;
} calls[] = {
	{"%cgemm", "sdcz", "OTTmnkaAmBmbCm"},
	{"%cgemv", "sdcz", "OTmnaAmX1bY1"},
	{"%ctrsm", "sdcz", "OSUTDnmaAmBm"},
	{"%csyrk", "sdcz", "OUTmkaAmbCm"},
	{"%cdot", "sd", "vX1Y1"},
	{"%cdotu_sub", "cz", "vX1Y1r"},
	{"%cdotc_sub", "cz", "vX1Y1r"},
	{"%caxpy", "sdcz", "vaX1Y1"},
	{"i%camax", "sdcz", "vX1"},
	{"i%camin", "sdcz", "vX1"},
	{"%csymm", "sdcz", "OSUmkaAmBmbCm"},
	{"%csyr2k", "sdcz", "OUTmkaAmBmbCm"},
	{"%chemm", "cz", "OSUmkaAmBmbCm"},
	{"%ctrmm", "sdcz", "OSUTDnmaAmBm"},
	{"%ctrmv", "sdcz", "OUTDmAmX1"},
	{"%ctrsv", "sdcz", "OUTDmAmX1"},
	{"%csymv", "sd", "OUmaAmX1bY1"},
	{"%chemv", "cz", "OUmaAmX1bY1"},
	{"%cger", "sd", "OmnaX1Y1Am"},
	{"%cgeru", "cz", "OmnaX1Y1Am"},
	{"%cgerc", "cz", "OmnaX1Y1Am"},
	{"%cscal", "sdcz", "vaX1"},
	{"%ccopy", "sdcz", "vX1Y1"},
	{"%cswap", "sdcz", "vX1Y1"},
	{"%casum", "sd", "vX1"},
	{"%cnrm2", "sd", "vX1"},
	{"%crot", "sd", "vX1Y1ab"},
	{"%caxpby", "sdcz", "vaX1bY1"},
	{"%comatcopy", "sdcz", "OTmmaAmBm"},
};

enum { WORDS = 16 };

/* Whole numbers and floating-point ones have registers of their own, in whatever order they come.
 */
typedef void (*blas_function)(long, long, long, long, long, long, long, long, long, long, long,
			      long, long, long, long, long, double, double);

struct arguments {
	long words[WORDS];
	double numbers[2];
};

static double matrices[3][2 * MATRIX_MOST * MATRIX_MOST], vectors[3][2 * 4096], factors[4];

/* The float stands in the low half. */
static double number_of(char type, double value)
{
	const float narrow = (float)value;
	double word = 0;
	if (type == 'd')
		return value;
	memcpy(&word, &narrow, sizeof(narrow));
	return word;
}

static bool is_complex(char type)
{
	return type == 'c' || type == 'z';
}

static void add(struct arguments *arguments, size_t *count, long word)
{
	if (*count < WORDS)
		arguments->words[(*count)++] = word;
}

static long choose(char letter, unsigned bit)
{
	static const char letters[] = "OTUDS";
	static const long values[] = {101, 111, 121, 131, 141};
	return values[strchr(letters, letter) - letters] + (bit & 1);
}

/* Each has a rest for all of a kernel's ways to end: 16 + 8 + 4 + 1. */
static long size_of(char letter, long size)
{
	return letter == 'm'   ? size
	       : letter == 'n' ? size / 2 + 1
	       : letter == 'k' ? size / 4 + 2
	       : letter == 'v' ? 3 * size
			       : 1;
}

static void fill_in(const struct call *call, char type, unsigned variant, long size,
		    struct arguments *arguments)
{
	size_t count = 0;
	memset(arguments, 0, sizeof(*arguments));
	for (const char *at = call->arguments; *at; at++) {
		if (strchr("OTUDS", *at)) {
			add(arguments, &count, choose(*at, variant));
			variant >>= 1;
		} else if (strchr("mnkv1", *at)) {
			add(arguments, &count, size_of(*at, size));
		} else if (*at == 'a' || *at == 'b') {
			if (is_complex(type))
				add(arguments, &count, (long)factors);
			else
				arguments->numbers[*at - 'a'] = number_of(type, 0.5);
		} else if (*at >= 'A' && *at <= 'C') {
			add(arguments, &count, (long)matrices[*at - 'A']);
		} else {
			add(arguments, &count, (long)vectors[*at == 'r' ? 2 : *at - 'X']);
		}
	}
}

static unsigned variants_of(const struct call *call)
{
	unsigned count = 1;
	for (const char *at = call->arguments; *at; at++)
		count <<= !!strchr("OTUDS", *at);
	return count;
}

static __attribute__((noinline)) void make_call(blas_function function,
						const struct arguments *arguments)
{
	const long *const w = arguments->words;
	function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
		 w[13], w[14], w[15], arguments->numbers[0], arguments->numbers[1]);
}

/* numpy's and SciPy's wheels, Debian's packages. */
static void *find_symbol(void *library, const char *format, const char *name)
{
	static const char *const forms[] = {"scipy_%s64_", "%s64_", "scipy_%s", "%s"};
	char plain[64], whole[80];
	void *found = NULL;
	snprintf(plain, sizeof(plain), format, name);
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms) && !found; i++) {
		snprintf(whole, sizeof(whole), forms[i], plain);
		found = dlsym(library, whole);
	}
	return found;
}

/* ---- the child ---- */

struct work {
	const char *name;
	blas_function function;
	struct arguments arguments;
};

static struct work *works;
static size_t work_count, work_capacity;

/* Once as it is, for what is only done the first time; then between two stops. */
static void run_child(size_t padding)
{
	char *const room = alloca(padding + 16);
	memset(room, 1, padding + 16);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	for (size_t i = 0; i < work_count; i++) {
		make_call(works[i].function, &works[i].arguments);
		raise(SIGSTOP);
		make_call(works[i].function, &works[i].arguments);
		raise(SIGSTOP);
	}
	_exit(room[0] - 1);
}

/* ---- the shadow stack ---- */

static const uint8_t saved_numbers[UNWIND_SAVED_COUNT] = {
	[UNWIND_RBX] = REGISTER_RBX, [UNWIND_RBP] = REGISTER_RBP, [UNWIND_R12] = REGISTER_R12,
	[UNWIND_R13] = REGISTER_R13, [UNWIND_R14] = REGISTER_R14, [UNWIND_R15] = REGISTER_R15};

struct activation {
	remote_addr slot, returns_to; /* where the return address stands; what it is */
	uint64_t saved[UNWIND_SAVED_COUNT];
};

struct stepped_place {
	remote_addr pc;
	uint64_t turns;
	bool is_call, compared, is_bare, undecided, guessed, differs, misinformed;
};

static struct {
	pid_t pid;
	struct target *target;
	struct module_table table;
	struct unwinder *unwinder;
	struct unwind_stack stack;
	struct activation shadow[SHADOW_LIMIT];
	size_t depth;
	struct table place_ids; /* (PC, 0) -> index */
	struct stepped_place *places;
	size_t place_count, place_capacity;
	uint64_t steps, walks;
	Dwfl *names;
} child;

static bool verbose;
static size_t shown;

/* Of its own, so that it shares nothing with what is judged. */
static bool begins_call(const uint8_t bytes[CODE_BYTES])
{
	size_t i = 0;
	while (i < 4 && (strchr("\x66\x67\xf2\xf3\x2e\x3e", bytes[i]) || bytes[i] >> 4 == 4) &&
	       bytes[i])
		i++;
	return bytes[i] == 0xe8 || (bytes[i] == 0xff && (bytes[i + 1] >> 3 & 7) == 2);
}

/* No call frame information covers it. */
static bool is_bare(remote_addr pc)
{
	const struct mapping *const mapping = module_table_find(&child.table, pc);
	uint64_t start;
	return !mapping || !mapping->module ||
	       !frame_index_function(mapping->module,
				      pc - mapping->module->load_bias, &start, NULL);
}

static struct stepped_place *find_place(remote_addr pc)
{
	uint8_t bytes[CODE_BYTES] = {0};
	uint32_t i;
	if (table_find(&child.place_ids, pc, 0, &i))
		return &child.places[i];
	child.places = alloc_room(child.places, &child.place_capacity, child.place_count + 1,
				  sizeof(*child.places));
	i = (uint32_t)child.place_count++;
	const bool read = memory_read(target_memory(child.target), pc, bytes, sizeof(bytes), NULL);
	child.places[i] = (struct stepped_place){
		.pc = pc, .is_call = read && begins_call(bytes), .is_bare = is_bare(pc)};
	table_put(&child.place_ids, pc, 0, i);
	return &child.places[i];
}

static void push(const struct registers *registers)
{
	const remote_addr sp = registers->value[REGISTER_RSP];
	uint64_t address;
	if (child.depth == SHADOW_LIMIT ||
	    !memory_read_u64(target_memory(child.target), sp, &address, NULL))
		exit(2);
	struct activation *const activation = &child.shadow[child.depth++];
	*activation = (struct activation){.slot = sp, .returns_to = address};
	for (int i = 0; i < UNWIND_SAVED_COUNT; i++)
		activation->saved[i] = registers->value[saved_numbers[i]];
}

/* After an instruction: `before` is it. */
static void follow(const struct stepped_place *before, const struct registers *registers)
{
	while (child.depth && child.shadow[child.depth - 1].slot < registers->value[REGISTER_RSP])
		child.depth--;
	if (before && before->is_call)
		push(registers);
}

/* ---- the comparison ---- */

static const char *name_of(remote_addr pc)
{
	Dwfl_Module *const module = dwfl_addrmodule(child.names, pc);
	const char *const name = module ? dwfl_module_addrname(module, pc) : NULL;
	return name ? name : "?";
}

static void show(const struct stepped_place *place, size_t level, const char *what, uint64_t ours,
		 uint64_t theirs)
{
	if (shown++ >= SHOWN_MOST && !verbose)
		return;
	GElf_Off offset = 0;
	GElf_Sym symbol;
	Dwfl_Module *const module = dwfl_addrmodule(child.names, place->pc);
	if (module)
		dwfl_module_addrinfo(module, place->pc, &offset, &symbol, NULL, NULL, NULL);
	printf("%s+%#lx, turn %lu, frame %zu: %s %#lx, not %#lx\n", name_of(place->pc), offset,
	       place->turns, level, what, ours, theirs);
}

/* GCC says of a register that it is saved an instruction too early, and until after it is popped.
 */
enum verdict { AGREES, DIFFERS, MISINFORMED };

static enum verdict judge(const struct stepped_place *place, size_t level)
{
	const struct activation *const activation = &child.shadow[child.depth - 1 - level];
	const struct unwind_frame *const frame = &child.stack.frames[level];
	const struct unwind_frame *const caller = frame + 1;
	if (frame->cfa != activation->slot + 8) {
		show(place, level, "CFA", frame->cfa, activation->slot + 8);
		return DIFFERS;
	}
	if (caller->pc != activation->returns_to) {
		show(place, level, "return address", caller->pc, activation->returns_to);
		return DIFFERS;
	}
	for (int i = 0; i < UNWIND_SAVED_COUNT; i++)
		if (caller->saved_known >> i & 1 && caller->saved[i] != activation->saved[i]) {
			show(place, level, "saved register", caller->saved[i],
			     activation->saved[i]);
			return place->is_bare || level > 0 ? DIFFERS : MISINFORMED;
		}
	return AGREES;
}

static void compare(struct stepped_place *place, const struct registers *registers)
{
	struct error error;
	const struct unwind_request request = {.registers = registers,
					       .memory = target_memory(child.target)};
	if (!unwind_thread(child.unwinder, &request, &child.stack, &error)) {
		fprintf(stderr, "blas_stepped: %s\n", error.message);
		exit(2);
	}
	const struct unwind_frame *const leaf = child.stack.frames;
	child.walks++;
	place->compared = true;
	place->guessed |= leaf->guessed;
	for (size_t level = 0; level < child.depth; level++) {
		if (level + 1 >= child.stack.count) {
			if (!place->undecided)
				show(place, level, "walk ends", child.stack.end, 0);
			place->undecided = true;
			return;
		}
		const enum verdict verdict = judge(place, level);
		place->differs |= verdict == DIFFERS;
		place->misinformed |= verdict == MISINFORMED;
		if (verdict != AGREES)
			return;
	}
}

/* ---- the steps ---- */

static void read_registers(struct registers *registers)
{
	struct user_regs_struct now;
	ptrace(PTRACE_GETREGS, child.pid, NULL, &now);
	*registers =
		(struct registers){.value = {now.rax, now.rdx, now.rcx, now.rbx, now.rsi, now.rdi,
					     now.rbp, now.rsp, now.r8, now.r9, now.r10, now.r11,
					     now.r12, now.r13, now.r14, now.r15, now.rip},
				   .fs_base = now.fs_base,
				   .known = (1u << REGISTER_COUNT) - 1};
}

/* Until it stops by itself again. */
static void step_through(void)
{
	struct registers registers;
	uint32_t before = UINT32_MAX;
	int status;
	child.depth = 0;
	do {
		read_registers(&registers);
		follow(before == UINT32_MAX ? NULL : &child.places[before], &registers);
		struct stepped_place *const place = find_place(registers.value[REGISTER_RIP]);
		place->turns++;
		child.steps++;
		if (child.depth && !(place->turns & (place->turns - 1)))
			compare(place, &registers);
		before = (uint32_t)(place - child.places);
		ptrace(PTRACE_SINGLESTEP, child.pid, NULL, NULL);
		if (waitpid(child.pid, &status, 0) != child.pid || !WIFSTOPPED(status)) {
			fprintf(stderr, "blas_stepped: the child has ended\n");
			exit(2);
		}
	} while (WSTOPSIG(status) == SIGTRAP);
}

/* Exit status 3: this CPU has not all of the kernels' instructions. */
static bool wait_stopped(void)
{
	int status;
	if (waitpid(child.pid, &status, 0) != child.pid || !WIFSTOPPED(status))
		return false;
	if (WSTOPSIG(status) == SIGILL)
		exit(3);
	return WSTOPSIG(status) == SIGSTOP;
}

static void open_child(void)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
	};
	struct error error;
	module_table_init(&child.table);
	if (!target_open(child.pid, &child.target, &error) ||
	    !module_table_refresh(&child.table, child.target, NULL, &error)) {
		fprintf(stderr, "blas_stepped: %s\n", error.message);
		exit(2);
	}
	child.unwinder = unwinder_new(&child.table);
	unwind_stack_init(&child.stack);
	table_init(&child.place_ids);
	child.names = dwfl_begin(&callbacks);
	dwfl_linux_proc_report(child.names, child.pid);
	dwfl_report_end(child.names, NULL, NULL);
}

static void run(size_t padding)
{
	child.pid = fork();
	if (child.pid == 0)
		run_child(padding);
	for (size_t i = 0; i < work_count; i++) {
		if (!wait_stopped()) {
			fprintf(stderr, "blas_stepped: %s does not stop\n", works[i].name);
			exit(2);
		}
		if (i == 0)
			open_child();
		ptrace(PTRACE_SETOPTIONS, child.pid, NULL, PTRACE_O_EXITKILL);
		step_through();
		ptrace(PTRACE_CONT, child.pid, NULL, NULL);
	}
	waitpid(child.pid, NULL, 0);
}

/* ---- what there was ---- */

static void print_counts(void)
{
	size_t compared = 0, bare = 0, undecided = 0, guessed = 0, different = 0, misinformed = 0;
	for (size_t i = 0; i < child.place_count; i++) {
		const struct stepped_place *const place = &child.places[i];
		compared += place->compared;
		bare += place->compared && place->is_bare;
		undecided += place->undecided;
		guessed += place->guessed && !place->undecided;
		different += place->differs;
		misinformed += place->misinformed;
		if (verbose && place->guessed)
			printf("%s: %#lx guessed\n", name_of(place->pc), place->pc);
	}
	printf("%zu calls, %lu steps, %lu walks\n", work_count, child.steps, child.walks);
	printf("instructions %zu without information %zu undecided %zu guessed %zu differ %zu "
	       "information wrong %zu\n",
	       compared, bare, undecided, guessed, different, misinformed);
	exit(different != 0 || compared == 0);
}

static void add_work(void *library, const struct call *call, char type, unsigned variant, long size)
{
	char format[32] = "cblas_", name[32];
	snprintf(format + strlen(format), sizeof(format) - strlen(format), call->name, type);
	snprintf(name, sizeof(name), "%s", format + strlen("cblas_"));
	void *const found = find_symbol(library, "%s", format);
	if (!found)
		return;
	works = alloc_room(works, &work_capacity, work_count + 1, sizeof(*works));
	struct work *const work = &works[work_count++];
	work->name = call->name;
	memcpy(&work->function, &found, sizeof(found));
	fill_in(call, type, variant, size, &work->arguments);
}

static bool is_wanted(const struct call *call, char type, char **words, int count)
{
	char name[32];
	snprintf(name, sizeof(name), call->name, type);
	for (int i = 0; i < count; i++)
		if (strcmp(words[i], name) == 0)
			return true;
	return count == 0;
}

static void add_works(void *library, char **words, int count, bool all, long size)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		for (const char *type = calls[i].types; *type; type++)
			for (unsigned n = 0; n < (all ? variants_of(&calls[i]) : 1); n++)
				if (is_wanted(&calls[i], *type, words, count))
					add_work(library, &calls[i], *type, n, size);
}

static void fill_data(void)
{
	for (size_t i = 0; i < sizeof(matrices) / sizeof(double); i++)
		((double *)matrices)[i] = 1 + (double)(i % 7);
	for (size_t i = 0; i < sizeof(vectors) / sizeof(double); i++)
		((double *)vectors)[i] = 1 + (double)(i % 5);
	for (size_t i = 0; i < sizeof(factors) / sizeof(double); i++)
		factors[i] = 0.5;
}

int main(int count, char **words)
{
	bool all = false;
	long size = 29;
	size_t padding = 0;
	for (int option; (option = getopt(count, words, "vas:p:")) != -1;) {
		verbose |= option == 'v';
		all |= option == 'a';
		size = option == 's' ? strtol(optarg, NULL, 0) : size;
		padding = option == 'p' ? strtoul(optarg, NULL, 0) : padding;
	}
	if (optind >= count || size < 1 || size > MATRIX_MOST || padding > 1 << 20) {
		fprintf(stderr,
			"usage: blas_stepped [-v] [-a] [-s SIZE] [-p BYTES] LIBRARY [CALL...]\n");
		return 2;
	}
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	void *const library = dlopen(words[optind], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "blas_stepped: %s\n", dlerror());
		return 2;
	}
	void *const found = find_symbol(library, "%s", "openblas_get_corename");
	char *(*get_corename)(void);
	memcpy(&get_corename, &found, sizeof(found));
	printf("kernels %s\n", found ? get_corename() : "?");
	fill_data();
	add_works(library, words + optind + 1, count - optind - 1, all, size);
	fflush(stdout);
	run(padding);
	print_counts();
}
