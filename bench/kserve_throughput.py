"""KServe inference on a graph that passes a tensor through, beside servers that only echo.

    python -m bench.kserve_throughput [--seconds S] [--write FILE]

`graphrt serve` and servers that only echo (`bench.echo_servers`) get the same messages from the
same clients (`bench.infer_clients`), in turns; every server and the clients are processes of their
own on the same machine. A message has one tensor FP32 [1, 256]; another table has 10 MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import grpc

from bench.machine import ServerProcess, add_write, cpu_seconds, describe_machine, publish

MODEL: Final = "pass_through"
SMALL: Final = 256
LARGE: Final = 2_500_000
CLIENTS: Final = (1, 16, 64)
REPEATS: Final = 3
#: The aims: of the echo's requests per second, and of the server's CPU in microseconds.
LEAST_RATIO: Final = 0.8
MOST_CPU: Final = 150
#: The servers that graphrt is compared with; the first is the upper limit.
LIMITS: Final = {"grpc": ("grpc-bytes", "grpc-messages"), "rest": ("http",)}
TITLES: Final = {"grpc": "gRPC: ModelInfer", "rest": "REST: infer, binary tensors"}
NAMES: Final = {
    "grpc-bytes": "echo of bytes",
    "grpc-messages": "echo with protobuf",
    "http": "echo of bytes",
    "graphrt": "graphrt",
}

GRAPH: Final = """
input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
}
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A running server: its name, address and process."""

    name: str
    address: str
    pid: int


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of one server at one number of clients; times in milliseconds."""

    name: str
    clients: int
    rate: float
    p50: float
    p99: float
    cpu_us: float


@contextmanager
def echo_server(kind: str) -> Iterator[Target]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.echo_servers", kind], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield Target(kind, f"127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()


def ask(target: Target, protocol: str, clients: int, seconds: float, elements: int) -> Row:
    """Run the clients once."""
    before = cpu_seconds(target.pid)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.infer_clients", protocol, target.address, MODEL),
            *(str(clients), str(seconds), str(elements)),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    cpu = (cpu_seconds(target.pid) - before) * 1e6 / (found["requests"] + clients)
    return Row(target.name, clients, found["rate"], found["p50"], found["p99"], cpu)


def measure(
    targets: list[Target], protocol: str, clients: int, seconds: float, elements: int
) -> list[Row]:
    """Measure the targets in turns; return the medians of each."""
    runs: dict[str, list[Row]] = {target.name: [] for target in targets}
    for _ in range(REPEATS):
        for target in targets:
            runs[target.name].append(ask(target, protocol, clients, seconds, elements))
    return [
        Row(
            name,
            clients,
            median(row.rate for row in rows),
            median(row.p50 for row in rows),
            median(row.p99 for row in rows),
            median(row.cpu_us for row in rows),
        )
        for name, rows in runs.items()
    ]


def table(rows: list[Row]) -> list[str]:
    head = ("clients", "server", "requests/s", "ms, median", "ms, p99", "server's CPU, us", "ratio")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    limits: dict[int, float] = {}
    for row in rows:
        limit = limits.setdefault(row.clients, row.rate)
        lines.append(
            f"| {row.clients} | {NAMES[row.name]} | {row.rate:,.0f} | {row.p50:.2f} "
            f"| {row.p99:.2f} | {row.cpu_us:,.0f} | {row.rate / limit:.2f} |"
        )
    return lines


def compare(own: Target, protocol: str, clients: int, seconds: float, elements: int) -> list[Row]:
    """Measure all servers: the limit first, graphrt last."""
    with ExitStack() as stack:
        echoes = [stack.enter_context(echo_server(kind)) for kind in LIMITS[protocol]]
        return measure([*echoes, own], protocol, clients, seconds, elements)


def page(seconds: float) -> str:
    """Measure everything; return the tables as Markdown."""
    lines = [
        "# KServe's fronts beside servers that only echo",
        "",
        f"`python -m bench.kserve_throughput` on {describe_machine()}; grpcio {grpc.__version__}, "
        f"aiohttp {aiohttp.__version__}. Medians of {REPEATS} runs of {seconds:g} s, servers in "
        f"turns; the clients share the machine with the server. An echo of bytes does not look at "
        f"what it sends back; the one with protobuf parses it and makes its answer anew. Ratios "
        f"are to the echo of bytes.",
    ]
    aims = [
        "## The aims",
        "",
        f"Over gRPC {LEAST_RATIO} of the echo of bytes; over REST at most {MOST_CPU} us of the "
        f"server's CPU.",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / MODEL
        directory.mkdir()
        (directory / "graph.pbtxt").write_text(GRAPH, encoding="utf-8")
        with ServerProcess(directory, "--port", "auto") as server:
            for protocol, title in TITLES.items():
                address = server.grpc_address if protocol == "grpc" else server.address
                own = Target("graphrt", address, server.pids["server"])
                small: list[Row] = []
                for clients in CLIENTS:
                    rows = compare(own, protocol, clients, seconds, SMALL)
                    if protocol == "grpc":
                        ratio = rows[-1].rate / rows[0].rate
                        shown, is_reached = f"{ratio:.2f}", ratio >= LEAST_RATIO
                    else:
                        cpu, echo = rows[-1].cpu_us, rows[0].cpu_us
                        shown = f"{cpu:.0f} us, of which the echo alone takes {echo:.0f}"
                        is_reached = cpu <= MOST_CPU
                    reached = "reached" if is_reached else "missed"
                    aims.append(f"- {protocol}, {clients} clients: {shown}; {reached}")
                    small += rows
                large = compare(own, protocol, 1, seconds, LARGE)
                lines += ["", f"## {title}", "", f"FP32 [1, {SMALL}]:", "", *table(small)]
                lines += ["", "A tensor of 10 MB, one client:", "", *table(large)]
    return "\n".join([*lines, "", *aims, ""])


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--seconds", type=float, default=3.0, help="of each run; default 3")
    add_write(arguments)
    given = arguments.parse_args()
    text = page(given.seconds)
    publish(text, given.write)


if __name__ == "__main__":
    main()
