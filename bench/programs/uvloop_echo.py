# SPDX-License-Identifier: MIT
"""An echo server and its clients in one uvloop."""

REQUIRES = ["uvloop"]


async def serve(reader, writer):
    while data := await reader.read(64):
        writer.write(data * 20)
        await writer.drain()
    writer.close()


async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2000):
        writer.write(b"x" * 64)
        await reader.readexactly(64 * 20)
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(ask(port) for _ in range(4)))
    server.close()


def setup():
    global asyncio, uvloop
    import asyncio
    import uvloop


def work():
    uvloop.run(main())
