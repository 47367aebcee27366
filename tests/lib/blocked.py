# SPDX-License-Identifier: MIT
"""Runs fixtures/blocked.py in whatever way, and judges what pdump shows of it."""
import ast
import contextlib
import os
import select
import subprocess

from harness import DEADLINE, FIXTURES, Failure, expect, pdump_json, stacks, system_call, wait_until

SYS_READ = 0
SCRIPT = FIXTURES / "blocked.py"


class Blocked:
    """A command that runs the script; `pid` is our number of the process that runs it."""

    def __init__(self, *command, environment=None):
        ready_out, ready_in = os.pipe()
        end_out, self.end_fd = os.pipe()
        self.process = subprocess.Popen(
            [str(word) for word in command], pass_fds=(ready_in, end_out),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "READY_FD": str(ready_in), "END_FD": str(end_out),
                 "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})})
        os.close(ready_in)
        os.close(end_out)
        self.ready_fd, self.facts = ready_out, None

    def hear(self):
        text = b""
        while not text.endswith(b"\n"):
            if not select.select([self.ready_fd], [], [], DEADLINE)[0]:
                raise Failure(f"says nothing for {DEADLINE:g} s")
            got = os.read(self.ready_fd, 65536)
            if not got:
                raise Failure(f"ended with {self.process.wait(DEADLINE)}")
            text += got
        self.facts = ast.literal_eval(text.decode())
        self.pid = self.find()
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            wait_until(lambda: not os.path.exists(f"/proc/{self.pid}/task/{tid}")
                       or self.reads(tid), f"thread {tid} reads")
        # The one that told is on its way out.
        wait_until(lambda: len(os.listdir(f"/proc/{self.pid}/task")) == 3, "the teller's end")
        return self

    def reads(self, tid):
        """It is where it will stay: before that it may be blocked on the GIL."""
        try:
            return system_call(self.pid, tid) == str(SYS_READ)
        except OSError:
            return True     # the teller has ended meanwhile

    def find(self):
        """The process itself, or the last of its descendants: tools put others in between."""
        pid = self.process.pid
        while True:
            children = []
            for tid in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):    # a thread that has ended
                    with open(f"/proc/{pid}/task/{tid}/children") as file:
                        children += file.read().split()
            if not children:
                return pid
            pid = int(children[0])

    def end(self):
        """Lets the script return; the status of the command."""
        os.close(self.end_fd)
        self.end_fd = -1
        return self.process.wait(DEADLINE)

    def __enter__(self):
        try:
            return self.hear()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        for fd in (self.ready_fd, self.end_fd):
            if fd >= 0:
                os.close(fd)


def wanted_stack(frames):
    return [(name, os.path.basename(file), line) for name, file, line in frames]


def judge(dump, facts, native, above=()):
    """The dump shows the three threads with their names and stacks. above: frames outside of the
    main thread's, as (name, file, line); line None: any."""
    shown = {}
    for thread in dump["threads"]:
        if thread["known_to_python"]:
            expect(thread["thread_name"] not in shown, f"two threads {thread['thread_name']}")
            shown[thread["thread_name"]] = thread["os_thread_id"]
    expect(sorted(shown) == sorted(facts["stacks"]), f"threads {sorted(shown)}")
    every = stacks(dump)
    for name, frames in facts["stacks"].items():
        stack = every[shown[name]]
        found = [(frame.name, frame.file, frame.line) for frame in stack if frame.is_python]
        wanted = (list(above) if name == "MainThread" else []) + wanted_stack(frames)
        same = len(found) == len(wanted) and all(
            a[:2] == b[:2] and b[2] in (None, a[2]) for a, b in zip(found, wanted))
        expect(same, f"{name} has {found}, not {wanted}")
        if native:
            leaf = stack[-1]
            expect(leaf.kind == "native" and "read" in leaf.name or leaf.module.startswith(("libc.", "ld-musl-")),
                   f"{name} does not end in read(2) but in {leaf}")
    return shown


def judge_both(pid, facts, above=()):
    """With and without native frames."""
    for native in (False, True):
        dump = pdump_json(*(["--native"] if native else []), pid)
        expect(dump["python"]["version"].startswith(facts["version"]) if isinstance(
            dump.get("python"), dict) else True, f"version {dump.get('python')}")
        judge(dump, facts, native, above)
