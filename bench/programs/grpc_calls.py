# SPDX-License-Identifier: MIT
"""gRPC: a server's and a client's threads in one process, Cython over a C++ core."""
REQUIRES = ["grpcio"]
PYTHON = "3.12.1"
NATIVE = r"grpc|absl::|std::|libstdc\+\+|cygrpc"


def answer(request, context):
    return request[::-1]


def setup():
    global CALL, SERVER
    import concurrent.futures
    import grpc
    SERVER = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    handler = grpc.method_handlers_generic_handler("lab", {"turn": grpc.unary_unary_rpc_method_handler(answer)})
    SERVER.add_generic_rpc_handlers((handler,))
    port = SERVER.add_insecure_port("127.0.0.1:0")
    SERVER.start()
    CALL = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/lab/turn")


def work():
    for i in range(200):
        CALL(b"hello" * (i + 1))
