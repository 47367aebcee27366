# SPDX-License-Identifier: MIT
"""A Cython module whose functions, classes and generators call Python and are called by it, in turns."""
import os
import subprocess
import sys

REQUIRES = ["cython", "setuptools"]
NEEDS = ["cc"]
SOURCE = """
# cython: language_level=3
cdef double burn(int n) nogil:
    cdef double total = 0
    cdef int i
    for i in range(n):
        total += i ** 0.5
    return total

cdef class Walker:
    cdef object call
    def __init__(self, call):
        self.call = call
    cpdef double step(self, int level):
        cdef double total = burn(20000)
        if level:
            total += self.call(self, level - 1)
        return total

def produce(call, int n):
    for i in range(n):
        yield call(i)
"""
CALLS = {"work": {"climb", "drain"}, "climb": {"climb"}, "drain": {"item"}, "item": {"spin"}, "spin": set()}
THROUGH = {r"^item \(": [r"^drain \(", r"produce|__pyx_gb_\w+generator"],
           r"^(\w*burn\w*) \(.*lab_walker": [r"^climb \(", r"step"]}
NEVER = [(r"^Walker\.step", r"^Walker\.step"), (r"^drain \(", r"^item \("),
         (r"^climb \(", r"^climb \("), (r"^(climb|work) \(", r"^\w*burn \(")]


def build(folder, python):
    source = os.path.join(folder, "lab_walker.pyx")
    if os.path.exists(source):
        return
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    subprocess.run([os.path.join(os.path.dirname(python), "cythonize"), "-i", source], check=True, cwd=folder,
                   capture_output=True, text=True)


def climb(walker, level):
    return walker.step(level)


def spin(number):
    return sum(range(number + 300))


def item(number):
    return spin(number)


def drain():
    return sum(lab_walker.produce(item, 1000))


def setup():
    global lab_walker
    sys.path.insert(0, os.environ["LAB_FOLDER"])
    import lab_walker


def work():
    climb(lab_walker.Walker(climb), 20)
    drain()
