# SPDX-License-Identifier: MIT
"""A child forked by C code, which Python was not told of."""
import ctypes
import os

PYTHON = "3.12.1"
ROOTS = [[r"^<module> \(fork_in_c\.py", r"^main \(fork_in_c\.py", r"^child \(", r"^(outer|inner) \("]]
CALLS = {"main": {"child"}, "child": {"outer"}, "outer": {"inner"}, "inner": set()}


def inner():
    total = 0
    for i in range(20000):
        total += i
    return total


def outer():
    return inner()


def child():
    os.write(int(os.environ["LAB_READY"]), str(os.getpid()).encode())
    while True:
        outer()


def main():
    if ctypes.PyDLL(None).fork() == 0:
        child()
    os.wait()


def command(_, python):
    return [python, os.path.abspath(__file__)]


if __name__ == "__main__":
    main()
