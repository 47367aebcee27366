# SPDX-License-Identifier: MIT
"""Builds fixtures/native/embed.c, or another program with an interpreter in it, against an interpreter's
library, in several ways."""
import ast
import os
import pathlib
import shutil
import subprocess

from harness import FIXTURES, MODULES, Skip

ASK = r"""
import os, sys, sysconfig
get = sysconfig.get_config_var
root = os.environ.get("PYTHON_ROOT", "")
print(repr(dict((name, get(name) or "") for name in (
    "LIBDIR", "LIBPL", "LIBRARY", "LDLIBRARY", "INSTSONAME", "LIBS", "SYSLIBS", "MODLIBS"))))
print(repr([sys.prefix, sys.exec_prefix, sysconfig.get_path("include"), root,
            "%d.%d" % sys.version_info[:2], os.path.realpath(sys.executable)]))
"""

WAYS = {
    # name: (link with the static library, flags, strip)
    "shared": (False, [], False),
    "shared, its variables copied": (False, ["-no-pie", "-fno-pie", "-DOWN_VARIABLES"], False),
    "static": (True, ["-no-pie", "-rdynamic"], False),
    "static, without exported symbols": (True, ["-no-pie"], False),
    "static, stripped, exporting all": (True, ["-no-pie", "-rdynamic"], True),
    "static, stripped": (True, ["-no-pie"], True),
    "static, stripped, exporting all but what tells": (True, ["-no-pie"], True),
    "static, stripped of section headers, too": (True, ["-no-pie"], True),
}


class Embedded:
    """An interpreter, as the tests need it, that runs inside of embed, or of another source."""

    def __init__(self, interpreter, source="embed.c"):
        self.interpreter, self.source = interpreter, FIXTURES / "native" / source
        told = subprocess.run([interpreter.path, "-c", ASK], capture_output=True, text=True,
                              timeout=60, check=True).stdout.splitlines()
        self.config, rest = ast.literal_eval(told[0]), ast.literal_eval(told[1])
        self.prefix, self.exec_prefix, self.include, self.root, self.version, self.program = rest

    def places(self, *folders):
        for folder in folders:
            if folder:
                yield from dict.fromkeys([self.root + folder, folder])

    def find(self, names, folders):
        for folder in self.places(*folders):
            for name in names:
                if name and os.path.isfile(os.path.join(folder, name)):
                    return os.path.join(folder, name)
        return None

    def library(self, static):
        config = self.config
        if static:
            return self.find([config["LIBRARY"]], [config["LIBPL"], config["LIBDIR"]])
        names = [config["INSTSONAME"], config["LDLIBRARY"]]
        return self.find([name for name in names if ".so" in name],
                         [config["LIBDIR"], self.prefix + "/lib",
                          os.path.dirname(self.program) + "/../lib"])

    def build(self, way):
        """The program; Skip when it cannot be made, or does not run an empty file."""
        out = self.link(way)
        done = subprocess.run(self.command(out, os.devnull), capture_output=True, text=True,
                              timeout=60, env={**os.environ, **self.environment()})
        if done.returncode:
            raise Skip(f"the program ends with {done.returncode} by itself: "
                       f"{(done.stderr.strip().splitlines() or ['it says nothing'])[-1][-200:]}")
        return out

    def link(self, way):
        static, flags, strip = WAYS[way]
        library = self.library(static)
        include = next((folder for folder in self.places(self.include)
                        if os.path.isfile(f"{folder}/Python.h")), None)
        if not library or not include:
            raise Skip(f"no {'libpython.a' if static else 'libpython.so'}" if include
                       else "no Python.h")
        folder = (pathlib.Path(MODULES) / self.source.stem / self.interpreter.name /
                  way.replace(", ", "-"))
        folder.mkdir(parents=True, exist_ok=True)
        out = folder / "server"     # a name that tells nothing
        compiler = (os.environ.get("CXX", "g++"), "-std=gnu++14") \
            if self.source.suffix == ".cpp" else ("gcc",)
        if not shutil.which(compiler[0]):
            raise Skip(f"no {compiler[0]}")
        if out.exists() and out.stat().st_mtime > max(os.path.getmtime(library),
                                                      self.source.stat().st_mtime):
            return out
        told = " ".join(self.config[name] for name in ("MODLIBS", "LIBS", "SYSLIBS")).split()
        more = [word for word in told if word.startswith("-l")] + ["-ldl", "-lutil", "-lpthread",
                                                                    "-lm"]
        if not static:
            more = ["-Wl,-rpath," + os.path.dirname(library).replace(self.root, "", 1),
                    "-Wl,--allow-shlib-undefined"]
        if "but" in way:
            flags = [*flags, self.exported(library, folder)]
        done = subprocess.run(
            [*compiler, "-O1", "-g", *flags, f"-I{include}", "-idirafter",
             os.path.dirname(include), "-o", out,
             self.source, library, *more], capture_output=True, text=True,
            timeout=600)
        if done.returncode:
            raise Skip(f"cannot be linked: {done.stderr.strip().splitlines()[-1][-200:]}")
        if strip:
            subprocess.run(["strip", out], check=True)
        if "headers" in way:
            with open(out, "r+b") as file:
                for place, size in ((0x28, 8), (0x3c, 2), (0x3e, 2)):     # e_shoff, e_shnum, e_shstrndx
                    file.seek(place)
                    file.write(bytes(size))
        return out

    def exported(self, library, folder):
        """A linker option: all symbols can be seen but some of those that an interpreter is found by."""
        told = subprocess.run(["nm", "-g", "--defined-only", "-P", library], capture_output=True,
                              text=True).stdout
        names = {line.split()[0] for line in told.splitlines() if len(line.split()) > 2}
        names -= {"_PyRuntime", "PyInterpreterState_Head", "PyCode_Type", "Py_Version"}
        with open(folder / "exported", "w") as file:
            file.write("{\n" + "".join(f"    {name};\n" for name in sorted(names)) + "};\n")
        return f"-Wl,--dynamic-list={folder / 'exported'}"

    def command(self, program, *arguments):
        """The interpreter itself starts it, so that it sees what the interpreter sees."""
        start = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
        return [self.interpreter.path, "-c", start, program, *arguments]

    def environment(self):
        return {"PYTHONHOME": f"{self.prefix}:{self.exec_prefix}"}
