# SPDX-License-Identifier: MIT
"""scikit-learn's KMeans: BLAS called from OpenMP workers, through Cython."""
REQUIRES = ["scikit-learn"]
VARIANTS = {"haswell": {"OPENBLAS_CORETYPE": "HASWELL"}, "skylakex": {"OPENBLAS_CORETYPE": "SKYLAKEX"}}
NATIVE = r"gomp|^blas_thread_server"
WITHIN = {r"_k_means_|openblas": r"lloyd|_kmeans|_labels|_init|norm|squared|dot|pairwise|euclidean|_inertia"}
NEVER = [(r"gomp", r"openblas"), (r"\.py\)$", r"gemm_kernel"), (r"_k_means", r"gemm_(kernel|beta|\w*copy)|exec_blas")]


def setup():
    global DATA, KMeans
    import numpy
    from sklearn.cluster import KMeans
    DATA = numpy.random.default_rng(1).random((20000, 30))


def work():
    KMeans(30, n_init=1, max_iter=20, tol=0, random_state=1, init="random").fit(DATA)
