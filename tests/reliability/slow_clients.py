"""Half-open and slow clients: they are cut off, and other clients do not notice.

    python -m tests.reliability.slow_clients [--clients 100] [--seconds 90]

``--clients`` clients of each kind are connected to one server: some say nothing, some send half a
head or half a body and stop, some send a body at one byte a second; a few read a stream at that
speed, or stop reading it. Usual clients send requests meanwhile; their times are printed beside
those of a server without slow clients. The exit code is 1 if an answer was wrong or a client was
not cut off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from bench.machine import describe_machine
from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ServerProcess
from tests.reliability.asked import Asked
from tests.reliability.held import leaks, look, look_when_quiet, table
from tests.reliability.http_exchange import Broken, Leaving, exchange

_USUAL: Final = 8
_BODY: Final = json.dumps({"model": "demo", "messages": HELLO, "max_tokens": 4}).encode()
#: Two megabytes, more than the system's buffers hold.
_STREAM: Final = json.dumps(
    {
        "model": "demo",
        "messages": HELLO,
        "max_tokens": 1500,
        "ignore_eos": True,
        "stream": True,
        "n": 8,
        "temperature": 1.0,
        "logprobs": True,
    }
).encode()
#: Number of clients that read streams, of eight choices each: the cost of slow clients is measured,
#: not that of generating.
_STREAMING: Final = 1
#: The smallest that the system allows: unread data stays in the server.
_RECEIVE_BUFFER: Final = 2048

Client = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def sends_half_a_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_head(_BODY)[:30])
    await reader.read()


async def sends_half_a_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_head(_BODY) + _BODY[:20])
    await reader.read()


async def trickles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send one byte of the body a second."""
    writer.write(_head(_BODY * 100))
    answer = asyncio.ensure_future(reader.read())
    while not answer.done():
        writer.write(b" ")
        await asyncio.wait([answer], timeout=1.0)


async def sips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one byte of a long stream a second; such a client may stay."""
    writer.write(_head(_STREAM) + _STREAM)
    while True:
        if not await reader.read(1):
            return
        await asyncio.sleep(1.0)


async def stops_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the beginning of a long stream and nothing more."""
    writer.write(_head(_STREAM) + _STREAM)
    await reader.read(100)
    while not writer.is_closing():
        await asyncio.sleep(1.0)
        writer.write(b"\r\n")  # fails once the server has closed


#: Each kind, and whether the server has to cut it off.
_KINDS: Final[dict[Client, bool]] = {
    says_nothing: True,
    sends_half_a_head: True,
    sends_half_a_body: True,
    trickles: True,
    sips: False,
    stops_reading: True,
}


class SlowClients:
    """Slow clients of each kind, and how long each was connected."""

    def __init__(self, port: int, count: int, seconds: float) -> None:
        self._port = port
        self._count = count
        self._seconds = seconds
        self.ended: dict[str, list[float]] = {kind.__name__: [] for kind in _KINDS}
        self.stayed: Counter[str] = Counter()

    async def run(self) -> None:
        """Run until all were cut off, or the time is over; then disconnect them."""
        async with asyncio.TaskGroup() as group:
            for kind in _KINDS:
                is_streaming = kind in (sips, stops_reading)
                for _ in range(min(self._count, _STREAMING) if is_streaming else self._count):
                    group.create_task(self._client(kind))

    async def _client(self, kind: Client) -> None:
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        peer.setblocking(False)
        await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", self._port))
        # No read-ahead: data that the client does not read stays with the server.
        reader, writer = await asyncio.open_connection(sock=peer, limit=1024)
        begin = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                await kind(reader, writer)
            self.ended[kind.__name__].append(time.monotonic() - begin)
        except TimeoutError:
            self.stayed[kind.__name__] += 1
        except ConnectionError:
            self.ended[kind.__name__].append(time.monotonic() - begin)
        finally:
            writer.transport.abort()


class UsualClients:
    """Clients that request one short chat after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.times: list[float] = []
        self.problems: list[str] = []

    async def run(self, until: Callable[[], bool]) -> None:
        await asyncio.gather(*(self._client(number, until) for number in range(_USUAL)))

    async def _client(self, number: int, until: Callable[[], bool]) -> None:
        asked = Asked("chat", CHAT, json.loads(_BODY), lambda body: json.loads(body)["choices"])
        while not until():
            begin = time.monotonic()
            try:
                status = await exchange(self._port, asked, Leaving.WHOLE, Random(number))
                if status != "200":
                    self.problems.append(f"chat: {status}")
            except (Broken, OSError) as error:
                self.problems.append(str(error))
            self.times.append(time.monotonic() - begin)
            await asyncio.sleep(0.2)

    def summary(self) -> str:
        times = sorted(self.times)
        middle, late = statistics.median(times), times[len(times) * 99 // 100]
        return (
            f"{len(times)} chats, median {1e3 * middle:.0f} ms, 99 % within {1e3 * late:.0f} ms, "
            f"slowest {1e3 * times[-1]:.0f} ms"
        )


async def _ask(port: int, slow: SlowClients) -> tuple[UsualClients, UsualClients]:
    """Run the usual clients alone, then beside the slow ones."""
    alone, beside = UsualClients(port), UsualClients(port)
    end = time.monotonic() + 10.0
    await alone.run(lambda: time.monotonic() > end)
    being_slow = asyncio.ensure_future(slow.run())
    await beside.run(being_slow.done)
    await being_slow
    return alone, beside


def slow_clients(count: int, seconds: float) -> bool:
    """Run; print the results and return True if all went well."""
    with ServerProcess(DEMO) as server:
        before = look(server)
        slow = SlowClients(server.port, count, seconds)
        alone, beside = asyncio.run(_ask(server.port, slow))
        after = look_when_quiet(server, before, 60.0)
        problems = alone.problems + beside.problems + leaks(before, after)
        problems += [
            f"{slow.stayed[kind.__name__]} of those were not cut off: {kind.__name__}"
            for kind, is_cut in _KINDS.items()
            if is_cut and slow.stayed[kind.__name__]
        ]
        server.send_signal()
        if server.wait() != 0:
            problems.append("the exit code is not 0")
    print(describe_machine())
    print(f"{count} clients of each slow kind ({_STREAMING} where it streams), {seconds:g} s")
    print(f"alone:            {alone.summary()}")
    print(f"beside slow ones: {beside.summary()}")
    for name, ended in slow.ended.items():
        within = f"{min(ended):.1f} to {max(ended):.1f} s" if ended else "-"
        print(f"{name:20} ended {len(ended):4} (after {within}), stayed {slow.stayed[name]:4}")
    print(table({"before": before, "after": after}))
    print(f"\n{len(problems)} problems", *problems[:20], sep="\n  ")
    return not problems


def _head(body: bytes) -> bytes:
    return (
        f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=100, help="of each kind")
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    return 0 if slow_clients(given.clients, given.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
