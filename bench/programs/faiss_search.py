# SPDX-License-Identifier: MIT
"""faiss: searches and trainings of vectors, SIMD kernels chosen at run time, OpenMP and BLAS."""
REQUIRES = ["faiss-cpu", "numpy"]
PYTHON = "3.12.1"
NATIVE = r"gomp|^blas_thread_server|faiss|std::"


def setup():
    global faiss, X, FLAT, GRAPH
    import faiss
    import numpy
    faiss.omp_set_num_threads(2)
    X = numpy.random.default_rng(1).random((10000, 64), dtype="float32")
    FLAT, GRAPH = faiss.IndexFlatL2(64), faiss.IndexHNSWFlat(64, 16)
    FLAT.add(X)
    GRAPH.add(X[:5000])


def work():
    FLAT.search(X[:300], 10)
    GRAPH.search(X[:1000], 10)
    quantizer = faiss.IndexFlatL2(64)
    lists = faiss.IndexIVFPQ(quantizer, 64, 32, 8, 6)
    lists.train(X[:4000])
    lists.add(X)
    lists.search(X[:300], 10)
