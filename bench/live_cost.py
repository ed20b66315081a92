"""Cost of the page's data: processor time of a server that nobody watches, and with live streams.

    python -m bench.live_cost [--sets N] [--rounds N] [--seconds S] [--write FILE]

One server gets the same requests in rounds, with 0, 1 and 5 readers of ``GET /v1/live`` in turns,
and is left alone for some seconds with each number of readers. A second server with
``--page=false`` gets the same rounds. Two equal processes differ by some hundredths, so there are
several sets, and medians of them. The figures are those of the server's own process, without
the engine's. At the end the cost of one look at many running graphs is measured in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import Final

from bench.machine import ServerProcess, WrittenReport, describe_machine
from bench.metrics_cost import (
    CALCULATORS,
    DEMO,
    ROUND,
    SHOWN,
    STREAMS,
    TELL,
    UNITS,
    Client,
    cpu_ns,
    request_of,
    run_round,
)
from graph_runtime import (
    CalculatorGraph,
    RunTotals,
    ValidatedGraph,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.observe.live_calls import LiveCalls

READERS: Final = (0, 1, 5)
KINDS: Final = ("tokens", "answer", "events")
_NODES: Final = 20
_RUNS: Final = (1, 128, 1024)


class Reader:
    """A client that reads a live stream until `close`, and counts its bytes."""

    def __init__(self, server: ServerProcess) -> None:
        self.received = 0
        self._client = Client(server)
        path = f"/v1/live?graphs={server.model}"
        self._client.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._has_begun.wait(60)

    def _read(self) -> None:
        while data := self._client.receive_some():
            self.received += len(data)
            self._has_begun.set()

    def close(self) -> None:
        self._client.shut_down()
        self._thread.join(60)
        self._client.close()


@contextmanager
def watching(server: ServerProcess, count: int) -> Iterator[list[Reader]]:
    """Watch a server with ``count`` readers."""
    readers = [Reader(server) for _ in range(count)]
    try:
        yield readers
    finally:
        for reader in readers:
            reader.close()


def measure_rounds(kind: str, directory: Path, rounds: int, *more: str) -> dict[str, float]:
    """Return microseconds of processor time per unit, of the quietest round of each way."""
    used: dict[str, list[int]] = {}
    with ExitStack() as stack:
        plain = stack.enter_context(ServerProcess(directory, *more, "--page=false"))
        server = stack.enter_context(ServerProcess(directory, *more, "--page=true"))
        request = request_of(kind, server.model)
        count = STREAMS if kind == "tokens" else 1
        clients = {each: [Client(each) for _ in range(count)] for each in (plain, server)}
        ways = [("without the page", plain, 0), *((f"{n} readers", server, n) for n in READERS)]
        for number in range(rounds + 2):
            for way, asked, readers in ways if number % 2 else reversed(ways):
                with watching(asked, readers):
                    before = cpu_ns(asked.pids["server"])
                    run_round(clients[asked], request, ROUND[kind])
                    if number >= 2:  # warm up
                        used.setdefault(way, []).append(cpu_ns(asked.pids["server"]) - before)
        for each in clients.values():
            for client in each:
                client.close()
    unit = ROUND[kind] * UNITS[kind] * 1000
    return {way: min(used[way]) / unit for way, _, _ in ways}


def measure_idle(directory: Path, seconds: float) -> dict[int, tuple[float, float]]:
    """Return the share of a core, and bytes per second and reader, by the number of readers."""
    found = {}
    with ServerProcess(directory, "--page=true") as server:
        time.sleep(2)
        for count in READERS:
            with watching(server, count) as readers:
                time.sleep(1)
                before = cpu_ns(server.pids["server"])
                sent = sum(each.received for each in readers)
                time.sleep(seconds)
                used = (cpu_ns(server.pids["server"]) - before) / 1e9 / seconds
                sent = sum(each.received for each in readers) - sent
            found[count] = (used, sent / seconds / max(1, count))
    return found


def _plan() -> ValidatedGraph:
    nodes = "".join(
        f'node {{ calculator: "PassThroughCalculator" input_stream: "s{number}" '
        f'output_stream: "s{number + 1}" }}\n'
        for number in range(_NODES)
    )
    return validate_graph(
        parse_graph_text(f'input_stream: "s0"\noutput_stream: "s{_NODES}"\n{nodes}')
    )


async def measure_looks() -> dict[int, float]:
    """Return the microseconds of one look by the number of running runs."""
    found = {}
    plan = _plan()
    totals = RunTotals(plan)
    graphs: list[CalculatorGraph] = []
    for count in _RUNS:
        while len(graphs) < count:
            graph = CalculatorGraph(validated_graph=plan)
            graph.count_into(totals)
            await graph.start_run_async()
            graph.add_packet_to_input_stream("s0", "a packet", 0)
            graphs.append(graph)
        await asyncio.sleep(0)
        taken = []
        for _ in range(20):
            began = thread_time_ns()
            totals.look()
            taken.append(thread_time_ns() - began)
        found[count] = min(taken) / 1000
    for graph in graphs:
        await graph.close_async()
    return found


def measure_calls(packets: int = 20_000) -> tuple[float, float]:
    """Return the microseconds per call of a graph that nobody watches, and of a watched one."""
    plan = _plan()

    def run(*, is_watched: bool) -> float:
        totals = RunTotals(plan)
        graph = CalculatorGraph(validated_graph=plan)
        graph.count_into(totals)
        graph.start_run()
        if is_watched:
            totals.observer = LiveCalls(len(plan.nodes))
        began = perf_counter_ns()
        for place in range(packets):
            graph.add_packet_to_input_stream("s0", "a packet", place)
        graph.wait_until_idle()
        taken = perf_counter_ns() - began
        graph.close()
        return taken / 1000 / packets / _NODES

    without, watched = [], []
    for _ in range(5):
        without.append(run(is_watched=False))
        watched.append(run(is_watched=True))
    return min(without), min(watched)


def report(sets: int, rounds: int, seconds: float, write: Callable[[str], object]) -> None:
    write("# What the page's data cost\n")
    write(f"`python -m bench.live_cost` on {describe_machine()}.")
    write(f"Processor time of the server's own process in the quietest of {rounds} rounds, of the")
    write(f"model {max(1, rounds // 4)}; medians of {sets} sets of servers. Equal processes")
    write("differ by some hundredths.\n")
    ways = ("without the page", *(f"{count} readers" for count in READERS))
    write(f"| | {' | '.join(ways)} |")
    write(f"|---|{'---|' * len(ways)}")
    with tempfile.TemporaryDirectory() as folder:
        telling = Path(folder, "tell")
        telling.mkdir()
        (telling / "graph.pbtxt").write_text(TELL)
        calculators = Path(folder, "tell.py")
        calculators.write_text(CALCULATORS)
        for kind in KINDS:
            place, more = (
                (DEMO, ()) if kind == "tokens" else (telling, ("--calculators", str(calculators)))
            )
            turns = max(1, rounds // 4) if kind == "tokens" else rounds
            measured = [measure_rounds(kind, place, turns, *more) for _ in range(sets)]
            found = {way: median(each[way] for each in measured) for way in ways}
            write(f"| {SHOWN[kind]} | {' | '.join(f'{found[way]:.2f} µs' for way in ways)} |")
    idle = measure_idle(DEMO, seconds)
    cells = " | ".join(f"{share:.2%}" for share, _ in idle.values())
    write(f"| the example model, no requests for {seconds:g} s; share of a core | | {cells} |")
    looks = asyncio.run(measure_looks())
    told = ", ".join(f"{count:,}: {taken:,.0f} µs" for count, taken in looks.items())
    write(f"\nOne look at the running runs of a graph of {_NODES} nodes, by their number: {told}.")
    without, watched = measure_calls()
    write(f"One call of a node: {without:.2f} µs, watched {watched:.2f} µs.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--write", type=Path, help="a file for the report")
    arguments = parser.parse_args()
    write = WrittenReport()
    report(arguments.sets, arguments.rounds, arguments.seconds, write)
    write.keep(arguments.write)


if __name__ == "__main__":
    main()
