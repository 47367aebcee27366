# SPDX-License-Identifier: MIT
"""Finalizers in Python that run in collections, asked for and automatic ones; some let go of the GIL."""
import gc
import time

MODE = "wall"
SHARES = {r"<gc>|gc_collect": (50, 100)}
CALLS = {"work": {"by_hand", "automatic"}, "by_hand": {"__del__"}, "automatic": {"__init__", "__del__"},
         "__init__": {"__del__"}, "__del__": {"burn"}, "burn": set()}


def burn():
    total = 0
    for i in range(2000):
        total += i
    return total


class Knot:
    def __init__(self, sleeps):
        self.knot, self.sleeps = self, sleeps

    def __del__(self):
        burn()
        if self.sleeps:
            time.sleep(0.002)


def by_hand():
    for _ in range(10):
        Knot(True)
    gc.collect()


def automatic():
    for _ in range(2000):
        Knot(False)


def setup():
    gc.set_threshold(100)


def work():
    by_hand()
    automatic()
