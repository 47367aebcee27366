# SPDX-License-Identifier: MIT
"""Records a program in pieces and judges what came out; keeps the raw samples of what is impossible."""
import collections
import json
import math
import os
import pathlib
import re
import shutil
import tempfile
import time

import grammar_judge
from harness import BUILD, Failure, precord, run

COUNTED = ("salvaged", "torn", "gone", "dropped", "late", "truncated", "guessed", "contradictions",
           "uninterruptible")
SHORTEST = 0.5         # seconds of a recording
EMPTY = 20             # recordings in a row without a sample: on a busy machine there may be some
FEW = 2                # samples that any run may lose
CHANCE = 4             # standard deviations that a run may lose beyond what is lost in the long run
SEED_LASTS = 20000     # samples of one process, then the next seed
LOOKS = 5              # of a program at its own calls: each may leave out one in forty


class Piece:
    """One recording: judged stacks of it."""

    def __init__(self, stacks, judge):
        self.bad = []
        self.samples = 0
        for thread, stack, count in stacks:
            self.samples += count
            why = judge.judge(thread, stack)
            if why:
                self.bad.append((why, count, thread, stack))


class Recording:
    """What a program's recordings in one mode add up to."""

    def __init__(self, interpreter, program, native, options):
        self.interpreter, self.program, self.native = interpreter, program, native
        self.options = options
        self.samples = self.impossible = 0
        self.elapsed = 0.0
        self.counts = collections.Counter()
        self.causes = collections.Counter()
        self.saved = []

    def taken(self):
        """A thread that has ended had no stack to be taken."""
        return self.samples + sum(self.counts[name] for name in ("torn", "dropped"))

    def kept(self):
        return 100.0 * self.samples / max(self.taken(), 1)

    def rate(self):
        return self.samples / max(self.elapsed, 1e-9)

    def is_good(self):
        least = 0 if self.options.capture else self.program.keeps
        usual = self.taken() * (100 - least) / 100
        lost = self.taken() - self.samples
        return self.samples > 0 and self.impossible == 0 and lost <= usual + CHANCE * math.sqrt(usual) + FEW and \
            self.counts["guessed"] * 100 <= getattr(self.program, "guessed", 100) * self.taken() and \
            self.counts["torn"] <= getattr(self.program, "torn", self.counts["torn"])

    def wants_more(self):
        return self.samples < self.options.samples

    def run_process(self, fixture, folder, seed):
        """Records one process for a while."""
        judge = self.program.judge(fixture, self.interpreter, self.native)
        begun, empty = self.samples, 0
        lasts = getattr(self.program, "lasts", SEED_LASTS)
        while self.samples < self.options.samples and self.samples - begun < lasts:
            before = self.samples
            self.run_piece(fixture, judge, folder, seed)
            empty = empty + 1 if self.samples == before else 0
            if empty > EMPTY:
                raise Failure("no samples")

    def run_piece(self, fixture, judge, folder, seed):
        out, raw = os.path.join(folder, "out.json"), os.path.join(folder, "raw")
        seconds = min(self.options.piece, getattr(self.program, "lasts", SEED_LASTS),
                      self.options.samples - self.samples) / self.options.rate
        extra = ["--native"] if self.native else []
        extra += ["--nonblocking"] if self.options.nonblocking else []
        extra += ["--capture", raw] if self.options.capture else []
        done = precord("-t", "-r", self.options.rate, "-d", f"{max(seconds, SHORTEST):.2f}", "-o", out,
                       *extra, *self.options.extra, fixture.pid, seconds=seconds * 3 + 120).need()
        with open(out) as file:
            stacks, counts = grammar_judge.from_profile(file.read())
        self.count(counts)
        piece = Piece(stacks, judge)
        # What was not learned may still be true: the program looks again.
        for _ in range(LOOKS):
            if piece.bad and judge.again():
                piece = Piece(stacks, judge)
        if piece.samples != counts["samples"]:
            raise Failure(f"the counts say {counts['samples']} samples, the stacks {piece.samples}")
        self.samples += piece.samples
        self.elapsed += counts["elapsed_ns"] / 1e9
        for why, count, _, _ in piece.bad:
            self.impossible += count
            self.causes[without_places(why)] += count
        if piece.bad:
            self.keep(piece, judge, raw, seed, done.err)

    def count(self, counts):
        for name in COUNTED:
            self.counts[name] += counts.get(name, 0)

    def keep(self, piece, judge, raw, seed, told):
        """The raw samples, the grammar and the stacks, side by side."""
        folder = self.options.save
        folder.mkdir(parents=True, exist_ok=True)
        mode = "native" if self.native else "python"
        stem = folder / f"{self.interpreter}-{self.program.name}-{mode}-{seed}-{time.time_ns()}"
        if os.path.exists(raw):
            shutil.copy(raw, f"{stem}.raw")
        pathlib.Path(f"{stem}.grammar").write_text(json.dumps(
            {"program": self.program.name, "qualified": self.interpreter.qualified,
             "native": self.native, "facts": judge.facts}))
        with open(f"{stem}.stacks", "w") as file:
            file.write(told)
            for why, count, thread, stack in piece.bad:
                file.write(f"\n{count} times, {thread}: {why}\n")
                file.writelines(f"    {frame.text}\n" for frame in stack)
        self.saved.append(f"{stem}.raw" if os.path.exists(raw) else f"{stem}.stacks")


def record(interpreter, program, modes, options):
    """The recordings of a program, one for each mode (native or not), of the same processes."""
    recordings = [Recording(interpreter, program, native, options) for native in modes]
    seed = options.seed
    while any(recording.wants_more() for recording in recordings):
        with program.start(interpreter, options, seed) as fixture, \
                tempfile.TemporaryDirectory() as folder:
            for recording in recordings:
                if recording.wants_more():
                    recording.run_process(fixture, folder, seed)
            if not fixture.runs():
                raise Failure("the target has ended")
        seed += 1
    return recordings


def without_places(why):
    """The cause alone: the same for all levels and lines."""
    return re.sub(r"_[A-Z]+\d+[ab]\b|:\d+", "", why)


def judge_again(raw):
    """Replays a capture that was kept; the exit status."""
    import truth_programs
    with open(re.sub(r"\.raw$", ".grammar", raw)) as file:
        kept = json.load(file)
    program = truth_programs.PROGRAMS[kept["program"]]
    judge = program.judge_of_facts(kept["facts"], kept["qualified"], kept["native"])
    done = run(BUILD / "tests" / "tools" / "replay", "-t", "--json", *(["-n"] if kept["native"] else []),
               raw, seconds=600).need()
    stacks, _ = grammar_judge.from_profile(done.out)
    piece = Piece(stacks, judge)
    print(f"{piece.samples} samples, {sum(count for _, count, _, _ in piece.bad)} impossible; "
          f"{done.err.strip()}")
    for why, count, thread, stack in piece.bad:
        print(f"\n{count} times, {thread}: {why}")
        for frame in stack:
            print(f"    {frame.text}")
    return 1 if piece.bad else 0
