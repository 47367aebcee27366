# SPDX-License-Identifier: MIT
"""numba: jitted loops, one calls another, one runs in parallel threads."""
REQUIRES = ["numba"]
LEARN = 1
NATIVE = r"gomp|tbb|workqueue|launch_func|thread_worker|parallel"
WITHIN = {r"^(outer|inner|spread)\b(?!.*\.py)": r"^(work|call_outer|call_spread) \("}


def call_outer():
    return OUTER(2000)


def call_spread():
    return SPREAD(DATA)


def setup():
    global OUTER, SPREAD, DATA
    import numba
    import numpy

    @numba.njit(inline="never")
    def inner(n):
        total = 0.0
        for i in range(n):
            total += (i * 7 % 13) ** 0.5
        return total

    @numba.njit
    def outer(n):
        total = 0.0
        for i in range(n):
            total += inner(i)
        return total

    @numba.njit(parallel=True)
    def spread(data):
        total = 0.0
        for i in numba.prange(len(data)):
            total += data[i] ** 0.5
        return total

    OUTER, SPREAD, DATA = outer, spread, numpy.arange(2000000.0)
    numba.set_num_threads(2)
    outer(10)
    spread(DATA)


def work():
    call_outer()
    call_spread()
