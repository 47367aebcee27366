# SPDX-License-Identifier: MIT
"""numpy's A @ A: OpenBLAS's kernels by kind of CPU and by type."""
import os

REQUIRES = ["numpy"]
VARIANTS = {f"{core.lower()}-{kind}": {"OPENBLAS_CORETYPE": core, "LAB_TYPE": kind}
            for core, kinds in (("SKYLAKEX", ("float64", "float32")), ("ZEN", ("float64",)),
                                ("HASWELL", ("float64", "float32", "complex128")),
                                ("SANDYBRIDGE", ("float32", "float64")),
                                ("PRESCOTT", ("float32", "complex64")), ("NEHALEM", ("float64",)),
                                ("COOPERLAKE", ("float32",)))
            for kind in kinds}
NATIVE = r"^blas_thread_server"
WITHIN = {r"openblas|_multiarray_umath": r"^work \("}
THROUGH = {r"^(?!cblas_|scipy_cblas_).*openblas": [r"^ufunc_generic", r"^PyUFunc_Gen", r"_matmul\b.*umath",
                                                  r"_matmul_\w+.*umath", r"cblas_"],
           r"inner_thread": [r"^exec_blas"],
           r"gemm_(kernel|beta|[io]\w*copy)": [r"inner_thread|^[sdcz](gemm|syrk|gemm3m|gemm_\w+)_[ntrcuUL]\w*"]}
NEVER = [(r"^(work|run|<module>) \(", r"openblas"),
         (r"umath", r"^(?!scipy_cblas|cblas|malloc|free).*openblas"),
         (r"cblas_", r"gemm_(kernel|beta)|copy"), (r"^blas_thread_server", r"gemm_(kernel|beta)|copy")]


def setup():
    global A
    import numpy
    A = (numpy.random.default_rng(1).random((600, 600)) - 0.5).astype(os.environ["LAB_TYPE"])


def work():
    for _ in range(5):
        A @ A
