# SPDX-License-Identifier: MIT
"""zstandard: compression and decompression at several levels (hand-written Huffman decoding)."""
REQUIRES = ["zstandard"]
WITHIN = {r"(?i)ZSTD_|HUF_|FSE_|zstd": r"^(squeezed|restored)\b|^<listcomp>"}
NEVER = [(r"^restored \(", r"(?i)ZSTD_compress"), (r"^squeezed \(", r"(?i)ZSTD_decompress|HUF_decompress"),
         (r"\.py\)$", r"HUF_decompress\w+_loop")]


def squeezed():
    return [zstandard.ZstdCompressor(level).compress(TEXT) for level in (1, 3, 9)]


def restored():
    for _ in range(20):
        for one in PACKED:
            zstandard.ZstdDecompressor().decompress(one)


def setup():
    global zstandard, TEXT, PACKED
    import random
    import zstandard
    rand = random.Random(1)
    TEXT = " ".join(f"word{int(rand.paretovariate(0.6)) % 5000}" for _ in range(60000)).encode()
    PACKED = squeezed()


def work():
    squeezed()
    restored()
