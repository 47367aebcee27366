# SPDX-License-Identifier: MIT
"""ctypes: libc's qsort with a comparison in Python, callbacks into C and back, and a native thread's calls."""
import ctypes
import os
import subprocess

NEEDS = ["cc"]
SOURCE = r"""
#include <pthread.h>
static volatile unsigned long sink;
typedef int (*callback)(int);
__attribute__((noinline)) void work_loop(void) { for (int i = 0; i < 300000; i++) sink += i; }
__attribute__((noinline)) int call_back(int level, callback call)
{
	work_loop();
	int got = call(level);
	sink++;
	return got;
}
static void *serve(void *call)
{
	for (;;)
		call_back(0, (callback)call);
	return 0;
}
void start(callback call) { pthread_t thread; pthread_create(&thread, 0, serve, (void *)call); }
"""
ROOTS = [[r"^<module> \(lab_target\.py", r"^run \(lab_target\.py", r"^work \("],
         [r"^serve\b", r"^(call_back|work_loop)\b"]]
NATIVE = r"^serve \("
NEVER = [(r"^(work|climb|sort) \(", r"^work_loop \("), (r"^work_loop \(", r"\.py\)$")]
THROUGH = {r"^compare \(": [r"qsort|msort|quicksort"],
           r"^from_thread \(": [r"^serve\b", r"^call_back\b"],
           r"^climb_back \(": [r"^climb\b", r"^call_back\b"]}
CALLS = {"work": {"sort", "climb"}, "sort": {"compare"}, "compare": set(), "climb": {"climb_back"},
         "climb_back": {"climb", "burn"}, "from_thread": {"burn"}, "burn": set()}


def build(folder, _):
    source = os.path.join(folder, "back.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    subprocess.run(["cc", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-pthread", "-o",
                    f"{folder}/back.so", source], check=True, capture_output=True, text=True)


def burn():
    total = 0
    for i in range(3000):
        total += i
    return total


def compare(left, right):
    return left[0] - right[0]


def sort():
    values = (ctypes.c_int * 300)(*VALUES)
    LIBC.qsort(values, len(values), 4, COMPARE)


def climb(level):
    return LIBRARY.call_back(level, BACK)


def climb_back(level):
    burn()
    return climb(level - 1) if level > 0 else 0


def from_thread(_):
    burn()
    return 0


def setup():
    global VALUES, LIBC, LIBRARY, COMPARE, BACK, THREAD
    VALUES = [(i * 7919) % 1000 for i in range(300)]
    LIBC = ctypes.CDLL(None)
    LIBRARY = ctypes.CDLL(os.path.join(os.environ["LAB_FOLDER"], "back.so"))
    pointer = ctypes.POINTER(ctypes.c_int)
    COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(compare)
    BACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(climb_back)
    THREAD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(from_thread)
    LIBRARY.start(THREAD)


def work():
    sort()
    climb(10)
