# SPDX-License-Identifier: MIT
"""The programs of bench/programs: what each needs, and how it is started.

One file a program, which both the runner and the target import; so what it needs it imports in setup(). Its
names, all optional but the docstring and work() or command():

    REQUIRES         packages for pip, installed once into an environment in the cache
    NEEDS            commands that must be there
    PYTHON           "3.13.0": of pyenv's, instead of the one asked for
    ENVIRONMENT      {name: value} for the program
    VARIANTS         {name: environment}: each is a run of its own
    MODE             "wall": threads that wait count, too
    CLOSED           libraries without call frame information: 2 % may be guessed
    LEARN            rounds of learning; 0: nothing is learned
    setup(), work()  in the target; work is called again and again
    build(folder, python)     makes what it needs into the folder, which the target finds in $LAB_FOLDER
    command(folder, python)   instead of lab_target.py: the words; must write a byte to $LAB_READY

and how its stacks are judged, in lab_judge.py.
"""
import hashlib
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile

import common

FOLDER = os.path.join(common.ROOT, "bench", "programs")
PYENV = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
PATIENCE = 180      # seconds for a program to be ready
ROUNDS = 2


class CannotRun(Exception):
    """Why a program cannot be had here."""


def names():
    return sorted(name[:-3] for name in os.listdir(FOLDER) if name.endswith(".py") and name[0] not in "._")


def pyenv_python(version):
    path = f"{PYENV}/versions/{version}/bin/python3"
    if not os.access(path, os.X_OK):
        raise CannotRun(f"no {path}")
    return path


class Program:
    def __init__(self, name, python):
        self.name, self.path = name, os.path.join(FOLDER, f"{name}.py")
        found = importlib.util.spec_from_file_location(f"program_{name}", self.path)
        self.module = importlib.util.module_from_spec(found)
        found.loader.exec_module(self.module)
        self.base_python = python
        self.edges = set()

    def get(self, name, default=None):
        return getattr(self.module, name, default)

    @property
    def about(self):
        return (self.module.__doc__ or "?").strip().splitlines()[0]

    def prepare(self):
        """Its interpreter, with its packages, and its folder; CannotRun."""
        for command in self.get("NEEDS", ()):
            if not shutil.which(command):
                raise CannotRun(f"no command {command}")
        python = pyenv_python(self.get("PYTHON")) if self.get("PYTHON") else self.base_python
        version = subprocess.run([python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
                                 capture_output=True, text=True, check=True).stdout.strip()
        requires = self.get("REQUIRES", [])
        self.python = self.environment(python, version, requires) if requires else python
        self.folder = os.path.join(common.BUILD, "lab", f"{self.name}-{version}")
        os.makedirs(self.folder, exist_ok=True)
        if self.get("build"):
            try:
                self.module.build(self.folder, self.python)
            except (OSError, subprocess.CalledProcessError) as error:
                raise CannotRun(f"cannot be built: {common.last_line(error)}") from error

    @staticmethod
    def environment(python, version, requires):
        words = "-".join(re.sub(r"\W+", "", one) for one in requires)
        if len(words) > 60:
            words = words[:50] + hashlib.sha256(words.encode()).hexdigest()[:9]
        try:
            return os.path.join(common.virtual_environment(f"lab-{version}-{words}", requires, python), "python3")
        except (OSError, subprocess.CalledProcessError) as error:
            raise CannotRun(f"cannot install {' '.join(requires)}: {common.last_line(error)}") from error

    def variables(self, variant, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
        return {**kept, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2",
                "LAB_FOLDER": self.folder, **self.get("ENVIRONMENT", {}), **self.get("VARIANTS", {}).get(variant, {}),
                **more}

    def learn(self, variant, factor=1):
        """Adds to its Python call graph; True: that is more than was known."""
        rounds = self.get("LEARN", ROUNDS) * factor
        if self.get("command") or not rounds:
            return False
        before = len(self.edges)
        with tempfile.NamedTemporaryFile() as file:
            try:
                done = subprocess.run([*self.words(), "--learn", str(rounds), file.name], check=False,
                                      env=self.variables(variant), stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, errors="replace", timeout=PATIENCE)
            except subprocess.TimeoutExpired as error:
                raise CannotRun("takes too long to learn") from error
            if done.returncode:
                raise CannotRun(f"failed: {common.last_line(done)}")
            self.edges |= {tuple(map(tuple, edge)) for edge in json.load(open(file.name, encoding="utf-8"))}
        return len(self.edges) > before

    def learns(self):
        return not self.get("command") and self.get("LEARN", ROUNDS) > 0

    def words(self):
        return [self.python, os.path.join(common.ROOT, "bench", "lab_target.py"), self.path]

    def start(self, variant):
        return Running(self, variant)


class Running:
    """A program at work; a context manager that ends it and all that it started."""

    def __init__(self, program, variant):
        ready, write = os.pipe()
        command = program.get("command")
        words = command(program.folder, program.python) if command else \
            [*program.words(), "--ready", str(write)]
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, pass_fds=(write,), start_new_session=True, stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=self.output,
                                        env=program.variables(variant, LAB_READY=str(write)))
        os.close(write)
        self.pid = self.process.pid
        try:
            waiting = select.poll()
            waiting.register(ready, select.POLLIN)
            told = os.read(ready, 64) if waiting.poll(PATIENCE * 1000) else b""
        finally:
            os.close(ready)
        if not told:
            self.end()
            self.output.seek(0)
            last = self.output.read().decode(errors="replace").strip().splitlines()[-1:]
            raise CannotRun(f"does not start: {last[0] if last else 'no word'}")
        if told[:1].isdigit():      # the process to look at is a child
            self.pid = int(told)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.output.close()
