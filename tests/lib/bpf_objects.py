# SPDX-License-Identifier: MIT
"""What the kernel has of BPF: programs, maps and links, by their numbers; and which of these no process holds."""
import ctypes
import errno
import os
import re

SYS_BPF = 321
NEXT = {"prog_id": 11, "map_id": 12, "link_id": 31}    # BPF_..._GET_NEXT_ID
libc = ctypes.CDLL(None, use_errno=True)


def next_id(command, before):
    """None: there is no other one."""
    attributes = (ctypes.c_uint32 * 32)(before)
    if libc.syscall(SYS_BPF, command, attributes, ctypes.sizeof(attributes)) == 0:
        return attributes[1]
    if ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), f"bpf: {os.strerror(ctypes.get_errno())}")
    return None


def all_objects():
    """(kind, number) of each; OSError: we may not ask."""
    found = set()
    for kind, command in NEXT.items():
        number = next_id(command, 0)
        while number is not None:
            found.add((kind, number))
            number = next_id(command, number)
    return found


def held_objects():
    """Those that a file descriptor of any process is of."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for name in os.listdir(f"/proc/{pid}/fdinfo"):
                with open(f"/proc/{pid}/fdinfo/{name}") as file:
                    text = file.read()
                found |= {(kind, int(number)) for kind, number in
                          re.findall(r"^(prog_id|map_id|link_id):\s*(\d+)$", text, re.M)}
        except OSError:
            continue    # it has ended
    return found
