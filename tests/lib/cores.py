# SPDX-License-Identifier: MIT
"""Core files of fixtures, as the kernel and as gdb write them."""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess

from harness import DEADLINE, Failure, Skip, expect, pdump_json

PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")


@contextlib.contextmanager
def core_here():
    """Within, a core file is written where its process is. It may be elsewhere, or piped to a program: then the
    pattern is changed, by root alone, and put back."""
    pattern = PATTERN.read_text().strip()
    if not pattern.startswith(("|", "/")) and "/" not in pattern and pattern:
        yield
        return
    try:
        PATTERN.write_text("core\n")
    except OSError as why:
        raise Skip(f"core files go to {pattern!r}, which only root may change: {why}") from why
    try:
        yield
    finally:
        PATTERN.write_text(pattern + "\n")


def inside(folder):
    """A fixture's wrapper: it runs there."""
    return ("env", "-C", str(folder), "MALLOC_ARENA_MAX=1")


def kernel_core(fixture, folder, number=signal.SIGABRT):
    """Ends the fixture, which runs in that folder, by a signal, or by what it is told (number 0: "do crash")."""
    with core_here():
        soft, hard = resource.prlimit(fixture.pid, resource.RLIMIT_CORE)
        try:
            resource.prlimit(fixture.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
        except (OSError, ValueError):
            if hard == 0:
                raise Skip("no core files are allowed here (ulimit -H -c)")
            resource.prlimit(fixture.pid, resource.RLIMIT_CORE, (hard, hard))
        if number:
            os.kill(fixture.pid, number)
        else:
            fixture.tell("do crash")
        fixture.process.wait(DEADLINE)
    found = sorted(pathlib.Path(folder).glob("core*"))
    if not found:
        raise Skip("the kernel has written no core file")
    expect(len(found) == 1, f"one core file: {found}")
    return found[0]


@contextlib.contextmanager
def sysroot_of(fixture):
    """The options that make pdump look for files where the fixture has them: it may be in a mount namespace, which is
    gone with its last process."""
    if os.readlink(f"/proc/{fixture.pid}/root") == "/":
        yield ()
        return
    with subprocess.Popen(["nsenter", "--target", str(fixture.pid), "--mount", "--root", "cat"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        keeper.stdin.write(b"\n")
        keeper.stdin.flush()
        expect(keeper.stdout.read(1) == b"\n", "cat answers")
        yield ("--sysroot", f"/proc/{keeper.pid}/root")


def gdb_core(fixture, folder):
    """Without ending it, by gdb's generate-core-file."""
    if not shutil.which("gdb"):
        raise Skip("gdb is not installed")
    path = pathlib.Path(folder) / "gdb.core"
    done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
                           "-p", str(fixture.pid), "-ex", f"generate-core-file {path}"],
                          capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    expect(path.exists(), f"gdb writes no core file: {done.stderr.strip()[-300:]}")
    if re.search(r"Memory read failed .* at 0x(?!ffffffffff600000)", done.stderr):
        raise Skip("gdb cannot read all of its memory, and writes zeros (the guard pages that glibc 2.42 makes)")
    return path


def core_json(path, *arguments, status=0):
    return pdump_json("--native", "--core", path, *arguments, status=status)


# What a thread does not have any more, or what differs because it has ended.
PASSING = ("state", "activity", "active", "crash")


def compare(live, dead, passing=PASSING, tids=None, inside_out=False):
    """Frame for frame; the number of frames. inside_out: the process was in another root, by which the kernel names
    what it writes down."""
    ours = {thread["os_thread_id"]: thread for thread in live["threads"]}
    theirs = {thread["os_thread_id"]: thread for thread in dead["threads"]}
    expect(tids is not None or set(ours) == set(theirs), f"threads {sorted(ours)}, in the core {sorted(theirs)}")
    frames = 0
    if not inside_out:
        expect(live["executable"] == dead["executable"], f"{live['executable']}, in the core {dead['executable']}")
        expect(live["python"] == dead["python"], f"{live['python']}, in the core {dead['python']}")
    for key in ("pid", "command_line"):
        expect(live[key] == dead[key], f"{key}: {live[key]!r}, in the core {dead[key]!r}")
    for tid in tids or ours:
        one, other = ours[tid], theirs[tid]
        for key in set(one) | set(other):
            if key in passing + ("frames",):
                continue
            if key == "thread_name" and not one["known_to_python"]:
                continue                # the kernel's, which a core file has of the process alone
            expect(one.get(key) == other.get(key), f"thread {tid}: {key} {one.get(key)!r}, in the core {other.get(key)!r}")
        if inside_out:
            one, other = based(one), based(other)
        if one["frames"] != other["frames"]:
            raise Failure(f"thread {tid} ({one['thread_name']}):\n" + "\n".join(
                f"    {first} | {second}" for first, second in sides(one["frames"], other["frames"])))
        frames += len(one["frames"])
    return frames


def based(thread):
    """Paths as their last components."""
    def base(value):
        return os.path.basename(value) if isinstance(value, str) else value
    return {**thread, "frames": [{key: base(value) for key, value in frame.items()} for frame in thread["frames"]]}


def sides(left, right):
    def text(frame):
        return f"{frame['name']} ({frame.get('filename') or frame.get('module')}:{frame.get('line')})"
    for i in range(max(len(left), len(right))):
        yield (text(left[i]) if i < len(left) else "-", text(right[i]) if i < len(right) else "-")
