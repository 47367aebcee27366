# SPDX-License-Identifier: MIT
"""An asyncio server and its clients in one loop, with tasks, gather and timeouts."""
import asyncio
import json

SHARES = {r"^(serve|answer|ask) \(": (15, 100)}
WITHIN = {r"^answer \(": r"^serve \("}


def answer(data):
    return json.dumps({"sum": sum(json.loads(data))}).encode() + b"\n"


async def serve(reader, writer):
    while data := await reader.readline():
        writer.write(answer(data))
        await writer.drain()
    writer.close()


async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for i in range(200):
        writer.write(json.dumps(list(range(i))).encode() + b"\n")
        await asyncio.wait_for(reader.readline(), 30)
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(ask(port) for _ in range(4)))
    server.close()


def setup():
    pass


def work():
    asyncio.run(main())
