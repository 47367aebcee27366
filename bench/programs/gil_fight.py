# SPDX-License-Identifier: MIT
"""Four threads of pure Python that compete for the GIL."""
import threading

CALLS = {"work": {"add", "wait"}, "worker": {"add"}, "add": set()}
ROOTS = [[r"^<module> \(lab_target", r"^run \(lab_target", r"^work \("],
         [r"_bootstrap \(threading", r"_bootstrap_inner \(threading", r"\brun \(threading", r"^worker \("]]
# What it takes to get or give up the GIL has a name of its own.
SHARES = {r"futex|pthread_|lll_": (0, 0.1)}


def add():
    s = 0
    for i in range(50000):
        s += i
    return s


def worker():
    while True:
        add()


def setup():
    for number in range(3):
        threading.Thread(target=worker, daemon=True, name=f"worker {number}").start()


def work():
    add()
