# SPDX-License-Identifier: MIT
"""Chains of generators, delegation and itertools, in pure Python."""
import functools
import itertools

WITHIN = {r"^numbers \(": r"^(squares|delegate|pairs) \("}


def numbers(count):
    for i in range(count):
        yield i


def squares(source):
    for i in source:
        yield i * i


def delegate(count):
    yield from numbers(count)
    yield from squares(numbers(count))


def pairs(source):
    for i in source:
        yield i, sum(numbers(5))


def add(total, pair):
    return total + pair[0]


def key(pair):
    return -pair[0]


def consume(count):
    first = functools.reduce(add, pairs(delegate(count)), 0)
    return first + len(sorted(pairs(itertools.islice(delegate(count), 100)), key=key))


def setup():
    pass


def work():
    consume(2000)
