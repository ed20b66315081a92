"""KServe inference on a graph that passes a tensor through, beside servers that only echo.

    python -m bench.kserve_throughput [--seconds S] [--repeats N] [--workers] [--write FILE]

`graphrt serve` and servers that only echo (`bench.echo_servers`) get the same messages from the
same clients (`bench.clients`), in turns; every server and the clients are processes of their own on
the same machine. A message has one tensor FP32 [1, 256]; another table has 10 MB.

``--workers`` compares `graphrt serve --workers 1` and 2 with one and two echoes on one port.
Clients and servers share the machine, so that two processes cannot be twice as fast as one where
there are two cores.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import aiohttp
import grpc

from bench.machine import (
    PASS_THROUGH,
    ServerProcess,
    children,
    describe_machine,
    head,
    nanoseconds,
    own_server,
    publish,
    report_parser,
    row,
    run_json,
)

MODEL: Final = "pass_through"
SMALL: Final = 256
LARGE: Final = 2_500_000
CLIENTS: Final = (1, 16, 64)
WORKERS: Final = (1, 2)
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
_WORKER: Final = "servers.cli.worker"


class Target(NamedTuple):
    """A running server of one or more processes, by the addresses of its protocols."""

    name: str
    addresses: Mapping[str, str]
    pids: Sequence[int]


class Run(NamedTuple):
    """One run of the clients on one server.

    Attributes:
        rate: requests per second.
        p50, p99: milliseconds from a request to its answer.
        cpu_us: processor time of all processes of the server per request, in microseconds.
        share: of the busiest process in it.
        server_cores, client_cores: that the processes used.
    """

    rate: float
    p50: float
    p99: float
    cpu_us: float
    share: float
    server_cores: float
    client_cores: float


@contextmanager
def echo_server(kind: str) -> Iterator[Target]:
    """Start an echo of one protocol."""
    with own_server("bench.echo_servers", kind) as (port, pid):
        protocol = kind.partition("-")[0].replace("http", "rest")
        yield Target(kind, {protocol: f"127.0.0.1:{port}"}, [pid])


@contextmanager
def echoes(workers: int) -> Iterator[Target]:
    """Start so many echoes of bytes of both protocols, those of one protocol on one port."""
    with ExitStack() as stack:
        pids: list[int] = []
        addresses: dict[str, str] = {}
        for protocol, kinds in LIMITS.items():
            port = 0
            for _ in range(workers):
                echo = own_server("bench.echo_servers", kinds[0], str(port))
                port, pid = stack.enter_context(echo)
                pids.append(pid)
            addresses[protocol] = f"127.0.0.1:{port}"
        yield Target("echo", addresses, pids)


@contextmanager
def graphrt(workers: int = 1) -> Iterator[Target]:
    """Start a server. One of a single process is the same program as without the flag."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / MODEL
        directory.mkdir()
        (directory / "graph.pbtxt").write_text(PASS_THROUGH, encoding="utf-8")
        with ServerProcess(directory, "--port", "auto", "--workers", str(workers)) as server:
            own = server.pids["server"]
            found = [pid for pid, words in children(own).items() if _WORKER in words]
            addresses = {"grpc": server.grpc_address, "rest": server.address}
            yield Target("graphrt", addresses, found or [own])


def ask(target: Target, protocol: str, clients: int, seconds: float, elements: int = SMALL) -> Run:
    """Run the clients once."""
    before = [nanoseconds(pid) for pid in target.pids]
    words = (protocol, target.addresses[protocol], MODEL, clients, seconds, elements)
    found = run_json("bench.clients", "infer", *words)
    spent = [nanoseconds(pid) - each for pid, each in zip(target.pids, before, strict=True)]
    cpu = sum(spent) / 1e3 / (found["requests"] + clients)
    return Run(
        found["rate"],
        found["p50"],
        found["p99"],
        cpu,
        max(spent) / max(1, sum(spent)),
        cpu * found["rate"] / 1e6,
        found["cores"],
    )


def middle(runs: Sequence[Run]) -> Run:
    """Return the medians of runs on one server."""
    return Run(*map(median, zip(*runs, strict=True)))


def measure(
    own: Target, protocol: str, clients: int, seconds: float, repeats: int, elements: int = SMALL
) -> dict[str, Run]:
    """Measure all servers in turns, the limit first and graphrt last; return their medians."""
    with ExitStack() as stack:
        targets = [*(stack.enter_context(echo_server(kind)) for kind in LIMITS[protocol]), own]
        runs: dict[str, list[Run]] = {target.name: [] for target in targets}
        for _ in range(repeats):
            for target in targets:
                runs[target.name].append(ask(target, protocol, clients, seconds, elements))
        return {name: middle(found) for name, found in runs.items()}


def rows(clients: int, measured: Mapping[str, Run]) -> Iterator[str]:
    """Yield the rows of servers at one number of clients."""
    limit = next(iter(measured.values())).rate
    for name, run in measured.items():
        yield row(
            clients,
            NAMES[name],
            f"{run.rate:,.0f}",
            f"{run.p50:.2f}",
            f"{run.p99:.2f}",
            f"{run.cpu_us:,.0f}",
            f"{run.rate / limit:.2f}",
        )


def page(seconds: float, repeats: int) -> Iterator[str]:
    """Measure everything; yield the tables."""
    yield "# KServe's fronts beside servers that only echo"
    yield ""
    yield (
        f"`python -m bench.kserve_throughput` on {describe_machine()}; grpcio {grpc.__version__}, "
        f"aiohttp {aiohttp.__version__}. Medians of {repeats} runs of {seconds:g} s, servers in "
        f"turns; the clients share the machine with the server. An echo of bytes does not look at "
        f"what it sends back; the one with protobuf parses it and makes its answer anew. Ratios "
        f"are to the echo of bytes."
    )
    aims = []
    columns = ("clients", "server", "requests/s", "ms, median", "ms, p99", "server's CPU, us")
    with graphrt() as own:
        for protocol, title in TITLES.items():
            yield from ("", f"## {title}", "", f"FP32 [1, {SMALL}]:", "", *head(*columns, "ratio"))
            for clients in CLIENTS:
                found = measure(own, protocol, clients, seconds, repeats)
                yield from rows(clients, found)
                echo, mine = found[LIMITS[protocol][0]], found[own.name]
                if protocol == "grpc":
                    ratio = mine.rate / echo.rate
                    shown, is_reached = f"{ratio:.2f}", ratio >= LEAST_RATIO
                else:
                    cpu = mine.cpu_us
                    shown = f"{cpu:.0f} us, of which the echo alone takes {echo.cpu_us:.0f}"
                    is_reached = cpu <= MOST_CPU
                reached = "reached" if is_reached else "missed"
                aims.append(f"- {protocol}, {clients} clients: {shown}; {reached}")
            yield from ("", "A tensor of 10 MB, one client:", "", *head(*columns, "ratio"))
            yield from rows(1, measure(own, protocol, 1, seconds, repeats, LARGE))
    yield from ("", "## The aims", "")
    yield (
        f"Over gRPC {LEAST_RATIO} of the echo of bytes; over REST at most {MOST_CPU} us of the "
        f"server's CPU."
    )
    yield from ("", *aims)


# Workers ------------------------------------------------------------------------------------------


def worker_rows(
    targets: Mapping[int, Sequence[Target]], protocol: str, seconds: float, repeats: int
) -> Iterator[str]:
    """Measure servers of one and two processes in turns; yield the rows of a table."""
    for clients in CLIENTS:
        runs: dict[tuple[str, int], list[Run]] = {}
        for _ in range(repeats):
            for workers, some in targets.items():
                for target in some:
                    run = ask(target, protocol, clients, seconds)
                    runs.setdefault((target.name, workers), []).append(run)
        for name in dict.fromkeys(name for name, _ in runs):
            both = [middle(runs[name, workers]) for workers in WORKERS]
            best = [max(run.rate for run in runs[name, workers]) for workers in WORKERS]
            one, two = both
            yield row(
                clients,
                name,
                *(f"{run.rate:,.0f} ({most:,.0f})" for run, most in zip(both, best, strict=True)),
                f"{two.rate / one.rate:.2f} ({best[1] / best[0]:.2f})",
                " : ".join(f"{run.cpu_us:,.0f}" for run in both),
                " : ".join(f"{run.p99:.1f}" for run in both),
                f"{two.share:.2f}",
                " : ".join(f"{run.server_cores:.2f} + {run.client_cores:.2f}" for run in both),
            )


def page_of_workers(seconds: float, repeats: int) -> Iterator[str]:
    """Measure servers of one and two processes; yield the tables."""
    load = os.getloadavg()[0]
    yield "# One and two server processes beside one and two echoes"
    yield ""
    yield (
        f"`python -m bench.kserve_throughput --workers` on {describe_machine()}; grpcio "
        f"{grpc.__version__}, aiohttp "
        f"{aiohttp.__version__}; load average at the start {load:.1f}. Medians of {repeats} runs "
        f"of {seconds:g} s, servers in turns, and the best run in parentheses, FP32 [1, {SMALL}]. "
        f"The clients are one process on the same machine. The kernel spreads connections, not "
        f"requests: one client is one process's. *Busier of 2* is the busier process's part of the "
        f"processor time. Where the last column adds up to the cores of the machine, a second "
        f"server process has no core to run on, and can only take from the first and from the "
        f"clients."
    )
    columns = ["clients", "server", "1 process, req/s (best)", "2 processes, req/s (best)", "gain"]
    columns += ["CPU per request, µs, 1 : 2", "ms p99, 1 : 2", "busier of 2"]
    columns += ["cores of server + clients, 1 : 2"]
    with ExitStack() as stack:
        targets = {
            workers: [stack.enter_context(start(workers)) for start in (echoes, graphrt)]
            for workers in WORKERS
        }
        for protocol, title in TITLES.items():
            yield from ("", f"## {title}", "", *head(*columns))
            yield from worker_rows(targets, protocol, seconds, repeats)


def main() -> None:
    parser = report_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run; default 3")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; default 3")
    parser.add_argument("--workers", action="store_true", help="one and two server processes")
    given = parser.parse_args()
    report = page_of_workers if given.workers else page
    publish(report(given.seconds, given.repeats), given.write)


if __name__ == "__main__":
    main()
