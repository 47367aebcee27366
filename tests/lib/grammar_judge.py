# SPDX-License-Identifier: MIT
"""Judges sampled stacks by a grammar that the program learned from its own interpreter.

A stack of Python frames is possible when it begins with an outermost function of such a thread, each
frame calls the next from a line from which it was seen to call it, and the innermost stands at one of its
function's lines. Where one name, file and line may be several functions, all that fit are followed.

Native frames between two Python frames are possible where the grammar's program goes through that
module: THROUGH says for which function. At the innermost end a module may stand that the function
calls.
"""
import json
import re

# (way of calling, called function without its place): the modules between caller and called one, in
# order. A module that is part of the interpreter in this build is hidden, and left out.
THROUGH = {
    ("ctypes_callback", "from_c"): ["_ctypes", "libffi", "_ctypes"],
    ("ctypes_sort", "c_compare"): ["_ctypes", "libffi", "libc", "libffi", "_ctypes"],
    ("ctypes_python", "from_python_api"): ["_ctypes", "libffi"],
    ("extension", "called_back"): ["callback"],
    ("cython_function", "from_cython"): ["hop"],
    ("cython_method", "from_method"): ["hop"],
    ("cython_generator", "from_generator"): ["hop"],
    ("cython_nogil", "from_nogil"): ["hop"],
    ("json_default", "default"): ["_json"],
    ("json_hook", "hook_of_object"): ["_json"],
    ("pickle_reduce", "__reduce__"): ["_pickle"],
    ("heap", "__lt__"): ["_heapq"],
    ("bisection", "__lt__"): ["_bisect"],
    ("asyncio_task", "task_main"): ["_asyncio"],
    ("asyncio_called", "called_main"): ["_asyncio"],
    ("asyncio_called", "called_other"): ["_asyncio"],
    ("collected", "cycle_gone"): ["<gc>"],
    ("collected_deleted", "__del__"): ["<gc>"],
    ("collector_calls", "collector_called"): ["<gc>"],
}
# Modules that a way of calling is in at its innermost end only.
SIGNAL = "<signal handler called>"
INSIDE = {"context_run": {"_contextvars"}, "signals": {SIGNAL}}
# The collector visits the objects of every module. In stripped builds nothing says that it does.
COLLECTING = ("collected", "collected_deleted", "collector_calls")
# Code that libffi makes, or copies, for each callback: between libffi and _ctypes, for a moment.
# A libffi that is part of the interpreter maps the interpreter's own file once more for that.
TRAMPOLINES = ("[unknown]", "trampoline_code_table")
OWN_FILE = re.compile(r"(lib)?python\d\.\d+")
# What any function may be in at the innermost end: memory, locks, clocks, the dynamic loader.
LEAF = re.compile(r"^(libc|libstdc\+\+|ld-linux-x86-64|libpthread|libm|libgcc_s|libdl|librt|libffi|libcrypt|linux-vdso|\[vdso\])$")
# Modules of 2.7 that later versions have in the interpreter itself, where they are not shown.
BUILT_IN = ("itertools", "operator", "_functools", "cStringIO", "_collections")
MARKS = ("<gc>", "<gil wait>", "[gap]")
# Functions in which no calls are reported, so that what they end by chance is not learned.
HOOK = re.compile(r"(profile_hook|trace_hook|monitor)_[A-Z]\d")


class Seen:
    """A frame as a tool shows it."""
    __slots__ = ("python", "name", "file", "line", "module", "text")

    def __init__(self, python, name, file, line, module, text):
        self.python, self.name, self.file, self.line, self.module = python, name, file, line, module
        self.text = text


def module_name(path):
    """"_json" of "/usr/lib/_json.cpython-311-x86_64-linux-gnu.so"."""
    return re.sub(r"(-\d+\.\d[\d.]*)?(_d)?\.(so|cpython|abi3|x86_64)\b.*$", "", (path or "?").rsplit("/", 1)[-1])


def from_profile(text):
    """precord's JSON -> [(thread or None, [Seen], samples)], outermost first; the counts."""
    profile = json.loads(text)
    frames = [seen_frame(frame) for frame in profile["frames"]]
    kinds = [frame["kind"] for frame in profile["frames"]]
    names = [frame["name"] for frame in profile["frames"]]
    nodes = profile["nodes"]
    stacks = []
    for node in nodes:
        if not node["self"]:
            continue
        stack, thread, at = [], None, node
        while at["parent"] is not None:
            number = at["frame"]
            if kinds[number] == "thread":
                thread = names[number]
            elif kinds[number] != "builtin":      # the interpreter's own, between any two frames
                stack.append(frames[number])
            at = nodes[at["parent"]]
        stacks.append((thread, stack[::-1], node["self"]))
    return stacks, profile["counts"]


def seen_frame(frame):
    """A frame of precord's JSON."""
    python = frame["kind"] in ("python", "python-library")
    name, line, text = frame["name"] or "", frame["line"] or 0, frame_text(frame)
    if frame["kind"] in ("interpreter", "gap") and name in MARKS:
        return Seen(False, name, "", 0, name, text)
    if frame["kind"] == "native" and name == SIGNAL:
        return Seen(False, name, "", 0, name, text)
    if name.startswith("[jit]"):
        return Seen(False, TRAMPOLINES[0], "", 0, TRAMPOLINES[0], text)
    return Seen(python, name, frame["filename"] or "", line,
                module_name(frame["module_path"] or frame["module"]), text)


def frame_text(frame):
    """As folded output has it."""
    file, module, line = frame["short_filename"] or frame["filename"], frame["module"], frame["line"]
    text = frame["name"] or (module or "[unknown]") + f"+{frame['function_offset']}"
    if frame["name"] and file and (line or not module):
        text += f" ({file}:{line})" if line else f" ({file})"
    elif frame["name"] and module:
        text += f" ({module})"
    return text + (" [guessed]" if frame["guessed"] else "")


def runs_of(modules):
    """Each run of one module once."""
    runs = []
    for module in modules:
        if not runs or runs[-1] != module:
            runs.append(module)
    return runs


class Grammar:
    def __init__(self, facts, native):
        self.native = native
        self.codes = [(name, file, first, set(lines)) for name, file, first, lines in facts["codes"]]
        self.by_place = {}
        for number, (name, file, _, _) in enumerate(self.codes):
            self.by_place.setdefault((name, file), []).append(number)
        self.edges = {tuple(edge) for edge in facts["edges"]}
        self.calls = {}
        for caller, line, callee in self.edges:
            self.calls.setdefault((caller, line), set()).add(callee)
        self.roots = {}
        for kind, number in facts["roots"]:
            self.roots.setdefault(kind, set()).add(number)
        self.kinds = facts.get("kinds", {})
        self.mapped = {module_name(path) for path in facts["mapped"]}
        self.library = {module_name(path) for path in facts["mapped"]
                        if re.search(r"/lib-dynload/|/(greenlet|gevent)/", path)}
        self.through, self.inside = [], []
        for number in range(len(self.codes)):
            construct = self.construct(number, facts["places"])
            self.through.append(self.modules_before(number, construct))
            self.inside.append(self.modules_inside(number, construct))

    def construct(self, number, places):
        """The template that the function comes from."""
        _, file, first, _ = self.codes[number]
        for begin, end, construct in places.get(file, ()):
            if begin <= first <= end:
                return construct
        return None

    def modules_before(self, number, construct):
        """What stands between this function and its caller, of modules that this process has. None: it
        is the library's, which is not known so well."""
        if not construct:
            return None
        plain = re.sub(r"_[A-Z]+\d+[ab]$", "", self.codes[number][0].rsplit(".", 1)[-1])
        modules = THROUGH.get((construct, plain), [])
        return runs_of(module for module in modules if module in self.mapped or module == "<gc>")

    def modules_inside(self, number, construct):
        """What may stand inside of it at the innermost end."""
        name, file, _, _ = self.codes[number]
        if construct:
            return {module for key, modules in THROUGH.items() for module in modules
                    if key[0] == construct} | INSIDE.get(construct, set()) | \
                (self.library if construct in COLLECTING else set()) | \
                (set(TRAMPOLINES) if construct.startswith("ctypes") else set())
        if name.rsplit(".", 1)[-1] == "round":     # collects garbage
            return self.library | {"<gc>"}
        return self.library

    def judge(self, stack, kinds):
        """None, or why a thread of one of these kinds cannot have this stack."""
        told = {self.kinds[frame.file] for frame in stack if frame.file in self.kinds}
        likely = sorted(kinds, key=lambda kind: kind not in told)
        reasons = [self.judge_kind(stack, kind) for kind in likely]
        return None if None in reasons else reasons[0]

    def judge_kind(self, stack, kind):
        if stack and stack[0].module == "[gap]":     # of what is outside of the program's own frames
            stack = stack[1:]
        places = [i for i, frame in enumerate(stack) if frame.python]
        if not places and "_greenlet" in self.mapped:
            return None      # a greenlet's outermost function has returned
        if not places:
            return "no Python frame"
        root = stack[places[0]]
        outside = [frame.text for frame in stack[:places[0]]]
        if [text.split(" ")[0] for text in outside] != self.outside_of(root):
            return f"{' '.join(outside) or 'nothing'} outside of the outermost Python frame {root.text}"
        for frame in stack:
            if self.kinds.get(frame.file, kind) != kind:
                return f"{frame.text} is none of a {kind} thread's functions"
        states = {number for number in self.by_place.get(self.key(root), ())
                  if number in self.roots.get(kind, ())}
        if not states:
            return f"{root.text} is not where a {kind} thread begins"
        bare = max((i for i, frame in enumerate(stack) if frame.module == "[gap]"), default=0)
        for here, following in zip(places, places[1:]):
            caller, callee = stack[here], stack[following]
            wanted = set(self.by_place.get(self.key(callee), ()))
            if not wanted:
                return f"{callee.text} is no function of this program"
            after = {callee for state in states
                     for callee in self.calls.get((state, caller.line), ()) if callee in wanted}
            if not after and HOOK.match(caller.name):
                after = self.ended_by(states, caller.line) & wanted
            if not after:
                return f"{caller.text} does not call {callee.name}"
            between = runs_of(frame.module for frame in stack[here + 1:following]
                              if frame.module not in BUILT_IN)
            if not self.native and not between:
                states = after
                continue
            # Native frames are missing where it says so, and outside of there.
            missing = "[gap]" in between or following < bare and not between
            states = after if missing else {state for state in after if self.fits(between, state)}
            if not states:
                expected = " or ".join(sorted({" ".join(self.through[state] or ["nothing"])
                                               for state in after}))
                return (f"{caller.text} calls {callee.name} through "
                        f"{' '.join(between) or 'nothing'}, not {expected}")
        leaf = stack[places[-1]]
        if leaf.line and not any(leaf.line in self.codes[state][3] for state in states):
            return f"{leaf.text} has no such line"
        return self.judge_leaf(leaf, stack[places[-1] + 1:], states)

    def outside_of(self, root):
        """The names of the native frames outside of the outermost Python frame."""
        gevent = self.native and "_gevent_cgreenlet" in self.mapped
        return ["Greenlet.run"] if gevent and root.name.rsplit(".", 1)[-1] == "live" else []

    def ended_by(self, states, line):
        """Generators of the functions called there: they end with those, in the caller."""
        called = {callee for state in states for callee in self.calls.get((state, line), ())}
        return {callee for (caller, _), callees in self.calls.items() if caller in called
                for callee in callees}

    def judge_leaf(self, leaf, natives, states):
        """The native frames at the innermost end."""
        for frame in natives:
            allowed = any(frame.module in self.inside[state] or
                          (frame.name in TRAMPOLINES or OWN_FILE.match(frame.name)) and
                          TRAMPOLINES[0] in self.inside[state]
                          for state in states)
            allowed |= frame.module in ("<gil wait>", "[gap]") or frame.module in BUILT_IN
            if not allowed and not LEAF.match(frame.module):
                return f"{leaf.text} does not call {frame.text}"
            if frame.module == "<gc>":
                break      # it visits the objects of every module
        return None

    @staticmethod
    def key(frame):
        return frame.name, frame.file

    def fits(self, between, state):
        """Whether these modules may stand before the function. Those of the library call one another."""
        modules = self.through[state]
        if modules is None:
            return self.library.issuperset(between)
        return between == modules or between == [one for one in modules if one != "<gc>"]
