# cython: language_level=3
from libc.math cimport sqrt


cdef double distance(double ax, double ay, double bx, double by):
    cdef double x = ax - bx
    cdef double y = ay - by
    return sqrt(x * x + y * y)


def nearest(list points, tuple wanted):
    cdef double least = 1e300, far, x, y, wanted_x, wanted_y
    wanted_x, wanted_y = wanted
    best = None
    for point in points:
        x, y = <tuple>point
        far = distance(x, y, wanted_x, wanted_y)
        if far < least:
            best, least = point, far
    return best
