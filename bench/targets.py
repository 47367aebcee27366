# SPDX-License-Identifier: MIT
"""The processes that take part: bench/workload.py as the target, and precord at work on it."""
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import common

PATIENCE = 60           # seconds until something is taken for stuck
LEAST_GAP_NS = 2000     # shorter ones are the machine's own


def compiled(source, name, *options):
    """The path of what a C file of this folder becomes; made when that has changed."""
    source, made = os.path.join(common.ROOT, "bench", source), os.path.join(common.BUILD, "bench", name)
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(made), exist_ok=True)
        subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-g", *options, "-o", made, source], check=True)
    return made


def native_library():
    return compiled("native_target.c", "native_target.so", "-shared", "-fPIC")


def copies_of_library(count):
    """Paths of so many libraries, each mapped for itself."""
    folder = os.path.join(common.BUILD, "bench", "copies")
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"lib{number}.so") for number in range(count)]
    for path in paths:
        if not os.path.exists(path):
            shutil.copy(native_library(), path)
    return paths


class Target:
    """bench/workload.py with a job; a context manager that ends it."""

    def __init__(self, python, job, *options):
        script = os.path.join(common.ROOT, "bench", "workload.py")
        self.process = subprocess.Popen([python, script, job, "--library", native_library(),
                                         *map(str, options)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def hear(self):
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Workload(Target):
    """Computes in Python, and says how fast it is."""

    def __init__(self, python, frames=70, job="compute", libraries=0):
        super().__init__(python, job, "--frames", frames, "--load", *copies_of_library(libraries))
        self.reports = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()
        if job == "compute":
            self.reports.get(timeout=PATIENCE)
        else:
            time.sleep(0.5)

    def read(self):
        for line in self.process.stdout:
            done, seconds = line.split()
            self.reports.put((int(done), float(seconds)))

    def speed(self, seconds):
        """Iterations a second from now on."""
        begin, within = time.monotonic(), []
        time.sleep(seconds)
        while not self.reports.empty():
            report = self.reports.get()
            if report[1] >= begin:
                within.append(report)
        if len(within) < 2:
            return 0.0
        (first, first_time), (last, last_time) = within[0], within[-1]
        return (last - first) / (last_time - first_time)


class GapThread(Target):
    """Feels on its own thread how long it stands still."""

    def __init__(self, python, frames=70):
        super().__init__(python, "gaps", "--frames", frames)
        self.gaps(0.01)

    def gaps(self, seconds):
        """From now on, in microseconds, the longest first."""
        self.process.stdin.write(f"{seconds} {LEAST_GAP_NS}\n")
        self.process.stdin.flush()
        return sorted((int(gap) / 1000 for gap in self.hear().split()), reverse=True)


class Threads(Target):
    """Two busy threads among many that are blocked."""

    def __init__(self, python, idle):
        super().__init__(python, "threads", "--idle", idle)
        if self.hear() != "ready":
            sys.exit(f"the target with {idle} threads does not start")

    def interrupted(self):
        """Ends it: how many of the blocked calls were interrupted."""
        self.process.stdin.close()
        return int(self.hear())


def is_traced(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in file)


def has_ended(child):
    """Of a child, which stays there for os.wait4."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_until(condition, what):
    """Or the program ends: it takes too long."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} takes too long")
        time.sleep(0.0002)


def children(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/children", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


def descendants(pid):
    """It and all processes below it, made by whichever of their threads."""
    found = [pid]
    for parent in found:
        for tid in os.listdir(f"/proc/{parent}/task"):
            found += children(parent, tid)
    return found


def working_pid(pid):
    """The process behind that of a precord that runs, which does the work."""
    return (children(pid, pid) or [pid])[0]


class Recording:
    """precord --native on a process, from start to stop; then what it counted and what it used."""

    def __init__(self, pid, rate, *options, seconds=None, wrapper=()):
        self.folder = tempfile.TemporaryDirectory()
        self.output = os.path.join(self.folder.name, "out.json")
        self.begun = time.monotonic()
        length = ["-d", f"{seconds:g}"] if seconds else []
        with open(os.path.join(self.folder.name, "err"), "w", encoding="utf-8") as told:
            self.process = subprocess.Popen([*wrapper, common.PRECORD, "--native", "-r", f"{rate:g}",
                                             *length, "-o", self.output, *options, str(pid)], stderr=told)
        self.pid = self.process.pid
        wait_until(lambda: is_traced(pid) or has_ended(self.pid), "precord")
        self.began_after = time.monotonic() - self.begun

    def cpu_of(self, thread):
        """Seconds that the thread of that name has used so far, in whichever of precord's processes it runs."""
        for folder in (f"/proc/{pid}/task" for pid in descendants(self.pid)):
            for tid in os.listdir(folder):
                with open(f"{folder}/{tid}/comm", encoding="utf-8") as file:
                    if file.read().strip() == thread:
                        with open(f"{folder}/{tid}/schedstat", encoding="utf-8") as times:
                            return int(times.read().split()[0]) / 1e9
        sys.exit(f"precord has no thread named {thread}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.finish()

    def wait(self):
        """For the end, which -d or stop brings."""
        _, status, usage = os.wait4(self.pid, 0)
        self.lasted = time.monotonic() - self.begun
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = usage.ru_utime + usage.ru_stime
        return self

    def finish(self):
        """Waits for the end, and reads what was written."""
        if self.process.returncode is None:
            self.wait()
        with open(os.path.join(self.folder.name, "err"), encoding="utf-8") as file:
            self.told = file.read()
        if self.process.returncode not in (0, 6):
            sys.exit(f"precord ended with status {self.process.returncode}:\n{self.told}")
        with open(self.output, encoding="utf-8") as file:
            self.profile = json.load(file)
        self.counts = self.profile["counts"]
        self.samples = self.counts["samples"]
        self.folder.cleanup()
        return self

    def pauses(self):
        """{name: value} from --debug=pause's
        "pause: n=4983 p50=14.1us p90=17.0us p99=40.2us max=1200.3us allocating=0"."""
        line = [line for line in self.told.splitlines() if line.startswith("pause: n=")][-1:]
        if not line:
            sys.exit(f"precord printed no line 'pause: n=...':\n{self.told}")
        return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", line[0])}

    def frames(self):
        """Merged frames in all samples together."""
        return sum(node["total"] for node in self.profile["nodes"] if node["frame"] is not None)
