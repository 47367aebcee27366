# SPDX-License-Identifier: MIT
"""Which of the frames that were shown cannot be any program's: run by the interpreter that the
target ran on, any from 2.7 on, on itself. stdin: a Python literal, a list of (function, file, line);
stdout: those of them that no code object of the file explains, as a literal.
"""
import ast
import dis
import os
import sys

LIBRARY = os.path.dirname(os.__file__)
# What is compiled into the interpreter and not installed as a file, or compiled from text.
ANYTHING = ("<string>", "<frozen getpath>", "<frozen zipimport>", "<__array_function__ internals>")


def source_of(file):
    if file.startswith("<frozen "):
        path = os.path.join(LIBRARY, *file[8:-1].split("."))
        return path + ".py" if os.path.isfile(path + ".py") else os.path.join(path, "__init__.py")
    return file


def codes_in(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            for inner in codes_in(constant):
                yield inner


def lines_of(code):
    return set(line for _, line in dis.findlinestarts(code) if line) | set([code.co_firstlineno])


def names_of(file):
    """{function: lines}"""
    names = {}
    with open(source_of(file), "rb") as source:
        top = compile(source.read(), file, "exec", 0, True)
    for code in codes_in(top):
        name = getattr(code, "co_qualname", code.co_name)
        names.setdefault(name, set()).update(lines_of(code))
    return names


def problem(known, frame):
    name, file, line = frame
    if file in ANYTHING:
        return None
    if file not in known:
        try:
            known[file] = names_of(file)
        except (IOError, OSError, SyntaxError) as reason:
            return "no such file: %s" % reason
    if name not in known[file]:
        return "no such function"
    if line and line not in known[file][name]:
        return "not a line of it"
    return None


def main():
    known = {}
    bad = []
    for frame in ast.literal_eval(sys.stdin.read()):
        why = problem(known, frame)
        if why:
            bad.append((frame, why))
    print(repr(bad))


main()
