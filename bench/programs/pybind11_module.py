# SPDX-License-Identifier: MIT
"""A pybind11 module in C++ that calls back into Python; the author's names are expected."""
import os
import subprocess
import sys

REQUIRES = ["pybind11"]
NEEDS = ["c++"]
SOURCE = r"""
#include <pybind11/pybind11.h>
#include <pybind11/functional.h>
namespace lab {
__attribute__((noinline)) double crunch(int n)
{
	volatile double total = 0;
	for (int i = 0; i < n; i++)
		total = total + i;
	return total;
}
struct Engine {
	__attribute__((noinline)) double drive(const std::function<double(int)> &call, int n)
	{
		double total = 0;
		for (int i = 0; i < n; i++)
			total += crunch(2000) + call(i);
		return total;
	}
};
}
PYBIND11_MODULE(lab_bound, m)
{
	m.def("crunch", &lab::crunch);
	pybind11::class_<lab::Engine>(m, "Engine").def(pybind11::init<>()).def("drive", &lab::Engine::drive);
}
"""
CALLS = {"work": {"alone", "driven"}, "alone": set(), "driven": {"called"}, "called": {"spin"}, "spin": set()}
THROUGH = {r"^called \(": [r"^driven \(", r"lab::Engine::drive|lab_bound"], r"^lab::crunch": [r"^(alone|driven) \("]}
NEVER = [(r"^driven \(", r"^called \(")]


def build(folder, python):
    source = os.path.join(folder, "lab_bound.cc")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    ask = "import pybind11, sysconfig; print(pybind11.get_include(), sysconfig.get_paths()['include'])"
    folders = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.split()
    target = os.path.join(folder, "lab_bound.so")
    if not os.path.exists(target):
        subprocess.run(["c++", "-O2", "-std=c++17", "-shared", "-fPIC", *(f"-I{one}" for one in folders), "-o",
                        target, source], check=True, capture_output=True, text=True)


def spin():
    return sum(range(200))


def called(number):
    return float(spin() + number)


def alone():
    lab_bound.crunch(1000000)


def driven():
    lab_bound.Engine().drive(called, 300)


def setup():
    global lab_bound
    sys.path.insert(0, os.environ["LAB_FOLDER"])
    import lab_bound


def work():
    alone()
    driven()
