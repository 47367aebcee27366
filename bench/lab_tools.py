# SPDX-License-Identifier: MIT
"""precord, py-spy and pystack at work on one process: their stacks in one form, and what they say they lost."""
import collections
import json
import os
import re
import subprocess
import tempfile
import time

import common
from lab_judge import Frame

PATIENCE = 60       # seconds beyond the duration until a tool is taken for stuck
PYTHON_FILE = re.compile(r"\.py$|^<")


class Recorded:
    """stacks: {tuple of frames, outermost first: samples}; lost: that the tool says it could not read."""

    def __init__(self, tool):
        self.tool, self.stacks, self.lost, self.late, self.notes = tool, collections.Counter(), 0, None, []
        self.profile = None

    def add(self, stack, count=1):
        self.stacks[tuple(stack)] += count

    @property
    def samples(self):
        return sum(self.stacks.values())


def run_tool(*command, seconds):
    """None: it took too long."""
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                              errors="replace", timeout=seconds + PATIENCE)
    except subprocess.TimeoutExpired:
        return None


def failed(recorded, done):
    """It gave nothing at all: all is lost."""
    recorded.lost = 1
    recorded.notes.append(f"status {done.returncode}: {done.stderr.strip()[-200:]}" if done else "stuck")
    return recorded


# ---- precord ----


def precord(pid, options):
    recorded = Recorded("precord")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        done = run_tool(common.PRECORD, "--native", "-t", "-r", options.rate, "-d", options.seconds,
                        f"--mode={options.mode}", "-o", out, *options.extra, pid, seconds=options.seconds)
        if not done or done.returncode not in (0, 6) or not os.path.exists(out):
            return failed(recorded, done)
        with open(out, encoding="utf-8") as file:
            recorded.profile = json.load(file)
    recorded.notes.append(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "")
    counts = recorded.profile["counts"]
    recorded.lost, recorded.late = counts["torn"] + counts["dropped"], counts["late"]
    frames = [precord_frame(frame) for frame in recorded.profile["frames"]]
    nodes = recorded.profile["nodes"]
    for node in nodes:
        stack, at = [], node
        while node["self"] and at["parent"] is not None:
            stack.append(frames[at["frame"]])
            at = nodes[at["parent"]]
        if node["self"]:
            recorded.add(reversed([frame for frame in stack if frame]), node["self"])
    return recorded


def precord_frame(frame):
    """None: a thread's name."""
    kind = frame["kind"]
    if kind == "thread":
        return None
    kind = "python" if kind.startswith("python") else "native" if kind == "native" else kind
    name = frame["name"] or f"{frame['module'] or '[unknown]'}+{frame['function_offset']}"
    number = {key: frame[key] and int(frame[key], 16) for key in ("function_offset", "offset")}
    return Frame(kind, name, frame["filename"] or "", frame["line"] or 0, frame["module_path"] or "",
                 number["function_offset"], number["offset"], frame["inlined"], frame["guessed"])


# ---- py-spy ----


def py_spy(pid, options):
    recorded = Recorded("py-spy")
    command = common.py_spy()
    if not command:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "raw")
        done = run_tool(command, "record", "--native", "-t", "-f", "raw", "--full-filenames", "-r",
                        min(options.rate, 100), "-d", max(1, round(options.seconds)), "-o", out, "-p", pid,
                        *(["--idle"] if options.mode == "wall" else []), seconds=options.seconds * 3)
        if not done or done.returncode or not os.path.exists(out):
            return failed(recorded, done)
        with open(out, encoding="utf-8", errors="replace") as file:
            for line in file:
                stack, _, count = line.rstrip("\n").rpartition(" ")
                frames = split_frames(stack)
                recorded.add([py_spy_frame(text) for text in frames[1:]], int(count))
    errors = re.search(r"Errors: (\d+)", done.stderr + done.stdout)
    recorded.lost = int(errors.group(1)) if errors else 0
    return recorded


def split_frames(text):
    """The frames of a folded line: none begins within parentheses of a C++ name."""
    return re.split(r";(?=\S)", text)


def py_spy_frame(text):
    found = re.match(r"(.*) \((.*?)(?::(\d+))?\)$", text)
    if not found:
        return Frame("native", text)
    name, file, line = found.group(1), found.group(2), int(found.group(3) or 0)
    if PYTHON_FILE.search(file):
        return Frame("python", name, file, line)
    if file.endswith((".pyx", ".pxd")):
        return Frame("cython", name, file, line)
    is_source = line and not re.search(r"\.so\b", file)
    return Frame("native", name, file if is_source else "", line, "" if is_source else file)


# ---- pystack: no recorder, so dumps one after the other ----


def pystack(pid, options):
    recorded = Recorded("pystack")
    command = common.pystack()
    if not command:
        return None
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        done = run_tool(command, "remote", "--no-color", "--native-all", pid, seconds=0)
        if not done or done.returncode:
            recorded.lost += 1
            recorded.notes[:] = [(done.stderr or done.stdout).strip()[-200:] if done else "stuck"]
            if recorded.lost > 5 and not recorded.samples:
                break
            continue
        for stack in pystack_stacks(done.stdout, options.mode == "wall"):
            if stack is None:
                recorded.lost += 1
            else:
                recorded.add(stack)
    return recorded


def pystack_stacks(text, idle):
    """Of each thread; None: that could not be read. Threads that wait are left out as the recorders do."""
    stack, is_inside = [], False
    for line in text.splitlines():
        if line.startswith("Traceback for thread"):
            if is_inside and (idle or not is_waiting(stack)):
                yield stack
            stack, is_inside = [], True
        elif "frame stack for thread" in line or "could not" in line.lower():
            yield None
            is_inside = False
        elif found := re.match(r'\s+\((\w+)\) File "(.*)", line (\d+), in (.*)$', line):
            stack.append(pystack_frame(*found.groups()))
    if is_inside and (idle or not is_waiting(stack)):
        yield stack


WAITS = re.compile(r"^(__)?(GI___)?(futex_\w+|do_futex_wait\w*|clock_nanosleep\w*|poll|ppoll|epoll_wait|select|"
                   r"accept4?|read|recv\w*|pthread_cond_\w*wait\w*|sem_\w*wait\w*|syscall|lll_lock_wait)\b")


def is_waiting(stack):
    return bool(stack) and bool(WAITS.match(re.sub("^(__GI_)?_*", "", stack[-1].name)))


def pystack_frame(kind, file, line, name):
    if kind != "C":
        return Frame("python" if kind == "Python" else "cython", name, file, int(line))
    found = re.match(r"(.*?)( \(inlined\))? \((/.*|)\)$", name)
    plain, inlined, module = found.groups() if found else (name, None, "")
    plain = re.sub(r"^\?\?\? .*", "???", plain)
    return Frame("native", plain, "" if file == "???" else file, int(line), module, inlined=bool(inlined))


TOOLS = {"precord": precord, "py-spy": py_spy, "pystack": pystack}
