# SPDX-License-Identifier: MIT
"""Sub-interpreters made by one thread and run by others."""
import sys
import threading

LEARN = 0
PYTHON = "3.12.1"
CODE = """
def spin(level):
    if level:
        return spin(level - 1)
    total = 0
    for i in range({count}):
        total += i
    return total

def rounds_{name}():
    while True:
        spin(5)

rounds_{name}()
"""
ROOTS = [[r"^<module> \(lab_target\.py", r"^run \(lab_target\.py", r"^work \(", r"^main_loop \(", ],
         [r"_bootstrap \(threading", r"_bootstrap_inner \(threading", r"\brun \(threading", r"^in_thread_0 \(",
          r"^<module> \(<string>", r"^rounds_0 \(", r"^spin \("],
         [r"_bootstrap \(threading", r"_bootstrap_inner \(threading", r"\brun \(threading", r"^in_thread_1 \(",
          r"^<module> \(<string>", r"^rounds_1 \(", r"^spin \("]]
CALLS = {"in_thread_0": {"<module>"}, "in_thread_1": {"<module>"}, "spin": {"spin"}, "rounds_0": {"spin"},
         "rounds_1": {"spin"}, "main_loop": set(), "work": {"main_loop"}}


def in_thread_0(interpreter):
    INTERPRETERS.run_string(interpreter, CODE.format(count=20000, name=0))


def in_thread_1(interpreter):
    INTERPRETERS.run_string(interpreter, CODE.format(count=20000, name=1))


def main_loop():
    total = 0
    for i in range(20000):
        total += i
    return total


def setup():
    global INTERPRETERS
    import _xxsubinterpreters as INTERPRETERS
    made = [INTERPRETERS.create() for _ in range(2)]
    for target, one in zip((in_thread_0, in_thread_1), made):
        threading.Thread(target=target, args=(one,), daemon=True).start()
    sys.setswitchinterval(0.001)


def work():
    main_loop()
