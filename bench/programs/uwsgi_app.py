# SPDX-License-Identifier: MIT
"""uWSGI, alone and with a forked worker: requests handled by Python within the server's own C."""
import os
import socket
import subprocess
import sys
import time
import urllib.request

REQUIRES = ["uwsgi", "setuptools"]
NEEDS = ["cc"]
VARIANTS = {"alone": {"LAB_WHAT": ""}, "worker": {"LAB_WHAT": "--master --processes 1"}}
SOURCE = """
def crunch(n):
    total = 0
    for i in range(n):
        total += i
    return total

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(crunch(200000)).encode()]
"""
ROOTS = [[r"^(main|uwsgi_\w+|simple_loop\w*|async_\w+|wsgi_req\w*)\b", r"^uwsgi_request_wsgi\b", r"^application \("],
         [r"^(main|uwsgi_\w+|simple_loop\w*)\b", r"^(?!application)"]]
CALLS = {"application": {"crunch"}, "crunch": set()}
SHARES = {r"^application \(": (50, 100)}


def build(folder, _):
    with open(os.path.join(folder, "lab_wsgi.py"), "w", encoding="utf-8") as file:
        file.write(SOURCE)


def command(_, python):
    return [python, os.path.abspath(__file__)]


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return file.read().split()


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), "uwsgi"), "--http-socket",
                               f"127.0.0.1:{port}", "--wsgi-file", os.environ["LAB_FOLDER"] + "/lab_wsgi.py",
                               "--disable-logging", "--need-app", *os.environ["LAB_WHAT"].split()])
    is_ready = False
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                answer.read()
        except OSError:
            time.sleep(0.1)
            continue
        if not is_ready:
            pid = child_of(server.pid)[0] if "master" in os.environ["LAB_WHAT"] else server.pid
            os.write(int(os.environ["LAB_READY"]), str(pid).encode())
            is_ready = True


if __name__ == "__main__":
    main()
