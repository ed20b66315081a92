"""What metrics cost: processor time of a server with them, and of one without, in turns.

    python -m bench.metrics_cost [--pairs N] [--rounds N] [--write FILE]

Both servers run at the same time and get short rounds of the same requests one after the other, so
that what else the machine does hits both. Two equal processes differ by some hundredths all the
same, for where their memory lies: so there are several pairs, and medians of them. Requests are
small and come from one connection: nothing that a real model does hides the cost.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np

from bench.machine import describe_machine
from bench.server_process import ServerProcess

EVENTS: Final = 1000
#: Requests in one round, of each kind.
ROUND: Final = {"infer": 100, "answer": 100, "events": 2}
SHOWN: Final = {
    "infer": "`/v2/models/NAME/infer`, FP32 [1, 256], a graph that passes it on; per request",
    "answer": "`/v3/chat/completions`, a graph that answers with one packet; per request",
    "events": "the same, a stream of 1,000 events; per event",
}

_PASS: Final = """
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""
_TELL: Final = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Tell"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
_CALCULATORS: Final = '''
from calculators.http_payload import HttpPayload
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
    """Seconds of processor time per round."""

    with_metrics: list[float]
    without: list[float]

    @property
    def base(self) -> float:
        """Of the quietest round without metrics: what else the machine does only adds to it."""
        return min(self.without)

    @property
    def added(self) -> float:
        return min(self.with_metrics) - self.base


class Client:
    """One connection that stays."""

    def __init__(self, server: ServerProcess) -> None:
        host, _, port = server.address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
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

    def close(self) -> None:
        self._socket.close()


def cpu_ns(pid: int) -> int:
    """Of all threads, to the nanosecond; `bench.processes` knows hundredths of a second."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def request_of(kind: str, model: str) -> bytes:
    """The bytes of a whole request."""
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
    elif kind == "events":
        body = json.dumps({"model": model, "stream": True, "events": EVENTS}).encode()
    else:
        body = json.dumps({"model": model}).encode()
    fields["Content-Length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def measure(kind: str, directory: Path, rounds: int, *arguments: str) -> Cost:
    """Both servers, in turns."""
    cost = Cost([], [])
    with (
        ServerProcess(directory, *arguments) as one,
        ServerProcess(directory, *arguments, "--metrics_enable=false") as other,
    ):
        request = request_of(kind, one.model)
        targets = [(one, Client(one), cost.with_metrics), (other, Client(other), cost.without)]
        for number in range(rounds + 2):
            for server, client, costs in targets if number % 2 else reversed(targets):
                before = cpu_ns(server.pids["server"])
                for _ in range(ROUND[kind]):
                    client.ask(request)
                if number >= 2:  # the first ones warm up
                    costs.append((cpu_ns(server.pids["server"]) - before) / 1e9)
        for _, client, _ in targets:
            client.close()
    return cost


def measure_pairs(
    kind: str, directory: Path, pairs: int, rounds: int, *arguments: str
) -> tuple[float, float]:
    """Medians of several pairs of servers: seconds per round without metrics, and what they add."""
    costs = [measure(kind, directory, rounds, *arguments) for _ in range(pairs)]
    return median(each.base for each in costs), median(each.added for each in costs)


def measure_text(directory: Path, rounds: int) -> tuple[float, int]:
    """Seconds from a question for ``/metrics`` to its answer, and the bytes of it."""
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


def report(pairs: int, rounds: int, write: Callable[[str], object]) -> None:
    write("# What metrics cost\n")
    write(f"`python -m bench.metrics_cost` on {describe_machine()}.")
    write(f"Processor time of the server's process in the quietest of {rounds} rounds;")
    write(f"medians of {pairs} pairs of servers.\n")
    write("| | without | added by metrics | |")
    write("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        passing, telling = Path(folder, "pass"), Path(folder, "tell")
        for place, graph in ((passing, _PASS), (telling, _TELL)):
            place.mkdir()
            (place / "graph.pbtxt").write_text(graph)
        calculators = Path(folder, "tell.py")
        calculators.write_text(_CALCULATORS)
        for kind, each in ROUND.items():
            units = each * (EVENTS if kind == "events" else 1)
            if kind == "infer":
                cost = measure_pairs(kind, passing, pairs, rounds)
            else:
                more = ("--calculators", str(calculators))
                cost = measure_pairs(kind, telling, pairs, rounds, *more)
            base, added = (each / units * 1e6 for each in cost)
            write(f"| {SHOWN[kind]} | {base:.2f} µs | {added:.2f} µs | {added / base:.1%} |")
        seconds, size = measure_text(passing, 200)
    write(f"\n`GET /metrics` of one graph: {seconds * 1e3:.1f} ms for {size:,} bytes.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--write", type=Path, help="a file for the report")
    arguments = parser.parse_args()
    lines: list[str] = []

    def write(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    report(arguments.pairs, arguments.rounds, write)
    if arguments.write is not None:
        arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
