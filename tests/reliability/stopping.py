"""SIGTERM under load: every stream must end whole, or with one terminal event.

    python -m tests.reliability.stopping [--clients 200] [--rounds 4]

In each round a server receives the signal while ``--clients`` clients stream from it. In even
rounds the requests in flight may end; in odd ones they are cut off after 0.5 s. The exit code is 1
if a stream broke off, the exit code of the server is not 0, or one of its processes is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any, Final

from bench.machine import describe_machine
from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ServerProcess
from tests.process.stream_law import DONE, events_of, read_stream
from tests.support.processes import is_running

#: Request of most clients; the engine needs some seconds for all of them.
_TOKENS: Final = 120
_RESPONSES: Final = "/v3/responses"
_LAST_OF_RESPONSES: Final = frozenset({"completed", "incomplete", "failed"})


class Streams:
    """Clients that stream until the server has ended, and how their answers ended."""

    def __init__(self, port: int, enough: int) -> None:
        """``enough``: answers that have begun when `are_many` is set."""
        self._port = port
        self._enough = enough
        self.begun = 0
        self.are_many = asyncio.Event()
        self.ends: Counter[str] = Counter()
        self.problems: list[str] = []

    async def client(self, number: int) -> None:
        """Read one stream after the other, until a connection is refused."""
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                return
            try:
                path, body = _asked(number)
                writer.write(_request(path, body))
                await self._read(reader, path)
            except (AssertionError, ConnectionError, ValueError, KeyError) as error:
                self.ends["broken"] += 1
                self.problems.append(f"{type(error).__name__}: {error}"[:300])
            finally:
                writer.close()

    async def _read(self, reader: asyncio.StreamReader, path: str) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionResetError) as error:
            if isinstance(error, asyncio.IncompleteReadError) and error.partial:
                raise ValueError(f"half a head: {error.partial!r}") from error
            # Connected at the moment of the signal, and the connection was not accepted.
            self.ends["closed before it was answered"] += 1
            return
        status = int(head[9:12])
        self.begun += 1
        if self.begun == self._enough:
            self.are_many.set()
        body = await reader.read()
        if status != 200:
            assert status == 503, head
            self.ends["503"] += 1
            return
        self.ends[_end_of(path, _dechunked(body))] += 1


def _asked(number: int) -> tuple[str, dict[str, Any]]:
    if number % 4 == 3:
        asked = {"input": "Hello", "max_output_tokens": _TOKENS}
        return _RESPONSES, {"model": "demo", "stream": True, **asked}
    asked = {"messages": HELLO, "max_tokens": _TOKENS, "ignore_eos": True}
    return CHAT, {"model": "demo", "stream": True, **asked}


def _end_of(path: str, body: bytes) -> str:
    """Return how a lawful stream ended; raise AssertionError if it is not lawful."""
    if path == CHAT:
        error = read_stream(body).error
        return "whole" if error is None else f"one error: {error['code']}"
    events = [
        block.partition("\n")[0] for block in body.decode().split("\n\n") if "event: " in block
    ]
    *_, last_data, done = events_of(_only_data(body))
    if done == DONE and "error" in json.loads(last_data):
        return f"one error: {json.loads(last_data)['error']['code']}"
    last = events[-1].removeprefix("event: response.")
    assert last in _LAST_OF_RESPONSES, events[-3:]
    terminal = [each for each in events if each[16:] in _LAST_OF_RESPONSES]
    assert len(terminal) == 1, terminal
    return "whole" if last != "failed" else "one event: response.failed"


def _only_data(body: bytes) -> bytes:
    """Return events without the lines that name them."""
    lines = body.decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("event: ")).encode()


def _request(path: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def _dechunked(body: bytes) -> bytes:
    """Return the joined chunks; raise ValueError if the last one is missing."""
    pieces: list[bytes] = []
    while True:
        length, _, body = body.partition(b"\r\n")
        if not int(length, 16):
            return b"".join(pieces)
        pieces.append(body[: int(length, 16)])
        body = body[int(length, 16) + 2 :]


async def _stream_and_stop(server: ServerProcess, clients: int) -> tuple[Streams, float]:
    """Send the signal; return the seconds until the end of the last stream."""
    streams = Streams(server.port, clients * 3 // 2)
    running = [asyncio.ensure_future(streams.client(number)) for number in range(clients)]
    await streams.are_many.wait()
    begin = time.monotonic()
    server.send_signal()
    await asyncio.gather(*running)
    return streams, time.monotonic() - begin


def stop_under_load(clients: int, *, drain: float) -> list[str]:
    """Run one round; return what went wrong."""
    with ServerProcess(DEMO, "--drain_seconds", str(drain)) as server:
        children = server.children()
        streams, seconds = asyncio.run(_stream_and_stop(server, clients))
        code = server.wait()
        log = "".join(server.log)
    problems = list(streams.problems)
    if code != 0:
        problems.append(f"exit code {code}")
    if any(is_running(pid) for pid in children):
        problems.append("a child is left")
    if "Traceback" in log:
        problems.append(log[log.index("Traceback") :][:2000])
    ends = ", ".join(f"{count} {end}" for end, count in sorted(streams.ends.items()))
    print(f"drain {drain:g} s: {ends}; the last ended {seconds:.1f} s after SIGTERM; exit {code}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    print(f"{describe_machine()}; {given.clients} clients")
    problems: list[str] = []
    for number in range(given.rounds):
        problems += stop_under_load(given.clients, drain=0.5 if number % 2 else 60.0)
    print(f"\n{len(problems)} problems", *problems[:20], sep="\n  ")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
