# SPDX-License-Identifier: MIT
"""A worker of a multiprocessing pool, forked: regular expressions over chunks, results through a pipe."""
import multiprocessing
import os
import re
import sys

NEVER = [(r"^worker \(pool", r"^(line|replace) \(process_pool")]
ROOTS = [[r"^<module> \(process_pool", r"^main \(process_pool", r"\b(Pool|__init__) \(context|\bPool\b"]]
CALLS = {"chunk": {"<genexpr>", "line"}, "line": {"replace", "sub"}, "replace": set(), "main": {"Pool", "map"}}
THROUGH = {r"^chunk \(": [r"^main \(", r"\b_bootstrap \(process", r"\brun \(process", r"^worker \(pool"],
           r"^replace \(": [r"^chunk \(", r"^line \("]}
SHARES = {r"^chunk \(": (90, 100)}


def replace(match):
    return match.group(0).upper()


def line(number):
    return len(re.sub(r"\d+", replace, " ".join(map(str, range(number, number + 50)))))


def chunk(start):
    return sum(line(start + i) for i in range(200))


def command(_, python):
    return [python, os.path.abspath(__file__)]


def main():
    pool = multiprocessing.get_context("fork").Pool(1)
    pid = pool.apply(os.getpid)
    os.write(int(os.environ["LAB_READY"]), str(pid).encode())
    while True:
        pool.map(chunk, range(0, 10000, 10))


if __name__ == "__main__":
    sys.exit(main())
