# SPDX-License-Identifier: MIT
"""Runs a program of bench/programs: lab_target.py PROGRAM --ready FD, or --learn ROUNDS FILE.

Ready means: set up, and has worked once. With --learn it works so often under sys.setprofile, and writes which
Python function calls which, each as its name and its file's.
"""
import importlib.util
import json
import os
import sys
import threading


def load(path):
    found = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    program = sys.modules[found.name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(program)
    return program


def run(program, rounds=None):
    while rounds is None:
        program.work()
    for _ in range(rounds):
        program.work()


def plain(code):
    return code.co_name, os.path.basename(code.co_filename)


def watch(edges):
    def profile(frame, event, _):
        while event == "call" and frame.f_back:     # outwards: a thread's first frames were not seen
            edge = plain(frame.f_back.f_code), plain(frame.f_code)
            if edge in edges:
                break
            edges.add(edge)
            frame = frame.f_back

    threading.setprofile(profile)
    sys.setprofile(profile)


def write_and_end(edges, path):
    sys.setprofile(None)
    threading.setprofile(None)
    with open(path, "w") as file:
        json.dump(sorted(edges.copy()), file)
    os._exit(0)


PROGRAM = load(sys.argv[1])
if sys.argv[2] == "--learn":
    EDGES = set()
    watch(EDGES)
    PROGRAM.setup()
    run(PROGRAM, int(sys.argv[3]))
    write_and_end(EDGES, sys.argv[4])
PROGRAM.setup()
run(PROGRAM, 1)
os.write(int(sys.argv[3]), b"r")
run(PROGRAM)
