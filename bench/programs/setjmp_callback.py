# SPDX-License-Identifier: MIT
"""longjmp in C out of a Python callback's caller: C code that calls back, and then jumps over its own frames."""
import ctypes
import os
import subprocess

NEEDS = ["cc"]
SOURCE = r"""
#include <setjmp.h>
static jmp_buf back;
static volatile unsigned long sink;
typedef int (*callback)(int);
__attribute__((noinline)) void burn_c(void) { for (int i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) void deep(int level, callback call)
{
	burn_c();
	if (level)
		deep(level - 1, call);
	else if (call(3))
		longjmp(back, 1);
	sink++;
}
__attribute__((noinline)) int enter(int level, callback call)
{
	if (setjmp(back) == 0)
		deep(level, call);
	burn_c();
	return (int)sink;
}
"""
WITHIN = {r"^(enter|deep|burn_c)\b.*jump": r"^cycle \("}
NEVER = [(r"^(cycle|work) \(", r"^(deep|burn_c)\b"), (r"^enter \(", r"^called \(")]
THROUGH = {r"^called \(": [r"^cycle \(", r"^enter \(", *[r"^deep\b"] * 5]}
CALLS = {"work": {"cycle"}, "cycle": {"called"}, "called": {"count"}, "count": set()}


def build(folder, _):
    source = os.path.join(folder, "jump.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    subprocess.run(["cc", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", f"{folder}/jump.so",
                    source], check=True, capture_output=True, text=True)


def count(number):
    return sum(range(number * 300))


def called(number):
    return 1 if count(number) else 0


def cycle():
    LIBRARY.enter(4, CALLBACK)


def setup():
    global LIBRARY, CALLBACK
    LIBRARY = ctypes.PyDLL(os.path.join(os.environ["LAB_FOLDER"], "jump.so"))
    CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(called)


def work():
    for _ in range(50):
        cycle()
