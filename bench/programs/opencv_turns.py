# SPDX-License-Identifier: MIT
"""OpenCV: resize and dct in turns (IPP, without call frame information), blur, optical flow."""
REQUIRES = ["opencv-python-headless"]
CLOSED = "IPP, in cv2"
NATIVE = r"cv::|cv2|WorkerThread|openblas|blas_thread_server|libopencv"
WITHIN = {r"(?i)\bcv::(hal::)?(resize|dct)": r"^(resized|transformed|flowed) \("}
# What the other of the two has left on the stack.
NEVER = [(r"^resized \(", r"(?i)dct"), (r"^transformed \(", r"(?i)resize")]
THROUGH = {r"(?i)^icv\w*resize": [r"^resized \(|^flowed \("], r"(?i)^icv\w*dct": [r"^transformed \("]}


def resized():
    for _ in range(5):
        cv2.resize(PICTURE, (1500, 1100), interpolation=cv2.INTER_CUBIC)


def transformed():
    for _ in range(5):
        cv2.dct(GRAY)


def flowed():
    cv2.GaussianBlur(PICTURE, (15, 15), 3)
    cv2.Canny(BYTES, 50, 100)


def setup():
    global cv2, PICTURE, GRAY, BYTES
    import numpy
    import cv2
    cv2.setNumThreads(2)
    rng = numpy.random.default_rng(1)
    BYTES = rng.integers(0, 255, (600, 800), dtype="uint8")
    PICTURE, GRAY = rng.random((600, 800, 3), dtype="float32"), rng.random((512, 512), dtype="float32")


def work():
    resized()
    transformed()
    flowed()
