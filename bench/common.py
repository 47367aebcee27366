# SPDX-License-Identifier: MIT
"""What the benchmarks share: the target whose speed is measured, py-spy, and the table."""
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PDUMP = os.path.join(BUILD, "pdump")
PRECORD = os.path.join(BUILD, "precord")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                     "pdump-tests")


def need_commands():
    for command in (PDUMP, PRECORD):
        if not os.access(command, os.X_OK):
            sys.exit(f"{command} is not built: say make")


def default_python():
    """The distribution's, which numpy is installed for; else the one that runs this."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def py_spy():
    """The path of py-spy from pip, installed once into a cache; None (and why) without it."""
    found = os.path.join(CACHE, "py-spy", "bin", "py-spy")
    if os.access(found, os.X_OK):
        return found
    print(f"installing py-spy into {CACHE}", file=sys.stderr)
    folder = os.path.join(CACHE, "py-spy")
    try:
        subprocess.run([default_python(), "-m", "venv", folder], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([os.path.join(folder, "bin", "pip"), "-q", "install", "py-spy"], check=True,
                       stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"skip: py-spy cannot be installed ({error}); ours alone is measured")
        return None
    return found


class Workload:
    """bench/workload.py in a process, and how fast it is."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, os.path.join(ROOT, "bench", "workload.py")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.reports = []
        self.reported = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if not self.reported.wait(10):
            sys.exit("the workload does not run")

    def read(self):
        for line in self.process.stdout:
            done, seconds = line.split()
            self.reports.append((int(done), float(seconds)))
            self.reported.set()

    def speed(self, seconds):
        """Iterations a second from now on."""
        begin = time.monotonic()
        time.sleep(seconds)
        within = [report for report in self.reports if report[1] >= begin]
        if len(within) < 2:
            return 0.0
        (first, first_time), (last, last_time) = within[0], within[-1]
        return (last - first) / (last_time - first_time)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def median(values):
    return statistics.median(values) if values else float("nan")


def row(what, value, bound="", kept=True):
    """One line of the table; every benchmark prints these alone on stdout."""
    verdict = "" if not bound else "ok" if kept else "MISSED"
    print(f"{what:<58} {value:>12}  {bound:<16} {verdict}".rstrip(), flush=True)
    return kept or not bound
