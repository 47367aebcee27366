# SPDX-License-Identifier: MIT
"""Commands of ours whose system calls and allocations fail: which faults there are, and what must hold after each.

$FAULTS of them (all N of all calls: FAULTS=all), chosen by $SEED; $FAULT="openat:7+:EMFILE" is that one alone.
"""
import errno
import os
import pathlib
import random
import re
import subprocess
import tempfile

from harness import (BUILD, DEADLINE, Failure, Skip, counts, expect, finish, folded, process_state, run, start, tracer,
                     wait_until)

INJECT = BUILD / "tests" / "tools" / "inject"
SECONDS = DEADLINE / 4     # alone it takes one or two
SEED = int(os.environ.get("SEED", 1))

# What each may fail with.
ERRORS = {
    "bpf": "EPERM EINVAL ENOMEM E2BIG", "brk": "ENOMEM", "clone": "EAGAIN ENOMEM", "clone3": "EAGAIN ENOMEM",
    "eventfd2": "EMFILE ENFILE ENOMEM", "epoll_create1": "EMFILE ENOMEM", "epoll_ctl": "ENOSPC ENOMEM",
    "faccessat2": "EACCES EROFS ENOMEM", "fchmod": "EPERM EIO EROFS", "fchown": "EPERM EIO EROFS",
    "fcntl": "EINVAL EMFILE", "fstatfs": "EIO ENOSYS", "fsync": "EIO ENOSPC EDQUOT", "getdents64": "ENOENT ENOMEM",
    "getrandom": "ENOSYS EAGAIN", "ioctl": "EINVAL ENOTTY ENOMEM EBADF", "linkat": "ENOSPC EPERM ENOENT EXDEV",
    "lseek": "ESPIPE EINVAL", "madvise": "EINVAL ENOMEM", "mmap": "ENOMEM EPERM", "mprotect": "ENOMEM EACCES",
    "mremap": "ENOMEM", "newfstatat": "EACCES ENOMEM ENOENT", "openat": "EMFILE ENFILE EACCES ENOENT ENOMEM EIO",
    "openat2": "EMFILE ENOSYS EACCES ENOENT EAGAIN", "perf_event_open": "EACCES EMFILE ENOENT EINVAL ENOSPC ENOMEM",
    "pidfd_open": "EMFILE ENOSYS ESRCH", "pipe2": "EMFILE ENFILE", "pread64": "EIO ESRCH EINTR ENOMEM",
    "prctl": "EINVAL EPERM", "prlimit64": "EPERM", "process_vm_readv": "EFAULT EPERM ESRCH ENOMEM",
    "ptrace": "EPERM ESRCH EIO", "read": "EIO ESRCH EINTR ENOMEM", "readlink": "ENOENT EACCES ENOMEM",
    "readlinkat": "ENOENT EACCES ENOMEM", "rename": "ENOSPC EACCES", "renameat": "ENOSPC EACCES EXDEV",
    "sched_getaffinity": "EINVAL ESRCH", "sched_setaffinity": "EINVAL EPERM ESRCH",
    "sched_setscheduler": "EPERM EINVAL", "socket": "EMFILE EACCES", "unlinkat": "EACCES EIO",
    "wait4": "ECHILD EINTR", "write": "ENOSPC EIO EPIPE", "writev": "ENOSPC EIO EPIPE", "malloc": "ENOMEM",
}
# Ours that ends with the fault's effect unseen is no failure; these words mean that it went out of hand.
CRASH = re.compile(r"Sanitizer|runtime error:|Assertion|ended by signal|stack smashing|double free|corrupted")
# libdw is not prepared for it everywhere: that is said, and the target runs on.
ENDED = re.compile(r"the process that does the work was ended by signal (6|11) ")

# pdump says at the thread what could not be read.
PARTIAL = re.compile(r'not read|uninterruptible|"problem": ?"')
MEMORY = {"malloc", "brk", "mmap"}
# No look at a thread gives these for another reason, as ENOENT is given when it has ended.
OURS = {errno.EMFILE, errno.ENFILE}
STATUSES = {0, 1, 3, 4, 5, 6}


class Fault:
    def __init__(self, call, number, following, error):
        self.call, self.number, self.following, self.error = call, number, following, error

    def __str__(self):
        name = errno.errorcode[self.error] if self.call != "malloc" else "NULL"
        return f"{self.call}:{self.number}{'+' if self.following else ''}:{name}"

    def is_ours(self):
        """No reason to show less."""
        return self.error in OURS or self.call == "malloc" or (
            self.call == "ptrace" and self.error == errno.EIO and not self.following)

    @staticmethod
    def parse(text):
        call, number, error = text.split(":")
        error = errno.ENOMEM if error == "NULL" else getattr(errno, error)
        return Fault(call, int(number.rstrip("+")), number.endswith("+"), error)

    def command(self, shim):
        """What stands before the command."""
        count = f"{self.number}{'+' if self.following else ''}"
        if self.call == "malloc":
            return ["/usr/bin/env", f"LD_PRELOAD={shim}", f"FAIL_MALLOC={count}"]
        return [INJECT, f"{self.call}:{count}:{self.error}"]


def failing_malloc(folder):
    """The library, compiled; None: this build allocates by other means."""
    if "address" in BUILD.name:
        return None
    shim = pathlib.Path(folder) / "failing_malloc.so"
    source = pathlib.Path(__file__).parent / "failing_malloc.c"
    done = run("cc", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o", shim, source)
    if done.status:
        raise Skip(f"cc cannot make a library: {done.err.strip()[-200:]}")
    return shim


def totals(command, shim, well):
    """How many there are of each, where none fails."""
    with tempfile.NamedTemporaryFile("r") as file:
        done = run(INJECT, "-c", file.name, *command, seconds=60)
        if "inject: seccomp" in done.err:
            raise Skip(f"no filters here: {done.err.strip()}")
        done.need(well)
        found = {call: int(count) for call, count in map(str.split, file) if call in ERRORS}
    if shim:
        done = run(*Fault("malloc", 0, False, 0).command(shim), *command, seconds=60).need(well)
        found["malloc"] = int(re.search(r"(\d+) allocations", done.err).group(1))
    return found


def choose(found, count, chance, once):
    """Faults out of all there are: a call, then when, then how. Those of `once` do not go on."""
    if os.environ.get("FAULT"):
        return [Fault.parse(os.environ["FAULT"])]

    def fault(call, number):
        error = getattr(errno, chance.choice(ERRORS[call].split()))
        # Some libraries try again as long as it is EINTR, as they may.
        return Fault(call, number, chance.random() < 0.3 and error != errno.EINTR and call not in once, error)
    if count == "all":
        return [fault(call, number) for call, total in sorted(found.items()) for number in range(1, total + 1)]
    calls, weights = zip(*((call, total ** 0.5) for call, total in sorted(found.items())))
    return [fault(call, chance.randint(1, found[call])) for call in chance.choices(calls, weights, k=int(count))]


def stands_free(fixture, threads):
    """Nobody traces it, and no thread is stopped."""
    wait_until(lambda: tracer(fixture.pid) == 0, "nobody traces the target", SECONDS)
    for tid in threads:
        wait_until(lambda: process_state(fixture.pid, tid) in ("R", "S", None),
                   f"thread {tid} runs or sleeps, it is {process_state(fixture.pid, tid)}", SECONDS)


def unharmed(fixture, threads):
    """All threads run or wait as they did, nobody traces them, and work is being done."""
    stands_free(fixture, threads)
    before = fixture.report()["rounds"]
    wait_until(lambda: fixture.report()["rounds"] > before, "the target makes progress", SECONDS)


def whole(name, text):
    if name.endswith(".svg"):
        return text.rstrip().endswith("</svg>")
    if name.endswith(".folded"):
        return (not text or text.endswith("\n")) and folded(text) is not None
    return text.endswith("\n")


def ends_well(fault, command, shim, statuses, well=0):
    """The command with a fault: in time, with a status that is foreseen, and a message for each but 0."""
    process = start(*fault.command(shim), *command)
    try:
        done = finish(process, SECONDS)
    except subprocess.TimeoutExpired:
        raise Failure(f"has not ended after {SECONDS} s") from None
    said = "\n".join(line for line in done.err.splitlines()
                     if not re.match(r"inject: \d+ failed$|\d+ allocations$", line))
    crash = CRASH.search(done.err) and not (fault.call in MEMORY and ENDED.search(done.err))
    expect(not crash, f"a crash: {said[-600:]!r}")
    expect(done.status in statuses, f"status {done.status}: {said[-300:]!r}")
    told = said.strip() or done.status == 6 and PARTIAL.search(done.out)
    mute = fault.call in ("write", "writev") and fault.following
    expect(done.status == well or told or mute, f"status {done.status} without a word: {done.out[:300]!r}")
    return done


def judge_whole(done, fixture):
    """Of status 0: no thread is left out, and a recording did not end early."""
    if "wrote " in done.err:
        expect(counts(done.err)["asked"] >= 10, f"it ended early, and says {done.err!r}")
    else:
        shown = {int(text or json) for text, json in re.findall(r'(?m)^Thread (\d+) |"os_thread_id": ?(\d+)', done.out)}
        expect(shown == set(fixture.threads()), f"it shows the threads {shown} of {fixture.threads()}")


class Trial:
    """A command, as a function of a folder for what it writes, on a fixture that is there or on none."""

    def __init__(self, name, command, outputs=(), statuses=STATUSES, fixture=None, well=0):
        self.name, self.command, self.outputs = name, command, outputs
        self.statuses, self.fixture, self.well = statuses, fixture, well

    def once(self, fault, shim):
        with tempfile.TemporaryDirectory() as folder:
            done = ends_well(fault, self.command(pathlib.Path(folder)), shim, self.statuses, self.well)
            left = set(os.listdir(folder))
            # What cannot be removed stays; all else is removed.
            if fault.call != "unlinkat":
                expect(left <= set(self.outputs), f"left behind: {left - set(self.outputs)}")
            for name in left & set(self.outputs):
                text = (pathlib.Path(folder) / name).read_text(errors="replace")
                expect(whole(name, text), f"half a file: {name}, ends in {text[-60:]!r}")
            if done.status == self.well:
                expect(left >= set(self.outputs), f"status {self.well}, and there is no {set(self.outputs) - left}")
                if self.fixture and fault.is_ours():
                    judge_whole(done, self.fixture)
                expect(self.outputs or done.out.endswith("\n"), f"status 0, and it prints {done.out[-60:]!r}")
            if self.fixture:
                expect(self.fixture.runs(), f"the target ended with {self.fixture.process.returncode}")
                unharmed(self.fixture, self.fixture.threads())

    def all(self, count):
        chance = random.Random(SEED)
        wrong = []
        with tempfile.TemporaryDirectory() as shims, tempfile.TemporaryDirectory() as folder:
            shim = failing_malloc(shims)
            # Who cannot wait for a process of his own, or let it go on, cannot tell its status.
            once = {"wait4"} if self.fixture else {"wait4", "ptrace"}
            faults = choose(totals(self.command(pathlib.Path(folder)), shim, self.well), count, chance, once)
            for fault in faults:
                try:
                    self.once(fault, shim)
                except Failure as why:
                    wrong.append(f"{fault}: {why}")
                    print(f"# {self.name}: {wrong[-1]}", flush=True)
                    if self.fixture and not self.fixture.runs():
                        break
        expect(not wrong, lambda: f"{len(wrong)} of {len(faults)}, seed {SEED}; the first: {wrong[0]}")
        return f"{len(faults)} faults, seed {SEED}"
