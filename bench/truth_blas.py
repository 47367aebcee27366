# SPDX-License-Identifier: MIT
"""The stacks that fixtures/blas.py can have: from Python through numpy's own code into OpenBLAS, by the kernels that
it has chosen, of the type that is being worked with. Each process has another place of its stack, and another
kind of kernels."""
import re

from harness import Fixture, Skip

# The kinds of kernels, and what a CPU must have for each.
CORES = {"PRESCOTT": "pni", "NEHALEM": "sse4_2", "SANDYBRIDGE": "avx", "HASWELL": "avx2", "ZEN": "avx2",
         "SKYLAKEX": "avx512f", "COOPERLAKE": "avx512_bf16", "SAPPHIRERAPIDS": "amx_bf16"}
L2_SIZE = "512"     # in virtual machines that do not tell it the kernels for old CPUs crash
MODULE = {"product": "_multiarray_umath", "solve": "_umath_linalg", "eigh": "_umath_linalg", "svd": "_umath_linalg"}
# What numpy calls of BLAS and LAPACK; {}: the type.
ENTRY = {"product": r"cblas_{}(gemm|gemv|syrk|dot)", "solve": r"{}(gesv|copy)",
         "eigh": r"{}(syevd|heevd|copy)", "svd": r"{}(gesdd|copy)"}
# Complex work is in part that of real numbers of the same size.
TYPES = {"s": "s", "d": "d", "c": "cs", "z": "zd"}
DOUBLE = {"s": "d", "d": "d", "c": "z", "z": "z"}      # numpy.linalg works with these
BLAS = re.compile(r"^lib(scipy_)?openblas")
LIBRARY = re.compile(r"^(libc|libm|libgfortran|libquadmath|libpthread|libgcc_s|ld-linux-x86-64|\[vdso\])\b")
NUMPY = re.compile(r"^(_multiarray_umath|_umath_linalg)$")
PYTHON_OF_NUMPY = re.compile(r"^(_?linalg|_?type_check|numerictypes|fromnumeric|_internal|_ufunc_config|numeric|"
                             r"shape_base|contextlib|_methods|<__array_function__ internals>)")
NAMEDTUPLE = ("<lambda>", "<string>")      # makes EighResult and SVDResult
KERNEL = re.compile(rf"^i?([sdcz])([sd]?[a-z0-9]*)_\w*?_?({'|'.join(CORES)})$")
ROUTINE = re.compile(r"^(scipy_)?(cblas_)?([sdcz])(ge|sy|he|po|tr|or|un|st|bd|la)[a-z0-9]{2,4}_?(64)?_?$")
# A kernel is called by the functions that go through the matrices block by block, never by numpy.
INNER = re.compile(r"^[sdcz]?(?!gemm_small)(gemm|trsm|trmm|symm|hemm|syrk|herk)\w*(kernel|copy|beta)|inner_")
OUTER = re.compile(r"^(scipy_)?(cblas_|[sdcz][a-z0-9]+_(64_)?$)")
STARTUP = re.compile(r"^(__)?clone3?\b|^start_thread\b|^libc\.so|^blas_thread_server")


def cores_here():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = re.search(r"^flags\s*: (.*)$", file.read(), re.M)[1].split()
    return [core for core, flag in CORES.items() if flag in flags]


class Blas:
    name, keeps, guessed, torn = "blas", 99.9, 0.1, 0
    lasts = 400         # samples of a process

    def start(self, interpreter, options, seed):
        if interpreter.name.startswith("debian"):
            raise Skip("its numpy has another BLAS")
        cores = cores_here()
        core = cores[(seed - options.seed) % len(cores)]
        return Fixture(interpreter, "blas.py", modules=[], path=interpreter.packages("numpy"),
                       environment={"OPENBLAS_NUM_THREADS": "2", "OPENBLAS_L2_SIZE": L2_SIZE,
                                    **options.environment,
                                    "OPENBLAS_CORETYPE": options.environment.get("OPENBLAS_CORETYPE", core)})

    def judge(self, fixture, _, native):
        return self.judge_of_facts({"kernels": fixture.facts["kernels"]}, True, native)

    def judge_of_facts(self, facts, _, native):
        return BlasJudge(facts, native)


class BlasJudge:
    def __init__(self, facts, native):
        self.facts, self.native = facts, native

    def again(self):
        return False

    def judge(self, thread, stack):
        if thread and '"control"' in thread:
            return None
        python = [frame for frame in stack if frame.python]
        if not python:
            return self.judge_worker(stack)
        if stack[0] is not python[0]:
            return f"begins with {stack[0].text}"
        return self.judge_path(stack, python)

    def judge_worker(self, stack):
        """One of OpenBLAS's threads."""
        names = [frame.name for frame in stack]
        if not names or not STARTUP.match(stack[0].text):
            return f"begins with {stack[0].text if stack else 'nothing'}"
        for frame in stack:
            if not BLAS.match(frame.module) and not LIBRARY.match(frame.module):
                return f"a thread of OpenBLAS's in {frame.text}"
        inner = next((i for i, frame in enumerate(stack) if INNER.match(frame.name)), None)
        if inner is not None and not any(re.match(r"exec_|blas_thread_server|inner_", name) for name in names[:inner]):
            return f"{names[inner]} without what runs it"
        return self.judge_names(stack, "sdcz")

    def judge_path(self, stack, python):
        names = [frame.name for frame in python]
        for name, wanted in zip(names, ("<module>$", "main$", "in_[sdcz]$", "work$", "(product|solve|eigh|svd)$")):
            if not re.match(wanted, name):
                return f"{name} where {wanted} would be"
        for frame in python[5:]:
            if (frame.name, frame.file) == NAMEDTUPLE:
                continue
            if not PYTHON_OF_NUMPY.match(frame.file.rsplit("/", 1)[-1]):
                return f"{frame.text} within {names[4]}"
        kind = names[2][-1] if len(names) > 2 else "sdcz"
        inside = stack[stack.index(python[-1]) + 1:]
        return self.judge_native(kind, names, inside)

    def judge_native(self, kind, names, inside):
        first = next((i for i, frame in enumerate(inside) if BLAS.match(frame.module)), None)
        for frame in inside[:first]:
            if not NUMPY.match(frame.module) and not LIBRARY.match(frame.module) and frame.module != "<gil wait>" and \
                    not re.match(r"_|mtrand|umath|array", frame.module):
                return f"{names[-1]} calls {frame.text}"
        if first is None:
            return None
        if len(names) < 5:
            return f"{names[-1]} calls {inside[first].text}"
        if names[-1] != names[4] or (names[4] != "product" and len(names) < 6):
            return f"{names[-1]} calls {inside[first].text}"
        if not first or inside[first - 1].module != MODULE[names[4]]:
            return f"{names[-1]} -> {inside[first].text} not through {MODULE[names[4]]}"
        entry = re.sub(r"^scipy_", "", inside[first].name)
        kind = kind if names[4] == "product" else DOUBLE[kind]
        if not re.match(ENTRY[names[4]].format(kind), entry) and not entry.endswith("@plt"):
            return f"{names[4]} in {kind} enters OpenBLAS by {entry}"
        return self.judge_names(inside[first:], TYPES[kind])

    def judge_names(self, blas, types):
        """Kernels and routines of another type, or for another kind of CPU."""
        for place, frame in enumerate(blas):
            if not BLAS.match(frame.module):
                if not LIBRARY.match(frame.module):
                    return f"{blas[0].name} leads to {frame.text}"
                continue
            kernel = KERNEL.match(frame.name)
            if kernel and kernel.group(3) != self.facts["kernels"]:
                return f"{frame.name} on {self.facts['kernels']}"
            routine = ROUTINE.match(frame.name)
            used = kernel.group(1) if kernel else routine.group(3) if routine else None
            if used and used not in types:
                return f"{frame.name} for types {types}"
            if place and INNER.match(frame.name) and OUTER.match(blas[place - 1].name):
                return f"{blas[place - 1].name} -> {frame.name}"
        return None
