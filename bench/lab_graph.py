# SPDX-License-Identifier: MIT
"""Which function of a library can call which, as its code says: the oracle of the lab's judge.

From a file's tables of symbols, of call frame information and of relocations, and from its code as capstone
decodes it, which shares nothing with what is judged. Whatever is not sure (indirect calls and jumps, the
interpreter's functions, which are not shown and call anything) counts as possible.
"""
import bisect
import os
import re
import struct
import subprocess
import sys

import common

LONGEST = 1 << 18       # bytes of a function that are decoded
DEEPEST = 8             # functions that jump to one another
BINDING = re.compile(r"@.*$")
API = re.compile(r"_?Py[A-Z_]")     # an interpreter's function: calls anything
R_GLOB_DAT, R_JUMP_SLOT = 6, 7
STT_FUNC, STT_IFUNC = 2, 10


def capstone_module():
    """None: there is no capstone, and the graph knows nothing."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        folder = common.virtual_environment(f"lab-capstone-{version}", ["capstone"], sys.executable)
        sys.path.append(f"{folder}/../lib/python{version}/site-packages")
        import capstone
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        print(f"no call graphs: {common.last_line(error)}", file=sys.stderr)
        return None
    return capstone


class Function:
    """What its code may pass control to."""

    def __init__(self):
        self.calls, self.jumps = set(), set()       # addresses, and names of other files' functions
        self.sites = {}                             # return address: called, None if that is not known
        self.calls_unknown = self.jumps_unknown = False


class Library:
    """A file's functions."""

    def __init__(self, path, capstone):
        self.capstone, self.path = capstone, path
        with open(path, "rb") as file:
            self.bytes = file.read()
        if self.bytes[:5] != b"\x7fELF\x02":
            raise ValueError("no 64-bit ELF file")
        self.decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.decoder.detail = True
        self.functions, self.names, self.at, self.sizes, self.indirect = {}, {}, {}, {}, set()
        self.read_headers()
        self.read_symbols()
        self.symbols = sorted(self.at)
        self.starts = sorted(set(self.at) | set(self.read_frame_table()))
        self.slots = dict(self.read_relocations())

    def read_headers(self):
        offset, = struct.unpack_from("<Q", self.bytes, 40)
        size, count, names = struct.unpack_from("<HHH", self.bytes, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, offset + i * size) for i in range(count)]
        texts = rows[names][4] if rows else 0
        self.sections = [(self.text(texts + row[0]), *row[1:]) for row in rows]
        offset, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        rows = [struct.unpack_from("<IIQQQQQQ", self.bytes, offset + i * size) for i in range(count)]
        self.loads = [(row[3], row[2], row[5], row[1] & 1) for row in rows if row[0] == 1]

    def text(self, offset):
        return self.bytes[offset:self.bytes.index(b"\0", offset)].decode(errors="replace")

    def offset_of(self, address):
        for start, offset, size, _ in self.loads:
            if start <= address < start + size:
                return address - start + offset
        return None

    def is_code(self, address):
        return any(start <= address < start + size and code for start, _, size, code in self.loads)

    def read_symbols(self):
        self.dynamic = []
        for _, kind, _, _, offset, size, link, _, _, _ in self.sections:
            if kind not in (2, 11) or size == 0:
                continue
            texts = self.sections[link][4]
            symbols = list(struct.iter_unpack("<IBBHQQ", self.bytes[offset:offset + size]))
            if kind == 11:
                self.dynamic = [self.text(texts + symbol[0]) for symbol in symbols]
            for name, info, _, section, value, length in symbols:
                if info & 15 in (STT_FUNC, STT_IFUNC) and section and value:
                    self.add_symbol(self.text(texts + name), info & 15, value, length)

    def add_symbol(self, name, kind, value, length):
        name = BINDING.sub("", name)
        self.at.setdefault(value, set()).add(name)
        self.names.setdefault(name, set()).add(value)
        self.sizes[value] = max(self.sizes.get(value, 0), length)
        if kind == STT_IFUNC:
            self.indirect.add(name)

    def read_frame_table(self):
        """Where the functions of .eh_frame_hdr's table begin."""
        for name, _, _, address, offset, size, *_ in self.sections:
            if name == ".eh_frame_hdr" and size >= 12 and self.bytes[offset + 1:offset + 4] == b"\x1b\x03\x3b":
                count, = struct.unpack_from("<I", self.bytes, offset + 8)
                for i in range(min(count, (size - 12) // 8)):
                    yield address + struct.unpack_from("<i", self.bytes, offset + 12 + 8 * i)[0]

    def read_relocations(self):
        """Address of a slot, and the name of the function it will hold. Other pointers may change."""
        for _, kind, _, _, offset, size, _, _, _, _ in self.sections:
            if kind != 4:
                continue
            for slot, info, _ in struct.iter_unpack("<QQq", self.bytes[offset:offset + size - size % 24]):
                if info & 0xffffffff in (R_GLOB_DAT, R_JUMP_SLOT) and info >> 32 < len(self.dynamic):
                    yield slot, BINDING.sub("", self.dynamic[info >> 32])

    def entry_of(self, start):
        """Of the symbol's function that covers it: its call frame information may begin behind its entry."""
        place = bisect.bisect_right(self.symbols, start) - 1
        if place >= 0 and start < self.symbols[place] + self.sizes[self.symbols[place]]:
            return self.symbols[place]
        return start

    def start_of(self, address):
        place = bisect.bisect_right(self.starts, address) - 1
        return self.starts[place] if place >= 0 else address

    def end_of(self, start):
        if self.sizes.get(start):
            return start + self.sizes[start]
        place = bisect.bisect_right(self.starts, start)
        return self.starts[place] if place < len(self.starts) else start + 4096

    def function(self, start):
        if start not in self.functions:
            self.functions[start] = self.decode(start)
        return self.functions[start]

    def decode(self, start):
        function, x86 = Function(), self.capstone.x86
        end, offset = self.end_of(start), self.offset_of(start)
        if offset is None or end - start > LONGEST:
            function.calls_unknown = function.jumps_unknown = True
            return function
        at = start
        for one in self.decoder.disasm(self.bytes[offset:offset + end - start], start):
            at = one.address + one.size
            groups = one.groups
            if x86.X86_GRP_CALL in groups:
                target = function.sites[at] = self.target(one)
                function.calls.add(target)
                function.calls_unknown |= target is None
            elif x86.X86_GRP_JUMP in groups:
                target = self.target(one)
                function.jumps_unknown |= target is None
                if not isinstance(target, int) or not start <= target < end:
                    function.jumps.add(target)
        if at < end:        # bytes that are no instruction: data in between
            function.calls_unknown = function.jumps_unknown = True
        if at == end and self.falls_through(start, end):
            function.jumps.add(end)
        return function

    def falls_through(self, start, end):
        """Whether another function begins right there without padding: an entry within hand-written code."""
        return end in self.at and end % 16 != 0 and start in self.at

    def target(self, instruction):
        """An address, a name, or None."""
        operand = instruction.operands[0]
        if operand.type == self.capstone.x86.X86_OP_IMM:
            address = operand.imm & (1 << 64) - 1
            return self.stub(address) or address
        if operand.type == self.capstone.x86.X86_OP_MEM and operand.mem.base == self.capstone.x86.X86_REG_RIP:
            return self.slots.get(instruction.address + instruction.size + operand.mem.disp)
        return None

    def stub(self, address):
        """What a stub of the PLT jumps to; None: it is none."""
        for name, _, _, start, offset, size, *_ in self.sections:
            if name.startswith(".plt") and start <= address < start + size:
                place = offset + address - start
                for one in self.decoder.disasm(self.bytes[place:place + 16], address):
                    if one.mnemonic.endswith("jmp"):
                        return self.target(one)
        return None


class Graph:
    """Of all libraries that a stack may go through."""

    def __init__(self):
        self.capstone, self.libraries, self.known = capstone_module(), {}, {}

    def library(self, path):
        if path not in self.libraries:
            self.libraries[path] = None
            if self.capstone and os.path.isfile(path):
                try:
                    self.libraries[path] = Library(path, self.capstone)
                except (ValueError, OSError, struct.error, IndexError) as why:
                    print(f"{path}: no call graph: {why}", file=sys.stderr)
        return self.libraries[path]

    def starts(self, path, name):
        """Of the functions of that name."""
        library = self.library(path)
        return library.names.get(BINDING.sub("", name), set()) if library else set()

    def objection(self, outer_path, outer, inner_path, inner, site=None):
        """None, or why the function that begins at `inner` cannot be called by `outer`, from the call that
        returns to `site`."""
        key = outer_path, outer, inner_path, inner, site
        if key not in self.known:
            self.known[key] = self.look(*key)
        return self.known[key]

    def look(self, outer_path, outer, inner_path, inner, site):
        library, other = self.library(outer_path), self.library(inner_path)
        if not library or not other or outer not in library.starts or inner not in other.starts:
            return None
        outer, inner = library.entry_of(outer), other.entry_of(inner)
        function = library.function(outer)
        if function.calls_unknown and site is None:
            return None
        if site is not None and not function.calls_unknown and site not in function.sites and site != outer:
            return "no call returns there"
        called = {function.sites[site]} if site in function.sites else function.calls
        if None in called or self.leads(library, called, other, inner, set()):
            return None
        if site not in function.sites:
            return "it has no such call"
        target = function.sites[site]
        return f"the call before {site:#x} goes to {target if isinstance(target, str) else hex(target)}"

    def leads(self, library, targets, other, inner, seen):
        """Whether one of the targets is that function, or comes to it by jumps."""
        for target in targets:
            if target is None or (target, library.path) in seen:
                if target is None:
                    return True
                continue
            seen.add((target, library.path))
            if isinstance(target, str):
                if self.name_leads(library, target, other, inner, seen):
                    return True
                continue
            start = library.start_of(target)
            if library is other and inner in (target, start):
                return True
            if any(API.match(name) for name in library.at.get(start, ())):
                return True     # of an interpreter that is linked in
            function = library.function(start)
            if function.jumps_unknown or len(seen) > 4096 or \
                    self.leads(library, function.jumps, other, inner, seen):
                return True
        return False

    def name_leads(self, library, name, other, inner, seen):
        if API.match(name) or name in other.indirect:
            return True
        owners = [one for one in (other, library) if name in one.names]
        if not owners:
            return True         # of a third file
        return any(self.leads(owner, owner.names[name], other, inner, seen) for owner in owners)
