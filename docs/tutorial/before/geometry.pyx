# cython: language_level=3
from libc.math cimport sqrt


def distance(a, b):
    x = a[0] - b[0]
    y = a[1] - b[1]
    return sqrt(x * x + y * y)


def nearest(points, wanted):
    best = None
    least = 1e300
    for point in points:
        far = distance(point, wanted)
        if far < least:
            best, least = point, far
    return best
