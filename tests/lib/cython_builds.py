# SPDX-License-Identifier: MIT
"""Modules of fixtures/native/kitchen, translated by one Cython or another and compiled."""
import hashlib
import os
import shutil
import subprocess

from harness import CACHE, FIXTURES, Skip

KITCHEN = FIXTURES / "native" / "kitchen"
VERSIONS = ("0.29.37", "3.0.12", "3.1.4", "3.2.1", "3.3.1")
IN_CPP = ("spices",)


def from_pip(version):
    """The Cython of that version."""
    folder = CACHE / f"cython-{version}"
    command = folder / "bin" / "cython"
    if not command.exists():
        shutil.rmtree(folder, ignore_errors=True)
        for arguments in (["/usr/bin/python3", "-m", "venv", folder],
                          [folder / "bin" / "pip", "install", "-q", f"cython=={version}"]):
            if subprocess.run(arguments, capture_output=True, timeout=600).returncode:
                shutil.rmtree(folder, ignore_errors=True)
                raise Skip(f"Cython {version} cannot be installed")
    return command


def present(*commands):
    for command in commands:
        if shutil.which(command):
            return command
    raise Skip(f"none of {', '.join(map(str, commands))} is installed")


def translate(command, name, folder, *flags):
    """A C file; kept, as it depends on nothing else."""
    version = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60)
    key = hashlib.sha1(" ".join((version.stdout + version.stderr, *flags)).encode())
    for source in sorted(KITCHEN.iterdir()):
        key.update(source.read_bytes())
    kept = CACHE / "translated" / f"{name}-{key.hexdigest()[:16]}.c"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        out = folder / f"{name}.c"
        subprocess.run([command, *(["--cplus"] if name in IN_CPP else []), *flags, "-o", out,
                        f"{name}.pyx"], cwd=KITCHEN, check=True, capture_output=True, timeout=300)
        shutil.copy(out, kept.with_suffix(".new"))
        os.rename(kept.with_suffix(".new"), kept)
    # The C line, which Cython and assert() keep for messages, would be another one in each.
    return kept.read_text().replace("__LINE__", "0")


def compile_module(text, name, folder, include, flags):
    """Starts the compiler."""
    folder.mkdir()
    suffix = "cpp" if name in IN_CPP else "c"
    source = folder / f"{name}.{suffix}"
    source.write_text(text)
    compiler = "g++" if name in IN_CPP else "gcc"
    if not shutil.which(compiler):
        raise Skip(f"{compiler} is not installed")
    library = folder / f"{name}.so"
    return library, subprocess.Popen([compiler, "-shared", "-fPIC", "-g", "-w", "-DNDEBUG",
                                      "-fopenmp", *flags,
                                      f"-I{include}", "-o", library, source.name], cwd=folder,
                                     stderr=subprocess.PIPE, text=True)
