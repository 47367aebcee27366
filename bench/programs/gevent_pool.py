# SPDX-License-Identifier: MIT
"""gevent: a pool of greenlets that compute and give way, over and over."""
REQUIRES = ["gevent"]
VARIANTS = {"pool": {"LAB_WHAT": "pool"}, "server": {"LAB_WHAT": "server"}}
LEARN = 0
# The hub is a greenlet of its own, and so is each of the pool; what greenlets begin with is not the program's.
START = r"^greenlet::|^green_switch|^single_result|^0x\w+ \(\?\)"
NATIVE = r"munmap|mmap|madvise|mprotect|uv_|eio_|_libev|loop"
RUN = r"\bGreenlet\.run\b|^run \(|_Greenlet_(run|\d+run)|Greenlet_\w*run\b"
ROOTS = [[r"^<module> \(lab_target\.py", r"^run \(lab_target\.py", r"^work \("], [RUN, r"."],
         [r"\b(Hub\.)?run \(hub\.py"], [r"_WorkerGreenlet|threadpool\.py"],
         [r"^greenlet::UserGreenlet::inner_bootstrap"]]
CALLS = {"request": {"compute", "sleep"}, "answer": {"recv", "compute", "sendall"}, "compute": set(),
         "ask": {"create_connection", "sendall", "recv", "close"}}
THROUGH = {r"^(request|ask) \(": [RUN]}
SHARES = {r"^compute \(": (5, 100)}


def compute(number):
    total = 0
    for i in range(2000):
        total += i ^ number
    return total


def request(number):
    for i in range(10):
        compute(number + i)
        gevent.sleep(0)


def answer(connection, _):
    while data := connection.recv(64):
        compute(len(data))
        connection.sendall(data)


def ask(port):
    connection = socket.create_connection(("127.0.0.1", port))
    for _ in range(50):
        connection.sendall(b"x" * 64)
        connection.recv(64)
    connection.close()


def setup():
    global gevent, pool, socket, SERVER, WHAT
    import os
    import gevent
    from gevent import pool, server, socket
    WHAT = os.environ["LAB_WHAT"]
    SERVER = server.StreamServer(("127.0.0.1", 0), answer)
    SERVER.start()


def work():
    if WHAT == "pool":
        pool.Pool(20).map(request, range(50))
    else:
        gevent.joinall([gevent.spawn(ask, SERVER.server_port) for _ in range(4)])
