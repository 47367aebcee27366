# SPDX-License-Identifier: MIT
"""replay_corpus_work.py FAMILY: runs its kernels in turns until it is killed, for make_replay_corpus.

Each op_NAME is on the stack while its kernel runs. What the kernels work on has few different values:
frames of kernels hold copies of it, and captures are to be small.
"""
import ctypes
import glob
import os
import sys
import time

SLICE = 0.2    # seconds of each kernel
SIZE = 100000  # of a vector


def library(pattern):
    return ctypes.CDLL(sorted(glob.glob(os.path.join(sys.prefix, "lib", pattern)))[0])


def numpy_ops():
    import numpy as np
    kinds = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
    a = {k: (np.ones((300, 300)) + 2 * np.eye(300)).astype(t) for k, t in kinds.items()}
    v = {k: np.ones(SIZE, dtype=t) for k, t in kinds.items()}
    blas = library("python3*/site-packages/numpy.libs/libscipy_openblas*")
    size = ctypes.c_int64(SIZE)
    one = ctypes.c_int64(1)

    def pointer(array):
        return array.ctypes.data_as(ctypes.c_void_p)

    def op_sgemm(): return a["s"] @ a["s"]
    def op_dgemm(): return a["d"] @ a["d"]
    def op_cgemm(): return a["c"] @ a["c"]
    def op_zgemm(): return a["z"] @ a["z"]
    def op_sgemv(): return a["s"] @ v["s"][:300]
    def op_dgemv(): return a["d"] @ v["d"][:300]
    def op_zgemv(): return a["z"] @ v["z"][:300]
    def op_dsolve(): return np.linalg.solve(a["d"], a["d"])
    def op_zsolve(): return np.linalg.solve(a["z"], a["z"])
    def op_ssyrk(): return a["s"] @ a["s"].T
    def op_dsyrk(): return a["d"] @ a["d"].T
    def op_sdot(): return np.dot(v["s"], v["s"])
    def op_ddot(): return np.dot(v["d"], v["d"])
    def op_zdot(): return np.vdot(v["z"], v["z"])

    p = {k: pointer(array) for k, array in v.items()}
    def op_saxpy(): blas.scipy_cblas_saxpy64_(size, ctypes.c_float(1e-30), p["s"], one, p["s"], one)
    def op_daxpy(): blas.scipy_cblas_daxpy64_(size, ctypes.c_double(1e-30), p["d"], one, p["d"], one)
    def op_isamax(): blas.scipy_cblas_isamax64_(size, p["s"], one)
    def op_idamax(): blas.scipy_cblas_idamax64_(size, p["d"], one)
    return locals()


def mkl_ops():
    import numpy as np
    mkl = library("libmkl_rt.so*")
    n = 300
    a = np.ones((n, n)) + 2 * np.eye(n)
    b = np.zeros((n, n))
    af, bf = a.astype(np.float32), b.astype(np.float32)

    def pointer(array):
        return array.ctypes.data_as(ctypes.c_void_p)

    def op_dgemm():
        mkl.cblas_dgemm(101, 111, 111, n, n, n, ctypes.c_double(1), pointer(a), n, pointer(a), n,
                        ctypes.c_double(0), pointer(b), n)

    def op_sgemm():
        mkl.cblas_sgemm(101, 111, 111, n, n, n, ctypes.c_float(1), pointer(af), n, pointer(af), n,
                        ctypes.c_float(0), pointer(bf), n)

    def op_dgemv():
        mkl.cblas_dgemv(101, 111, n, n, ctypes.c_double(1), pointer(a), n, pointer(b), 1,
                        ctypes.c_double(0), pointer(b), 1)

    def op_solve():
        pivots = (ctypes.c_int * n)()
        left, right = a.copy(), a.copy()
        mkl.LAPACKE_dgesv(101, n, n, pointer(left), n, pivots, pointer(right), n)
    return locals()


def opencv_ops():
    import cv2
    import numpy as np
    cv2.setNumThreads(1)
    a = np.ones((512, 512), dtype=np.float32)
    image = np.ones((1080, 1920, 3), dtype=np.uint8)
    def op_dct(): return cv2.dct(a)
    def op_resize(): return cv2.resize(image, (960, 540), interpolation=cv2.INTER_LINEAR)
    return locals()


def tensorflow_ops():
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    x, w = tf.ones((8, 64, 64, 32)), tf.ones((3, 3, 32, 64))
    a = tf.ones((512, 512))
    convolve = tf.function(lambda: tf.nn.conv2d(x, w, 1, "SAME"))
    multiply = tf.function(lambda: tf.matmul(a, a))
    def op_conv(): return convolve()
    def op_matmul(): return multiply()
    return locals()


def wheels_ops():
    import io
    import zlib
    import av
    import numpy as np
    import zstandard
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from PIL import Image
    picture = Image.linear_gradient("L").convert("RGB").resize((1024, 1024))
    stream = io.BytesIO()
    picture.save(stream, "JPEG")
    packed = zstandard.compress(b"0123456789" * 200000)
    block = bytes(1 << 20)
    frame = av.VideoFrame.from_ndarray(np.full((720, 1280, 3), 7, dtype=np.uint8), format="rgb24")

    def op_jpeg_read(): return Image.open(io.BytesIO(stream.getvalue())).convert("RGB")
    def op_jpeg_write(): picture.save(io.BytesIO(), "JPEG")
    def op_zstd(): return zstandard.ZstdDecompressor().decompress(packed)

    def op_sha256():
        digest = hashes.Hash(hashes.SHA256())
        digest.update(block)
        return digest.finalize()

    def op_aes():
        coder = Cipher(algorithms.AES(b"k" * 32), modes.CTR(b"n" * 16)).encryptor()
        return coder.update(block)

    def op_gcm():
        coder = Cipher(algorithms.AES(b"k" * 32), modes.GCM(b"n" * 12)).encryptor()
        return coder.update(block)

    def op_x264():
        out = av.open(io.BytesIO(), "w", format="mp4")
        video = out.add_stream("libx264", rate=24)
        video.width, video.height, video.pix_fmt, video.thread_count = 1280, 720, "yuv420p", 1
        for _ in range(5):
            for packet in video.encode(frame):
                out.mux(packet)
    return locals()


def main():
    ops = {name: op for name, op in globals()[sys.argv[1] + "_ops"]().items() if name.startswith("op_")}
    for op in ops.values():
        op()
    print(len(ops), flush=True)
    while True:
        for op in ops.values():
            end = time.monotonic() + SLICE
            while time.monotonic() < end:
                op()


main()
