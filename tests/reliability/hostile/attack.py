"""Attacks: their requests, the allowed answers, and how long others may wait."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import ServerProcess

#: Seconds after which an attacker abandons an answer.
SECONDS: Final = 150.0
MOST_WAIT: Final = 1.0
MOST_STALL: Final = 0.2
MOST_SECONDS: Final = 60.0

REFUSED: Final = frozenset({"400"})
#: Served, or refused because of the cost.
EITHER: Final = frozenset({"200", "400", "413", "429", "503"})


@dataclass(frozen=True)
class Target:
    """The server that is attacked, and the folder of its config."""

    server: ServerProcess
    folder: Path
    grpc_port: int

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def batches(self) -> Path:
        """The directory of batches."""
        return self.folder / "batches"


Send = Callable[[Target], Awaitable[Counter[str]]]


@dataclass(frozen=True)
class Attack:
    """One row of the table.

    Attributes:
        prepare: makes the requests before the clock starts; the function that it returns sends them
        and counts the answers: statuses, or how a connection ended.
        answers: allowed answers.
        most_wait: seconds that a normal request may take during the attack.
        most_seconds: seconds until all of it is answered.
        normal: statuses that a normal request may get besides 200: 503 where the attack takes a
        process away, 0 (no answer) where it uses up what connections need.
        ends_server: the server is stopped afterwards, and has to end with exit code 0.
        most_growth, most_left: MiB by which the server's own process may grow at the peak, and
        afterwards.
    """

    name: str
    prepare: Callable[[], Send]
    answers: frozenset[str] = REFUSED
    most_wait: float = MOST_WAIT
    most_seconds: float = MOST_SECONDS
    normal: frozenset[int] = frozenset()
    ends_server: bool = False
    most_growth: float = math.inf
    most_left: float = math.inf


@dataclass(frozen=True)
class Post:
    """A request as bytes."""

    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> bytes:
        lines = [
            f"POST {self.path} HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            "Connection: close",
            f"Content-Length: {len(self.body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(path: str, body: object, **headers: str) -> Post:
    """Make a request. ``body``: bytes and text are sent as they are, anything else as JSON."""
    if isinstance(body, str):
        body = body.encode()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Post(path, data, headers)


def chat(**members: Any) -> Post:
    return post(CHAT, {"model": "demo", "messages": HELLO, "max_tokens": 2, **members})


def posts(
    make: Callable[[], Iterable[Post]], *, at_once: int = 4, leaves: bool = False
) -> Callable[[], Send]:
    """Send requests, ``at_once`` at a time; a client that ``leaves`` closes after sending."""

    def prepare() -> Send:
        requests = list(make())
        return lambda target: send_all(target.port, requests, at_once=at_once, leaves=leaves)

    return prepare


def act(send: Send) -> Callable[[], Send]:
    """Return an attack that needs no preparation."""
    return lambda: send


async def send_all(
    port: int, requests: Sequence[Post], *, at_once: int = 4, leaves: bool = False
) -> Counter[str]:
    """Send all requests; return how they were answered."""
    answers: Counter[str] = Counter()
    left = iter(requests)

    async def client() -> None:
        for request in left:
            answers[await send_one(port, request, leaves=leaves)] += 1

    await asyncio.gather(*(client() for _ in range(min(at_once, len(requests)))))
    return answers


async def send_one(
    port: int, request: Post, *, leaves: bool = False, seconds: float = SECONDS
) -> str:
    """Send a request; return the status, with what a 503 lacks, or how the connection ended."""
    try:
        async with asyncio.timeout(seconds):
            return await _send(port, request, leaves)
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except OSError as error:
        return type(error).__name__


async def _send(port: int, request: Post, leaves: bool) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request.head)
        writer.write(request.body)
        if leaves:
            writer.transport.set_write_buffer_limits(0)
            await writer.drain()
            return "left"
        # An early refusal may arrive before the body is sent, and then the connection is reset.
        head = await reader.readuntil(b"\r\n\r\n")
        while await reader.read(65536):
            pass
    except (asyncio.IncompleteReadError, ConnectionError):
        return "closed without an answer"
    finally:
        writer.close()
    status = head[9:12].decode()
    if status == "503" and b"\r\nretry-after:" not in head.lower():
        return "503 without Retry-After"
    return status


async def until(is_so: Callable[[], Any], seconds: float = 60.0) -> bool:
    """Wait for a condition that must be polled; return False if it does not come true."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True
