# SPDX-License-Identifier: MIT
"""Control groups made for a test, in each layout that is mounted here."""
import os
import pathlib
import signal

from harness import Skip, wait_until


def mounts():
    """{"v2": folder, "v1": folder, "memory": folder}, as far as there are any; v1: of version 1 the first hierarchy that
    limits nothing."""
    found = {}
    with open("/proc/self/mountinfo") as file:
        for line in file:
            words = line.split()
            kind, _, options = words[words.index("-") + 1:][:3]
            if kind == "cgroup2":
                found.setdefault("v2", pathlib.Path(words[4]))
            elif kind == "cgroup" and {"pids", "freezer", "name=systemd"} & set(options.split(",")):
                found.setdefault("v1", pathlib.Path(words[4]))
            elif kind == "cgroup" and "memory" in options.split(","):
                found.setdefault("memory", pathlib.Path(words[4]))
    return found


class Group:
    """A group of our own below the mount; all in it is ended with it."""

    def __init__(self, layout, name="group"):
        above = mounts().get(layout)
        if not above:
            raise Skip(f"no cgroups of {layout} are mounted here")
        self.folder = above / f"pdump-test-{os.getpid()}-{name}"
        self.name = self.folder.name
        try:
            self.folder.mkdir()
        except OSError as why:
            raise Skip(f"cannot make a cgroup: {why}") from None
        self.nested = []

    def below(self, name):
        """The folder of a group in this one."""
        self.nested.append(self.folder / name)
        self.nested[-1].mkdir()
        return self.nested[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for folder in [*reversed(self.nested), self.folder]:
            wait_until(lambda: self.is_removed(folder), f"{folder} is removed")

    @staticmethod
    def is_removed(folder):
        for pid in members(folder):
            os.kill(pid, signal.SIGKILL)
        try:
            folder.rmdir()
        except OSError:
            return False
        return True


def members(folder):
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:     # a threaded one
        return []


def put(folder, pid):
    """Moves a process there."""
    (folder / "cgroup.procs").write_text(str(pid))


def inside(folder, *command):
    """A command that first goes there."""
    return ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(folder), *map(str, command)]
