# cython: language_level=3
# SPDX-License-Identifier: MIT
"""One of each: what Cython makes C functions of."""
cimport cython

ctypedef fused number:
    int
    double

cdef int helper(int n) nogil:
    cdef int i, total = 0
    for i in range(n):
        total += i
    return total

cdef class Hopper:
    """A class with slots."""
    cdef int depth
    cdef public int size
    cdef readonly object tag

    def __cinit__(self, int depth=1):
        self.depth = depth
        self.size = 2

    def __dealloc__(self):
        self.depth = 0

    def __len__(self):
        return self.depth

    def __getitem__(self, index):
        if index > self.depth:
            raise IndexError(
                index)
        return index

    def __add__(self, other):
        return 1

    def go(self, n):
        x = n + 1
        return self.jump(x) + \
            self.depth

    cpdef int jump(self, int n):
        if n > 3:
            return self.jump(n - 1)
        return n

    cdef int swim(self, int n):
        cdef int k = n * 2
        with nogil:
            k += helper(n)
        return k

    @property
    def prop(self):
        return self.depth

    @prop.setter
    def prop(self, value):
        self.depth = value

cpdef double total(double x, double y=2.0):
    return x * y

def outer(a):
    b = a + 1
    def inner(c):
        d = b + c
        return d
    return inner

def gen(n):
    for i in range(n):
        try:
            yield helper(i)
        finally:
            n -= 1

class Plain:
    limit = 3

    def meth(self, x, *args, key=None, **kw):
        return [y for y in x if y]

    @staticmethod
    def still(x):
        return {k: v for k, v in x.items()}

def lam(xs):
    f = lambda v: v + 1
    return sum(f(x) for x in xs)

def scale(number x, list out):
    cdef number twice = x + x
    out.append(twice)
    return twice

def view(double[:] xs):
    cdef Py_ssize_t i
    cdef double s = 0
    for i in range(xs.shape[0]):
        s += xs[i]
    return s

value = lam([1, 2, 3])
if value > 2:
    value = total(value)
