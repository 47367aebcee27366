# SPDX-License-Identifier: MIT
"""Stacks that fixtures say they have, against stacks that the commands show."""
import re

from harness import FIXTURES, Failure, expect, marked_lines

BOOTSTRAP = ["Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run"]
LIBC = re.compile(r"^(libc|ld-linux-x86-64|libpthread|libm)\b|vdso")


def python_name(name, qualified):
    """Before 3.11 code objects have plain names: '<lambda>' of 'f.<locals>.<lambda>'."""
    return name if qualified else name.rsplit(".", 1)[-1]


def libc_only(frames):
    return all(LIBC.search(frame.module) or frame.name.startswith("<") for frame in frames)


def match_case(frames, wanted, script, qualified, state="idle"):
    """Raises Failure unless harness.Frames (outermost first) are what control.case() says."""
    wanted = [f"py {name} threading.py" for name in BOOTSTRAP] + wanted
    index = 0
    for text in wanted:
        optional = text.startswith("?")
        words = text.lstrip("?").split(" ")
        taken = take(frames, index, words, script, qualified)
        if not taken and not optional:
            found = repr(frames[index]) if index < len(frames) else "the end"
            raise Failure(f"at {index}: wanted {text!r}, found {found} in {frames}")
        index += taken
    rest = frames[index:]
    expect(libc_only(rest), f"below the last expected frame: {rest}")
    if state == "idle":
        deepest_native = bool(rest) or not frames[-1].is_python
        expect(deepest_native, f"a thread that waits has no native frame: {frames}")


def take(frames, index, words, script, qualified):
    """How many frames from index are what the words ask for."""
    if index >= len(frames):
        return 0
    frame, kind = frames[index], words[0]
    if kind == "py":
        name, shown = python_name(words[1], qualified), frame.name
        if words[2:] == ["threading.py"]:
            name, shown = name.lstrip("_"), shown.lstrip("_")     # 2.7: __bootstrap
        if not frame.is_python or shown != name:
            return 0
        if len(words) > 2:
            return int(frame.file == words[2])
        return int(frame.file == script and frame.line in marked_lines(FIXTURES / script, words[1]))
    if kind == "native":
        return int(not frame.is_python and bool(re.fullmatch(words[1], frame.name)))
    count = 0
    while index + count < len(frames) and not frames[index + count].is_python and \
            re.search(words[1], frames[index + count].module):
        # "natives A" before "native qsort" must leave that one
        if re.match(r"_*(GI_)?_*(qsort|msort)", frames[index + count].name) and "libc" not in words[1]:
            break
        count += 1
    return count


def match_python(frames, told, qualified):
    """The Python frames against what sys._current_frames() said (innermost first)."""
    ours = [(frame.name, frame.line) for frame in frames if frame.is_python]
    theirs = [(python_name(name, qualified), line) for name, _, line in reversed(told)]
    expect(ours == theirs, f"Python frames {ours}, the program's own view {theirs}")


def match_names(frames, names, qualified):
    """All names in order, outermost first; native names as expected, nothing between."""
    shown = [frame.name for frame in frames]
    wanted = [python_name(name, qualified) if re.match(r"[\w.<>]+$", name) and "::" not in name
              else name for name in names]
    expect(shown[:len(wanted)] == wanted, f"shown {shown}, wanted {wanted}")
    rest = frames[len(wanted):]
    expect(libc_only(rest), f"below the leaf: {rest}")
