# SPDX-License-Identifier: MIT
"""Files of raw samples (precord --capture), as docs/capture.md describes them."""
import gzip
import struct

MODULES, RUNTIME, THREAD, SAMPLE, REPEAT, END, JIT, IMAGE, CODE, LINES, NAMES, MADE, SYMBOLS = range(1, 14)
LINES_LIMIT = 1 << 17


def records(path):
    """The line that the file begins with, and (type, payload) of each record."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    found, at = [], 8
    while at < len(data):
        kind, size = struct.unpack_from("<IQ", data, at)
        found.append((kind, data[at + 12:at + 12 + size]))
        at += 12 + size
    return data[:8], found


def write(path, magic, found):
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        packed.write(magic)
        for kind, payload in found:
            packed.write(struct.pack("<IQ", kind, len(payload)) + payload)


def ranges_at(sample):
    """Where the ranges of a sample begin: behind what it says of the thread."""
    at = 12                                                    # tid, time
    at += 4 + struct.unpack_from("<I", sample, at)[0] + 2      # registers, stopped, maybe_python
    for _ in range(2):                                         # wait, kernel
        at += 4 + struct.unpack_from("<I", sample, at)[0]
    at += 5 + 8 * struct.unpack_from("<I", sample, at + 1)[0]  # runtime, thread states
    at += 17                                                   # thread id, namespace tid, native or not, its end
    return at + 4 + struct.unpack_from("<I", sample, at)[0]


class Lines:
    """The ranges of one sample after the other."""

    def __init__(self):
        self.blocks, self.count = {}, 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def line(self, block, skip, size):
        """Another one than the newest there: one that was there before, or a new one."""
        versions = self.blocks.setdefault(block, [[], 0])
        version = self.number()
        if version == 0:
            new = bytes(skip) + self.data[self.at:self.at + size]
            versions[0].append(new.ljust(64, b"\0"))
            self.at += size
            self.count += 1
        versions[1] = version - 1 if version else len(versions[0]) - 1

    def content(self, address, size):
        pieces, end = [], address + size
        while address < end:
            block, skip = address & ~63, address & 63
            pieces.append((block, skip, min(64 - skip, end - address)))
            address += pieces[-1][2]
        out, same = b"", -1
        for block, skip, piece in pieces:
            if same < 0:
                same = self.number()
            if same == 0:
                self.line(block, skip, piece)
            same -= 1
            versions, current = self.blocks[block]
            out += versions[current][skip:skip + piece]
        return out

    def ranges(self, data, at):
        """Those that come first in order of address, and (address, bytes) of all."""
        if self.count > LINES_LIMIT:
            self.blocks, self.count = {}, 0
        self.data, self.at = data, at
        spans, count, end, found = self.number(), self.number(), 0, []
        for _ in range(count):
            step, size = self.number(), self.number()
            address = (end + (~(step >> 1) if step & 1 else step >> 1)) % (1 << 64)
            found.append((address, self.content(address, size)))
            end = address + size
        return spans, found


def as_version_2(found):
    """The same, each sample with its ranges as they are: so that some can be left out."""
    lines, plain = Lines(), []
    for kind, payload in found:
        if kind == LINES:
            at = ranges_at(payload)
            spans, ranges = lines.ranges(payload, at)
            payload = payload[:at] + struct.pack("<II", spans, len(ranges))
            payload += b"".join(struct.pack("<QI", address, len(data)) + data for address, data in ranges)
            kind = SAMPLE
        plain.append((kind, payload))
    return b"pdraw 2\n", plain
