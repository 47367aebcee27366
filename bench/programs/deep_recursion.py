# SPDX-License-Identifier: MIT
"""Recursion of several thousand levels, Python alone and through sorted() and map()."""
import sys

CALLS = {"work": {"down", "through_sorted"}, "down": {"down", "leaf"}, "leaf": set(),
         "through_sorted": {"key"}, "key": {"through_sorted", "leaf"}}


def leaf():
    total = 0
    for i in range(300000):
        total += i
    return total


def down(level):
    return down(level - 1) if level else leaf()


def through_sorted(level):
    return sorted([level], key=key)


def key(level):
    return through_sorted(level - 1)[0] if level else leaf()


def setup():
    sys.setrecursionlimit(20000)


def work():
    down(3000)
    through_sorted(150)
