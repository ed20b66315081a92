"""KServe inference with one and with two server processes, beside one and two echoes.

    python -m bench.workers [--seconds S] [--repeats N] [--write FILE]

`graphrt serve --workers N` passes a tensor FP32 [1, 256] through a graph. The echoes are as many
processes on one port that send back what they get (`bench.echo_servers`). All get the same messages
from the same clients (`bench.infer_clients`), in turns. Clients and servers share the machine, so
that two processes cannot be twice as fast as one where there are two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import grpc

from bench.kserve_throughput import SMALL, TITLES
from bench.machine import ServerProcess, add_write, children, describe_machine, publish
from bench.server_cpu import nanoseconds

MODEL: Final = "pass_through"
WORKERS: Final = (1, 2)
CLIENTS: Final = (1, 16, 64)
ECHOES: Final = {"grpc": "grpc-bytes", "rest": "http"}
_WORKER: Final = "servers.cli.worker"
_GRAPH: Final = """
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A running server of one or more processes, by the addresses of both protocols."""

    name: str
    workers: int
    addresses: dict[str, str]
    pids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Run:
    """Requests per second, and the processor time of all processes per request in µs."""

    rate: float
    p99: float
    cpu_us: float
    #: The part of the busiest process.
    share: float
    #: Cores that the server's processes used, and those that the clients' one did.
    server_cores: float
    client_cores: float


@contextmanager
def echoes(workers: int) -> Iterator[Target]:
    """Start echoes of both protocols."""
    with ExitStack() as stack:
        pids: list[int] = []
        addresses: dict[str, str] = {}
        for protocol, kind in ECHOES.items():
            port = "0"
            for _ in range(workers):
                process = subprocess.Popen(
                    [sys.executable, "-m", "bench.echo_servers", kind, port],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                stack.callback(process.terminate)
                assert process.stdout is not None
                port = process.stdout.readline().strip()
                pids.append(process.pid)
            addresses[protocol] = f"127.0.0.1:{port}"
        yield Target("echo", workers, addresses, pids)


@contextmanager
def graphrt(workers: int, directory: Path) -> Iterator[Target]:
    """Start a server. One of a single process is the same program as without the flag."""
    with ServerProcess(directory, "--port", "auto", "--workers", str(workers)) as server:
        own = server.pids["server"]
        found = [pid for pid, words in children(own).items() if _WORKER in words]
        addresses = {"grpc": server.grpc_address, "rest": server.address}
        yield Target("graphrt", workers, addresses, found or [own])


def ask(target: Target, protocol: str, clients: int, seconds: float) -> Run:
    """Run the clients once."""
    before = [nanoseconds(pid) for pid in target.pids]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.infer_clients", protocol, target.addresses[protocol]),
            *(MODEL, str(clients), str(seconds), str(SMALL)),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    spent = [nanoseconds(pid) - each for pid, each in zip(target.pids, before, strict=True)]
    cpu = sum(spent) / 1e3 / (found["requests"] + clients)
    return Run(
        found["rate"],
        found["p99"],
        cpu,
        max(spent) / max(1, sum(spent)),
        cpu * found["rate"] / 1e6,
        found["cores"],
    )


def table(targets: Sequence[Target], protocol: str, seconds: float, repeats: int) -> list[str]:
    """Measure all targets in turns; return the rows of a table."""
    head = ["clients", "server", "1 process, req/s (best)", "2 processes, req/s (best)", "gain"]
    head += ["CPU per request, µs, 1 : 2", "ms p99, 1 : 2", "busier of 2"]
    head += ["cores of server + clients, 1 : 2"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for clients in CLIENTS:
        runs: dict[tuple[str, int], list[Run]] = {}
        for _ in range(repeats):
            for target in targets:
                run = ask(target, protocol, clients, seconds)
                runs.setdefault((target.name, target.workers), []).append(run)
        for name in dict.fromkeys(target.name for target in targets):
            one, two = (runs[name, workers] for workers in WORKERS)
            of_both = [
                f"{median(run.rate for run in each):,.0f} ({max(run.rate for run in each):,.0f})"
                for each in (one, two)
            ]
            rates = [median(run.rate for run in each) for each in (one, two)]
            best = [max(run.rate for run in each) for each in (one, two)]
            cpu = [median(run.cpu_us for run in each) for each in (one, two)]
            late = [median(run.p99 for run in each) for each in (one, two)]
            cores = [
                f"{median(run.server_cores for run in each):.2f} + "
                f"{median(run.client_cores for run in each):.2f}"
                for each in (one, two)
            ]
            lines.append(
                f"| {clients} | {name} | {' | '.join(of_both)} "
                f"| {rates[1] / rates[0]:.2f} ({best[1] / best[0]:.2f}) "
                f"| {cpu[0]:,.0f} : {cpu[1]:,.0f} "
                f"| {late[0]:.1f} : {late[1]:.1f} | {median(run.share for run in two):.2f} "
                f"| {cores[0]} : {cores[1]} |"
            )
    return lines


def page(seconds: float, repeats: int) -> str:
    """Measure everything; return the tables as Markdown."""
    load = os.getloadavg()[0]
    lines = [
        "# One and two server processes beside one and two echoes",
        "",
        f"`python -m bench.workers` on {describe_machine()}; grpcio {grpc.__version__}, aiohttp "
        f"{aiohttp.__version__}; load average at the start {load:.1f}. Medians of {repeats} runs "
        f"of {seconds:g} s, servers in turns, and the best run in parentheses, FP32 [1, {SMALL}]. "
        f"The clients are one process on the same machine. The kernel spreads connections, not "
        f"requests: one client is one process's. *Busier of 2* is the busier process's part of the "
        f"processor time. Where the last column adds up to the cores of the machine, a second "
        f"server process has no core to run on, and can only take from the first and from the "
        f"clients.",
    ]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder) / MODEL
        directory.mkdir()
        (directory / "graph.pbtxt").write_text(_GRAPH, encoding="utf-8")
        targets = [stack.enter_context(echoes(workers)) for workers in WORKERS]
        targets += [stack.enter_context(graphrt(workers, directory)) for workers in WORKERS]
        for protocol, title in TITLES.items():
            lines += ["", f"## {title}", "", *table(targets, protocol, seconds, repeats)]
    return "\n".join([*lines, ""])


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--seconds", type=float, default=2.0, help="of each run; default 2")
    arguments.add_argument("--repeats", type=int, default=3, help="runs of each; default 3")
    add_write(arguments)
    given = arguments.parse_args()
    text = page(given.seconds, given.repeats)
    publish(text, given.write)


if __name__ == "__main__":
    main()
