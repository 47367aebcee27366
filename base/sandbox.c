/* SPDX-License-Identifier: MIT */
/*
 * Rights are of a thread: credentials(7), capabilities(7), seccomp(2), by the calls themselves; the
 * C library's change all threads. The filter is a list of numbers, made into BPF here.
 */
#include "base/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"

#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#endif
#ifndef WATCHED
#define WATCHED 0 /* by LeakSanitizer, which traces and opens */
#endif

/* The most frequent first: older kernels go through them one by one. */
static const uint16_t allowed[] = {
	/* bytes of what is open */
	SYS_pread64,
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_preadv,
	SYS_pwrite64,
	SYS_writev,
	SYS_lseek,
	SYS_fstat,
	SYS_close,
	SYS_close_range,
	SYS_getdents64,
	SYS_ftruncate,
	SYS_fallocate,
	SYS_fsync,
	SYS_fdatasync,
	SYS_fadvise64,
	SYS_fstatfs,
	SYS_dup,
	SYS_dup2,
	SYS_dup3,
	SYS_fcntl,
	SYS_pipe2,
	SYS_copy_file_range,
	SYS_sendfile,
	/* names of what is there: nothing is opened */
	SYS_newfstatat,
	SYS_statx,
	SYS_readlink,
	SYS_readlinkat,
	SYS_getcwd,
	SYS_access,
	SYS_faccessat,
	SYS_faccessat2,
	/* the broker */
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_shutdown,
	/* memory */
	SYS_munmap,
	SYS_brk,
	SYS_mremap,
	SYS_madvise,
	SYS_mincore,
	SYS_mlock,
	SYS_munlock,
	SYS_membarrier,
	/* waiting, and time */
	SYS_futex,
	SYS_poll,
	SYS_ppoll,
	SYS_select,
	SYS_pselect6,
	SYS_epoll_wait,
	SYS_epoll_ctl,
	SYS_nanosleep,
	SYS_clock_nanosleep,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_gettimeofday,
	SYS_time,
	SYS_sched_yield,
	SYS_restart_syscall,
	/* threads and processes of ours: they keep this filter */
	SYS_clone,
	SYS_fork,
	SYS_vfork,
	SYS_wait4,
	SYS_waitid,
	SYS_exit,
	SYS_exit_group,
	SYS_set_robust_list,
	SYS_get_robust_list,
	SYS_rseq,
	SYS_set_tid_address,
	SYS_arch_prctl,
	SYS_sched_getaffinity,
	SYS_sched_setaffinity,
	SYS_sched_getparam,
	SYS_sched_getscheduler,
	SYS_sched_setscheduler,
	SYS_sched_setattr,
	SYS_sched_getattr,
	SYS_getpriority,
	SYS_setpriority,
	SYS_getcpu,
	/* signals; only within our process, or by our user */
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_rt_sigpending,
	SYS_rt_sigtimedwait,
	SYS_sigaltstack,
	SYS_tgkill,
	/* who and where we are */
	SYS_getpid,
	SYS_gettid,
	SYS_getppid,
	SYS_getpgid,
	SYS_getpgrp,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_getresuid,
	SYS_getresgid,
	SYS_getgroups,
	SYS_capget,
	SYS_uname,
	SYS_sysinfo,
	SYS_getrlimit,
	SYS_getrusage,
	SYS_times,
	SYS_umask,
	SYS_getrandom,
};

/* No part of ours has a use for these: who makes such a call has been taken over. */
static const uint16_t killed[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_process_vm_writev,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_unshare,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_io_uring_setup,
	SYS_userfaultfd,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_open_by_handle_at,
	SYS_fsmount,
	SYS_open_tree,
	SYS_move_mount,
	SYS_pidfd_getfd,
	SYS_modify_ldt,
	SYS_personality,
	SYS_kcmp,
};

/* Allowed where an argument has one of some values, or not a bit. */
static const struct checked {
	uint16_t call;
	uint8_t argument;
	bool is_bit; /* not with this bit */
	uint32_t value;
} checked[] = {
	{SYS_mmap, 2, true, PROT_EXEC},	     {SYS_mprotect, 2, true, PROT_EXEC},
	{SYS_socketpair, 0, false, AF_UNIX}, {SYS_ioctl, 1, false, TCGETS},
	{SYS_ioctl, 1, false, TIOCGPGRP},    {SYS_ioctl, 1, false, TIOCGWINSZ},
	{SYS_ioctl, 1, false, FIONREAD},     {SYS_prctl, 0, false, PR_SET_NAME},
	{SYS_prctl, 0, false, PR_GET_NAME},  {SYS_prctl, 0, false, PR_SET_PDEATHSIG},
	{SYS_prctl, 0, false, PR_SET_VMA},   {SYS_prlimit64, 0, false, 0},
};

enum { MOST_STEPS = 600 };

struct program {
	struct sock_filter steps[MOST_STEPS];
	unsigned short count;
};

static void add(struct program *program, uint16_t code, uint8_t yes, uint8_t no, uint32_t value)
{
	if (program->count < MOST_STEPS)
		program->steps[program->count++] = (struct sock_filter){code, yes, no, value};
}

static void answer(struct program *program, uint32_t with)
{
	add(program, BPF_RET | BPF_K, 0, 0, with);
}

/* The call of that number ends here. */
static void answer_call(struct program *program, uint32_t call, uint32_t with)
{
	add(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call);
	answer(program, with);
}

static void add_checked(struct program *program, const struct checked *one)
{
	const uint32_t number = offsetof(struct seccomp_data, nr);
	const uint32_t argument =
		(uint32_t)(offsetof(struct seccomp_data, args) + one->argument * sizeof(uint64_t));
	const uint16_t compare = one->is_bit ? BPF_JSET : BPF_JEQ;
	add(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, one->call);
	add(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, argument);
	add(program, BPF_JMP | compare | BPF_K, one->is_bit, !one->is_bit, one->value);
	answer(program, SECCOMP_RET_ALLOW);
	add(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, number);
}

/* x32's calls have numbers of their own, with this bit. */
static void make_filter(struct program *program, enum sandbox_kind kind)
{
	const uint32_t X32 = 0x40000000, REFUSED = SECCOMP_RET_ERRNO | EPERM;
	program->count = 0;
	add(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	add(program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
	answer(program, SECCOMP_RET_KILL_PROCESS);
	add(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	add(program, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32);
	answer(program, SECCOMP_RET_KILL_PROCESS);
	for (size_t i = 0; kind == SANDBOX_NO_FILES && i < sizeof(allowed) / sizeof(*allowed); i++)
		answer_call(program, allowed[i], SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < sizeof(killed) / sizeof(*killed); i++)
		answer_call(program, killed[i], SECCOMP_RET_KILL_PROCESS);
	if (kind == SANDBOX_FETCHES) {
		answer(program, SECCOMP_RET_ALLOW);
		return;
	}
	/* The C library goes on by clone(2), whose flags may be seen. */
	answer_call(program, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
	for (size_t i = 0; i < sizeof(checked) / sizeof(*checked); i++)
		add_checked(program, &checked[i]);
	answer(program, REFUSED);
}

static void set_filter(enum sandbox_kind kind)
{
	struct program program;
	make_filter(&program, kind);
	const struct sock_fprog given = {.len = program.count, .filter = program.steps};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &given) != 0)
		log_verbose("no filter of system calls while files are read: %s", strerror(errno));
}

static void become(struct sandbox_user user)
{
	if (geteuid() != 0)
		return;
	if (syscall(SYS_setgroups, 0, NULL) != 0 ||
	    syscall(SYS_setresgid, user.group, user.group, user.group) != 0 ||
	    syscall(SYS_setresuid, user.user, user.user, user.user) != 0)
		log_verbose("files are read as user %u, not %u: %s", (unsigned)geteuid(),
			    (unsigned)user.user, strerror(errno));
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	if (syscall(SYS_capset, &header, none) != 0)
		log_verbose("files are read with capabilities: %s", strerror(errno));
}

bool sandbox_enter(enum sandbox_kind kind, struct sandbox_user user)
{
	const pid_t parent = getppid();
	int signal_at_end = 0;
	if (WATCHED)
		return false;
	/* A change of user forgets it. */
	prctl(PR_GET_PDEATHSIG, &signal_at_end);
	if (kind == SANDBOX_NO_FILES)
		become(user);
	drop_capabilities();
	prctl(PR_SET_PDEATHSIG, signal_at_end);
	if (signal_at_end && getppid() != parent)
		_exit(1);
	set_filter(kind);
	return true;
}
