# SPDX-License-Identifier: MIT
"""scipy's modules, one after the other: Cython, C, C++ and Fortran."""

REQUIRES = ["scipy"]
NATIVE = r"^blas_thread_server"


def setup():
    global np, cluster, interpolate, optimize, signal, sparse, spatial, special, stats, hierarchy, Rotation, r, x, s
    import numpy as np
    from scipy import cluster, interpolate, optimize, signal, sparse, spatial, special, stats
    from scipy.cluster import hierarchy
    from scipy.spatial.transform import Rotation
    r = np.random.RandomState(1)
    x = r.rand(2000, 3)
    s = sparse.random(2000, 2000, 0.01, format="csr", random_state=1)


def work():
    hierarchy.linkage(x[:800], "average")
    spatial.cKDTree(x).query(x, 5)
    spatial.Delaunay(x[:500])
    spatial.distance.cdist(x[:800], x[:800])
    Rotation.from_quat(r.rand(20000, 4)).as_euler("xyz")
    (s @ s).sum()
    sparse.csgraph.dijkstra(s[:300, :300])
    interpolate.make_interp_spline(np.arange(2000.), x[:, 0])(np.linspace(0, 1999, 100000))
    grid = interpolate.RegularGridInterpolator((np.arange(50.), np.arange(40.)), x[:2000, 0].reshape(50, 40))
    grid(r.rand(50000, 2) * 30)
    optimize.linear_sum_assignment(r.rand(300, 300))
    optimize.minimize(optimize.rosen, np.zeros(8), method="Nelder-Mead")
    signal.lfilter([1, 2], [1, 0.5], r.rand(200000))
    signal.upfirdn([1, 2, 3], r.rand(100000), 3)
    special.jv(2.5, x[:, 0] * 30)
    special.eval_legendre(3.5, x)
    stats.qmc.Sobol(5, seed=1).random(4096)
    stats.kendalltau(x[:, 0], x[:, 1])
