# SPDX-License-Identifier: MIT
"""What a process has of rights, and what it opens, by /proc and strace."""
import ctypes
import os
import re
import shutil
import signal
import subprocess

from harness import Skip, expect


def rights(pid):
    """What /proc says of each thread: sets of capabilities, filter, no_new_privs, users."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        found[int(tid)] = {
            "capabilities": [int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
            "filter": int(fields["Seccomp"]), "no_new_privs": int(fields["NoNewPrivs"]),
            "user": int(fields["Uid"].split()[1])}
    return found


def is_filtered(pid):
    return any(thread["filter"] == 2 for thread in rights(pid).values())


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


def opened_after_the_filter(folder, *command, **options):
    """Paths that who has set a filter opens from then on, and how many others open meanwhile."""
    if not shutil.which("strace"):
        raise Skip("no strace here")
    path = os.path.join(folder, "strace")
    subprocess.run(["strace", "-f", "-qq", "-o", path, "-e", "trace=open,openat,openat2,creat,execve,seccomp",
                    *command], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    filtered, own, others = set(), [], 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            pid, call = line.split(None, 1)
            # glibc's malloc asks, in threads, and does without.
            if "/proc/sys/vm/overcommit_memory" in call and call.rstrip().endswith("(Operation not permitted)"):
                continue
            if call.startswith("seccomp(") and "= 0" in call:
                filtered.add(pid)
            elif re.match(r"(open|creat|execve)", call):
                if pid in filtered:
                    own.append(call.strip())
                elif filtered:
                    others += 1
    if not filtered:
        raise Skip("no filter can be set here")
    return own, others


def parsers(pid):
    """Its threads that have a filter, and those that have none."""
    found = rights(pid)
    return ([(tid, thread) for tid, thread in found.items() if thread["filter"] == 2],
            [(tid, thread) for tid, thread in found.items() if thread["filter"] != 2])


def crash(pid, tid):
    """A thread of that process gets a SIGSEGV, as if by its own doing."""
    tgkill = 234
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(tgkill, pid, tid, signal.SIGSEGV) < 0:
        raise OSError(ctypes.get_errno(), "tgkill")


def have_nothing(threads):
    """Each has no capability, no way to new ones, and is nobody, where root has started it."""
    for tid, thread in threads:
        expect(thread["capabilities"] == [0, 0, 0, 0] and thread["no_new_privs"] == 1 and
               thread["user"] == (os.geteuid() or 65534), lambda: f"{tid}: {thread}")
