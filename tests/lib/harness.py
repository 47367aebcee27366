# SPDX-License-Identifier: MIT
"""What the test scripts share: cases, interpreters, fixtures as processes, the commands under test.

Nothing here waits for a fixed time: fixtures say when they are ready, everything has a deadline, and
children are killed whatever happens.
"""
import fcntl
import json
import os
import pathlib
import re
import select
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT / "fixtures"
BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
if not BUILD.is_absolute():
    BUILD = ROOT / BUILD
MODULES = pathlib.Path(os.environ.get("FIXTURE_MODULES", ROOT / "build" / "fixtures"))
PDUMP = BUILD / "pdump"
PRECORD = BUILD / "precord"
PREPORT = BUILD / "preport"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))) / "pdump-tests"
DEADLINE = float(os.environ.get("TEST_DEADLINE", "120"))  # seconds, for what is quick, on the busiest machine
sys.path.insert(0, str(FIXTURES))
sys.dont_write_bytecode = True

# A script's "make check &" begins with these ignored, and so would all that a test starts and ends by them.
for ignored in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)


class Skip(Exception):
    """This case cannot run here, and why."""


class Failure(Exception):
    """The promise is broken, and how."""


class Cases:
    """Runs cases and counts. Each prints one line; the last line is the sum."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, name, function, *arguments):
        try:
            note = function(*arguments)
        except Skip as reason:
            self.skip(name, reason)
        except Failure as why:
            self.fail(name, why)
        except (subprocess.TimeoutExpired, OSError, ValueError, KeyError, IndexError,
                AssertionError) as why:
            self.fail(name, f"{type(why).__name__}: {why}")
        else:
            self.passed += 1
            print(f"ok - {name}" + (f" # {note}" if note else ""), flush=True)

    def run_on(self, start, cases):
        """On one process, that takes long to start: start() is a context, each case a name, a function of what
        that gives, and more arguments."""
        try:
            with start() as process:
                for name, function, *arguments in cases:
                    self.run(name, function, process, *arguments)
        except Skip as reason:
            self.skip(cases[0][0], reason)
        except Failure as why:
            self.fail(cases[0][0], why)

    def fail(self, name, why):
        self.failed += 1
        print(f"not ok - {name}: {why}", flush=True)

    def skip(self, name, reason):
        self.skipped += 1
        print(f"skip - {name}: {reason}", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(1 if self.failed else 0)


def expect(true, why):
    if not true:
        raise Failure(why() if callable(why) else why)


def wait_until(predicate, what, seconds=DEADLINE):
    """Polls; for states of the kernel of which nobody tells us."""
    end = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {seconds:g} s: {what}")
        select.select([], [], [], 0.002)


# ---- interpreters ---------------------------------------------------------------------------


class Interpreter:
    def __init__(self, name, path, version):
        self.name, self.path, self.version = name, path, version
        self.python = tuple(map(int, version.split(".")[:2]))
        self.minor = self.python[1]
        self.qualified = self.python >= (3, 11)     # has qualified names
        self._built = None

    def __str__(self):
        return self.name

    def modules(self, *folders):
        """PYTHONPATH with the named folders of fixture modules, built on demand."""
        out = MODULES / self.name
        if self._built is None:
            done = subprocess.run([FIXTURES / "build", self.path, out], capture_output=True,
                                  text=True, timeout=600)
            if done.returncode:
                raise Failure(f"fixtures/build failed: {done.stderr.strip()[-500:]}")
            self._built = done.stdout
        for folder in folders:
            if not (out / folder).is_dir():
                told = [line[6:] for line in self._built.splitlines() if line.startswith("skip: ")]
                raise Skip("; ".join(told) or f"no modules in {folder}")
        return ":".join(str(out / folder) for folder in folders)

    def packages(self, *names):
        """A folder with pip packages for this interpreter, filled on demand; Skip if it cannot be."""
        if self.name.startswith("debian") and names == ("numpy",):
            if subprocess.run([self.path, "-c", "import numpy"], capture_output=True).returncode:
                raise Skip("python3-numpy is not installed")
            return ""
        folder = CACHE / f"{self.name}-{'-'.join(names)}"
        stamp = folder / ".installed"       # says why they do not work, or nothing
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(f"{folder}.lock", "w") as lock:      # tests run side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stamp.exists():
                self._install(folder, names)
                done = subprocess.run([self.path, "-c", f"import {', '.join(names)}"], capture_output=True,
                                      env={**os.environ, "PYTHONPATH": folder}, text=True)
                stamp.write_text((done.stderr.strip().splitlines() or ["?"])[-1] if done.returncode else "")
        if stamp.read_text():
            raise Skip(f"{self} cannot import {' '.join(names)}: {stamp.read_text()}")
        return str(folder)

    def _install(self, folder, names):
        """With its own pip, or with another Python's for what it is. Skip: no pip could."""
        version = "".join(map(str, self.python))
        build = self.name[len(self.name.rstrip("td")):]
        abi = "cp27mu" if version == "27" else f"cp{version}" + ("t" if "t" in build else "")
        other = ["--implementation", "cp", "--python-version", version, "--abi", abi, "--abi", "none"]
        for platform in ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux1"):
            other += ["--platform", platform + "_x86_64"]
        told = []
        for python, options in ((self.path, []), (sys.executable, other), ("python3", other)):
            done = subprocess.run([python, "-m", "pip", "install", "-q", "--only-binary", ":all:",
                                   *options, "--target", folder, *names], capture_output=True,
                                  text=True, timeout=600)
            if done.returncode == 0:
                return
            told += done.stderr.strip().splitlines()[-1:]
        raise Skip(f"pip cannot install {' '.join(names)}: {(told or ['?'])[-1][:200]}")


def ask_interpreters(few):
    return subprocess.run([ROOT / "tests" / "interpreters", *(["--few"] if few else [])],
                          stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


def interpreters_asked_for():
    """What makes tests/interpreters list others; bench/truth is told ONLY some by tests."""
    return "\n".join(os.environ.get(name, "") for name in ("ALL", "FETCH", "INTERPRETERS", "ONLY"))


def find_interpreters():
    """Once for all tests that tests/run starts: to ask each what it is takes most of a second."""
    os.environ["INTERPRETERS_FOUND"] = ask_interpreters(few=False)
    os.environ["INTERPRETERS_FOUND_FEW"] = ask_interpreters(few=True)
    os.environ["INTERPRETERS_FOUND_FOR"] = interpreters_asked_for()


def interpreters(breadth="all"):
    """breadth "few": for slow tests, one of each version and no more than tests/interpreters --few
    lists; "one": the first of these, where the version makes no difference (with ALL=1: as "few").
    $ONLY and $ALL choose as tests/interpreters says."""
    few = breadth != "all"
    if os.environ.get("INTERPRETERS_FOUND_FOR") == interpreters_asked_for():
        found = os.environ["INTERPRETERS_FOUND_FEW" if few else "INTERPRETERS_FOUND"]
    else:
        found = ask_interpreters(few)
    lines = found.splitlines()
    if breadth == "one" and not thorough():
        lines = lines[:1]
    return [Interpreter(*line.split("\t")) for line in lines]


def thorough():
    """Everything on everything is asked for: not one of each kind."""
    return os.environ.get("ALL") == "1"


def py_spy():
    """The peer, from pip, in a folder outside of the tree."""
    folder = CACHE / "py-spy"
    command = folder / "bin" / "py-spy"
    if not command.exists():
        done = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True)
        if done.returncode == 0:
            subprocess.run([folder / "bin" / "pip", "install", "-q", "py-spy"],
                           capture_output=True, timeout=600)
    if not command.exists():
        raise Skip("py-spy cannot be installed")
    return str(command)


# ---- fixtures -------------------------------------------------------------------------------


class Fixture:
    """A running fixture; `with Fixture(interpreter, "recursion.py", "--block") as fixture:`"""

    def __init__(self, interpreter, script, *arguments, modules=("linenums", "bfd", "common"),
                 path=None, folder=None, environment=None, wrapper=()):
        self.interpreter = interpreter
        paths = [interpreter.modules(*modules)] + ([path] if path else [])
        if folder:
            paths.append(str(FIXTURES))
        ready_out, ready_in = os.pipe()
        control_out, control_in = os.pipe()
        self.command = [*wrapper, interpreter.path, str(pathlib.Path(folder or FIXTURES) / script),
                        "--ready-fd", str(ready_in), "--control-fd", str(control_out), *arguments]
        self.process = subprocess.Popen(
            self.command, pass_fds=(ready_in, control_out), stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": ":".join(filter(None, paths)),
                 "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1",
                 **(environment or {})})
        os.close(ready_in)
        os.close(control_out)
        self._ready, self._control = ready_out, control_in
        self._buffer = b""
        try:
            self.facts = self.hear()
            if "cannot" in self.facts:
                raise Skip(f"{self.name}: {self.facts['cannot']}")
        except BaseException:
            self.kill()
            raise
        self.pid = self.facts["pid"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def hear(self, seconds=DEADLINE):
        """The next line from the fixture."""
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._ready], [], [], left)[0]:
                raise Failure(f"{self.name} says nothing for {seconds:g} s; {where_it_is(self.process.pid)}")
            got = os.read(self._ready, 65536)
            if not got:
                raise Failure(f"{self.name} ended with {self.process.wait(DEADLINE)}")
            self._buffer += got
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    @property
    def name(self):
        return shlex.join(os.path.basename(word) for word in self.command[1:2])

    def tell(self, line):
        os.write(self._control, line.encode() + b"\n")

    def ask(self, word):
        self.tell(word)
        return self.hear()[word]

    def report(self):
        return self.ask("report")

    def frames(self):
        """OS thread id -> [(name, file, line)], innermost first."""
        return {int(tid): [tuple(frame) for frame in stack]
                for tid, stack in self.ask("frames").items()}

    def end(self):
        """Ends it as it wishes to end; its exit status."""
        self.tell("end")
        return self.process.wait(DEADLINE)

    def runs(self):
        return self.process.poll() is None

    def state(self):
        return process_state(self.pid)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for fd in (self._ready, self._control):
            try:
                os.close(fd)
            except OSError:
                pass
        self._ready = self._control = -1

    def hold(self):
        """SIGSTOP: all threads stand still, for those who compare two looks."""
        os.kill(self.pid, signal.SIGSTOP)
        for tid in self.threads():
            wait_until(lambda: process_state(self.pid, tid) in ("T", None), f"thread {tid} stops")

    def threads(self):
        return sorted(int(tid) for tid in os.listdir(f"/proc/{self.pid}/task"))

    def wait_blocked(self, tids=None):
        """Waits until the threads (default: the main one) wait in the kernel."""
        for tid in tids or [self.pid]:
            wait_until(lambda: is_blocked(self.pid, tid), f"thread {tid} of {self.name} blocks")


def system_call_words(pid, tid):
    """The number of the call that the thread is blocked in, and its arguments, as texts; "running", "-1": in
    none."""
    with open(f"/proc/{pid}/task/{tid}/syscall") as file:
        return file.read().split()


def system_call(pid, tid):
    return system_call_words(pid, tid)[0]


def is_blocked(pid, tid):
    return system_call(pid, tid) not in ("running", "-1")


def process_state(pid, tid=None):
    """The kernel's letter; None: it is gone."""
    try:
        with open(f"/proc/{pid}/task/{tid or pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def cpu_time(pid, tid=None):
    """Clock ticks that the process, or one thread of it, has used."""
    with open(f"/proc/{pid}/task/{tid}/stat" if tid else f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))


def where_it_is(pid):
    """What each thread waits in, by its file in /proc; for who has to find out why a test hangs."""
    def shown(tid, name):
        try:
            with open(f"/proc/{pid}/task/{tid}/{name}") as file:
                return " ".join(file.read().split())
        except OSError as error:
            return error.strerror

    try:
        tids = sorted(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return "it is gone"
    return "; ".join(f"thread {tid} {process_state(pid, tid)}, call {shown(tid, 'syscall')}, kernel {shown(tid, 'stack')}"
                     for tid in tids[:16])


def tracer(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"TracerPid:\s*(\d+)", file.read()).group(1))


# ---- the commands ---------------------------------------------------------------------------


class Ran:
    def __init__(self, command, status, out, err, seconds):
        self.command, self.status, self.out, self.err = command, status, out, err
        self.seconds = seconds

    def need(self, *statuses):
        statuses = statuses or (0,)
        if self.status not in statuses:
            raise Failure(f"{shlex.join(map(str, self.command))} gave {self.status}, not "
                          f"{' or '.join(map(str, statuses))}: "
                          f"{self.err.strip()[-300:]}")
        return self


def run(*command, seconds=DEADLINE, **options):
    command = [str(word) for word in command]
    if not os.path.exists(command[0]) and os.sep in command[0]:
        raise Failure(f"{os.path.basename(command[0])} is not built (make)")
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, timeout=seconds, **options)
    return Ran(command, done.returncode, done.stdout.decode("utf-8", "surrogateescape"),
               done.stderr.decode("utf-8", "replace"), time.monotonic() - begun)


def pdump(*arguments, **options):
    return run(PDUMP, *arguments, **options)


def pdump_json(*arguments, status=0):
    return json.loads(pdump("--json", *arguments).need(status).out)


def precord(*arguments, **options):
    return run(PRECORD, *arguments, **options)


def preport(*arguments, **options):
    return run(PREPORT, *arguments, **options)


def busy(seconds):
    """Lines of a program that uses so much of a CPU: on a loaded machine it lives as much longer."""
    return f"import os\nend = sum(os.times()[:2]) + {seconds}\nwhile sum(os.times()[:2]) < end: pass\n"


def start(*command, **options):
    """A command in the background: Popen, stdout and stderr as pipes, no stdin, unless given."""
    if not os.path.exists(str(command[0])):
        raise Failure(f"{os.path.basename(str(command[0]))} is not built (make)")
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([str(word) for word in command], **options)


def finish(process, seconds=DEADLINE):
    """Waits for what start() gave; killed when it hangs."""
    begun = time.monotonic()
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Ran(process.args, process.returncode, (out or b"").decode("utf-8", "surrogateescape"),
               (err or b"").decode("utf-8", "replace"), time.monotonic() - begun)


def working_pid(process):
    """Of a pdump or precord: the process behind the one that was started, which does the work."""
    def child():
        if process.poll() is not None:
            raise Failure(f"it ended with {process.returncode}")
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            return file.read().split()
    return int(wait_until(child, f"{process.pid} has a child")[0])


def wait_traced(pid, by=None):
    """Waits until somebody traces the process (by: that process or none)."""
    wait_until(lambda: tracer(pid) != 0, f"{pid} is traced")


def attached(recording, pid):
    """Waits until a recording started with start() has taken hold of the target."""
    def holds():
        if recording.poll() is not None:
            raise Failure(f"precord ended with {recording.returncode}: "
                          f"{recording.stderr.read()[-300:] if recording.stderr else ''}")
        return tracer(pid) != 0
    wait_until(holds, f"precord traces {pid}")


def sampled(recording, pid, output):
    """Waits until a recording has samples: SIGUSR1 makes it write what there is (as folded lines)."""
    attached(recording, pid)

    end = time.monotonic() + DEADLINE
    while recording.poll() is None and not (os.path.exists(output) and os.path.getsize(output)):
        expect(time.monotonic() < end, "no samples")
        recording.send_signal(signal.SIGUSR1)
        select.select([], [], [], 0.1)     # time to take some, and to write them


# ---- what they print ------------------------------------------------------------------------


class Frame:
    """A frame of pdump's JSON."""

    def __init__(self, data):
        self.data = data
        self.kind = data.get("kind", "")
        self.name = data.get("name") or ""
        file = data.get("filename") or data.get("short_filename") or ""
        self.line = data.get("line") or 0
        self.file = os.path.basename(file) if self.line or self.kind.startswith("python") else ""
        self.path = file
        self.module = os.path.basename(data.get("module") or "")

    @property
    def is_python(self):
        return self.kind.startswith("python")

    def __repr__(self):
        where = f"{self.file}:{self.line}" if self.line else self.module
        return f"{self.name or '?'} ({where})"


def stacks(dump, builtins=False):
    """pdump's JSON -> {tid: [Frame]}, outermost first; builtins: with the interpreter's own functions."""
    return {thread["os_thread_id"]: [Frame(frame) for frame in reversed(thread["frames"])
                                     if builtins or frame["kind"] != "builtin"]
            for thread in dump["threads"]}


# "sorted (python3.11)": a function of the interpreter's own.
BUILTIN = re.compile(r" \((lib)?python\d[\d.]*[a-z]*(-dbg)?(\.so[\d.]*)?\)$")


def folded(text, builtins=False):
    """Folded output -> [(list of frame texts, outermost first, count)]; builtins as above."""
    result = []
    for line in text.splitlines():
        match = re.match(r"(.*) (\d+)$", line)
        if not match:
            raise Failure(f"not a folded line: {line[:200]!r}")
        result.append(([frame for frame in match.group(1).split(";")
                        if builtins or not BUILTIN.search(frame)], int(match.group(2))))
    return result


def counts(err):
    """precord's last line -> {"samples": ..., "late": ..., ...}."""
    lines = [line for line in err.splitlines() if line.startswith("wrote ")]
    if not lines:
        raise Failure(f"no line of counts: {err.strip()[-300:]}")
    told = lines[-1].split(": ", 1)[1]
    return {name: int(number.replace(",", ""))
            for number, name in re.findall(r"(?<![\d.])(\d[\d,]*) ([a-z]+)", told)}


# A frame's name, in any output, that is an absolute address.
ABSOLUTE = re.compile(r"(?<![+\w])0x[0-9a-fA-F]{4,}")


def marked_lines(path, mark):
    """The lines of a file that have the comment #@MARK or //@MARK."""
    with open(path) as source:
        return {number for number, line in enumerate(source, 1)
                if re.search(r"(#|//)@" + re.escape(mark) + r"(?!\S)", line)}
