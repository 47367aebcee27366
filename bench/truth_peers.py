# SPDX-License-Identifier: MIT
"""py-spy beside ours, on recursion.py: the order of the functions alone is judged, not its lines."""
import pathlib
import re
import tempfile

from harness import folded, py_spy, run
import recursion_grammar as grammar


def measure(interpreter, program, native, options):
    if program.name != "recursion" or not native:
        return
    with program.start(interpreter, options, options.seed) as fixture, \
            tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "raw"
        seconds = max(1, round(options.samples / options.rate))
        run(py_spy(), "record", "--native", "-f", "raw", "-r", round(options.rate), "-d", seconds,
            "-o", out, "-p", fixture.pid, seconds=seconds * 20 + 60).need()
        samples = impossible = 0
        for stack, count in folded(out.read_text()):
            if any("(control.py" in frame for frame in stack):
                continue    # the thread that obeys the test
            samples += count
            impossible += count * bool(grammar.judge(shown(stack), interpreter.qualified, lines=False))
    print(f"{interpreter}: {program.name} py-spy {samples} samples, {impossible} impossible "
          f"({100.0 * impossible / max(samples, 1):.2f} %)", flush=True)


def shown(stack):
    """The Python and Cython frames alone, with the names that they should have, wrapper and body as one."""
    known = {name.replace(".", "_"): name for file, name in grammar.RING if file == "hop.pyx"}
    known.update({"go": "Hopper.go", "leap": "Hopper.leap", "__pyx_gb_3hop_14generator": "produce"})
    frames = []
    for text in stack:
        file, name, line, _ = grammar.parse(text)
        if file == "hop.pyx":
            name = re.sub("^hop_", "", name)
            text = f"{known.get(name, name)} ({file}:{line})"
            if frames and frames[-1].startswith(known.get(name, name) + " ("):
                frames.pop()
        elif file != "recursion.py":
            continue
        frames.append(text)
    return frames
