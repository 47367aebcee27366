# SPDX-License-Identifier: MIT
"""The target of the benchmarks: one busy thread, as many merged frames deep as asked for, one native
frame in five. Ends when its stdin is closed.

compute  Python code, of which only the innermost frames change. Prints "ITERATIONS SECONDS" (both from an
         arbitrary start, SECONDS by CLOCK_MONOTONIC) about twenty times a second.
branch   The same, but nearly all of the stack changes, and is another one, a thousand times a second.
gaps     Native code that looks at the clock. For each line "SECONDS LEAST_NS" on stdin it prints how long the
         gaps were, in nanoseconds, in which it stood still for LEAST_NS and more.
threads  --idle threads that wait in epoll_wait, and two native ones that are busy, while the main thread is
         blocked. Prints in the end how often a wait was interrupted.
"""
import argparse
import ctypes
import math
import os
import random
import select
import sys
import threading
import time

BATCH = 200
OTHERS = {"compute": 6, "branch": 7, "gaps": 14}    # frames outside of and below `descend`
ROOM = 1 << 20          # gaps of one answer
BRANCHES = 64           # different stacks of `branch`


def step(n):
    """What is repeated at the innermost end: Python frames come and go, C functions are called."""
    values = [math.sqrt(n + k) for k in range(20)]
    return sum(sorted(values, reverse=True))


def end_is_asked():
    return bool(select.select([0], [], [], 0)[0])


def compute():
    done, due = 0, time.monotonic()
    while True:
        for n in range(BATCH):
            step(n)
        done += BATCH
        now = time.monotonic()
        if now >= due:
            due = now + 0.05
            os.write(1, f"{done} {now:.9f}\n".encode())
            if end_is_asked():
                return


def compute_a_little():
    end = time.monotonic() + 0.001
    while time.monotonic() < end:
        step(1)


def record_gaps():
    library = ctypes.CDLL(options.library)
    library.record_gaps.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
    gaps = (ctypes.c_uint64 * ROOM)()
    for line in sys.stdin:
        seconds, least = line.split()
        count = library.record_gaps(int(float(seconds) * 1e9), int(least), gaps, ROOM)
        print(*gaps[:count], flush=True)


def descend(left):
    """`left` merged frames more: a hop through C (next -> map -> call back) for every eight Python calls."""
    if left <= 0:
        return JOBS[options.job]()
    if left % 10 == 3:
        return next(map(descend, (left - 3,)))
    if turns >> left % BRANCHES & 1:
        return descend(left - 1)
    return descend(left - 1)


def run():
    descend(options.frames - OTHERS[options.job])


def branch():
    """Each of the stacks differs from the others from the outermost frames on."""
    global turns
    chance = random.Random(1)
    stacks = [chance.getrandbits(BRANCHES) for _ in range(BRANCHES)]
    while not end_is_asked():
        for turns in stacks:
            run()


def threads():
    library = ctypes.CDLL(options.library)
    readable, writable = os.pipe()
    stop = ctypes.c_int32(0)
    jobs = [(library.wait_until_readable, readable)] * options.idle + [(library.spin, ctypes.byref(stop))] * 2
    threading.stack_size(256 << 10)
    started = [threading.Thread(target=job[0], args=job[1:]) for job in jobs]
    for thread in started:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    stop.value = 1
    os.write(writable, b"x")
    for thread in started:
        thread.join()
    print(library.interrupted_waits(), flush=True)


JOBS = {"compute": compute, "branch": compute_a_little, "gaps": record_gaps}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("job", choices=[*JOBS, "threads"])
parser.add_argument("--frames", type=int, default=70)
parser.add_argument("--idle", type=int, default=0)
parser.add_argument("--library", help="of native_target.c")
parser.add_argument("--load", nargs="*", default=[], help="libraries that are merely there")
options = parser.parse_args()
sys.setrecursionlimit(2 * options.frames + 1000)
loaded = [ctypes.CDLL(path) for path in options.load]
turns = 0
{"branch": branch, "threads": threads}.get(options.job, run)()
