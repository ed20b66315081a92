"""Python calls that the server's own process makes per request, by kind of request.

    python -m bench.python_calls [--requests 50] [--functions 15]

Calls of Python functions and resumptions of coroutines are counted, not calls of C functions: a
figure that does not depend on the machine, unlike a time. A streamed chat is asked once with one
token and once with many, which gives the calls of a short chat, those of both from their headers to
their first event, those between two events, and those of each further token. The first event of a
chat of one token ends it too. The first event and the further ones are medians, as timers of the
server fall into some; the other figures are means and have the timers. An event has the tokens that
the engine made since the one before. The tensor graph passes 16 elements on.
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
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import grpc

from bench.echo_servers import SERVICE
from bench.infer_clients import HttpClient, grpc_request, rest_request
from bench.load_generator import Address, chat_body, connect, read_answer, run_loop
from bench.machine import ServerProcess, describe_machine

DEMO: Final = Path(__file__).parents[1] / "examples/models/demo"
MANY_TOKENS: Final = 400
_GRAPH: Final = """
input_stream: "IN:in"
output_stream: "OUT:out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""


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
        command = (sys.executable, "-m", "bench.python_calls", "--server", str(report))
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


async def _chats(counted: CountedServer, tokens: int, requests: int) -> Calls:
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


async def _infers(counted: CountedServer, requests: int) -> Calls:
    async with grpc.aio.insecure_channel(counted.server.grpc_address) as channel:
        call: Any = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        request = grpc_request(counted.server.model, 16)
        for _ in range(5):
            await call(request)
        counted.toggle()
        for _ in range(requests):
            await call(request)
        counts = counted.toggle()
    return _calls_of(counts, requests)


async def _posts(counted: CountedServer, requests: int) -> Calls:
    host, _, port = counted.server.address.partition(":")
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(HttpClient, host, int(port))
    request = rest_request(counted.server.model, 16, counted.server.address)
    for _ in range(5):
        await client.ask(request)
    counted.toggle()
    for _ in range(requests):
        await client.ask(request)
    counts = counted.toggle()
    transport.close()
    return _calls_of(counts, requests)


def _calls_of(counts: Counter[str], requests: int) -> Calls:
    first, following = counts.pop(_TO_FIRST_EVENT), counts.pop(_TO_NEXT_EVENT)
    return Calls(counts.total() / requests, first, following, counts)


def measure(requests: int) -> dict[str, Calls]:
    """Count the calls of each kind of request."""
    found: dict[str, Calls] = {}
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "calls.json")
        counted = CountedServer(DEMO, report)
        with counted.server:
            found["chat of one token"] = run_loop(_chats(counted, 1, requests))
            found["chat of many tokens"] = run_loop(_chats(counted, MANY_TOKENS, requests))
        directory = Path(place, "tensors")
        directory.mkdir()
        (directory / "graph.pbtxt").write_text(_GRAPH, encoding="utf-8")
        counted = CountedServer(directory, report, "--port", "auto")
        with counted.server:
            found["gRPC infer"] = run_loop(_infers(counted, requests))
            found["REST infer"] = run_loop(_posts(counted, requests))
    return found


def print_calls(found: dict[str, Calls], functions: int, requests: int) -> None:
    one, many = found["chat of one token"], found["chat of many tokens"]
    per_token = (many.calls - one.calls) / (MANY_TOKENS - 1)
    print(f"{describe_machine()}\n")
    print("| | Python calls |\n|---|---|")
    print(f"| a streamed chat of one token | {one.calls:.0f} |")
    print(f"| of it from the headers to the first event | {one.to_first_event:.0f} |")
    longer = many.to_first_event
    print(f"| the same of a longer chat, whose first event does not end it | {longer:.0f} |")
    print(f"| each further event of a stream | {many.to_next_event:.0f} |")
    print(f"| each further token | {per_token:.1f} |")
    print(f"| an inference over gRPC | {found['gRPC infer'].calls:.0f} |")
    print(f"| the same over REST, with binary data | {found['REST infer'].calls:.0f} |")
    for name, calls in found.items():
        print(f"\n{name}, per request:")
        for function, number in calls.by_function.most_common(functions):
            print(f"{number / requests:8.1f}  {function}")


def main() -> int:
    if sys.argv[1:2] == ["--server"]:
        return serve(Path(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--functions", type=int, default=15, help="how many to name of each kind")
    args = parser.parse_args()
    print_calls(measure(args.requests), args.functions, args.requests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
