# SPDX-License-Identifier: MIT
"""The programs of bench/truth: how each is started, and who judges its stacks."""
import importlib.util
import re

import grammar_judge
from harness import Fixture, Skip
import recursion_grammar
from truth_blas import Blas

LEARNING = 240     # seconds that a program may take to learn its grammar


class Learned:
    """A program that tells its own grammar."""

    def __init__(self, name, script, arguments=(), packages=(), kinds_of=None, keeps=99.9):
        """kinds_of: from a thread's name to what it may be; keeps: per cent of samples, at least."""
        self.name, self.script, self.keeps = name, script, keeps
        self.packages, self.arguments = packages, arguments
        self.kinds_of = kinds_of

    def start(self, interpreter, options, seed):
        """A running fixture, ready."""
        try:
            interpreter.modules("bfd")
            folders = ("bfd",)
            interpreter.modules("linenums")
            folders = (options.variant, "bfd")
        except Skip:
            folders = ()
        path = interpreter.packages(*self.packages) if self.packages else None
        fixture = Fixture(interpreter, self.script, "--seed", str(seed),
                          "--learn", str(options.learn), *self.arguments,
                          modules=folders, path=path, environment=options.environment)
        if "skip" in fixture.facts:
            fixture.kill()
            raise Skip(fixture.facts["skip"])
        return fixture

    def judge(self, fixture, interpreter, native):
        return LearnedJudge(self, native, fixture.ask("report")["grammar"], fixture)

    def judge_of_facts(self, facts, qualified, native):
        return LearnedJudge(self, native, facts)


class LearnedJudge:
    def __init__(self, program, native, facts, fixture=None):
        self.program, self.native, self.fixture = program, native, fixture
        self.take(facts)

    def take(self, facts):
        self.facts = facts
        self.grammar = grammar_judge.Grammar(facts, self.native)

    def again(self):
        """Learns more; False: it cannot."""
        self.fixture.tell("do learn")
        self.fixture.hear(LEARNING)
        self.take(self.fixture.ask("report")["grammar"])
        return True

    def judge(self, thread, stack):
        """None: possible, or nothing to judge; else why not."""
        name = re.sub(r'^thread \d+ "(.*)"$', r"\1", thread or "")
        kinds = self.program.kinds_of(name)
        if kinds is None or kinds != ["main"] and not any(frame.python for frame in stack):
            return None      # a thread that starts or ends
        return self.grammar.judge(stack, kinds)


class Recursion:
    """recursion.py and its hand-written grammar."""
    name, keeps = "recursion", 99.9

    def start(self, interpreter, options, seed):
        return Fixture(interpreter, "recursion.py", modules=(options.variant, "common"),
                       environment=options.environment)

    def judge(self, fixture, interpreter, native):
        return RecursionJudge(interpreter.qualified, native)

    def judge_of_facts(self, facts, qualified, native):
        return RecursionJudge(qualified, native)


class RecursionJudge:
    facts = {}

    def __init__(self, qualified, native):
        self.qualified = qualified
        self.grammar = recursion_grammar if native else python_ring()

    def again(self):
        return False

    def judge(self, thread, stack):
        if thread and '"control"' in thread:
            return None
        return self.grammar.judge([frame.text for frame in stack], self.qualified)


def python_ring():
    """recursion_grammar.py without Cython's part of the ring."""
    found = importlib.util.spec_from_file_location("python_ring", recursion_grammar.__file__)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    module.RING = [one for one in module.RING if one[0] == "recursion.py"]
    return module


def main_thread(name):
    """The kinds that a thread of that name may be of; None: not judged."""
    return None if name == "control" else ["main"]


def short_thread(name):
    if name in ("control", "MainThread"):
        return main_thread(name)
    if re.match(r"[TUV]-\d+$", name):
        return [name[0]]
    # The kernel's name: the threading module does not know it, or it was too short to read its name.
    return ["raw", "T", "U", "V", "main"]


PROGRAMS = {program.name: program for program in (
    Recursion(),
    Learned("constructs", "constructs_grammar.py", kinds_of=main_thread),
    Learned("threads", "threads_grammar.py", kinds_of=short_thread),
    # What is being switched when the thread is stopped has no stack to show.
    Learned("greenlets", "greenlets_grammar.py", packages=["greenlet"], kinds_of=main_thread,
            keeps=97),
    Learned("gevent", "greenlets_grammar.py", ["--gevent"], packages=["greenlet", "gevent"],
            kinds_of=main_thread, keeps=97),
    Blas(),
)}
