# SPDX-License-Identifier: MIT
"""Runs inside gdb, after python-gdb.py: writes all threads' stacks as JSON to $STACKS_OUT.

{"threads": {tid: [frame, ...]}, "interpreter": module}, innermost frame first; a frame is {"name",
"file", "line", "module", "inlined"} and, for an activation of the eval function, "python": [[name,
file, line], ...], innermost first, as py-bt prints them; line 0: it does not know. Frames that gdb
makes up for tail calls, which are not on the stack, are left out."""
import io
import json
import os
import re
import sys

import gdb


def python_frames(frame):
    """What py-bt prints for one activation; None if it cannot tell."""
    printed, sys.stdout = sys.stdout, io.StringIO()
    try:
        Frame(frame).print_traceback()  # noqa: F821 (python-gdb.py's)
        text = sys.stdout.getvalue()
    finally:
        sys.stdout = printed
    found = re.findall(r'^  File "(.*)", line (\d+|\?), in (.*)$', text, re.M)
    if not found or "optimized out" in text or "unable to read" in text:
        return None
    return [[name, file, 0 if line == "?" else int(line)] for file, line, name in found]


def find_vdso():
    with open(f"/proc/{gdb.selected_inferior().pid}/maps") as maps:
        for line in maps:
            if line.rstrip().endswith("[vdso]"):
                first, end = line.split()[0].split("-")
                return range(int(first, 16), int(end, 16))
    return range(0)


VDSO = find_vdso()


def module(address):
    """The file that holds an address; "[vdso]" for the kernel's page."""
    if address in VDSO:
        return "[vdso]"
    return gdb.solib_name(address) or gdb.current_progspace().filename


def whole(frame):
    sal = frame.find_sal()
    told = {
        "name": frame.name(),
        "file": sal.symtab.filename if sal.symtab else None,
        "line": sal.line if sal.symtab else 0,
        "module": module(frame.pc()),
        "inlined": frame.type() == gdb.INLINE_FRAME,
    }
    if frame.name() == EVAL[0] and not told["inlined"]:
        told["python"] = python_frames(frame)
    return told


def eval_function():
    """Its name, 2.7's is the latter; and its address, which is in the interpreter's module."""
    for name in ("_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"):
        try:
            symbol = gdb.lookup_global_symbol(name)
            return name, int(symbol.value().address if symbol else gdb.parse_and_eval("&" + name))
        except gdb.error:
            continue
    raise gdb.error("no eval function")


EVAL = eval_function()


def main():
    threads = {}
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        frames, frame = [], gdb.newest_frame()
        while frame is not None and frame.is_valid() and len(frames) < 20000:
            if frame.pc() < 4096:
                break    # what a new thread returns to
            if frame.type() != gdb.TAILCALL_FRAME:
                frames.append(whole(frame))
            try:
                frame = frame.older()
            except gdb.error:
                break
        threads[thread.ptid[1]] = frames
    interpreter = gdb.solib_name(EVAL[1]) or gdb.current_progspace().filename
    with open(os.environ["STACKS_OUT"], "w") as out:
        json.dump({"threads": threads, "interpreter": interpreter}, out)


gdb.execute("set pagination off")
gdb.execute("set backtrace past-main off")
main()
