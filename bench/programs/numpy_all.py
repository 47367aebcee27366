# SPDX-License-Identifier: MIT
"""numpy's algebra, sorts, transforms and random numbers."""

REQUIRES = ["numpy"]
NATIVE = r"^blas_thread_server"


def setup():
    global np, g, r, x
    import numpy as np
    g = np.random.default_rng(1)
    r = np.random.RandomState(1)
    x = g.random((400, 400))


def work():
    x @ x
    np.linalg.svd(x[:150, :150])
    np.sort(g.random(200000))
    np.fft.fft(g.random(65536))
    g.standard_normal(300000)
    g.integers(0, 100, 300000)
    g.shuffle(np.arange(20000))
    g.multinomial(100, [0.2] * 5, 20000)
    r.normal(size=200000)
    r.choice(1000, 100000)
    r.permutation(50000)
    np.unique(g.integers(0, 1000, 100000))
    np.einsum("ij,jk->ik", x[:100, :100], x[:100, :100])
    (x * 2 + x ** 2).sum()
