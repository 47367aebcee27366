# SPDX-License-Identifier: MIT
"""Stacks that fixtures tell as they know them (depths.py, large_code.py, many_threads.py), compared
frame by frame with what the commands show."""
import os
import pathlib
import re

from harness import Failure, Fixture, Skip, expect, interpreters

# What these kinds of many_threads.py wait in has Python frames of its own further in.
INSIDE = {"event", "condition", "acquire"}
TEXT = re.compile(r"(.*) \(([^()]*):(\d+)\)$", re.S)


def told(facts, indices=None):
    """[(name, file, line)], outermost first."""
    table = [tuple(frame) for frame in facts["table"]]
    return [table[index] for index in (facts["frames"] if indices is None else indices)]


def shown(thread):
    """The Python frames of a thread of pdump's JSON, outermost first."""
    return [(frame["name"], os.path.basename(frame["filename"] or ""), frame["line"])
            for frame in reversed(thread["frames"]) if frame["kind"].startswith("python")]


def folded_frames(stack):
    """The Python frames of a folded stack: frames that stand in a .py file."""
    found = (TEXT.match(frame) for frame in stack)
    return [(match[1], os.path.basename(match[2]), int(match[3])) for match in found
            if match and match[2].endswith(".py")]


def same(found, wanted, what="the stack"):
    """The two are equal, or the first difference is the Failure."""
    if found == wanted:
        return
    for index, (one, other) in enumerate(zip(found, wanted)):
        expect(one == other, f"{what}: frame {index} of {len(wanted)} is {one}, not {other}")
    raise Failure(f"{what} has {len(found)} frames, not {len(wanted)}: ends in "
                  f"{(found or ['nothing'])[-1]}, not {(wanted or ['nothing'])[-1]}")


def begins(found, wanted, what="the stack"):
    same(found[:len(wanted)], wanted, what)


def only_thread(dump):
    threads = dump["threads"]
    expect(len(threads) == 1, f"{len(threads)} threads")
    expect(not threads[0]["truncated"] and not threads[0]["problem"],
           f"truncated {threads[0]['truncated']}, problem {threads[0]['problem']}")
    return threads[0]


def start_many(interpreter, threads, running):
    """A process of many_threads.py; Skip where the kernel does not let a process have so many."""
    if interpreter.python < (3,):
        threads = min(threads, 1000)      # 2.7 itself takes minutes to start more
    for path in ("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max",
                 "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"):
        try:
            limit = pathlib.Path(path).read_text().strip()
        except OSError:
            continue
        if limit.isdigit() and int(limit) < threads + 500:
            raise Skip(f"{path} is {limit}")
    return Fixture(interpreter, "many_threads.py", "--threads", str(threads), "--running", str(running),
                   modules=["common"])


def one_of_each_end():
    """Of the few interpreters the first and the last, unless others are asked for: for what takes long
    and does not depend on the version."""
    few = interpreters("few")
    return few if os.environ.get("ONLY") or os.environ.get("ALL") else few[:1] + few[1:][-1:]
