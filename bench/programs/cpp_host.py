# SPDX-License-Identifier: MIT
"""A host in C++ with an embedded interpreter: its frames are outside of Python's."""
import os
import subprocess

NEEDS = ["c++"]
SOURCE = r"""
#include <Python.h>
#include <cstdlib>
#include <unistd.h>
static volatile unsigned long sink;
struct Engine {
	PyObject *step;
	__attribute__((noinline)) void crunch() { for (int i = 0; i < 2000000; i++) sink += i; }
	__attribute__((noinline)) void tick() { Py_XDECREF(PyObject_CallNoArgs(step)); sink++; }
	__attribute__((noinline)) void run() { for (;;) { crunch(); tick(); sink++; } }
};
__attribute__((noinline)) static PyObject *load()
{
	PyRun_SimpleString(
		"def inner(n):\n    t = 0\n    for i in range(n):\n        t += i\n    return t\n"
		"def outer():\n    return inner(100000)\n");
	PyObject *module = PyImport_AddModule("__main__");
	return PyObject_GetAttrString(module, "outer");
}
int main()
{
	Py_Initialize();
	Engine engine = {load()};
	if (write(atoi(getenv("LAB_READY")), "r", 1) != 1)
		return 1;
	engine.run();
}
"""
ROOTS = [[r"^(main|Engine::run)\b", r"^Engine::(run|crunch|tick)\b"]]
NEVER = [(r"^main\b", r"Engine::(crunch|tick)|\(<string>"), (r"^Engine::(run|crunch)\b", r"\(<string>")]
THROUGH = {r"^outer\b": [r"^Engine::run\b", r"^Engine::tick\b"]}
CALLS = {"outer": {"inner"}, "inner": set()}
SHARES = {r"^inner\b": (20, 90), r"^Engine::crunch\b": (10, 80)}


def build(folder, python):
    source, host = os.path.join(folder, "host.cc"), os.path.join(folder, "host")
    ask = ("import sysconfig as s; v = s.get_config_var; "
           "print(s.get_paths()['include'], v('LIBDIR'), 'python' + v('LDVERSION'))")
    include, libraries, name = subprocess.run([python, "-c", ask], check=True, capture_output=True,
                                              text=True).stdout.split()
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    subprocess.run(["c++", "-O1", "-fno-optimize-sibling-calls", f"-I{include}", "-o", host, source, f"-L{libraries}",
                    f"-Wl,-rpath,{libraries}", f"-l{name}"], check=True, capture_output=True, text=True)


def command(folder, _):
    return [os.path.join(folder, "host")]
