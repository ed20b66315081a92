"""Cost of metrics and traces: processor time of servers with them, and of one without, in turns.

    python -m bench.metrics_cost [--sets N] [--rounds N] [--write FILE]

The servers run at the same time and get short rounds of the same requests one after the other, so
that other load of the machine hits all. Two equal processes still differ by some hundredths, so
there are several sets, and medians of them. Requests are small: except for those to the example
model, no work of a model hides the cost. Spans go to a collector that only reads them. The added
cost is that of the server's own process, without the engine's.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np

from bench.machine import ServerProcess, WrittenReport, describe_machine

EVENTS: Final = 1000
STREAMS, TOKENS = 32, 100
DEMO: Final = Path(__file__).parents[1] / "examples/models/demo"
#: Number of requests in a round, by kind.
ROUND: Final = {"tokens": STREAMS, "infer": 100, "answer": 100, "events": 2}
#: The unit of a figure, and how many of them a request has.
UNITS: Final = {"tokens": TOKENS, "infer": 1, "answer": 1, "events": EVENTS}
SHOWN: Final = {
    "tokens": f"the example model, {STREAMS} streams of {TOKENS} tokens at once; per token",
    "infer": "`/v2/models/NAME/infer`, FP32 [1, 256], a graph that passes it on; per request",
    "answer": "`/v3/chat/completions`, a graph that answers with one packet; per request",
    "events": "the same, a stream of 1,000 events; per event",
}
_WITHOUT, _METRICS, _TRACES = "without", "metrics", "metrics and traces"

_PASS: Final = """
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""
TELL: Final = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Tell"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
CALCULATORS: Final = '''
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Tell(Calculator):
    """Sends so many events as the body says; without a number one answer."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        events = cc.get(self.request).parsed_json.get("events")
        if events is None:
            cc.emit(self.response, "{}")
            return
        for number in range(events):
            cc.emit(self.response, f"data: {number}\\n\\n", at=number)
'''


@dataclass
class Cost:
    """Seconds of processor time per round: of the server's own process, and with its engine's."""

    own: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


class Client:
    """A connection that is kept open."""

    def __init__(self, server: ServerProcess) -> None:
        host, _, port = server.address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        self.send(request)
        return self.receive()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bytes:
        """Read an answer; return its body."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._socket.recv(1 << 20)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), answer
        lengths = [
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ]
        while len(body) < lengths[0] if lengths else not body.endswith(b"0\r\n\r\n"):
            body += self._socket.recv(1 << 20)
        return body

    def receive_some(self) -> bytes:
        """Read what has arrived; empty at the end."""
        return self._socket.recv(1 << 20)

    def shut_down(self) -> None:
        """End the connection; a thread that reads gets its end."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def cpu_ns(pid: int) -> int:
    """Processor time of all threads in nanoseconds, finer than that of `bench.machine`."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def request_of(kind: str, model: str) -> bytes:
    """Return the bytes of a whole request."""
    fields = {"Host": "localhost", "Content-Type": "application/json"}
    path = "/v3/chat/completions"
    if kind == "infer":
        path = f"/v2/models/{model}/infer"
        tensor: dict[str, object] = {"name": "in", "shape": [1, 256], "datatype": "FP32"}
        tensor["parameters"] = {"binary_data_size": 1024}
        asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
        head = json.dumps(asked).encode()
        body = head + np.arange(256, dtype=np.float32).tobytes()
        fields["Inference-Header-Content-Length"] = str(len(head))
        fields["Content-Type"] = "application/octet-stream"
    elif kind == "tokens":
        chat: dict[str, object] = {"model": model, "stream": True, "max_tokens": TOKENS}
        chat |= {"ignore_eos": True, "messages": [{"role": "user", "content": "Hello"}]}
        body = json.dumps(chat).encode()
    elif kind == "events":
        body = json.dumps({"model": model, "stream": True, "events": EVENTS}).encode()
    else:
        body = json.dumps({"model": model}).encode()
    fields["Content-Length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class _Collector(BaseHTTPRequestHandler):
    """A handler that reads requests and ignores them."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def collector() -> Iterator[str]:
    """Run a collector of spans; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure(kind: str, directory: Path, rounds: int, spans: str, *more: str) -> dict[str, Cost]:
    """Measure one set of servers, in turns. ``spans``: the collector's address."""
    ways = {
        _WITHOUT: ("--metrics_enable=false",),
        _METRICS: (),
        _TRACES: ("--otlp_endpoint", spans),
    }
    costs = {way: Cost() for way in ways}
    with ExitStack() as stack:
        servers = {
            way: stack.enter_context(ServerProcess(directory, *more, *arguments))
            for way, arguments in ways.items()
        }
        request = request_of(kind, servers[_WITHOUT].model)
        count = STREAMS if kind == "tokens" else 1
        clients = {way: [Client(server) for _ in range(count)] for way, server in servers.items()}
        turns = list(servers.items())
        if kind == "tokens":
            rounds = max(1, rounds // 4)  # rounds of this kind take long
        for number in range(rounds + 2):
            for way, server in turns if number % 2 else reversed(turns):
                before = {part: cpu_ns(pid) for part, pid in server.pids.items()}
                run_round(clients[way], request, ROUND[kind])
                used = {
                    part: (cpu_ns(pid) - before[part]) / 1e9 for part, pid in server.pids.items()
                }
                if number >= 2:  # warm up
                    costs[way].own.append(used["server"])
                    costs[way].whole.append(sum(used.values()))
        for each in clients.values():
            for client in each:
                client.close()
    return costs


def run_round(clients: Sequence[Client], request: bytes, count: int) -> None:
    """Send ``count`` requests, one at a time on each connection."""
    for _ in range(count // len(clients)):
        for client in clients:
            client.send(request)
        for client in clients:
            client.receive()


def costs_of(
    kind: str, sets: int, directory: Path, rounds: int, spans: str, *more: str
) -> tuple[float, dict[str, float]]:
    """Return microseconds per unit without metrics and traces, and the additions, as medians.

    Uses the quietest round of each server: other load of the machine only adds to it.
    """
    unit = ROUND[kind] * UNITS[kind] / 1e6
    measured = [measure(kind, directory, rounds, spans, *more) for _ in range(sets)]
    base = median(min(costs[_WITHOUT].whole) for costs in measured) / unit
    added = {
        way: median(min(costs[way].own) - min(costs[_WITHOUT].own) for costs in measured) / unit
        for way in (_METRICS, _TRACES)
    }
    return base, added


def measure_text(directory: Path, rounds: int) -> tuple[float, int]:
    """Seconds from a request for ``/metrics`` to its answer, and the answer's size in bytes."""
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    taken: list[float] = []
    text = b""
    with ServerProcess(directory) as server:
        client = Client(server)
        client.ask(request_of("infer", server.model))
        for _ in range(rounds):
            began = perf_counter()
            text = client.ask(request)
            taken.append(perf_counter() - began)
        client.close()
    return median(taken), len(text)


def report(sets: int, rounds: int, write: Callable[[str], object]) -> None:
    write("# What metrics and traces cost\n")
    write(f"`python -m bench.metrics_cost` on {describe_machine()}.")
    write(f"Processor time of the server's processes in the quietest of {rounds} rounds, of the")
    write(f"model {rounds // 4}; medians of {sets} sets of servers. Without: of all its processes;")
    write("added: of its own process, the engine's not included.\n")
    write("| | without | metrics add | | metrics and traces add | |")
    write("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, collector() as spans:
        passing, telling = Path(folder, "pass"), Path(folder, "tell")
        for place, graph in ((passing, _PASS), (telling, TELL)):
            place.mkdir()
            (place / "graph.pbtxt").write_text(graph)
        calculators = Path(folder, "tell.py")
        calculators.write_text(CALCULATORS)
        places = {"tokens": DEMO, "infer": passing}
        for kind in ROUND:
            more = () if kind in places else ("--calculators", str(calculators))
            place = places.get(kind, telling)
            base, added = costs_of(kind, sets, place, rounds, spans, *more)
            cells = " | ".join(f"{each:.2f} µs | {each / base:.1%}" for each in added.values())
            write(f"| {SHOWN[kind]} | {base:.2f} µs | {cells} |")
        seconds, size = measure_text(passing, 200)
    write(f"\n`GET /metrics` of one graph: {seconds * 1e3:.1f} ms for {size:,} bytes.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--write", type=Path, help="a file for the report")
    arguments = parser.parse_args()
    write = WrittenReport()
    report(arguments.sets, arguments.rounds, write)
    write.keep(arguments.write)


if __name__ == "__main__":
    main()
