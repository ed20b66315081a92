"""Clients of a server of the OpenAI API, in a process of their own.

    python -m bench.load_generator --url http://localhost:8000 --model demo --concurrency 8

Each of ``--concurrency`` clients keeps a connection and sends one streamed, greedy chat
completion after the other until all requests are answered. Prompts of about 215 tokens and outputs
of about 200 (log-normal, seeded), no common prefixes, ``ignore_eos``. For servers without
``ignore_eos`` the outputs are shorter. A ``--url`` with a path is used as it is; else
``/v3/chat/completions`` is added.

`Connection` is the client for streamed chat completions, which uses little processor time while it
measures: it stores the bytes with their arrival times, and parses them when the measurement is
over.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import random
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from servers.load.client import SHORTEST, RequestOutcome, words
from servers.load.figures import Figures, figures_of, table

#: With the end of the line before it: the head of an answer may end like it (``max=100``).
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an endpoint; ``path`` is its whole path."""

    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse a URL; one without a path gets the path of chat completions."""
        parts = urlsplit(url)
        path = parts.path if parts.path.strip("/") else "/v3/chat/completions"
        return cls(parts.hostname or "127.0.0.1", parts.port or 80, path)


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self, address: Address) -> None:
        self._head = (
            f"POST {address.path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._transport: asyncio.Transport | None = None
        self._pieces: list[tuple[float, bytes]] = []
        self._tail = b""
        self._done: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def pieces(self) -> int:
        """Number of times that data has arrived for the current request."""
        return len(self._pieces)

    async def ask(self, body: bytes) -> tuple[float, list[tuple[float, bytes]]]:
        """Send a request; return the time of that, and the answer's bytes with arrival times."""
        assert self._transport is not None
        self._pieces, self._tail = [], b""
        self._done = asyncio.get_running_loop().create_future()
        data = b"%b%d%b%b" % (self._head, len(body), _HEAD_END, body)
        sent = perf_counter()
        self._transport.write(data)
        await self._done
        return sent, self._pieces

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class in asyncio.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append((perf_counter(), data))
        self._tail = data if len(data) >= len(_LAST_CHUNK) else self._tail + data
        if self._tail.endswith(_LAST_CHUNK) or self._is_whole_answer():
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end()

    def _is_whole_answer(self) -> bool:
        """Return True for an answer that is not streamed, which is an error."""
        if len(self._pieces) > 2 or self._pieces[0][1].startswith(b"HTTP/1.1 200"):
            return False
        data = b"".join(piece for _, piece in self._pieces)
        head, end, body = data.partition(_HEAD_END)
        length = _header(head, b"content-length")
        return bool(end) and length is not None and len(body) >= int(length)

    def _end(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


async def connect(address: Address) -> Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Connection(address), address.host, address.port
    )
    return connection


def chat_body(model: str, text: str, output_tokens: int) -> bytes:
    """Return a greedy request that generates exactly ``output_tokens``."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(body).encode()


def read_answer(sent: float, pieces: list[tuple[float, bytes]]) -> RequestOutcome:
    """Return the outcome of a request, from the bytes of its answer and their times."""
    outcome = RequestOutcome(sent)
    if not pieces:
        outcome.error = "the connection was closed"
        return outcome
    head, _, _ = b"".join(data for _, data in pieces).partition(_HEAD_END)
    if not head.startswith(b"HTTP/1.1 200"):
        outcome.error = b"".join(data for _, data in pieces)[:300].decode(errors="replace")
        return outcome
    ended = False
    for time, data in _events(len(head) + len(_HEAD_END), pieces):
        if data == b"[DONE]":
            ended = True
            continue
        event = json.loads(data)
        _read_event(event, time, outcome)
    if not ended and not outcome.error:
        outcome.error = "the stream broke off"
    return outcome


def _read_event(event: dict[str, Any], time: float, outcome: RequestOutcome) -> None:
    if "error" in event:
        outcome.error = json.dumps(event["error"])
    usage = event.get("usage")
    if usage:
        outcome.input_tokens = usage["prompt_tokens"]
        outcome.output_tokens = usage["completion_tokens"]
    for choice in event.get("choices", ()):
        delta = choice.get("delta", {})
        text = delta.get("content") or delta.get("reasoning_content")
        # The last event has no text if the last token is half a character.
        has_tokens = text or (choice.get("finish_reason") and outcome.arrivals)
        if has_tokens and time not in outcome.arrivals[-1:]:
            outcome.arrivals.append(time)


def _events(skip: int, pieces: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """Yield the data of each event, with the arrival time of its last byte."""
    rest = b""
    body = bytearray()
    for time, data in pieces:
        if skip >= len(data):
            skip -= len(data)
            continue
        rest = _unchunk(rest + data[skip:], body)
        skip = 0
        while (end := body.find(b"\n\n")) >= 0:
            event = bytes(body[:end])
            del body[: end + 2]
            if event.startswith(b"data:"):
                yield time, event[5:].strip()


def _unchunk(data: bytes, body: bytearray) -> bytes:
    """Add the complete chunks in ``data`` to ``body``; return the rest."""
    while (end := data.find(b"\r\n")) >= 0:
        length = int(data[:end].partition(b";")[0], 16)
        if len(data) < end + 2 + length + 2:
            break
        body += data[end + 2 : end + 2 + length]
        data = data[end + 4 + length :]
    return data


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


#: Width of the log-normal distributions of lengths, as in chat logs: many short, a long tail.
SPREAD: Final = 0.6
PROMPT_TOKENS: Final = 215.0
OUTPUT_TOKENS: Final = 200.0
LONGEST_PROMPT: Final = 1000
LONGEST_OUTPUT: Final = 800


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request; exactly ``output_tokens`` are generated, whatever they are."""

    text: str
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean lengths in tokens.

    Attributes:
        tokens_per_word: tokens per word of `servers.load.client.WORDS` with the model's tokenizer.
        overhead: tokens that the chat template adds.
    """

    prompt: float = PROMPT_TOKENS
    output: float = OUTPUT_TOKENS
    tokens_per_word: float = 1.3
    overhead: int = 10


def make_workload(count: int, lengths: Lengths, seed: int = 0) -> list[Request]:
    """Make distinct prompts, so that no prefix cache serves two of them."""
    chance = random.Random(seed)
    requests: list[Request] = []
    for _ in range(count):
        prompt = min(LONGEST_PROMPT, _length(chance, lengths.prompt)) - lengths.overhead
        output = max(SHORTEST, min(LONGEST_OUTPUT, round(_length(chance, lengths.output))))
        requests.append(Request(words(chance, round(prompt / lengths.tokens_per_word)), output))
    return requests


def _length(chance: random.Random, mean: float) -> float:
    return chance.lognormvariate(math.log(mean) - SPREAD**2 / 2, SPREAD)


_T = TypeVar("_T")


async def run_load(
    address: Address,
    model: str,
    requests: list[Request],
    *,
    concurrency: int,
    warm_up: int,
    reconnect: bool = False,
) -> Figures:
    """Send all requests, at most ``concurrency`` at once.

    With ``reconnect`` each request has its own connection, opened before its time counts.
    """
    bodies = [chat_body(model, each.text, each.output_tokens) for each in requests]
    connections = [await connect(address) for _ in range(min(concurrency, len(bodies)))]
    try:
        for number in range(warm_up):
            await connections[0].ask(chat_body(model, f"warm up {number}", 8))
            if reconnect:
                connections[0].close()
                connections[0] = await connect(address)
        return await _measure(address, connections, bodies, concurrency, reconnect)
    finally:
        for connection in connections:
            connection.close()


async def _measure(
    address: Address,
    connections: list[Connection],
    bodies: list[bytes],
    concurrency: int,
    reconnect: bool,
) -> Figures:
    waiting = iter(bodies)
    answers: list[tuple[float, list[tuple[float, bytes]]]] = []

    async def client(number: int) -> None:
        for body in waiting:
            if reconnect or not connections[number].is_open:
                connections[number].close()
                connections[number] = await connect(address)
            answers.append(await connections[number].ask(body))

    gc.disable()
    started = perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(len(connections)):
            group.create_task(client(number))
    duration = perf_counter() - started
    gc.enable()
    return figures_of([read_answer(sent, pieces) for sent, pieces in answers], duration)


def run_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine as `asyncio.run` does, on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose the requests; the engine's own benchmark has the same ones."""
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompt_tokens", type=float, default=PROMPT_TOKENS)
    parser.add_argument("--output_tokens", type=float, default=OUTPUT_TOKENS)
    parser.add_argument(
        "--tokens_per_word", type=float, default=1.3, help="of the model's tokenizer"
    )
    parser.add_argument("--warm_up", type=int, default=2, help="requests before the measurement")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to a file")


def workload_of(arguments: argparse.Namespace) -> list[Request]:
    lengths = Lengths(
        prompt=arguments.prompt_tokens,
        output=arguments.output_tokens,
        tokens_per_word=arguments.tokens_per_word,
    )
    return make_workload(arguments.requests, lengths, arguments.seed)


def write_figures(figures: Figures, cpu_seconds: float, json_path: Path | None) -> None:
    """Print the figures, and write those that benchmarks compare to a file if requested."""
    print(table(figures))
    if json_path is not None:
        compared = {
            "throughput": figures.per_second(figures.output_tokens),
            "input_tokens": figures.input_tokens,
            "output_tokens": figures.output_tokens,
            "failed": figures.failed,
            # Little's law: the mean number of requests in progress.
            "at_once": figures.per_second(sum(each.e2el for each in figures.good)),
            **{name: asdict(spread) for name, spread in figures.spreads.items()},
            "cpu_seconds": cpu_seconds,
        }
        json_path.write_text(json.dumps(compared), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--reconnect",
        action="store_true",
        help="for every request: some servers close connections and do not say so",
    )
    add_load_arguments(parser)
    arguments = parser.parse_args()
    before = process_time()
    figures = run_loop(
        run_load(
            Address.parse(arguments.url),
            arguments.model,
            workload_of(arguments),
            concurrency=arguments.concurrency,
            warm_up=arguments.warm_up,
            reconnect=arguments.reconnect,
        )
    )
    cpu_seconds = process_time() - before
    write_figures(figures, cpu_seconds, arguments.json)
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
