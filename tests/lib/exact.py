# SPDX-License-Identifier: MIT
"""Fixtures of one small program each, that start on every CPython, and their stacks, frame by frame.

A program gets two descriptors as its first arguments: where it tells its facts as lines of JSON, and
where it waits for a word of the test. Extension modules are built here, one at a time.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from expected import libc_only, python_name
from harness import (CACHE, DEADLINE, FIXTURES, MODULES, Failure, Fixture, Interpreter, Skip, counts, expect,
                     folded, marked_lines, pdump_json, precord, stacks)
from recursion_grammar import is_leaf_native, parse

ABOUT = """
import os, sys, sysconfig
include = sysconfig.get_paths()["include"]
if hasattr(sys, "gettotalrefcount") and os.path.exists(include + "_d"):
    include += "_d"
print(os.environ.get("PYTHON_ROOT", ""))
print(include)
print(sysconfig.get_config_var("EXT_SUFFIX") or sysconfig.get_config_var("SO"))
"""


def build(interpreter, name, *flags):
    """The folder of the extension module fixtures/native/NAME.c for this interpreter."""
    told = subprocess.run([interpreter.path, "-c", ABOUT], capture_output=True, text=True, check=True,
                          timeout=DEADLINE).stdout.splitlines()
    root, include, suffix = told
    if root and not include.startswith(root):
        include = root + include
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise Skip("no Python.h for this interpreter")
    flags += ("-idirafter", root + "/usr/include") if root else ()
    folder = MODULES / "exact" / str(interpreter)
    source, out = FIXTURES / "native" / (name + ".c"), folder / (name + suffix)
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-g", "-fPIC", "-shared", "-w", *flags,
                               "-I", include, "-o", out, source],
                              capture_output=True, text=True, timeout=DEADLINE * 4)
        if done.returncode:
            raise Failure(f"{source.name}: {done.stderr.strip()[-500:]}")
    return str(folder)


# Newest first; a wheel has one of these.
PLATFORMS = ["manylinux_2_28_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64",
             "manylinux_2_12_x86_64", "manylinux2010_x86_64", "manylinux_2_5_x86_64", "manylinux1_x86_64"]


def packages(interpreter, *wanted):
    """A folder with packages from pip for this interpreter, which need not have pip itself."""
    if interpreter.name.endswith("d"):
        raise Skip("packages are not built for debug builds")
    tag = "cp%d%d" % interpreter.python
    abi = tag + ("mu" if interpreter.python == (2, 7) else "m" if interpreter.python < (3, 8) else
                 "t" if interpreter.name.endswith("t") else "")
    folder = CACHE / "packages" / "-".join([abi, *(name.replace("==", "-") for name in wanted)])
    if not folder.is_dir():
        work = pathlib.Path(tempfile.mkdtemp(prefix=".work-", dir=_made(folder.parent)))
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--only-binary", ":all:",
                               "--implementation", "cp", "--python-version", "%d.%d" % interpreter.python,
                               "--abi", abi, "--abi", "none", *(f"--platform={one}" for one in PLATFORMS),
                               "--target", work / "made", *wanted],
                              capture_output=True, text=True, timeout=DEADLINE * 10)
        if done.returncode == 0:
            try:
                (work / "made").rename(folder)
            except OSError:
                pass        # somebody else was as fast
        shutil.rmtree(work)
        if done.returncode:
            raise Skip(f"pip has no {' '.join(wanted)}: "
                       f"{(done.stderr.strip().splitlines() or ['?'])[-1][:120]}")
    return str(folder)


def _made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _Bare(Interpreter):
    """An interpreter with nothing but the given folder to import from."""

    def __init__(self, interpreter, path):
        super().__init__(interpreter.name, interpreter.path, interpreter.version)
        self.bare_path = path

    def modules(self, *_):
        return self.bare_path


def program(interpreter, script, *arguments, path="", **options):
    """A Fixture of fixtures/SCRIPT; path: folders to import from."""
    return Fixture(_Bare(interpreter, path), script, *arguments, **options)


def told_frames(wanted, script, qualified):
    """What a program says of its stack, outermost first, as tuples (kind, name, file, lines).

      "py NAME"             a Python frame; its line has the mark #@NAME in the script
      "py NAME@MARK"        the same with another mark
      "py NAME FILE:LINE"   one elsewhere; no LINE: anywhere in the file; FILE|FILE: either
      "c NAME FILE"         a native frame, its line has the mark //@NAME in fixtures/native/FILE
      "native NAME"         a native frame of that name (a regular expression)
      "natives MODULE"      any number of native frames of modules that match the expression
    """
    made = []
    for text in wanted:
        kind, name, *rest = text.split(" ")
        name, _, mark = name.partition("@")
        if kind == "py" and not rest:
            made.append(("py", python_name(name, qualified), script,
                         marked_lines(FIXTURES / script, mark or name)))
        elif kind == "py":
            file, _, line = rest[0].partition(":")
            made.append(("py", python_name(name, qualified), file, {int(line)} if line else None))
        elif kind == "c":
            made.append(("c", name, rest[0], marked_lines(FIXTURES / "native" / rest[0], name)))
        else:
            made.append((kind, name, "", None))
    return made


def is_frame(frame, kind, name, file, lines):
    if kind in ("native", "natives"):
        return not frame.is_python and bool(
            re.fullmatch(name, frame.name) if kind == "native" else re.search(name, frame.module))
    return frame.is_python == (kind == "py") and frame.name == name and \
        frame.file in file.split("|") and (lines is None or frame.line in lines)


def match(frames, wanted, leaf=libc_only):
    """Raises Failure unless the frames (outermost first) are those of told_frames(); below them what
    leaf() accepts."""
    index = 0
    for one in wanted:
        if one[0] == "natives":
            while index < len(frames) and is_frame(frames[index], *one):
                index += 1
            continue
        expect(index < len(frames), lambda: f"ends before {one}: {frames}")
        expect(is_frame(frames[index], *one),
               lambda: f"frame {index} is {frames[index]}, not {one}: {frames}")
        index += 1
    expect(leaf(frames[index:]), lambda: f"below the last expected frame: {frames[index:]}")


# ---- recordings --------------------------------------------------------------------------------


class Calls:
    """Who may call whom, and from where: what every sample of a program is judged by.

    One call a line: "CALLER > CALLEE" of frames as told_frames() has them, the caller's with its lines; a
    root is a line of its own. Below the last known frame only native code may stand that a system's
    library has, or PLT stubs of the fixture's own modules (nameless or not), or any code of `modules`.
    """

    def __init__(self, lines, script, qualified, modules=()):
        self.edges, self.roots, self.modules, self.whole = {}, set(), set(), set(modules)
        for line in lines:
            frames = told_frames(line.split(" > "), script, qualified)
            keys = [(name, file) for _, name, file, _ in frames]
            self.modules.update(file[:-2] for kind, _, file, _ in frames if kind == "c")
            if len(keys) == 1:
                self.roots.add(keys[0])
            else:
                edge = self.edges.setdefault((keys[0], keys[1]), set())
                edge.update(frames[0][3] or {None})
        self.known = self.roots | {key for edge in self.edges for key in edge}

    def leaf(self, frame):
        _, name, _, module = frame
        file, _, _, _ = frame
        stem = (module or "").split(".")[0]
        stub = not name or name.endswith("@plt")
        return is_leaf_native(frame) or stem in self.whole or (stub and stem in self.modules) or \
            bool(self.whole and file and not file.endswith(".py"))

    def judge(self, stack):
        """None, or why the program cannot have this stack (frame texts, outermost first)."""
        frames = [parse(text) for text in stack]
        keys = [(name, file if file is not None else module) for file, name, _, module in frames]
        while frames and keys[-1] not in self.known and self.leaf(frames[-1]):
            frames.pop()
            keys.pop()
        if not frames and self.whole:
            return None         # a switch, while which the Python frames cannot be read
        if not frames or keys[0] not in self.roots:
            return f"begins with {stack[0]}"
        for index in range(1, len(frames)):
            lines = self.edges.get((keys[index - 1], keys[index]))
            if lines is None:
                return f"{keys[index - 1][0]} calls {stack[index]}"
            if None not in lines and frames[index - 1][2] not in lines:
                return f"{stack[index - 1]} calls {stack[index]} from another line"
        return None


def record(fixture, calls, samples, rate=1000, options=("--native",), skip=None):
    """Records the fixture and judges every sample. Returns what to print; Failure with the first
    impossible stacks. skip(stack): True for stacks of threads that are not judged."""
    done = precord(*options, "-r", rate, "-d", f"{samples / rate:.2f}", "-f", "folded", "-o", "-",
                   fixture.pid, seconds=samples / rate * 3 + 60).need()
    expect(fixture.runs(), "the program has ended")
    judged, wrong, why = 0, 0, []
    for stack, count in folded(done.out):
        if skip and skip(stack):
            continue
        judged += count
        problem = calls.judge(stack)
        if problem:
            wrong += count
            why.append((count, f"{count} times {problem}: {' | '.join(stack)}"))
    told = counts(done.err)
    text = f"{judged} samples, {wrong} impossible, " + ", ".join(
        f"{told.get(name, 0)} {name}" for name in ("salvaged", "guessed", "truncated", "torn"))
    expect(judged, "no samples: " + done.err.strip()[-200:])
    expect(not wrong, lambda: text + "".join(f"\n    {one}" for _, one in sorted(why)[:-6:-1]))
    lost = told.get("torn", 0) + told.get("gone", 0)
    # Of so few samples one in a thousand is one or two: more must be more than chance (three deviations).
    allowed = (judged + lost) / 1000
    expect(lost <= allowed + 3 * allowed ** 0.5, f"more than one in a thousand lost: {text}")
    return text


def match_both(fixture, tid, wanted, script, qualified, leaf=libc_only):
    """The thread's stack in both kinds of dump. Returns how many frames the native one has."""
    told = told_frames(wanted, script, qualified)
    native = thread_of(pdump_json("--native", fixture.pid), tid)
    try:
        match(native, told, leaf)
    except Failure as why:
        raise Failure(f"--native: {why}") from why
    python = thread_of(pdump_json(fixture.pid), tid)
    try:
        match(python, [one for one in told if one[0] == "py"], lambda rest: not rest)
    except Failure as why:
        raise Failure(f"Python frames only: {why}") from why
    return len(native)


def thread_of(dump, tid):
    found = stacks(dump)
    expect(tid in found, f"no thread {tid}, but {sorted(found)}")
    return found[tid]
