# SPDX-License-Identifier: MIT
"""A root folder with just enough in it to run one interpreter, for chroot."""
import ast
import os
import re
import shutil
import subprocess

from harness import CACHE, Interpreter, Skip

ASK = r"""
import os, sys, threading, encodings.utf_8, encodings.ascii, encodings.latin_1
files = set()
for module in list(sys.modules.values()):
    file = getattr(module, "__file__", None)
    if file:
        files.add(file[:-1] if file.endswith((".pyc", ".pyo")) else file)
mapped = set(line.split(None, 5)[5].strip() for line in open("/proc/self/maps")
             if " r-xp " in line and "/" in line)
print(repr([os.path.realpath(sys.executable), sys.prefix, sys.exec_prefix, sorted(files),
            sorted(mapped), [os.stat("/").st_dev, os.stat("/").st_ino]]))
"""


def read_elf(path, wanted):
    """The SONAME or the program interpreter that readelf shows."""
    found = re.search(wanted, subprocess.run(["readelf", "-dlW", path], capture_output=True,
                                             text=True).stdout)
    return found.group(1) if found else None


def musl_interpreter():
    """A CPython for musl, which runs here, too: $PSTACK_MUSL_PYTHON, or what tests/lib/build_musl_python made."""
    path = os.environ.get("PSTACK_MUSL_PYTHON") or CACHE / "musl-python" / "bin" / "python3"
    if not os.path.exists(path):
        raise Skip("no CPython for musl: $PSTACK_MUSL_PYTHON names none, and tests/lib/build_musl_python, which makes "
                   "one from CPython's source by musl-gcc, has not been run")
    version = subprocess.run([path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True,
                             text=True, timeout=60, check=True).stdout.strip()
    return Interpreter("musl", str(path), version)


class Files:
    """Where an interpreter's files are: `executable`, `modules` (those it starts with), `mapped`."""

    def __init__(self, interpreter):
        told = subprocess.run([interpreter.path, "-c", ASK], capture_output=True, text=True,
                              timeout=60, check=True).stdout
        self.executable, prefix, exec_prefix, self.modules, self.mapped, root = ast.literal_eval(told)
        here = os.stat("/")
        if root != [here.st_dev, here.st_ino]:
            raise Skip("has a root folder of its own")
        self.environment = {"PYTHONHOME": f"{prefix}:{exec_prefix}"}

    def libraries(self):
        """libpython, if it is one of its own."""
        return [path for path in self.mapped if os.path.basename(path).startswith("libpython")]


class Root:
    def __init__(self, interpreter, folder, program):
        """program: the path that the interpreter has inside."""
        self.folder, self.program = str(folder), program
        files = Files(interpreter)
        # glibc loads this one when a thread ends by pthread_exit, from the folder that libc is in.
        late = [os.path.join(os.path.dirname(path), "libgcc_s.so.1") for path in files.mapped]
        for path in files.modules + files.mapped + late:
            if os.path.isfile(path):
                self.copy(path, path)
        for path in files.mapped:
            name = read_elf(path, r"SONAME.*\[(.*)\]")
            if name:
                self.copy(path, os.path.join(os.path.dirname(path), name))
        for path in files.libraries():
            # Some name it by where the executable is.
            self.copy(path, os.path.normpath(os.path.join(os.path.dirname(program), "../lib",
                                                          os.path.basename(path))))
        loader = read_elf(files.executable, r"interpreter: (.*)\]")
        self.copy(loader, loader)
        self.copy(files.executable, program)
        os.makedirs(self.folder + "/proc")
        self.environment = {**files.environment, "LD_LIBRARY_PATH":
                            ":".join(sorted({os.path.dirname(path) for path in files.mapped}))}

    def copy(self, path, to):
        to = self.folder + to
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if not os.path.exists(to):
            shutil.copy(path, to)
