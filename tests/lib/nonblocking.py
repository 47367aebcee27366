# SPDX-License-Identifier: MIT
"""What the tests of --nonblocking share: recursion.py without its native frames, recordings that
trace nothing, and strace as a witness."""
import importlib.util
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import time

from harness import DEADLINE, FIXTURES, Failure, Skip, expect, folded, wait_until, working_pid


def python_grammar():
    """A recursion_grammar of its own, that knows the Python functions of the ring alone."""
    spec = importlib.util.spec_from_file_location("recursion_python",
                                                  FIXTURES / "recursion_grammar.py")
    grammar = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(grammar)
    grammar.RING = [function for function in grammar.RING if function[0] == "recursion.py"]
    return grammar


GRAMMAR = python_grammar()


def judged(text, interpreter):
    """(samples, impossible ones, one example) of recursion.py's folded stacks."""
    samples = impossible = 0
    example = ""
    for stack, count in folded(text):
        if any("(control.py:" in frame for frame in stack):
            continue    # the thread that obeys the test
        why = GRAMMAR.judge(stack, interpreter.qualified)
        samples += count
        impossible += count if why else 0
        example = why or example
    return samples, impossible, example


def begun(recording):
    """Waits until precord has its threads, which is after it has its signal handlers."""
    def runs():
        if recording.poll() is not None:
            raise Failure(f"precord ended with {recording.returncode}: "
                          f"{recording.stderr.read()[-300:] if recording.stderr else ''}")
        return len(os.listdir(f"/proc/{working_pid(recording)}/task")) >= 3
    wait_until(runs, "precord has threads")


def sampled(recording, output):
    """Waits until there are samples: SIGUSR1 makes it write what there is (folded lines)."""
    begun(recording)
    end = time.monotonic() + DEADLINE
    while recording.poll() is None and not (os.path.exists(output) and os.path.getsize(output)):
        expect(time.monotonic() < end, "no samples")
        recording.send_signal(signal.SIGUSR1)
        select.select([], [], [], 0.1)     # time to take some, and to write them


def need_strace():
    if not shutil.which("strace"):
        raise Skip("strace is not installed")


def calls(command, folder, names="ptrace,process_vm_readv,kill,tkill,tgkill"):
    """Runs a command under strace; [(name, the rest of the line)] of these system calls, of the
    command and its threads. Its status must be 0."""
    need_strace()
    log = pathlib.Path(folder) / "strace"
    done = subprocess.run(["strace", "-f", "-qq", "-e", f"trace={names}", "-o", log,
                           *map(str, command)], capture_output=True, timeout=2 * DEADLINE)
    if b"PTRACE_TRACEME" in done.stderr or b"ptrace(" in done.stderr:
        raise Skip(f"strace may not trace here: {done.stderr.decode()[:100]}")
    expect(done.returncode == 0, f"status {done.returncode}: {done.stderr.decode()[-300:]}")
    return re.findall(r"^\d+\s+(\w+)\((.*)$", log.read_text(), re.M)


def expect_no_trace(found, target):
    """Of system calls found: memory was read, nothing traced, and no signal sent to the target."""
    by_name = {name for name, _ in found}
    expect("process_vm_readv" in by_name, f"nothing was read: {by_name}")
    expect("ptrace" not in by_name, f"it traces: {[call for call in found if call[0] == 'ptrace'][:3]}")
    signals = [call for call in found if "kill" in call[0] and re.match(rf"-?{target}\b", call[1])]
    expect(not signals, f"the target was sent {signals[:3]}")
    return len(found)
