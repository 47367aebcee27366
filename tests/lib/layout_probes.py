# SPDX-License-Identifier: MIT
"""What CPython's headers and debug information say about the members that python/layout.h lists."""
import os
import re
import subprocess

# Versions are numbers: 207 is 2.7, 315 is 3.15.
LAST = 315
RT, IS, TS, GIL = "_PyRuntimeState", "PyInterpreterState", "PyThreadState", "struct _gil_runtime_state"
FO, IF, CO, TY = "PyFrameObject", "_PyInterpreterFrame", "PyCodeObject", "PyTypeObject"
ASCII, COMPACT, KEYS = "PyASCIIObject", "PyCompactUnicodeObject", "struct _dictkeysobject"


def at(struct, member):
    return f"offsetof({struct}, {member})"


def before(function):
    return f"4096 - (size_t){function}((PyObject *)4096)"


class Probe:
    """A field, the versions (first, last) that have it, and a C expression. Several for a field whose
    member moved or was renamed. build: "t", free-threaded ones alone. headers_only: macros."""

    def __init__(self, field, first, last, expression, build="", headers_only=False):
        self.field, self.first, self.last, self.expression = field, first, last, expression
        self.build, self.headers_only = build, headers_only

    def holds(self, version, free_threaded):
        return self.first <= version <= self.last and (free_threaded or self.build != "t")


PROBES = [
    Probe("runtime.interpreters_head", 307, LAST, at(RT, "interpreters.head")),
    Probe("runtime.finalizing", 307, 308, at(RT, "finalizing")),
    Probe("runtime.finalizing", 309, LAST, at(RT, "_finalizing")),
    Probe("runtime.tstate_current", 307, 311, at(RT, "gilstate.tstate_current")),
    Probe("runtime.gil", 307, 311, at(RT, "ceval.gil")),
    Probe("runtime.gc_collecting", 307, 308, at(RT, "gc.collecting")),
    Probe("interp.next", 207, LAST, at(IS, "next")),
    Probe("interp.threads_head", 207, 310, at(IS, "tstate_head")),
    Probe("interp.threads_head", 311, LAST, at(IS, "threads.head")),
    Probe("interp.id", 307, LAST, at(IS, "id")),
    Probe("interp.modules", 207, 311, at(IS, "modules")),
    Probe("interp.modules", 312, LAST, at(IS, "imports.modules")),
    Probe("interp.gil", 312, LAST, at(IS, "ceval.gil")),
    Probe("interp.gc_collecting", 309, LAST, at(IS, "gc.collecting")),
    Probe("gil.last_holder", 307, LAST, at(GIL, "last_holder")),
    Probe("gil.locked", 307, LAST, at(GIL, "locked")),
    Probe("gil.enabled", 313, LAST, at(GIL, "enabled"), build="t"),
    Probe("tstate.next", 207, LAST, at(TS, "next")),
    Probe("tstate.interp", 207, LAST, at(TS, "interp")),
    Probe("tstate.frame", 207, 310, at(TS, "frame")),
    Probe("tstate.cframe", 310, 312, at(TS, "cframe")),
    Probe("tstate.root_cframe", 310, 312, at(TS, "root_cframe")),
    Probe("tstate.current_frame", 313, LAST, at(TS, "current_frame")),
    Probe("tstate.base_frame", 315, LAST, at(TS, "base_frame")),
    Probe("tstate.thread_id", 207, LAST, at(TS, "thread_id")),
    Probe("tstate.native_thread_id", 311, LAST, at(TS, "native_thread_id")),
    Probe("tstate.id", 307, LAST, at(TS, "id")),
    Probe("tstate.datastack_chunk", 311, LAST, at(TS, "datastack_chunk")),
    Probe("tstate.datastack_top", 311, LAST, at(TS, "datastack_top")),
    # Up to the last member that is read, where much or a changing number of bytes follows.
    Probe("tstate.size", 207, 306, at(TS, "thread_id") + " + 8"),
    Probe("tstate.size", 307, 309, at(TS, "id") + " + 8"),
    Probe("tstate.size", 310, 312, f"sizeof({TS})"),
    Probe("tstate.size", 313, LAST, at(TS, "datastack_top") + " + 8"),
    Probe("cframe.current_frame", 311, 312, at("_PyCFrame", "current_frame")),
    Probe("cframe.previous", 310, 310, at("CFrame", "previous")),
    Probe("cframe.previous", 311, 312, at("_PyCFrame", "previous")),
    Probe("cframe.size", 310, 310, "sizeof(CFrame)"),
    Probe("cframe.size", 311, 312, "sizeof(_PyCFrame)"),
    Probe("chunk.previous", 311, LAST, at("_PyStackChunk", "previous")),
    Probe("chunk.length", 311, LAST, at("_PyStackChunk", "size")),
    Probe("chunk.data", 311, LAST, at("_PyStackChunk", "data")),
    Probe("frame.back", 207, 310, at(FO, "f_back")),
    Probe("frame.code", 207, 310, at(FO, "f_code")),
    Probe("frame.generator", 310, 310, at(FO, "f_gen")),
    Probe("frame.lasti", 207, 310, at(FO, "f_lasti")),
    Probe("frame.size", 207, 310, at(FO, "f_lineno") + " + 4"),
    Probe("iframe.code", 311, 312, at(IF, "f_code")),
    Probe("iframe.code", 313, LAST, at(IF, "f_executable")),
    Probe("iframe.previous", 311, LAST, at(IF, "previous")),
    Probe("iframe.instruction", 311, 312, at(IF, "prev_instr")),
    Probe("iframe.instruction", 313, LAST, at(IF, "instr_ptr")),
    Probe("iframe.is_entry", 311, 311, at(IF, "is_entry")),
    Probe("iframe.owner", 311, LAST, at(IF, "owner")),
    Probe("iframe.tlbc_index", 314, LAST, at(IF, "tlbc_index"), build="t"),
    Probe("iframe.size", 311, LAST, f"sizeof({IF})"),
    Probe("code.firstlineno", 207, LAST, at(CO, "co_firstlineno")),
    Probe("code.filename", 207, LAST, at(CO, "co_filename")),
    Probe("code.name", 207, 310, at(CO, "co_name")),
    Probe("code.name", 311, LAST, at(CO, "co_qualname")),
    Probe("code.linetable", 207, 309, at(CO, "co_lnotab")),
    Probe("code.linetable", 310, LAST, at(CO, "co_linetable")),
    Probe("code.bytecode", 311, LAST, at(CO, "co_code_adaptive")),
    Probe("code.tlbc", 314, LAST, at(CO, "co_tlbc"), build="t"),
    Probe("code.firsttraceable", 311, LAST, at(CO, "_co_firsttraceable")),
    Probe("code.framesize", 312, LAST, at(CO, "co_framesize")),
    Probe("code.nlocalsplus", 311, 311, at(CO, "co_nlocalsplus")),
    Probe("code.stacksize", 311, 311, at(CO, "co_stacksize")),
    Probe("code.warmup", 311, 311, at(CO, "co_warmup")),
    Probe("code.version", 312, LAST, at(CO, "co_version")),
    Probe("code.size", 207, 310, f"sizeof({CO})"),
    Probe("code.size", 311, LAST, at(CO, "co_code_adaptive")),
    Probe("object.type", 207, LAST, at("PyObject", "ob_type")),
    Probe("object.var_size", 207, LAST, at("PyVarObject", "ob_size")),
    Probe("type.flags", 207, LAST, at(TY, "tp_flags")),
    Probe("type.basicsize", 207, LAST, at(TY, "tp_basicsize")),
    Probe("type.dictoffset", 207, LAST, at(TY, "tp_dictoffset")),
    Probe("type.cached_keys", 311, LAST, at("PyHeapTypeObject", "ht_cached_keys")),
    Probe("bytes.data", 207, 207, at("PyStringObject", "ob_sval")),
    Probe("bytes.data", 303, LAST, at("PyBytesObject", "ob_sval")),
    Probe("unicode.hash", 207, 207, at("PyStringObject", "ob_shash")),
    Probe("unicode.hash", 303, LAST, at(ASCII, "hash")),
    Probe("unicode.length", 207, 207, at("PyUnicodeObject", "length")),
    Probe("unicode.length", 303, LAST, at(ASCII, "length")),
    Probe("unicode.state", 303, LAST, at(ASCII, "state")),
    Probe("unicode.ascii_size", 303, LAST, f"sizeof({ASCII})"),
    Probe("unicode.compact_size", 303, LAST, f"sizeof({COMPACT})"),
    Probe("unicode.data", 207, 207, at("PyUnicodeObject", "str")),
    Probe("unicode.data", 303, LAST, at("PyUnicodeObject", "data")),
    Probe("unicode.wstr", 303, 311, at(ASCII, "wstr")),
    Probe("unicode.wstr_length", 303, 311, at(COMPACT, "wstr_length")),
    Probe("integer.digits", 207, 311, at("struct _longobject", "ob_digit")),
    Probe("integer.digits", 312, LAST, at("struct _longobject", "long_value.ob_digit")),
    Probe("integer.value", 207, 207, at("PyIntObject", "ob_ival")),
    Probe("module.dict", 207, LAST, at("PyModuleObject", "md_dict")),
    Probe("dict.mask", 207, 207, at("PyDictObject", "ma_mask")),
    Probe("dict.table", 207, 207, at("PyDictObject", "ma_table")),
    Probe("dict.keys", 303, LAST, at("PyDictObject", "ma_keys")),
    Probe("dict.values", 303, LAST, at("PyDictObject", "ma_values")),
    Probe("keys.table_size", 303, 310, at(KEYS, "dk_size")),
    Probe("keys.log2_index_bytes", 311, LAST, at(KEYS, "dk_log2_index_bytes")),
    Probe("keys.kind", 311, LAST, at(KEYS, "dk_kind")),
    Probe("keys.entry_count", 306, LAST, at(KEYS, "dk_nentries")),
    Probe("keys.indices", 303, 305, at(KEYS, "dk_entries")),
    Probe("keys.indices", 306, LAST, at(KEYS, "dk_indices")),
    Probe("values.first", 303, 310, "0"),       # ma_values is a PyObject **
    Probe("values.first", 311, LAST, at("struct _dictvalues", "values")),
    # Macros and inline functions; they look at no byte of the object.
    Probe("instance.dict_before", 311, 311, before("_PyObject_ManagedDictPointer"), headers_only=True),
    Probe("instance.dict_before", 312, 312, before("_PyObject_DictOrValuesPointer"), headers_only=True),
    Probe("instance.dict_before", 313, LAST, "-MANAGED_DICT_OFFSET", headers_only=True),
    Probe("instance.values_before", 311, 311, before("_PyObject_ValuesPointer"), headers_only=True),
    Probe("unicode_width", 207, 207, "Py_UNICODE_SIZE", headers_only=True),
    # Behaviours that have a number.
    Probe("shim_owner", 312, 313, "FRAME_OWNED_BY_CSTACK"),
    Probe("shim_owner", 314, LAST, "FRAME_OWNED_BY_INTERPRETER"),
]

# Headers by the first and the last version that need them.
INCLUDES = [
    ("longintrepr.h", 207, 207), ("internal/pystate.h", 307, 307), ("internal/gil.h", 307, 307),
    ("internal/pycore_pystate.h", 308, LAST), ("internal/pycore_gil.h", 308, LAST),
    ("internal/pycore_interp.h", 309, LAST), ("internal/pycore_runtime.h", 310, LAST),
    ("internal/pycore_frame.h", 311, LAST), ("internal/pycore_code.h", 311, LAST),
    ("internal/pycore_dict.h", 311, LAST), ("internal/pycore_object.h", 311, LAST),
    ("internal/pycore_moduleobject.h", 312, LAST), ("internal/pycore_interpframe.h", 314, LAST),
]

# Structs that some versions keep in .c files (Objects/moduleobject.c, dict-common.h): the same members.
MODULE = "typedef struct { PyObject_HEAD PyObject *md_dict; } PyModuleObject;\n"
DICT_KEYS = """struct _dictkeysobject { Py_ssize_t dk_refcnt, dk_size; void *dk_lookup;
    Py_ssize_t dk_usable, dk_nentries; char dk_indices[]; };
"""


def own_structs(version):
    return (MODULE if version <= 311 else "") + (DICT_KEYS if 306 <= version <= 310 else "")


class Interpreter:
    """Where an interpreter's headers and files are. One that runs in a root of its own (see
    tests/lib/fetch_interpreters.py) may give paths in there."""

    ASK = """
import os, sys, sysconfig
print(os.environ.get("PYTHON_ROOT", ""))
print(sysconfig.get_config_var("INCLUDEPY"))
print(sysconfig.get_path("include"))
files = [line.split()[-1] for line in open("/proc/self/maps") if "r-xp" in line and "/" in line]
print(([f for f in files if "/libpython" in f] or [os.path.realpath("/proc/self/exe")])[0])
print("free_threaded" if "free-threading" in sys.version else "with_gil")
print("debug" if hasattr(sys, "gettotalrefcount") else "release")
print("trace_refs" if hasattr(sys, "getobjects") else "plain")
"""

    def __init__(self, name, path, version):
        self.name, self.path, self.text = name, path, version
        major, minor = version.split(".")[:2]
        self.version = 100 * int(major) + int(minor)
        told = subprocess.run([path, "-S", "-E", "-c", self.ASK], capture_output=True, text=True,
                              check=True, timeout=60).stdout.splitlines()
        self.root = told[0]
        built, installed, self.module = map(self.outside, told[1:4])
        self.include = built if os.path.isdir(built) else installed
        self.free_threaded, self.debug, self.trace_refs = \
            told[4] == "free_threaded", told[5] == "debug", told[6] == "trace_refs"

    def outside(self, path):
        inside = self.root + path
        return inside if self.root and os.path.exists(inside) else path

    def row(self, free_threaded=None):
        letter = "t" if (self.free_threaded if free_threaded is None else free_threaded) else ""
        return f"{self.version // 100}.{self.version % 100}{letter}"


def wanted(version, free_threaded, headers):
    return [probe for probe in PROBES
            if probe.holds(version, free_threaded) and (headers or not probe.headers_only)]


def parse(text):
    return {line.split()[0]: int(line.split()[1]) for line in text.splitlines()}


# ---- headers ----


def source(version, probes):
    lines = ["#define Py_BUILD_CORE 1", "#include <stddef.h>", "#include <stdio.h>", "#include <Python.h>",
             "#include <frameobject.h>"]
    lines += [f'#include "{name}"' for name, first, last in INCLUDES if first <= version <= last]
    lines += [own_structs(version), "int main(void) {"]
    lines += [f'printf("{probe.field} %zu\\n", (size_t)({probe.expression}));' for probe in probes]
    return "\n".join(lines + ["return 0; }"]) + "\n"


def compile_headers(interpreter, folder, text, defines, flags=()):
    """The program, or why it cannot be compiled."""
    name = os.path.join(folder, "probe")
    with open(name + ".c", "w") as out:
        out.write(text)
    include = interpreter.include
    command = [os.environ.get("CC", "cc"), "-w", "-DNDEBUG", *defines, "-I", include,
               "-I", os.path.join(include, "internal"), "-idirafter", interpreter.root + "/usr/include",
               "-o", name, name + ".c", *flags]
    made = subprocess.run(command, capture_output=True, text=True)
    return (name, None) if made.returncode == 0 else (None, made.stderr)


def has_headers(interpreter):
    inside = "internal" if interpreter.version >= 307 else "Python.h"
    return os.path.exists(os.path.join(interpreter.include, inside)) and \
        os.path.exists(os.path.join(interpreter.include, "pyconfig.h"))


def from_headers(interpreter, folder, free_threaded, defines=()):
    """Offsets by field, or a string: why not."""
    probes = wanted(interpreter.version, free_threaded, True)
    program, problem = compile_headers(interpreter, folder, source(interpreter.version, probes), defines)
    if problem:
        return problem
    return parse(subprocess.run([program], capture_output=True, text=True, check=True).stdout)


def debug_offsets(interpreter, folder, defines=()):
    """The bytes of _Py_DebugOffsets as the headers fill them in, or a string: why not."""
    text = """#define Py_BUILD_CORE 1
#include <stddef.h>
#include <stdio.h>
#include <Python.h>
#include "internal/pycore_ceval.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_runtime.h"
#include "internal/pycore_runtime_init.h"
#ifdef _Py_DebugOffsets_INIT
static struct { struct _Py_DebugOffsets debug_offsets; } runtime = {_Py_DebugOffsets_INIT("xdebugpy")};
#else
static _PyRuntimeState runtime = _PyRuntimeState_INIT(runtime, "xdebugpy");
#endif
int main(void) { return fwrite(&runtime, sizeof(runtime.debug_offsets), 1, stdout) != 1; }
"""
    # What else the initializer names stays undefined: nobody looks at it.
    program, problem = compile_headers(interpreter, folder, text, defines,
                                       ["-static", "-Wl,--unresolved-symbols=ignore-all"])
    return problem or subprocess.run([program], capture_output=True, check=True).stdout


# ---- debug information ----


def from_dwarf(interpreter):
    """Offsets by field; None: there is no debug information; a string: what gdb says."""
    probes = wanted(interpreter.version, interpreter.free_threaded, False)
    command = ["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off",
               "-iex", f"set debug-file-directory {interpreter.root}/usr/lib/debug",
               "-iex", "macro define offsetof(t, m) ((unsigned long)&((t *)0)->m)",
               "-ex", f'printf "there %lu\\n", (unsigned long)sizeof({TS})']
    for probe in probes:
        command += ["-ex", f'printf "{probe.field} %lu\\n", (unsigned long)({probe.expression})']
    made = subprocess.run(command + [interpreter.module], capture_output=True, text=True, timeout=300)
    found = parse("\n".join(re.findall(r"^[\w.]+ \d+$", made.stdout, re.M)))
    if not found.pop("there", None):
        return None
    return found if len(found) == len(probes) else made.stderr.strip() or "gdb did not finish"
