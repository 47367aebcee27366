# SPDX-License-Identifier: MIT
"""cffi: libc's qsort and bsearch with comparisons in Python."""
REQUIRES = ["cffi"]
LEARN = 3
CALLS = {"work": {"sort"}, "compare": {"weight", "from_void"}, "weight": set()}
THROUGH = {r"^compare \(": [r"^sort \(", r"qsort|msort|quicksort"]}
NEVER = [(r"^sort \(", r"^weight \(")]


def weight(value):
    return value * value % 1009


def compare(left, right):
    return weight(left[0]) - weight(right[0])


def sort():
    values = FFI.new("int[]", VALUES)
    LIBC.qsort(values, len(VALUES), 4, COMPARE)


def setup():
    global FFI, LIBC, COMPARE, VALUES
    import cffi
    FFI = cffi.FFI()
    FFI.cdef("void qsort(void *, size_t, size_t, int (*)(const int *, const int *));")
    LIBC = FFI.dlopen(None)
    COMPARE = FFI.callback("int(const int *, const int *)", compare)
    VALUES = [(i * 7919) % 1000 for i in range(300)]


def work():
    for _ in range(10):
        sort()
