"""The cost of the engine per packet and node, and per graph.

    python -m bench.graph_throughput [--write FILE] [--mediapipe PYTHON]
    PYTHONPATH=build/compiled python -P -m bench.graph_throughput ...    # after `make compiled`

Packets go through chains of PassThroughCalculator nodes; an observer counts them on the last
stream. ``--mediapipe`` names a Python that can import mediapipe 0.10.21, and adds its figures
for the same chains, fed and observed through its Python binding.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.machine import describe_machine, head, publish, report_parser, row, say
from graph_runtime import (
    ApplicationThreadExecutor,
    CalculatorGraph,
    Executor,
    Packet,
    ThreadPoolExecutor,
    ValidatedGraph,
    parse_graph_text,
    validate_graph,
)

#: Python with the runtime that `make compiled` has made.
COMPILED = "PYTHONPATH=build/compiled python -P"
REPEATS = 5
#: Nodes and packets of each chain.
CHAINS = ((1, 20_000), (10, 10_000), (50, 4_000))


def chain(nodes: int, extra: str = "") -> str:
    """The text of a graph that is a chain of ``nodes`` nodes."""
    lines = [
        f'node {{ calculator: "PassThroughCalculator" input_stream: "s{i}" '
        f'output_stream: "s{i + 1}" }}'
        for i in range(nodes)
    ]
    return "\n".join(['input_stream: "s0"', extra, *lines])


def plan_of(text: str) -> ValidatedGraph:
    return validate_graph(parse_graph_text(text))


class Count:
    """An observer that counts packets."""

    def __init__(self) -> None:
        self.packets = 0

    def __call__(self, stream: str, packet: Packet) -> None:
        self.packets += 1


def run_sync(nodes: int, packets: int, executor: Callable[[], Executor] | None) -> float:
    """Seconds to send all packets and wait until the graph is idle, on the application's thread."""
    graph = CalculatorGraph(text_config=chain(nodes))
    if executor is not None:
        graph.set_executor("", executor())
    count = Count()
    graph.observe_output_stream(f"s{nodes}", count)
    graph.start_run()
    packet, add = Packet(1), graph.add_packet_to_input_stream
    started = perf_counter()
    for time in range(packets):
        add("s0", packet, time)
    graph.wait_until_idle()
    elapsed = perf_counter() - started
    graph.close()
    assert count.packets == packets
    return elapsed


async def run_async(nodes: int, packets: int) -> float:
    """Seconds to send all packets and wait until the graph is idle, on an event loop."""
    graph = CalculatorGraph(text_config=chain(nodes))
    count = Count()
    graph.observe_output_stream(f"s{nodes}", count)
    await graph.start_run_async()
    packet, add = Packet(1), graph.add_packet_to_input_stream_async
    started = perf_counter()
    for time in range(packets):
        await add("s0", packet, time)
    await graph.wait_until_idle_async()
    elapsed = perf_counter() - started
    await graph.close_async()
    assert count.packets == packets
    return elapsed


def latency(nodes: int, rounds: int = 300) -> float:
    """Median seconds from adding a packet to the graph being idle again."""
    graph = CalculatorGraph(text_config=chain(nodes))
    graph.start_run()
    times = []
    for time in range(rounds):
        started = perf_counter()
        graph.add_packet_to_input_stream("s0", 1, time)
        graph.wait_until_idle()
        times.append(perf_counter() - started)
    graph.close()
    return median(times)


def whole_life(rounds: int = 2_000) -> float:
    """Seconds to make, start and close a graph of one node from a plan."""
    plan = plan_of(chain(1))
    started = perf_counter()
    for _ in range(rounds):
        graph = CalculatorGraph(validated_graph=plan)
        graph.start_run()
        graph.close()
    return (perf_counter() - started) / rounds


async def whole_life_async(rounds: int = 2_000) -> float:
    """Seconds to make, start and close a graph of one node from a plan, on an event loop."""
    plan = plan_of(chain(1))
    started = perf_counter()
    for _ in range(rounds):
        graph = CalculatorGraph(validated_graph=plan)
        await graph.start_run_async()
        await graph.close_async()
    return (perf_counter() - started) / rounds


def queued(packets: int) -> float:
    """Seconds per packet to queue packets before a join that waits, and then to release them."""
    graph = CalculatorGraph(
        text_config="""
        input_stream: "a" input_stream: "b" max_queue_size: -1
        node {
          calculator: "PassThroughCalculator"
          input_stream: "a" input_stream: "b" output_stream: "c" output_stream: "d"
        }"""
    )
    count = Count()
    graph.observe_output_stream("c", count)
    graph.start_run()
    packet = Packet(1)
    started = perf_counter()
    for time in range(packets):
        graph.add_packet_to_input_stream("a", packet, time)
    graph.set_input_stream_timestamp_bound("b", packets)
    graph.wait_until_idle()
    elapsed = perf_counter() - started
    assert count.packets == packets
    graph.close()
    return elapsed / packets


def among_idle(idle: int, packets: int = 5_000) -> float:
    """Seconds per packet through one node of a graph with ``idle`` other nodes."""
    others = "\n".join(
        f'node {{ calculator: "PassThroughCalculator" input_stream: "other" '
        f'output_stream: "o{i}" }}'
        for i in range(idle)
    )
    graph = CalculatorGraph(text_config=chain(1, 'input_stream: "other"') + "\n" + others)
    graph.start_run()
    packet = Packet(1)
    started = perf_counter()
    for time in range(packets):
        graph.add_packet_to_input_stream("s0", packet, time)
    graph.wait_until_idle()
    elapsed = perf_counter() - started
    graph.close()
    return elapsed / packets


def repeated(measure: Callable[[], float]) -> list[float]:
    """Return several measurements, sorted. The garbage collector is off."""
    results = []
    for _ in range(REPEATS):
        gc.collect()
        results.append(measure())
    return sorted(results)


def spread(values: list[float], scale: float, digits: int = 2) -> str:
    """Return median and range, in other units."""
    low, middle, high = (
        f"{value * scale:,.{digits}f}" for value in (values[0], median(values), values[-1])
    )
    return f"{middle} ({low} to {high})"


def throughput_rows(name: str, measure: Callable[[int, int], float]) -> list[str]:
    rows = []
    for nodes, packets in CHAINS:
        times = repeated(partial(measure, nodes, packets))
        per_second = sorted(packets / time for time in times)
        per_node = [time / packets / nodes for time in times]
        rows.append(row(name, nodes, spread(per_second, 1, 0), spread(per_node, 1e6)))
        say(rows[-1])
    return rows


def _command() -> str:
    """Return the command with the place of the runtime, which may be compiled: hatch_build.py."""
    source = sys.modules["graph_runtime.packet"].__file__ or ""
    is_pure = source.endswith(".py")
    return f"{'python' if is_pure else COMPILED} -m bench.graph_throughput"


def report(mediapipe: str | None) -> str:
    """Return all tables as Markdown."""
    costs: dict[str, Callable[[], float]] = {
        **{
            f"one packet in, until idle, {nodes} nodes": partial(latency, nodes)
            for nodes, _ in CHAINS
        },
        "making, starting and closing a graph of one node from a plan, synchronous": whole_life,
        "the same, asyncio": lambda: asyncio.run(whole_life_async()),
        **{
            f"per packet, {packets:,} packets queued before a join": partial(queued, packets)
            for packets in (1_000, 10_000, 100_000)
        },
        **{
            f"per packet through one node, beside {idle:,} idle nodes": partial(among_idle, idle)
            for idle in (0, 100, 5_000)
        },
    }
    lines = [
        "# Throughput of the graph runtime",
        "",
        f"`{_command()}` on {describe_machine()}. Median (minimum to maximum) of {REPEATS} runs.",
        "",
        "Packets through a chain of PassThroughCalculator nodes, an observer on the last stream:",
        "",
        *head("driver", "nodes", "packets/s", "µs per packet and node"),
    ]
    lines += throughput_rows("synchronous", lambda n, p: run_sync(n, p, None))
    lines += throughput_rows(
        "application thread", lambda n, p: run_sync(n, p, ApplicationThreadExecutor)
    )
    lines += throughput_rows("asyncio", lambda n, p: asyncio.run(run_async(n, p)))
    lines += throughput_rows(
        "pool of 2 threads", lambda n, p: run_sync(n, p, lambda: ThreadPoolExecutor(2))
    )
    if mediapipe is not None:
        command = [mediapipe, str(Path(__file__).with_name("other_python.py")), "chains"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
        lines += done.stdout.splitlines()
    lines += [
        "",
        *head("cost", "µs"),
        *(row(name, spread(repeated(cost), 1e6)) for name, cost in costs.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = report_parser(__doc__)
    parser.add_argument("--mediapipe", metavar="PYTHON", help="a Python with mediapipe 0.10.21")
    arguments = parser.parse_args()
    text = report(arguments.mediapipe)
    publish(text, arguments.write)


if __name__ == "__main__":
    main()
