# SPDX-License-Identifier: MIT
"""gdb's view of a process, brought into the form that pdump has to print, and the comparison."""
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

from harness import CACHE, DEADLINE, ROOT, Failure, Skip
import recursion_grammar as grammar

PLUMBING = re.compile(r"__Pyx_|__pyx_tp_|__Pyx__")


def python_gdb(interpreter):
    """The interpreter's python-gdb.py: beside it, or in gdb's auto-load folder (Debian)."""
    real = os.path.realpath(interpreter.path)
    found = glob.glob(real + "-gdb.py") + glob.glob(f"/usr/share/gdb/auto-load{real}-gdb.py")
    if not found:
        raise Skip("no python-gdb.py for this interpreter (Debian: python3-dbg)")
    return found[0]


def gdb_threads(fixture):
    """{tid: [frame]} innermost first, and the interpreter's module."""
    if not shutil.which("gdb"):
        raise Skip("gdb is not installed")
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run(
            ["gdb", "-batch", "-nx", "-iex", "set auto-load python-scripts off",
             "-iex", "set debuginfod enabled off",
             # The same modules are read again and again.
             "-iex", f"set index-cache directory {CACHE / 'gdb-index'}", "-iex", "set index-cache enabled on",
             "-p", str(fixture.pid),
             "-ex", f"source {python_gdb(fixture.interpreter)}",
             "-ex", f"source {ROOT}/tests/lib/gdb_stacks.py"],
            capture_output=True, text=True, timeout=max(DEADLINE, 120), stdin=subprocess.DEVNULL,
            env={**os.environ, "STACKS_OUT": out.name, "LC_ALL": "C.UTF-8"})
        text = out.read()
        if not text:
            raise Failure(f"gdb says nothing: {done.stderr.strip()[-500:]}")
    told = json.loads(text)
    return {int(tid): frames for tid, frames in told["threads"].items()}, told["interpreter"]


# ---- Cython ---------------------------------------------------------------------------------


@functools.lru_cache(None)
def _markers(c_file):
    """Per line of a generated C file: the (file, line) of the comment block that covers it."""
    with open(c_file, errors="replace") as source:
        lines = source.read().split("\n")
    current, covered = None, [None]
    for number, line in enumerate(lines):
        match = re.match(r'\s*/\* "([^"]+)":(\d+)$', line)
        if match:
            current = (match.group(1), int(match.group(2)))
        covered.append(current)
    return covered


def pyx_line(frame):
    """(basename, line) of a frame, through the comments of a generated file where need be."""
    file, line = frame["file"], frame["line"]
    if not file:
        return "", 0
    if os.path.basename(file) in ("hop.c", "par.c") and os.path.exists(file):
        covered = _markers(file)
        if line < len(covered) and covered[line]:
            file, line = covered[line]
    return os.path.basename(file), line


CYTHON_NAMES = {"__pyx_gb_3hop_14generator": "produce", "generator": "produce"}


def cython_name(symbol):
    """The author's name of a function of hop.pyx or par.pyx; None: hidden; "" not Cython's."""
    if PLUMBING.match(symbol):
        return None
    match = re.match(r"__pyx_(pw|pf|f|gb)_\d+(hop|par)_(.*?)((?:\.(?:isra|part|constprop|cold)(?:\.\d+)?)*)"
                     r"(\._omp_fn\.\d+)?$", symbol)
    if not match:
        return ""
    kind, _, rest, _, omp = match.groups()
    if kind == "gb":
        return "produce"
    for name in list(grammar.spans("hop.pyx")) + ["spin", "grind"]:
        parts = name.split(".")
        pattern = "".join(rf"{len(part)}{part}_" for part in parts[:-1]) + rf"\d*{parts[-1]}$"
        if re.match(pattern, rest):
            return name + (" [omp]" if omp else "")
    raise Failure(f"the oracle does not know {symbol}")


# ---- gdb's frames as pdump's ----------------------------------------------------------------


def expected_stack(frames, interpreter_module):
    """Outermost first: {"kind", "name", "file", "line", "module"}; file "" where gdb has no line."""
    result, seen_python = [], False
    for frame in reversed(frames):
        if frame.get("python", 0) is None:
            raise Skip("python-gdb.py cannot read a frame here (optimized out)")
        if "python" in frame:
            for name, file, line in reversed(frame["python"]):
                result.append({"kind": "python", "name": name, "file": os.path.basename(file),
                               "line": line, "module": ""})
            if not seen_python:
                # what is outside of the outermost Python frame is how the thread was started
                result = result[-len(frame["python"]):]
                seen_python = True
            continue
        name = frame["name"] or ""
        if frame["module"] == interpreter_module:
            if name in ("take_gil", "drop_gil") and not frame["inlined"]:
                # shown as one frame where it waits; what it calls is not shown then
                return result + [{"kind": "mark", "name": "<gil wait>", "file": "", "line": 0,
                                  "module": ""}]
            continue
        shown = cython_name(name)
        if shown is None:
            continue
        file, line = pyx_line(frame) if shown else (os.path.basename(frame["file"] or ""), frame["line"])
        told = {"kind": "cython" if shown else "native", "name": shown or name, "file": file,
                "line": line, "module": os.path.basename(os.path.realpath(frame["module"] or ""))}
        if shown and result and result[-1]["kind"] == "cython" and result[-1]["name"] == shown:
            result.pop()    # wrapper and body are one frame
        result.append(told)
    return result if seen_python else without_start(result)


def without_start(frames):
    """How the C library started a thread that is not Python's is not shown, unless there is no more."""
    start = 0
    while start < len(frames) and frames[start]["module"] == frames[0]["module"] and \
            re.match(r"lib(c|pthread)\W", frames[0]["module"]):
        start += 1
    return frames[start:] or frames


def plain_libc(name):
    """Aliases of one libc function made equal: __GI___libc_read, __read, read."""
    name = re.sub(r"@.*", "", name)
    name = re.sub(r"^_*(GI_)?_*(libc_|new_|old_)?", "", name)
    return re.sub(r"(_nocancel|_cancel|_impl|_internal)$", "", name)


def binutils_lines(ours, innermost):
    """What addr2line says, where gdb prefers another row of the line table (it leaves out those that do not begin
    a statement): a third opinion, on the ELF address that our output names. Of every frame but the innermost that
    is where it goes on after a call, which may be the next line's."""
    path, offset = ours.data.get("module_path"), ours.data.get("offset")
    if not path or not offset or not os.path.exists(path):
        return []
    address = int(offset, 16) - (not innermost)
    told = subprocess.run(["addr2line", "-i", "-e", path, hex(address)], capture_output=True, text=True,
                          timeout=DEADLINE).stdout
    return [(os.path.basename(file), int(line))
            for file, line in re.findall(r"^(.*):(\d+)", told, re.M)]


def differs(ours, theirs, innermost, unsigned_deltas):
    """None, or how a frame of ours (harness.Frame) differs from gdb's. innermost: its address is the PC.
    unsigned_deltas: its python-gdb.py takes steps back in the line table for steps of 256 less (3.6 to 3.9)."""
    kind = "python" if ours.is_python else ours.kind
    if theirs["kind"] == "python":
        same = (kind == "python" and (ours.name == theirs["name"] or
                ours.name.rsplit(".", 1)[-1] == theirs["name"]) and ours.file == theirs["file"]
                and (theirs["line"] in (0, ours.line) or
                     unsigned_deltas and (theirs["line"] - ours.line) % 256 == 0))
        return None if same else "another frame"
    if theirs["kind"] == "cython":
        if (kind, ours.name) != ("cython", theirs["name"]):
            return "another frame"
        return None if (ours.file, ours.line) == (theirs["file"], theirs["line"]) else "another line"
    if kind == "python" or kind == "cython":
        return "another frame"
    if theirs["line"]:
        # A function of the standard library has the name that Python gives it.
        if "/lib-dynload/" not in (ours.data["module_path"] or "") and plain_libc(ours.name) != plain_libc(theirs["name"]):
            return "another function"
        if (ours.file, ours.line) == (theirs["file"], theirs["line"]) or \
                (ours.file, ours.line) in binutils_lines(ours, innermost):
            return None
        return "another line"
    # gdb has no line: its name is the nearest symbol, which may cover the address or not
    if ours.module and theirs["module"] and ours.module != theirs["module"]:
        return "another module"
    return None


def works_on_a_lock(frames):
    """All that gdb has there is the C library's, and begins in one of its functions for mutexes and conditions."""
    return (frames and all(frame["module"].startswith("libc.") for frame in frames) and
            "pthread_" in frames[0]["name"] and re.search(r"mutex|cond", frames[0]["name"]))


def compare(ours, theirs, unsigned_deltas=False):
    """Stacks, outermost first. Raises Failure that shows both around the first difference."""
    for index in range(max(len(ours), len(theirs))):
        left = ours[index] if index < len(ours) else None
        right = theirs[index] if index < len(theirs) else None
        if right and right["kind"] == "mark" and all(
                frame.name == right["name"] or frame.module.startswith("libc.") for frame in ours[index:]):
            return    # takes or drops the GIL: a mark where it waits, else what runs in libc
        if left and left.name == "<gil wait>" and index == len(ours) - 1 and works_on_a_lock(theirs[index:]):
            return    # the same, where take_gil is a part of another function, or has no symbol
        why = differs(left, right, index == len(ours) - 1, unsigned_deltas) if left and right else "one is missing"
        if why:
            shown = right and f"{right['name']} ({right['file']}:{right['line']} {right['module']})"
            around = " | ".join(map(repr, ours[max(0, index - 2):index + 3]))
            raise Failure(f"frame {index} of {len(ours)}, gdb has {len(theirs)}: {why}: ours {left!r}, "
                          f"gdb's {shown}; ours around: {around}")
