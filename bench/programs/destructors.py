# SPDX-License-Identifier: MIT
"""Destructors and weak references' callbacks in Python: a local or argument dies as its function ends."""
import weakref

PYTHON = "3.13.0"
# All of its work is in them: next to nothing is left for the functions that return.
FINAL = r"^(burn|gone|(D\.)?__del__) \("
SHARES = {FINAL: (98, 100), r"^return_\w+ \(": (0, 2)}
NEVER = [(r"^(work|run) \(", FINAL), (r"^(return|call)_\w+ \(", r"^burn \(")]


def burn():
    total = 0
    for i in range(20000):
        total += i * i
    return total


class D:
    def __init__(self, calls=False):
        self.calls = calls

    def __del__(self):
        if self.calls:
            burn()
            return
        total = 0
        for i in range(40000):
            total += i * i


class Plain:
    pass


def gone(reference):
    total = 0
    for i in range(40000):
        total += i * i


def return_local():
    d = D()
    return 1


def return_argument(d):
    return 1


def return_attribute():
    holder = Plain()
    holder.inner = D()
    return 1


def return_weak():
    p = Plain()
    global kept
    kept = weakref.ref(p, gone)
    return 1


def call_local():
    return return_local()


def call_argument():
    return return_argument(D(True)) + return_argument(D())


def call_attribute():
    return return_attribute()


def call_weak():
    return return_weak()


def setup():
    pass


def work():
    call_local()
    call_argument()
    call_attribute()
    call_weak()
