# SPDX-License-Identifier: MIT
"""Gets CPythons for the tests, by package name, through the clients that this machine has configured
(apt, Maven, Go), into a folder of the user's cache.

A recipe fills a folder and gives what it has: [(name, path in the folder)]. The folder gets its place
by one rename, with that list in the file "interpreters": what has no list is not there, and an
interrupted fetch leaves nothing that anybody would use.
"""
import contextlib
import fcntl
import gzip
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "pdump-tests"
FOLDER = CACHE / "interpreters"
LIST = "interpreters"
DOWNLOAD, BUILD = 600, 3600      # seconds


class Cannot(Exception):
    """This one cannot be had here, and why."""


def run(*command, seconds=DOWNLOAD, **options):
    """Its output; Cannot with the end of what it complained about."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=seconds, text=True, **options)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Cannot(str(problem)) from problem
    if done.returncode:
        told = [line for line in (done.stderr + done.stdout).splitlines()
                if re.search(r"error|fail|not found|^E:|cannot", line, re.I)]
        raise Cannot(f"{command[0]} {command[1]}: {(told or ['?'])[0][:300]}")
    return done.stdout


def need(command, package):
    """Installs a client that is missing, where that can be done without asking."""
    if shutil.which(command):
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise Cannot(f"{command} is not installed ({package})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120", "install",
        "--no-install-recommends", package, env=environment)


# ---- Maven: bytedeco's builds ----------------------------------------------------------------


def bytedeco_jar(work, version):
    need("mvn", "maven")
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    # The client's own repository folder stays as it was.
    run("mvn", "-q", "-B", f"-Dmaven.repo.local={work}/maven", plugin,
        f"-Dartifact=org.bytedeco:cpython:{version}:jar:linux-x86_64", f"-DoutputDirectory={work}/jars")
    return zipfile.ZipFile(work / "jars" / f"cpython-{version}-linux-x86_64.jar")


def unzip(jar, inside, to):
    for entry in jar.infolist():
        if not entry.filename.startswith(inside) or entry.is_dir():
            continue
        out = to / entry.filename[len(inside):]
        if ".." in out.parts:
            raise Cannot(f"an archive names {entry.filename}")
        out.parent.mkdir(parents=True, exist_ok=True)
        with jar.open(entry) as source, open(out, "wb") as copy:
            shutil.copyfileobj(source, copy)


def bytedeco(folder, work, version):
    number = version.split("-")[0]
    minor = ".".join(number.split(".")[:2])
    unzip(bytedeco_jar(work, version), "org/bytedeco/cpython/linux-x86_64/", folder)
    # Their RPATH names this folder and lib/ beside it.
    for library in folder.glob("libpython*"):
        library.rename(folder / "lib" / library.name)
    # ... and that of an extension module its own folder.
    for library in folder.glob("libffi.so.*"):
        library.rename(folder / "lib" / f"python{minor}" / "lib-dynload" / library.name)
    for program in (folder / "bin").iterdir():
        program.chmod(0o755)
    return [(f"bytedeco-{number}", f"bin/python{minor}")]


# ---- Go: python-build-standalone, as a module embeds it ----------------------------------------


def standalone(folder, work, version, headers):
    need("go", "golang-go")
    number = version.split("-")[0]
    minor = ".".join(number.split(".")[:2])
    environment = {**os.environ, "GOMODCACHE": str(work / "go"), "GOFLAGS": "-modcacherw"}
    told = json.loads(run("go", "mod", "download", "-json",
                          f"github.com/kluctl/go-embed-python@v0.0.0-{version}", cwd=work,
                          env=environment))
    data = pathlib.Path(told["Dir"]) / "python" / "internal" / "data" / "linux-amd64"
    for entry in json.loads((data / "files.json").read_text())["files"]:
        standalone_file(data, folder, entry)
    # The module leaves the headers out. Those of the same minor version are the same where it matters.
    if not (folder / "include").is_dir():
        unzip(bytedeco_jar(work, headers), "org/bytedeco/cpython/linux-x86_64/include/",
              folder / "include")
    return [(f"pbs-{number}", f"bin/python{minor}")]


def standalone_file(data, folder, entry):
    out = folder / entry["name"]
    if ".." in out.parts:
        raise Cannot(f"an archive names {entry['name']}")
    source = data / entry["name"]
    if entry.get("symlink"):
        out.symlink_to(entry["symlink"])
    elif source.is_dir():
        out.mkdir(parents=True, exist_ok=True)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        packed = source.with_name(source.name + ".gz")
        opened = gzip.open(packed) if packed.exists() else open(source, "rb")
        with opened, open(out, "wb") as copy:
            shutil.copyfileobj(opened, copy)
        out.chmod(entry["perm"] & 0o777)


# ---- apt: Debian's packages of other releases -------------------------------------------------


def apt(work, release):
    """An apt of another release, with a state of its own; the environment for its clients."""
    need("dpkg-deb", "dpkg")
    state = work / f"apt-{release}"
    if not state.is_dir():
        sites = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)",
                    "Created-By: Packages", "Origin: Debian").splitlines()
        sites = [line.split()[0] for line in sites
                 if len(line.split()) == 2 and re.fullmatch(r"[a-z]+", line.split()[1])]
        if not sites:
            raise Cannot("apt has no source of Debian's packages here")
        keys = sorted(pathlib.Path("/usr/share/keyrings").glob("debian-archive-keyring.*"))
        trust = f"[signed-by={keys[0]}] " if keys else ""
        (state / "lists" / "partial").mkdir(parents=True)
        (state / "archives" / "partial").mkdir(parents=True)
        (state / "empty").mkdir()
        (state / "status").touch()
        (state / "sources").write_text("".join(f"{kind} {trust}{sites[0]} {release} main\n"
                                               for kind in ("deb", "deb-src")))
        (state / "conf").write_text(
            f'Dir::State "{state}";\nDir::State::status "{state}/status";\nDir::Cache "{state}";\n'
            f'Dir::Etc::sourcelist "{state}/sources";\nDir::Etc::sourceparts "{state}/empty";\n'
            f'Dir::Etc::preferences "{state}/none";\nDir::Etc::preferencesparts "{state}/empty";\n'
            'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n'
            'APT::Architecture "amd64";\nAPT::Architectures { "amd64"; };\n'
            + ('APT::Sandbox::User "root";\n' if os.geteuid() == 0 else ""))
        try:
            run("apt-get", "-q", "update", env={**os.environ, "APT_CONFIG": str(state / "conf")})
        except Cannot:
            shutil.rmtree(state)
            raise
    return state, {**os.environ, "APT_CONFIG": str(state / "conf")}


def debian_tree(root, work, release, packages):
    """The packages and all they depend on, unpacked below root. Returns nothing: a missing package
    is Cannot."""
    state, environment = apt(work, release)
    run("apt-get", "-q", "-y", "--download-only", "install", *packages, env=environment)
    # Releases from 2023 on have /lib and the like as links into /usr; the older ones may.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in sorted((state / "archives").glob("*.deb")):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package],
                              stdout=subprocess.PIPE) as source:
            done = subprocess.run(["tar", "-x", "-C", root, "--keep-directory-symlink",
                                   "--no-same-owner", "--exclude=./usr/share/doc",
                                   "--exclude=./usr/share/man", "--exclude=*.a"],
                                  stdin=source.stdout, capture_output=True, text=True)
        if done.returncode or source.returncode:
            raise Cannot(f"{package.name}: {done.stderr.strip()[:200]}")


def debian_packages(minors):
    return [package for minor in minors
            for package in (f"python{minor}", f"python{minor}-dbg", f"libpython{minor}-dev")]


def debian_name(prefix, program, path):
    version = run(path, "-c", "import sys; print('%d.%d.%d' % tuple(sys.version_info[:3]))",
                  seconds=60).strip()
    debug = "d" if program.endswith("-dbg") else ""
    return f"{prefix}-{version}{debug}"


DIRECT = """#!/bin/sh
# Runs %(program)s of the tree beside this folder, with the libraries that this machine may not have.
here=$(cd "$(dirname "$0")/.." && pwd) || exit 126
export PYTHON_ROOT="$here/root"
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/root%(program)s" "$@"
"""


def debian_programs(folder, release, minors, script):
    """A script for each program in bin/; the list of them."""
    (folder / "bin").mkdir()
    found = []
    for minor in minors:
        for program in (f"python{minor}", f"python{minor}-dbg"):
            path = folder / "bin" / program
            path.write_text(script % {"program": f"/usr/bin/{program}"})
            path.chmod(0o755)
            found.append((debian_name(release, program, path), f"bin/{program}"))
    return found


def debian_direct(folder, work, release, minors):
    """A release whose libc is not newer than this machine's: its programs run as they are."""
    debian_tree(folder / "root", work, release, debian_packages(minors))
    (folder / "lib").mkdir()
    for pattern in ("libffi.so.?", "libssl.so.?.?", "libcrypto.so.?.?"):
        for library in (folder / "root" / "usr" / "lib" / "x86_64-linux-gnu").glob(pattern):
            (folder / "lib" / library.name).symlink_to(f"../{library.relative_to(folder)}")
    return debian_programs(folder, release, minors, DIRECT)


# The machine's folders are seen below the tree, at the places they have, so that a path means the
# same inside and outside; in a mount namespace of its own, so that nobody else sees these mounts.
ENTER = """#!/bin/sh
# Runs %(program)s of the tree beside this folder, with that tree as its root; the process stays the same one.
PYTHON_ROOT=$(cd "$(dirname "$0")/../root" && pwd) || exit 126
export PYTHON_ROOT
exec unshare --mount --propagation private /bin/sh -c '
	for folder in /* /var/* /usr/local /usr/src; do
		[ -d "$folder" ] && [ ! -L "$folder" ] || continue
		case $folder in
		/usr | /etc | /var | /bin | /sbin | /lib* | /lost+found) continue ;;
		esac
		[ -d "$PYTHON_ROOT$folder" ] || mkdir -p "$PYTHON_ROOT$folder" || exit 126
		mount --rbind "$folder" "$PYTHON_ROOT$folder" || exit 126
	done
	here=$(pwd)
	[ -d "$PYTHON_ROOT$here" ] || here=/
	exec unshare --root "$PYTHON_ROOT" --wd "$here" %(program)s "$@"
' sh "$@"
"""


def debian_rooted(folder, work, release, minors):
    """A release with a newer libc: its programs run with its tree as their root."""
    if os.geteuid():
        raise Cannot("needs root: its programs run under a root folder of their own")
    need("unshare", "util-linux")
    # Programs that fixtures start (sh, sleep), and what their modules are linked with.
    debian_tree(folder / "root", work, release,
                debian_packages(minors) + ["dash", "coreutils", "libstdc++6", "libgomp1"])
    return debian_programs(folder, release, minors, ENTER)


# ---- from source ------------------------------------------------------------------------------


def free_threaded(folder, work, package, releases):
    """Built from Debian's source package; takes minutes. releases: where to look, first come."""
    need("make", "make")
    reasons = []
    for release in releases:
        source = work / f"source-{release}"
        source.mkdir(exist_ok=True)
        try:
            _, environment = apt(work, release)
            run("apt-get", "-q", "source", "--download-only", package, cwd=source, env=environment)
            break
        except Cannot as reason:
            reasons.append(str(reason))
    else:
        raise Cannot("; ".join(reasons))
    archive = next(source.glob("*.orig.tar.*"))
    run("tar", "-xf", archive, "--strip-components=1", cwd=source)
    version = re.search(r"_([\d.]+)\.orig", archive.name).group(1)
    final = FOLDER / folder.name          # where it will stand: the prefix and the RPATH
    environment = {**os.environ, "CFLAGS": "-g", "LDFLAGS": f"-Wl,-rpath,{final}/lib"}
    run("nice", "./configure", f"--prefix={final}", "--disable-gil", "--enable-shared",
        "--without-ensurepip", "--disable-test-modules", cwd=source, env=environment)
    run("nice", "make", f"-j{min(os.cpu_count() or 1, 4)}", cwd=source, seconds=BUILD)
    run("nice", "make", "install", f"DESTDIR={work}/stage", cwd=source)
    for part in list((work / "stage" / str(final).lstrip("/")).iterdir()):
        shutil.move(part, folder / part.name)
    minor = ".".join(version.split(".")[:2])
    return [(f"built-{version}t", f"bin/python{minor}t")]


# ---- what there is ----------------------------------------------------------------------------

BYTEDECO = ("3.7.9-1.5.4", "3.9.6-1.5.6", "3.10.8-1.5.8", "3.11.3-1.5.9", "3.12.1-1.5.10",
            "3.13.5-1.5.12", "3.14.3-1.5.13")
STANDALONE = ("3.10.16-20241219-1", "3.11.11-20241219-1", "3.13.1-20241219-1", "3.14.6-20260610-1")


def same_minor(version):
    return next(one for one in BYTEDECO if one.split(".")[:2] == version.split(".")[:2])


RECIPES = {}
for _version in STANDALONE:
    RECIPES["pbs-" + _version.split("-")[0]] = (standalone, _version, same_minor(_version))
for _version in BYTEDECO:
    RECIPES["bytedeco-" + _version.split("-")[0]] = (bytedeco, _version)
RECIPES["debian-bullseye"] = (debian_direct, "bullseye", ("2.7", "3.9"))
RECIPES["debian-sid"] = (debian_rooted, "sid", ("3.13", "3.14", "3.15"))
RECIPES["built-3.13t"] = (free_threaded, "python3.13", ("forky", "sid", "trixie"))

# What every change is checked on: got in less than three minutes, and of each kind the newest.
QUICK = ("pbs-3.14.6", "bytedeco-3.14.3", "debian-sid")


def recipes(names):
    """"quick" stands for several."""
    return [one for name in names for one in (QUICK if name == "quick" else (name,))]


def fetched():
    """[(name, path, its recipe)] of all that is in the cache folder."""
    found = []
    for listed in sorted(FOLDER.glob(f"*/{LIST}")):
        for line in listed.read_text().splitlines():
            name, _, path = line.partition("\t")
            found.append((name, str(listed.parent / path), listed.parent.name))
    return found


def works(path):
    try:
        return subprocess.run([path, "-c", "import threading, json"], capture_output=True,
                              timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def fetch_one(name, work):
    make, *arguments = RECIPES[name]
    folder = work / name
    folder.mkdir()
    found = make(folder, work, *arguments)
    (folder / LIST).write_text("".join(f"{one}\t{path}\n" for one, path in found))
    target = FOLDER / name
    shutil.rmtree(target, ignore_errors=True)      # without a list: somebody's leftovers
    folder.rename(target)
    broken = [one for one, path in found if not works(target / path)]
    if broken:
        (target / LIST).unlink()
        raise Cannot(f"does not run here: {', '.join(broken)}")
    return found


def clear_mode(function, path, _):
    """Read-only folders (Go's) are removed too."""
    os.chmod(os.path.dirname(path), stat.S_IRWXU)
    function(path)


@contextlib.contextmanager
def workshop():
    """A temporary folder beside the results, for one fetch at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in FOLDER.glob(".work-*"):
            shutil.rmtree(left, onerror=clear_mode)
        work = pathlib.Path(tempfile.mkdtemp(prefix=".work-", dir=FOLDER))
        try:
            yield work
        finally:
            shutil.rmtree(work, onerror=clear_mode)


def fetch(names):
    """Gets those named (none: all); says on stderr what it could not get. Exit status."""
    unknown = [name for name in names if name not in RECIPES and name != "quick"]
    if unknown:
        print(f"not known: {', '.join(unknown)}; there are: quick (= {', '.join(QUICK)}), "
              f"{', '.join(RECIPES)}", file=sys.stderr)
        return 2
    names = recipes(names) or list(RECIPES)
    failed, got, there = [], 0, 0
    with workshop() as work:
        for name in names:
            if (FOLDER / name / LIST).exists():
                there += 1
                continue
            try:
                found = fetch_one(name, work)
            except Cannot as reason:
                failed.append((name, reason))
            except (OSError, ValueError, KeyError, StopIteration, zipfile.BadZipFile) as reason:
                failed.append((name, f"{type(reason).__name__}: {reason}"))
            else:
                got += 1
                print(f"fetched {name}: {', '.join(one for one, _ in found)}", file=sys.stderr)
    for name, reason in failed:
        print(f"could not fetch {name}: {reason}", file=sys.stderr)
    print(f"{got} fetched, {there} were there, {len(failed)} failed", file=sys.stderr)
    return 0 if got or there == len(names) else 1
