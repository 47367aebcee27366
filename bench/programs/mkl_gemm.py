# SPDX-License-Identifier: MIT
"""MKL's dgemm and sgemm by ctypes: a closed library, largely without call frame information."""
import ctypes
import glob
import os
import sys

REQUIRES = ["mkl"]
CLOSED = "MKL"
LEARN = 1
NATIVE = r"^__kmp_launch"
WITHIN = {r"libmkl": r"^(double|single) \("}
NEVER = [(r"^(double|single) \(", r"libmkl_(avx|def|core)")]


def double():
    MKL.cblas_dgemm(101, 111, 111, N, N, N, ctypes.c_double(1), A, N, A, N, ctypes.c_double(0), B, N)


def single():
    MKL.cblas_sgemm(101, 111, 111, N, N, N, ctypes.c_float(1), A, N, A, N, ctypes.c_float(0), B, N)


def setup():
    global MKL, A, B, N
    N = 500
    folder = os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "lib")
    MKL = ctypes.CDLL(glob.glob(folder + "/libmkl_rt.so*")[0], mode=ctypes.RTLD_GLOBAL)
    A, B = (ctypes.c_double * (N * N))(*[1.5] * N * N), (ctypes.c_double * (N * N))()


def work():
    double()
    single()
