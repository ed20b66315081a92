"""What a request costs the server's own process: processor time, and Python calls.

    python -m bench.server_cpu time OTHER_CHECKOUT [--rounds N] [--requests N] [--kinds KIND ...]
    python -m bench.server_cpu calls [--requests 50] [--functions 15]
    python -m bench.server_cpu keep

``time``: of two checkouts in turn. Both servers run at the same time and are asked one after the
other, the first one alternately, so that a busy machine is as busy for both. A chat has 4 tokens of
the example model, 16 at a time; of many chats there are 64 at a time, and long ones have 68 tokens:
their difference is the cost of a token. An inference passes 256 elements through a graph over REST
with the binary extension, or over gRPC, 16 at a time; an embedding is of 8 tokens, as base64, 64 at
a time, by a model with the shape of all-MiniLM-L6-v2 and weights of 8 bits. Child processes and
clients do not count.

``calls``: calls of Python functions and resumptions of coroutines, not calls of C functions: a
figure that does not depend on the machine, unlike a time. A streamed chat is asked once with one
token and once with many, which gives the calls of a short chat, those of both from their headers to
their first event, those between two events, and those of each further token. The first event of a
chat of one token ends it too. The first event and the further ones are medians, as timers of the
server fall into some; the other figures are means and have the timers. An event has the tokens that
the engine made since the one before. The tensor graph passes 16 elements on.

``keep``: of keeping a response to a question of 300 bytes, in the thread of the store: the best of
three runs of 5,000, with the reading of the answer and of the request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Final, NamedTuple

from bench.clients import (
    HttpClient,
    HttpConnection,
    embeddings_requests,
    grpc_client,
    grpc_request,
    rest_request,
)
from bench.load_generator import Address, chat_body, connect, read_answer, run_loop
from bench.machine import (
    DEMO,
    PASS_THROUGH,
    ROOT,
    ServerProcess,
    describe_machine,
    head,
    nanoseconds,
    row,
    run_command,
)
from bench.random_model import make_encoder
from calculators.llm.api.openai.responses_object import ItemIds
from servers.kept.store import KeptBounds, KeptKind, KeptObject, ResponseStore

# Processor time -----------------------------------------------------------------------------------

#: Tokens of a chat, and chats at a time, by kind.
_CHATS: Final = {"chat": (4, 16), "many_chats": (4, 64), "many_long_chats": (68, 64)}
_INFERENCES: Final = ("inference", "inference_grpc")
KINDS: Final = (*_CHATS, *_INFERENCES, "embedding")


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
        requests = embeddings_requests("/v3/embeddings", server.address, server.model, 8)
        await _posts(server, requests, count, 64)


def write_tensors(place: Path) -> Path:
    """Write a graph that passes tensors on; return its directory."""
    directory = place / "tensors"
    directory.mkdir()
    (directory / "graph.pbtxt").write_text(PASS_THROUGH, encoding="utf-8")
    return directory


def measure(kind: str, checkouts: Sequence[Path], rounds: int, count: int) -> list[list[float]]:
    """Return the microseconds per request of each checkout, one for each round."""
    found: list[list[float]] = [[] for _ in checkouts]
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        directory = DEMO
        arguments: tuple[str, ...] = ()
        if kind in _INFERENCES:
            arguments = ("--port", "auto")
            directory = write_tensors(Path(place))
        elif kind == "embedding":
            directory = make_encoder(Path(place, "encoder"), int8=True)
        # An empty place: Python puts the working directory before PYTHONPATH.
        command = (sys.executable, "-P", "-m", "servers.cli")
        servers = [
            stack.enter_context(
                ServerProcess(
                    directory,
                    *arguments,
                    command=command,
                    environment={"PYTHONPATH": str(checkout)},
                )
            )
            for checkout in checkouts
        ]
        for number in range(rounds + 1):
            order = list(enumerate(servers))
            for place_of, server in order if number % 2 else reversed(order):
                pid = server.pids["server"]
                before = nanoseconds(pid)
                run_loop(_ask(kind, server, count))
                if number:  # the round before warms up
                    found[place_of].append((nanoseconds(pid) - before) / count / 1e3)
    return found


def compare(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Processor time of the server's own process per request, of two checkouts in turn."""
    parser.add_argument("other", type=Path, metavar="OTHER_CHECKOUT")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--requests", type=int, default=1280)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    words = parser.parse_args(arguments)
    checkouts = (words.other.resolve(), ROOT)
    print(f"{describe_machine()}; load average {os.getloadavg()[0]:.1f}; microseconds\n")
    columns = ("other: median", "least", "this: median", "least", "ratio of medians, of least")
    print(*head("", *columns), sep="\n")
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
    ratios = f"{median(this) / median(other):.2f}, {min(this) / min(other):.2f}"
    print(row(name, *(f"{each:.{digits}f}" for each in figures), ratios), flush=True)


# Calls --------------------------------------------------------------------------------------------

MANY_TOKENS: Final = 400

#: The first function that the front calls when it has a request's headers, and the one that sends.
_HEADERS: Final = "request_id_of"
_EVENT: Final = "AnswerStream.emit"
#: The keys of the report for medians of the calls between them, and from an event to the next one.
_TO_FIRST_EVENT: Final = "(to the first event)"
_TO_NEXT_EVENT: Final = "(to the next event)"


class Calls(NamedTuple):
    """Calls per request.

    Attributes:
        to_first_event: those from the headers of a request to its first event.
        to_next_event: those from an event to the next one.
    """

    calls: float
    to_first_event: float
    to_next_event: float
    by_function: Counter[str]


class CountedServer:
    """A server that counts its calls between two signals."""

    def __init__(self, directory: Path, report: Path, *arguments: str) -> None:
        self._report = report
        command = (sys.executable, "-m", "bench.server_cpu", "serve", str(report))
        self.server = ServerProcess(directory, *arguments, command=command)

    def toggle(self) -> Counter[str]:
        """Start counting, or end it and return what was counted."""
        before = _stamp(self._report)
        os.kill(self.server.pids["server"], signal.SIGUSR2)
        while _stamp(self._report) == before:
            time.sleep(0.005)
        return Counter(json.loads(self._report.read_text(encoding="utf-8")))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def serve(report: Path, arguments: list[str]) -> int:
    """Run the server in this process, and count after one SIGUSR2 until the next."""
    from servers.cli import main as graphrt

    counts: Counter[CodeType] = Counter()
    counting = False
    since = 0
    has_no_event = False
    to_first_event: list[int] = []
    to_next_event: list[int] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal since, has_no_event
        if event == "call":
            counts[frame.f_code] += 1
            name = frame.f_code.co_qualname
            if name == _HEADERS:
                has_no_event = True
                since = 0
            elif name == _EVENT:
                (to_first_event if has_no_event else to_next_event).append(since)
                has_no_event = False
                since = 0
            since += 1

    def toggle(*_: object) -> None:
        nonlocal counting
        sys.setprofile(None)
        named: Counter[str] = Counter()
        for code, number in counts.items():
            named[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += number
        for key, numbers in ((_TO_FIRST_EVENT, to_first_event), (_TO_NEXT_EVENT, to_next_event)):
            named[key] = round(median(numbers)) if numbers else 0
            numbers.clear()
        counts.clear()
        new = report.with_suffix(".new")
        new.write_text(json.dumps(named), encoding="utf-8")
        new.replace(report)
        counting = not counting
        if counting:
            sys.setprofile(count)

    signal.signal(signal.SIGUSR2, toggle)
    return graphrt(arguments)


async def _counted_chats(counted: CountedServer, tokens: int, requests: int) -> Calls:
    connection = await connect(Address.parse(counted.server.url))
    body = chat_body(counted.server.model, "Hello", tokens)
    for _ in range(5):
        await connection.ask(body)
    counted.toggle()
    for _ in range(requests):
        outcome = read_answer(*await connection.ask(body))
        if outcome.error:
            raise RuntimeError(outcome.error)
    counts = counted.toggle()
    connection.close()
    return _calls_of(counts, requests)


async def _counted_infers(counted: CountedServer, requests: int) -> Calls:
    request = grpc_request(counted.server.model, 16)
    async with AsyncExitStack() as stack:
        ask = await grpc_client(counted.server.grpc_address, request, stack)
        for _ in range(5):
            await ask()
        counted.toggle()
        for _ in range(requests):
            await ask()
        return _calls_of(counted.toggle(), requests)


def _counted_posts(counted: CountedServer, requests: int) -> Calls:
    connection = HttpConnection(counted.server.address)
    request = rest_request(counted.server.model, 16, counted.server.address)
    for _ in range(5):
        connection.ask(request)
    counted.toggle()
    for _ in range(requests):
        connection.ask(request)
    counts = counted.toggle()
    connection.close()
    return _calls_of(counts, requests)


def _calls_of(counts: Counter[str], requests: int) -> Calls:
    first, following = counts.pop(_TO_FIRST_EVENT), counts.pop(_TO_NEXT_EVENT)
    return Calls(counts.total() / requests, first, following, counts)


def count_calls(requests: int) -> dict[str, Calls]:
    """Count the calls of each kind of request."""
    found: dict[str, Calls] = {}
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "calls.json")
        counted = CountedServer(DEMO, report)
        with counted.server:
            found["chat of one token"] = run_loop(_counted_chats(counted, 1, requests))
            found["chat of many tokens"] = run_loop(_counted_chats(counted, MANY_TOKENS, requests))
        counted = CountedServer(write_tensors(Path(place)), report, "--port", "auto")
        with counted.server:
            found["gRPC infer"] = run_loop(_counted_infers(counted, requests))
            found["REST infer"] = _counted_posts(counted, requests)
    return found


def print_calls(found: dict[str, Calls], functions: int, requests: int) -> None:
    one, many = found["chat of one token"], found["chat of many tokens"]
    per_token = (many.calls - one.calls) / (MANY_TOKENS - 1)
    print(f"{describe_machine()}\n")
    for line in (
        *head("", "Python calls"),
        row("a streamed chat of one token", f"{one.calls:.0f}"),
        row("of it from the headers to the first event", f"{one.to_first_event:.0f}"),
        row(
            "the same of a longer chat, whose first event does not end it",
            f"{many.to_first_event:.0f}",
        ),
        row("each further event of a stream", f"{many.to_next_event:.0f}"),
        row("each further token", f"{per_token:.1f}"),
        row("an inference over gRPC", f"{found['gRPC infer'].calls:.0f}"),
        row("the same over REST, with binary data", f"{found['REST infer'].calls:.0f}"),
    ):
        print(line)
    for name, calls in found.items():
        print(f"\n{name}, per request:")
        for function, number in calls.by_function.most_common(functions):
            print(f"{number / requests:8.1f}  {function}")


def calls(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Python calls that the server's own process makes per request, by kind of request."""
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--functions", type=int, default=15, help="how many to name of each kind")
    args = parser.parse_args(words)
    print_calls(count_calls(args.requests), args.functions, args.requests)


# Kept responses ----------------------------------------------------------------------------------

_RESPONSES: Final = 5000
_UNBOUNDED: Final = 10_000_000


def _response(words: int) -> KeptObject:
    """Return a response of so many words to a question of 300 bytes."""
    text = {"type": "output_text", "text": "word " * words, "annotations": [], "logprobs": []}
    response_id = f"resp_{int(time.time()):08x}{os.urandom(16).hex()}"
    message = {
        "id": ItemIds(response_id).new("msg"),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    body = {
        "id": response_id,
        "object": "response",
        "created_at": 1,
        "model": "demo",
        "status": "completed",
        "output": [message],
        "usage": {"input_tokens": 1},
    }
    request = {"model": "demo", "input": "Hello " * 50}
    return KeptObject(
        kind=KeptKind.RESPONSE,
        owner="key",
        request=json.dumps(request).encode(),
        body=json.dumps(body).encode(),
    )


def _keeping_us(directory: Path | None, words: int, bound: int, at_once: int = 1) -> float:
    """Return the processor time of keeping one of many; above ``bound`` others make room."""
    store = ResponseStore(KeptBounds(objects=bound, size=4 << 30), directory)
    made = [_response(words) for _ in range(_RESPONSES)]
    began = time.process_time()
    for first in range(0, _RESPONSES, at_once):
        store.add_all(made[first : first + at_once])
    took = time.process_time() - began
    store.close()
    return took / _RESPONSES * 1e6


def keep(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Processor time of keeping a response, in memory and in a directory."""
    parser.parse_args(words)
    print(f"{describe_machine()}\n")
    columns = ("in memory", "in a directory", "in a directory, 16 at a time")
    print(*head("us of processor time for a response", *columns), sep="\n")
    rows = (
        ("50 words", 50, _UNBOUNDED),
        ("50 words, others make room", 50, 1000),
        ("2,000 words", 2000, _UNBOUNDED),
    )
    for name, length, bound in rows:
        with tempfile.TemporaryDirectory() as folder:
            memory = min(_keeping_us(None, length, bound) for _ in range(3))
            places = [Path(folder) / str(number) for number in range(6)]
            disk = min(_keeping_us(place, length, bound) for place in places[:3])
            together = min(_keeping_us(place, length, bound, 16) for place in places[3:])
        print(row(name, f"{memory:.0f}", f"{disk:.0f}", f"{together:.0f}"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        sys.exit(serve(Path(sys.argv[2]), sys.argv[3:]))
    run_command("bench.server_cpu", __doc__, {"time": compare, "calls": calls, "keep": keep})
