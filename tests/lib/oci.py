# SPDX-License-Identifier: MIT
"""Runs a command in a container by an OCI runtime, with the files that it inherits:

    python3 oci.py BUNDLE COMMAND [ARGUMENT...]

BUNDLE/rootfs is its root; BUNDLE/more.json, if it is there, says what differs from a usual container: "capabilities"
to add, "pid" (the process whose PID namespace it shares), "user" (its user), "mapping" (of a user namespace of its
own: [inside, outside, count]).
"""
import fcntl
import json
import os
import pathlib
import shutil
import sys

# What container engines give by default.
CAPABILITIES = ["CAP_" + name for name in (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE")]
KEPT = ("READY_FD", "END_FD", "PYTHONHOME", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE", "PATH")


def runtime():
    return next(filter(None, map(shutil.which, ("runc", "crun"))), None)


def config(command, more):
    capabilities = CAPABILITIES + more.get("capabilities", [])
    namespaces = [{"type": name} for name in ("mount", "network", "ipc", "uts")]
    namespaces.append({"type": "pid", **({"path": f"/proc/{more['pid']}/ns/pid"} if "pid" in more else {})})
    made = {
        "ociVersion": "1.0.0",
        "root": {"path": "rootfs"},
        "process": {
            "args": command, "cwd": "/", "user": {"uid": more.get("user", 0), "gid": more.get("user", 0)},
            "env": [f"{name}={os.environ[name]}" for name in KEPT if name in os.environ],
            "capabilities": {name: capabilities for name in ("bounding", "effective", "permitted")},
        },
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": namespaces},
    }
    if "mapping" in more:
        inside, outside, count = more["mapping"]
        namespaces.append({"type": "user"})
        made["linux"].update({name: [{"containerID": inside, "hostID": outside, "size": count}]
                              for name in ("uidMappings", "gidMappings")})
    return made


def main():
    bundle = pathlib.Path(sys.argv[1])
    more = bundle / "more.json"
    told = json.loads(more.read_text()) if more.exists() else {}
    # From 3 on without a gap: that is what is handed on.
    inherited = [(name, fcntl.fcntl(int(os.environ[name]), fcntl.F_DUPFD, 64))
                 for name in ("READY_FD", "END_FD") if name in os.environ]
    for number, (name, descriptor) in enumerate(inherited, 3):
        os.dup2(descriptor, number)
        os.environ[name] = str(number)
    os.closerange(3 + len(inherited), 256)
    (bundle / "config.json").write_text(json.dumps(config(sys.argv[2:], told)))
    os.execv(runtime(), [runtime(), "--root", str(bundle / "state"), "run", "--no-pivot",
                         "--preserve-fds", str(len(inherited)), "--bundle", str(bundle), f"pdump-{os.getpid()}"])


if __name__ == "__main__":
    main()
