# SPDX-License-Identifier: MIT
"""A module compiled by mypyc: classes, methods and recursion, called by and calling Python."""
import os
import subprocess
import sys

REQUIRES = ["mypy", "setuptools"]
NEEDS = ["cc"]
SOURCE = """
from typing import Callable

class Node:
    def __init__(self, depth: int) -> None:
        self.left: "Node | None" = Node(depth - 1) if depth else None
        self.right: "Node | None" = Node(depth - 1) if depth else None

    def count(self) -> int:
        return 1 + (self.left.count() if self.left else 0) + (self.right.count() if self.right else 0)

def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def apply(call: Callable[[int], int], n: int) -> int:
    total = 0
    for i in range(n):
        total += call(i)
    return total
"""
CALLS = {"work": {"tree", "number", "back"}, "tree": {"Node", "__init__", "count"}, "number": {"fib"},
         "back": {"called", "apply"}, "called": {"spin"}, "spin": set()}
WITHIN = {r"fib": r"^(number|fib)\b", r"Node": r"^tree \("}
THROUGH = {r"^called \(": [r"^back \(", r"apply"]}


def build(folder, python):
    source = os.path.join(folder, "lab_mypyc.py")
    if os.path.exists(source):
        return
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    commands = os.path.dirname(python)
    subprocess.run([os.path.join(commands, "mypyc"), "lab_mypyc.py"], check=True, capture_output=True, text=True,
                   cwd=folder, env=dict(os.environ, PATH=f"{commands}:{os.environ['PATH']}"))


def spin():
    return sum(range(100))


def called(number):
    return spin() + number


def tree():
    return lab_mypyc.Node(13).count()


def number():
    return lab_mypyc.fib(24)


def back():
    return lab_mypyc.apply(called, 2000)


def setup():
    global lab_mypyc
    sys.path.insert(0, os.environ["LAB_FOLDER"])
    import lab_mypyc


def work():
    tree()
    number()
    back()
