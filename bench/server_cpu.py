"""Processor time of the server's own process per request, of two checkouts in turn.

    python -m bench.server_cpu OTHER_CHECKOUT [--rounds N] [--requests N] [--kinds KIND ...]

Both servers run at the same time and are asked one after the other, the first one alternately, so
that a busy machine is as busy for both. A chat has 4 tokens of the example model, 16 at a time; of
many chats there are 64 at a time, and long ones have 68 tokens: their difference is the cost of a
token. An inference passes 256 elements through a graph over REST with the binary extension, or over
gRPC, 16 at a time; an embedding is of 8 tokens, as base64, 64 at a time, by a model with the shape
of all-MiniLM-L6-v2 and weights of 8 bits. Child processes and clients do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import median
from typing import Final
from unittest import mock

from bench.infer_clients import HttpClient, grpc_client, grpc_request, rest_request
from bench.load_generator import Address, chat_body, connect, run_loop
from bench.machine import ServerProcess, describe_machine
from bench.python_calls import DEMO
from bench.random_model import make_encoder, text_of

_GRAPH: Final = """
input_stream: "IN:in"
output_stream: "OUT:out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""
#: Tokens of a chat, and chats at a time, by kind.
_CHATS: Final = {"chat": (4, 16), "many_chats": (4, 64), "many_long_chats": (68, 64)}
_INFERENCES: Final = ("inference", "inference_grpc")
KINDS: Final = (*_CHATS, *_INFERENCES, "embedding")


def nanoseconds(pid: int) -> int:
    """Return the time that the threads of a process have had a processor, by Linux's scheduler."""
    tasks = Path("/proc", str(pid), "task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())


async def _chats(server: ServerProcess, count: int, tokens: int, at_once: int) -> None:
    body = chat_body(server.model, "Hello", tokens)

    async def client(requests: int) -> None:
        connection = await connect(Address.parse(server.url))
        for _ in range(requests):
            await connection.ask(body)
        connection.close()

    await asyncio.gather(*(client(count // at_once) for _ in range(at_once)))


async def _posts(
    server: ServerProcess, requests: Sequence[bytes], count: int, at_once: int
) -> None:
    host, _, port = server.address.partition(":")

    async def client(number: int) -> None:
        loop = asyncio.get_running_loop()
        transport, client = await loop.create_connection(HttpClient, host, int(port))
        for place in range(number, number + count // at_once):
            await client.ask(requests[place % len(requests)])
        transport.close()

    await asyncio.gather(*map(client, range(at_once)))


def _embeddings(server: ServerProcess) -> list[bytes]:
    made = []
    for seed in range(64):
        value = {"model": server.model, "input": text_of(8, seed), "encoding_format": "base64"}
        body = json.dumps(value).encode()
        head = (
            f"POST /v3/embeddings HTTP/1.1\r\nHost: {server.address}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


async def _calls(server: ServerProcess, count: int, at_once: int) -> None:
    request = grpc_request(server.model, 256)

    async def client(calls: int) -> None:
        async with AsyncExitStack() as stack:
            ask = await grpc_client(server.grpc_address, request, stack)
            for _ in range(calls):
                await ask()

    await asyncio.gather(*(client(count // at_once) for _ in range(at_once)))


async def _ask(kind: str, server: ServerProcess, count: int) -> None:
    if kind in _CHATS:
        await _chats(server, count, *_CHATS[kind])
    elif kind == "inference_grpc":
        await _calls(server, count, 16)
    elif kind == "inference":
        request = rest_request(server.model, 256, server.address)
        await _posts(server, [request], count, 16)
    else:
        await _posts(server, _embeddings(server), count, 64)


def measure(kind: str, checkouts: Sequence[Path], rounds: int, count: int) -> list[list[float]]:
    """Return the microseconds per request of each checkout, one for each round."""
    found: list[list[float]] = [[] for _ in checkouts]
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        directory = DEMO
        arguments: tuple[str, ...] = ()
        if kind in _INFERENCES:
            arguments = ("--port", "auto")
            directory = Path(place, "tensors")
            directory.mkdir()
            (directory / "graph.pbtxt").write_text(_GRAPH, encoding="utf-8")
        elif kind == "embedding":
            directory = make_encoder(Path(place, "encoder"), int8=True)
        servers = []
        for checkout in checkouts:
            with mock.patch.dict(os.environ, {"PYTHONPATH": str(checkout)}):
                # An empty place: Python puts the working directory before PYTHONPATH.
                command = (sys.executable, "-P", "-m", "servers.cli")
                server = ServerProcess(directory, *arguments, command=command)
                servers.append(stack.enter_context(server))
        for number in range(rounds + 1):
            order = list(enumerate(servers))
            for place_of, server in order if number % 2 else reversed(order):
                pid = server.pids["server"]
                before = nanoseconds(pid)
                run_loop(_ask(kind, server, count))
                if number:  # the round before warms up
                    found[place_of].append((nanoseconds(pid) - before) / count / 1e3)
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.server_cpu")
    parser.add_argument("other", type=Path, metavar="OTHER_CHECKOUT")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--requests", type=int, default=1280)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    words = parser.parse_args()
    checkouts = (words.other.resolve(), Path(__file__).parents[1])
    print(f"{describe_machine()}; load average {os.getloadavg()[0]:.1f}; microseconds\n")
    print("| | other: median | least | this: median | least | ratio of medians, of least |")
    print("|---|---|---|---|---|---|")
    found: dict[str, list[list[float]]] = {}
    for kind in words.kinds:
        found[kind] = measure(kind, checkouts, words.rounds, words.requests)
        _print_row(kind, found[kind])
    if found.keys() >= {"many_chats", "many_long_chats"}:
        tokens = _CHATS["many_long_chats"][0] - _CHATS["many_chats"][0]
        pairs = zip(found["many_chats"], found["many_long_chats"], strict=True)
        rows = [
            [(long - short) / tokens for short, long in zip(*pair, strict=True)] for pair in pairs
        ]
        _print_row("a further token", rows, digits=1)


def _print_row(name: str, found: list[list[float]], digits: int = 0) -> None:
    other, this = found
    figures = [median(other), min(other), median(this), min(this)]
    print(
        f"| {name} | {' | '.join(f'{each:.{digits}f}' for each in figures)} | "
        f"{median(this) / median(other):.2f}, {min(this) / min(other):.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
