# SPDX-License-Identifier: MIT
"""Pillow: resize, rotate, filters, JPEG through libjpeg-turbo's assembly, PNG."""
import io

REQUIRES = ["Pillow"]
NEVER = [(r"^(resized|rotated) \(", r"libjpeg"), (r"\.py\)$", r"^jsimd_")]


def resized():
    return PICTURE.resize((700, 500), 1)


def rotated():
    return PICTURE.rotate(30, resample=2)


def through_jpeg():
    out = io.BytesIO()
    PICTURE.save(out, "JPEG", quality=85)
    Image.open(io.BytesIO(out.getvalue())).load()


def through_png():
    out = io.BytesIO()
    PICTURE.resize((300, 200)).save(out, "PNG")


def blurred():
    return PICTURE.filter(ImageFilter.GaussianBlur(4))


def setup():
    global Image, ImageFilter, PICTURE
    import random
    from PIL import Image, ImageFilter
    PICTURE = Image.frombytes("RGB", (200, 150), random.Random(1).randbytes(200 * 150 * 3)).resize((1200, 900), 3)


def work():
    resized()
    rotated()
    through_jpeg()
    through_png()
    blurred()
