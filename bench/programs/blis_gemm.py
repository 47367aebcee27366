# SPDX-License-Identifier: MIT
"""blis: BLIS's gemm through Cython, kernels in inline assembly."""
REQUIRES = ["blis", "numpy"]
NATIVE = r"gomp|bli_|blis"
WITHIN = {r"bli_|\(py\.cpython": r"^(product|gemm) \("}


def product():
    return gemm(A, A)


def setup():
    global gemm, A
    import numpy
    from blis.py import gemm
    A = numpy.random.default_rng(1).random((500, 500))


def work():
    product()
