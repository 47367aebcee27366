# SPDX-License-Identifier: MIT
"""Judges a stack of a program of bench/programs: whole, cut or wrong.

    wrong   the program cannot have it: a Python function below one that never calls it, a native function
            below one whose code has no such call, a frame that the program's own rules exclude
    cut     it does not begin where such a thread's stacks begin
    whole   neither

What a program says of its stacks is in its file, as data; patterns are regular expressions, searched in a
frame's text, "name (file)":

    ROOTS    [[pattern, ...], ...]   with which a stack begins, start-up left out; default: the lab's own
    START    pattern                 further frames of a start-up, that a stack may begin with
    NATIVE   pattern                 with which threads that Python does not know begin, start-up left out
    NEVER    [(outer, inner), ...]   that are never neighbours
    WITHIN   {frame: function}       the innermost Python frame outside of that frame
    THROUGH  {frame: [outer, ...]}   frames that are outside of that frame, in this order, in a Python thread
    SHARES   {frame: (least, most)}  per cent of a tool's samples that have such a frame
    CALLS    {function: {callee}}    all Python functions that a function of the program calls; what is not
                                     said is learned
"""
import re

# Frames of the interpreter's and of a thread's start, with names or without.
STARTUP = re.compile(
    r"(_start|__libc_start\w*|main|_?Py[A-Z]\w+|pymain_\w+|pyrun_\w+|run_mod|run_eval_code_obj|(__GI___|__)?clone3?|"
    r"start_thread|pythread_wrapper|thread_run|t_bootstrap|bootstrap_\w+|0x[0-9a-f]+|\?\?\?|"
    r"lib(c|pthread)\.so\.\d\+0x\w+)")
INTERPRETER = re.compile(r"(lib)?python\d[\w.-]*")
THREAD_START = re.compile(r"((__GI___|__)?clone3?|start_thread|pythread_wrapper|thread_run)\b")
LIBC = re.compile(r"\b(libc|libpthread|ld-linux-x86-64)\.so")
SIGNAL = re.compile(r"<signal handler called>|__restore_rt")
MARK = re.compile(r"^[\[<]")
LAB_ROOTS = [[r"^<module> \(lab_target\.py", r"^run \(lab_target\.py", r"^work \("],
             [r"\b_bootstrap \(threading\.py", r"\b_bootstrap_inner \(threading\.py"]]


def shares_missed(program, stacks):
    """What SHARES excludes, in words; stacks: {frames: samples}."""
    samples = sum(stacks.values())
    for pattern, (least, most) in getattr(program, "SHARES", {}).items():
        found = sum(count for stack, count in stacks.items()
                    if any(re.search(pattern, frame.text) for frame in stack))
        share = 100 * found / max(samples, 1)
        if not least <= share <= most:
            yield f"{share:.1f} % of the samples have {pattern}, not {least} to {most}"


class Frame:
    """As a tool shows it. module: the path; start, site: of the function and of the return address in it."""
    __slots__ = ("kind", "name", "file", "line", "module", "start", "site", "inlined", "guessed", "text")

    def __init__(self, kind, name, file="", line=0, module="", start=None, site=None, inlined=False,
                 guessed=False):
        self.kind, self.name, self.file, self.line = kind, name, file, line
        self.module, self.start, self.site, self.inlined, self.guessed = module, start, site, inlined, guessed
        self.text = f"{name} ({(file if kind == 'python' else file or module).rsplit('/', 1)[-1]})"

    def __repr__(self):
        line = f":{self.line}" if self.line else ""
        return self.text[:-1] + line + ")" + (" [guessed]" if self.guessed else "")

    @property
    def plain(self):
        """(function's own name, file's): what all tools agree on."""
        return self.name.rsplit(".", 1)[-1], self.file.rsplit("/", 1)[-1]


def is_startup(frame):
    return frame.kind != "python" and bool(STARTUP.fullmatch(frame.name.split("@")[0]) or
                                           INTERPRETER.fullmatch(frame.module.rsplit("/", 1)[-1]))


class Judge:
    def __init__(self, program, edges=(), graph=None):
        """edges: learned, ((caller, file), (callee, file)); None: nothing was learned."""
        self.roots = [[re.compile(one) for one in root] for root in getattr(program, "ROOTS", LAB_ROOTS)]
        self.native = re.compile(getattr(program, "NATIVE", "(?!)"))
        self.start = re.compile(getattr(program, "START", "(?!)"))
        self.never = [(re.compile(outer), re.compile(inner)) for outer, inner in getattr(program, "NEVER", ())]
        self.within = [(re.compile(frame), re.compile(outer))
                       for frame, outer in getattr(program, "WITHIN", {}).items()]
        self.through = [(re.compile(frame), [re.compile(one) for one in outer])
                        for frame, outer in getattr(program, "THROUGH", {}).items()]
        self.calls = getattr(program, "CALLS", {})
        self.edges = None if edges is None else set(edges)
        self.graph = graph

    def judge(self, stack):
        """("whole" or "cut" or "wrong", why not whole); frames outermost first."""
        why = self.wrong(stack)
        if why:
            return "wrong", why
        why = self.cut(stack)
        if why:
            return "cut", why
        why = self.incomplete(stack)
        return ("wrong", why) if why else ("whole", None)

    # ---- where it begins ----

    def cut(self, stack):
        if not stack:
            return "no frames"
        skipped = 0
        while skipped < len(stack) and (is_startup(stack[skipped]) or self.start.search(stack[skipped].text)) and \
                not any(root[0].search(stack[skipped].text) for root in self.roots):
            skipped += 1
        rest = stack[skipped:]
        if any(self.begins(rest, root) for root in self.roots):
            return None
        if not any(frame.kind == "python" for frame in stack):
            if rest and self.native.search(rest[0].text) or self.is_thread_itself(stack, skipped):
                return None
        first = rest[0] if rest else stack[0]
        return f"begins with {first!r}" if first.kind == "python" else f"begins with {first.text}"

    @staticmethod
    def begins(stack, root):
        """Native frames may be between the root's; a stack that ends within the root is the root's own."""
        place = 0
        for frame in stack:
            if place < len(root) and root[place].search(frame.text):
                place += 1
            elif place == 0 or place < len(root) and frame.kind == "python":
                return False
        return place > 0

    @staticmethod
    def is_thread_itself(stack, skipped):
        """A thread that begins or ends: nothing but the C library and the interpreter."""
        return any(THREAD_START.match(frame.name) for frame in stack[:skipped]) and \
            all(is_startup(frame) or MARK.match(frame.name) or LIBC.search(frame.module) or
                re.search(r"\bnptl/|sysdeps/", frame.file) for frame in stack)

    # ---- who calls whom ----

    def wrong(self, stack):
        python, native = None, None     # the frames outside that could call
        for place, frame in enumerate(stack):
            following = stack[place + 1] if place + 1 < len(stack) else None
            if following:
                for outer, inner in self.never:
                    if outer.search(frame.text) and inner.search(following.text):
                        return f"{frame.text} -> {following.text}"
            for pattern, outer in self.within:
                if pattern.search(frame.text) and python and not outer.search(python.text):
                    return f"{frame.text} within {python.text}"
            if frame.kind == "python":
                if python and not self.may_call(python, frame):
                    return f"{python.text} -> {frame.text}"
                python, native = frame, None
            elif frame.kind != "native" or SIGNAL.search(frame.text) or MARK.match(frame.name):
                native = None
            elif not frame.inlined:
                why = native and self.native_objection(native, frame)
                if why:
                    return f"{native.text} -> {frame.text}: {why}"
                native = None if following and SIGNAL.search(following.text) else frame
        return None

    def may_call(self, outer, inner):
        if outer.plain[0] in self.calls:
            return inner.plain[0] in self.calls[outer.plain[0]]
        if outer.plain[1] == inner.plain[1] == "threading.py":
            return True         # a thread begins and ends where it cannot be watched
        return self.edges is None or (outer.plain, inner.plain) in self.edges

    def native_objection(self, outer, inner):
        graph = self.graph
        if not graph or not outer.module or not inner.module or re.search(r"\bld-linux|\blibpython", inner.module):
            return None
        if outer.start is not None and inner.start is not None:
            return graph.objection(outer.module, outer.start, inner.module, inner.start, outer.site)
        outers, inners = graph.starts(outer.module, outer.name), graph.starts(inner.module, inner.name)
        reasons = [graph.objection(outer.module, one, inner.module, other) for one in outers for other in inners]
        return reasons[0] if reasons and None not in reasons else None

    def incomplete(self, stack):
        """Frames that have to be outside of another one."""
        if not any(frame.kind == "python" for frame in stack):
            return None
        for pattern, outer in self.through:
            for place, frame in enumerate(stack):
                if pattern.search(frame.text):
                    rest = iter(stack[:place])
                    for one in outer:
                        if not any(one.search(candidate.text) for candidate in rest):
                            return f"{frame.text} without {one.pattern} outside"
                    break
        return None
