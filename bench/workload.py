# SPDX-License-Identifier: MIT
"""A target with a deep stack, about 50 native and 50 Python frames, that says how fast it runs.

Prints "ITERATIONS SECONDS" (both counted from an arbitrary start, SECONDS by CLOCK_MONOTONIC)
about twenty times a second; ends when its stdin is closed.
"""
import math
import os
import select
import sys
import time

HOPS, PYTHON_FRAMES = 5, 8
BATCH = 200


def step(n):
    """What is repeated at the innermost end: Python frames come and go, C functions are called."""
    values = [math.sqrt(n + k) for k in range(20)]
    return sum(sorted(values, reverse=True))


def innermost():
    done, due = 0, time.monotonic()
    while True:
        for n in range(BATCH):
            step(n)
        done += BATCH
        now = time.monotonic()
        if now >= due:
            due = now + 0.05
            os.write(1, f"{done} {now:.9f}\n".encode())
            if select.select([0], [], [], 0)[0]:
                sys.exit(0)


def descend(hops, frames):
    """Each hop goes through C (builtin next -> map -> call) back into Python, some frames deep."""
    if frames:
        return descend(hops, frames - 1)
    if hops:
        return next(map(descend, (hops - 1,), (PYTHON_FRAMES - 1,)))
    return innermost()


descend(HOPS, PYTHON_FRAMES - 1)
