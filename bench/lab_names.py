# SPDX-License-Identifier: MIT
"""How the frames of a profile are named: bench/workloads --names.

    cython    frames of Cython functions (each in every sample that has it), share with a .pyx line
    native    frames of other code, share with a name; stripped libraries (libgomp, libm) have none
    [omp]     frames of the bodies of parallel loops, and how many of these are outermost but for libgomp
    __pyx     frames whose name is not the author's: "__pyx", "__Pyx", or an absolute address
    doubled   places where a function seems to call itself: wrapper and body as two frames look like that, and so
              does recursion
"""
import collections
import re

NAMELESS = re.compile(r"\+0x[0-9a-f]+$")
ABSOLUTE = re.compile(r"(?<![+\w])0x[0-9a-f]{6,}")
HEAD = (f"    {'':28}{'samples':>8}{'cython':>8}{'a line':>8}{'native':>8}{'a name':>8}{'[omp]':>7}{'outer':>7}"
        f"{'__pyx':>7}{'doubled':>9}")


def table(title, profile):
    tally = Tally()
    for stack, count in stacks_of(profile):
        tally.add_stack(stack, count)
    return [HEAD, f"    {tally.row(title)}", *tally.details()]


def stacks_of(profile):
    """(frames, outermost first, samples) of each stack."""
    nodes, frames = profile["nodes"], profile["frames"]
    for node in nodes:
        count, stack = node["self"], []
        while count and node["parent"] is not None:
            stack.append(frames[node["frame"]])
            node = nodes[node["parent"]]
        if count:
            yield stack[::-1], count


class Tally:
    """Frames in all samples of one library, and what is to be said of them."""

    def __init__(self):
        self.samples = 0
        self.all, self.good = collections.Counter(), collections.Counter()
        self.seen = {name: collections.Counter() for name in ("no name", "no line", "doubled", "__pyx")}
        self.loops = self.workers = 0

    def add_stack(self, stack, count):
        self.samples += count
        for at, frame in enumerate(stack):
            name, module = frame["name"] or "", frame["module"] or ""
            if frame["kind"] == "thread":
                continue
            if NAMELESS.search(name):
                name = ""
            self.add_frame(frame, name, module, count)
            if name.endswith(" [omp]"):
                self.loops += count
                self.workers += count * all("gomp" in (outer["module"] or "") for outer in stack[:at])
            if at and frame["kind"] == "cython" and self.same(frame, stack[at - 1]):
                self.seen["doubled"][f"{name} ({module})"] += count

    def add_frame(self, frame, name, module, count):
        kind = "cython" if frame["kind"] == "cython" else "native" if module else "python"
        self.all[kind] += count
        if re.search(r"__pyx|__Pyx", name) or ABSOLUTE.search(name):
            self.seen["__pyx"][name] += count
        if not name:
            self.seen["no name"][module] += count
        elif kind == "native" or frame["line"]:
            self.good[kind] += count
        else:
            self.seen["no line"][f"{name} ({module})"] += count

    @staticmethod
    def same(inner, outer):
        return inner["name"] == outer["name"] and inner["module"] == outer["module"]

    def share(self, kind):
        return f"{self.all[kind]:8}{100 * self.good[kind] / max(self.all[kind], 1):6.1f} %"

    def row(self, library):
        return (f"{library:28}{self.samples:8}{self.share('cython')}{self.share('native')}"
                f"{self.loops:7}{self.workers:7}{sum(self.seen['__pyx'].values()):7}"
                f"{sum(self.seen['doubled'].values()):9}")

    def details(self):
        for what, counter in self.seen.items():
            for name, count in counter.most_common(12):
                yield f"    {what}: {count} {name}"

