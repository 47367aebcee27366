# SPDX-License-Identifier: MIT
"""numpy.linalg through LAPACK: solve, eigh, svd, cholesky, qr."""
import os

REQUIRES = ["numpy"]
VARIANTS = {f"{what}-{core.lower()}": {"OPENBLAS_CORETYPE": core, "LAB_WHAT": what}
            for what in ("solve", "eigh", "svd", "cholesky", "qr") for core in ("HASWELL", "SKYLAKEX")}
NATIVE = r"^blas_thread_server"
WITHIN = {r"openblas|_umath_linalg": r"^(solve|eigh|svd|cholesky|qr|inv|_qr\w*) \(_?linalg"}
THROUGH = {r"openblas": [r"_umath_linalg|lapack_lite"]}
NEVER = [(r"\((numpy_linalg|_?linalg|lab_target)\.py", r"openblas"),
         (r"umath_linalg", r"_kernel|gemm_\w*copy|inner_thread|exec_"),
         (r"^blas_thread_server", r"_kernel|gemm_\w*copy")]


def setup():
    global A, WHAT
    import numpy
    A = numpy.random.default_rng(1).random((400, 400))
    A = A @ A.T + numpy.eye(400)
    linalg = numpy.linalg
    WHAT = {"solve": lambda: linalg.solve(A, A), "eigh": lambda: linalg.eigh(A), "svd": lambda: linalg.svd(A),
            "cholesky": lambda: linalg.cholesky(A), "qr": lambda: linalg.qr(A)}[os.environ["LAB_WHAT"]]


def work():
    WHAT()
