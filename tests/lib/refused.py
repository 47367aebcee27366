# SPDX-License-Identifier: MIT
"""Executes a command under a seccomp filter that refuses system calls:

    python3 refused.py CALL[:PID],... COMMAND [ARGUMENT...]

CALL is one of CALLS below; of the first two, with a PID only what is done to that process is refused, as by Yama.
"""
import ctypes
import os
import struct
import sys

# Of x86-64: the number, and which argument is the process.
CALLS = {"ptrace": (101, 1), "process_vm_readv": (310, 0),
         "seccomp": (317, None), "capset": (126, None), "setresuid": (117, None)}
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, EPERM = 0x7fff0000, 0x00050001
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


def program(words):
    code = []
    for word in words.split(","):
        name, _, pid = word.partition(":")
        number, argument = CALLS[name]
        code += [(LOAD, 0, 0, 0), (EQUAL, 0, 3 if pid else 1, number)]
        if pid:
            code += [(LOAD, 0, 0, 16 + 8 * argument), (EQUAL, 0, 1, int(pid))]
        code += [(RETURN, 0, 0, EPERM)]
    return b"".join(struct.pack("HBBI", *one) for one in [*code, (RETURN, 0, 0, ALLOW)])


def install(words):
    code = program(words)
    kept = ctypes.create_string_buffer(code)
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(kept)))
    libc = ctypes.CDLL(None, use_errno=True)
    # Root needs no such promise, and sudo and file capabilities go on to work then.
    if os.geteuid():
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    install(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
