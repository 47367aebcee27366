# SPDX-License-Identifier: MIT
"""What the benchmarks share: where things are, their options, commands from pip, and the table.

Every benchmark is a command of its own that prints rows. bench/run runs many and collects the rows:
each is also appended as a line of JSON to the file that $BENCH_JSON names.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PDUMP = os.path.join(BUILD, "pdump")
PRECORD = os.path.join(BUILD, "precord")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                     "pdump-tests")


def need_commands():
    for command in (PDUMP, PRECORD):
        if not os.access(command, os.X_OK):
            sys.exit(f"{command} is not built: say make")


def default_python():
    """The distribution's, which numpy is installed for; else the one that runs this."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def options_parser(description):
    """With the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=default_python(), help="that runs the target")
    parser.add_argument("--quick", action="store_true", help="a short run: does it work at all")
    return parser


# ---- commands and packages from pip ----


def virtual_environment(name, requirements, python=None):
    """The folder of its commands; made once in the cache. CalledProcessError, OSError: it cannot be."""
    folder = os.path.join(CACHE, name)
    commands = os.path.join(folder, "bin")
    if os.path.exists(os.path.join(folder, "ready")):
        return commands
    print(f"installing {' '.join(requirements)} into {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python or default_python(), "-m", "venv", folder], check=True, capture_output=True)
    subprocess.run([os.path.join(commands, "pip"), "-q", "install", *requirements], check=True,
                   capture_output=True, text=True)
    with open(os.path.join(folder, "ready"), "w", encoding="utf-8"):
        pass
    return commands


def last_line(error):
    """Of what a failed command said."""
    told = (getattr(error, "stderr", None) or "").strip().splitlines()
    return told[-1] if told else str(error)


def pip_command(command, *requirements):
    """A path of the command, of the first of the requirements that gives one which starts; None, and
    the reason as a row, when there is none."""
    why = "?"
    for requirement in requirements:
        folder = "bench-" + re.sub(r"\W+", "-", requirement)
        try:
            path = os.path.join(virtual_environment(folder, [requirement]), command)
            subprocess.run([path, "--version"], check=True, capture_output=True, text=True)
            return path
        except (OSError, subprocess.CalledProcessError) as error:
            why = last_line(error)
    skip(command, why)
    return None


def py_spy():
    return pip_command("py-spy", "py-spy")


def austin(command="austin"):
    """Or "austinp", which shows native frames; the newest wheel wants a newer C library than Debian 12's."""
    return pip_command(command, "austin-dist", "austin-dist<4")


def pystack():
    return pip_command("pystack", "pystack")


# ---- figures ----


def median(values):
    values = list(values)
    return statistics.median(values) if values else float("nan")


def quartiles(values):
    values = list(values)
    return statistics.quantiles(values, n=4, method="inclusive")[::2] if len(values) > 1 else values * 2


def percentile(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else float("nan")


# ---- the table ----


def collect(record):
    """For bench/run."""
    if os.environ.get("BENCH_JSON"):
        with open(os.environ["BENCH_JSON"], "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def row(what, value, bound="", kept=True, **more):
    """One line of the table; `more` is for the JSON alone. True: within its bound, if it has one."""
    verdict = "" if not bound else "ok" if kept else "MISSED"
    print(f"{what:<62} {value:>30}  {bound:<12} {verdict}".rstrip(), flush=True)
    collect({"what": what, "value": value, "bound": bound or None,
             "kept": bool(kept) if bound else None, **more})
    return kept or not bound


def figure(what, values, form, least=None, most=None):
    """The row of a figure that was measured in several rounds: its median, its quartiles and how many.
    `form` shows one value: "{:.1f} us". The median must not be below `least` nor above `most`."""
    values = list(values)
    if not values:
        skip(what, "no round gave it")
        return False
    middle, spread = median(values), quartiles(values)
    bound = f">= {form.format(least)}" if least is not None else \
        f"<= {form.format(most)}" if most is not None else ""
    kept = (least is None or middle >= least) and (most is None or middle <= most)
    text = form.format(middle)
    if len(values) > 1:
        text += f" [{form.format(spread[0])} .. {form.format(spread[1])}] n={len(values)}"
    return row(what, text, bound, kept, median=middle, quartiles=spread, values=values,
               least=least, most=most)


def skip(what, reason):
    """A row that says why there is no figure."""
    print(f"{what:<62} skipped: {reason}", flush=True)
    collect({"what": what, "skipped": reason})
