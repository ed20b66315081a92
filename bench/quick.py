"""The ratios by which graphrt is judged, in under five minutes, beside the committed ones.

    python -m bench.quick [--only packets kserve streams] [--write] [--shared]

Every figure is a ratio whose two sides are measured in turns within this run, so that the speed of
the machine cancels out: a packet beside a plain loop of calls (CPU time), a request beside an echo
of bytes, a stream beside the engine without a server. The committed ones are in
``bench/quick.md``, which ``--write`` replaces. A ratio has moved when its interval and the
committed one have nothing in common.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic, process_time
from typing import Final, NamedTuple

from bench.engine_throughput import tokens_per_word
from bench.graph_throughput import run_async, run_sync, whole_life
from bench.kserve_throughput import CLIENTS, GRAPH, LIMITS, MODEL, SMALL, Target, ask, echo_server
from bench.machine import ServerProcess, describe_machine
from bench.serve_vs_engine import (
    DEMO,
    QUICK_REQUESTS,
    Model,
    load_arguments,
    measure_pair,
    throughput_ratio,
)
from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.tuning.arena import Interval, median_interval

PAGE: Final = Path(__file__).with_suffix(".md")
_ROW: Final = re.compile(r"^\| (.+?) \| ([\d.]+) \(([\d.]+) to ([\d.]+)\) \|", re.MULTILINE)
#: Turns of each ratio; six are needed for an interval at 95 %.
_PACKET_TURNS, _KSERVE_TURNS, _STREAM_TURNS = 11, 6, 4
_PACKETS: Final = {1: 5_000, 10: 1_500, 50: 400}
_LIVES: Final = 500
_KSERVE_SECONDS: Final = 0.4


class Ratio(NamedTuple):
    """A measured ratio. ``is_less_better``: a cost, not a throughput."""

    name: str
    value: Interval
    is_less_better: bool


# Packets ------------------------------------------------------------------------------------------


def packets() -> Iterator[Ratio]:
    """Yield the CPU time of a packet and node, and of a graph's life, beside plain calls."""
    ways: Mapping[str, Callable[[int, int], float]] = {
        "synchronous": lambda nodes, count: run_sync(nodes, count, None),
        "asyncio": lambda nodes, count: asyncio.run(run_async(nodes, count)),
    }
    for way, run in ways.items():
        for nodes, count in _PACKETS.items():
            ratios = [
                # Without the graph's own start, measured by a run of one packet.
                (_cpu(partial(run, nodes, count + 1)) - _cpu(partial(run, nodes, 1)))
                / (nodes * count)
                / _call()
                for _ in range(_PACKET_TURNS)
            ]
            yield Ratio(f"packet and node, {way}, {nodes} nodes / a call", _of(ratios), True)
    lives = [_cpu(partial(whole_life, _LIVES)) / _LIVES / _call() for _ in range(_PACKET_TURNS)]
    yield Ratio("life of a graph / a call", _of(lives), True)


def _cpu(run: Callable[[], float]) -> float:
    """Return the CPU seconds of a run."""
    begin = process_time()
    run()
    return process_time() - begin


def _call(count: int = 100_000) -> float:
    """Measure the CPU seconds of one call in a loop of Python that appends and pops."""
    queue: list[int] = []

    def process(value: int) -> int:
        return value

    begin = process_time()
    for number in range(count):
        queue.append(number)
        process(queue.pop())
    return (process_time() - begin) / count


# KServe -------------------------------------------------------------------------------------------


def kserve() -> Iterator[Ratio]:
    """Yield the requests per second beside those of an echo of bytes."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / MODEL
        directory.mkdir()
        (directory / "graph.pbtxt").write_text(GRAPH, encoding="utf-8")
        with ServerProcess(directory, "--port", "auto") as server, ExitStack() as stack:
            for protocol, limits in LIMITS.items():
                address = server.grpc_address if protocol == "grpc" else server.address
                own = Target("graphrt", address, server.pids["server"])
                echo = stack.enter_context(echo_server(limits[0]))
                for clients in CLIENTS:
                    ratios = []
                    for turn in range(_KSERVE_TURNS):
                        pair = (own, echo) if turn % 2 else (echo, own)
                        rates = {
                            each.name: ask(each, protocol, clients, _KSERVE_SECONDS, SMALL).rate
                            for each in pair
                        }
                        ratios.append(rates[own.name] / rates[echo.name])
                    yield Ratio(
                        f"KServe over {protocol}, {clients} clients / an echo", _of(ratios), False
                    )


# Streams ------------------------------------------------------------------------------------------


def streams() -> Iterator[Ratio]:
    """Yield the throughput through HTTP streams beside the engine's alone, on the example model."""
    model = Model("small", "the example model", DEMO, QUICK_REQUESTS["small"])
    words = ["--tokens_per_word", f"{tokens_per_word(PromptBuilder(str(DEMO))):.4f}"]
    with ServerProcess(DEMO) as server:
        for concurrency, requests in model.requests.items():
            load = [*load_arguments(concurrency, requests, concurrency), *words]
            ratios = [
                throughput_ratio(measure_pair(model, server, load, is_engine_first=turn % 2 == 0))
                for turn in range(_STREAM_TURNS)
            ]
            yield Ratio(f"tokens/s, {concurrency} streams / the engine alone", _of(ratios), False)


# Report -------------------------------------------------------------------------------------------

GROUPS: Final[Mapping[str, Callable[[], Iterator[Ratio]]]] = {
    "packets": packets,
    "kserve": kserve,
    "streams": streams,
}


def _of(ratios: Sequence[float]) -> Interval:
    return median_interval(ratios)


def read_committed(text: str) -> dict[str, Interval]:
    """Return the ratios of a written page, by name."""
    return {
        name: Interval(float(low), float(middle), float(high))
        for name, middle, low, high in _ROW.findall(text)
    }


def verdict(ratio: Ratio, committed: Interval | None) -> str:
    """Return how a ratio compares with the committed one, in words."""
    if committed is None:
        return "new"
    now = ratio.value
    if now.low <= committed.high and committed.low <= now.high:
        return "as before"
    is_better = (now.median < committed.median) is ratio.is_less_better
    change = abs(now.median / committed.median - 1)
    return f"{'BETTER' if is_better else 'WORSE'} by {change:.0%}"


def row(ratio: Ratio, committed: Interval | None) -> str:
    """Return the row of a table."""
    shown = _shown(ratio.value)
    before = "" if committed is None else _shown(committed)
    return f"| {ratio.name} | {shown} | {before} | {verdict(ratio, committed)} |"


def _shown(value: Interval) -> str:
    digits = 3 if value.median < 10 else 1
    return f"{value.median:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, and write the page if requested; return 1 if a ratio became worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    arguments = parser.parse_args(words)
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    committed = read_committed(old)
    begin = monotonic()
    found: list[Ratio] = []
    print("| ratio | now | committed | |\n|---|---|---|---|")
    for group in arguments.only:
        for ratio in GROUPS[group]():
            found.append(ratio)
            print(row(ratio, committed.get(ratio.name)), flush=True)
    seconds = monotonic() - begin
    worse = [each.name for each in found if "WORSE" in verdict(each, committed.get(each.name))]
    print(f"\n{seconds:.0f} s; {len(worse)} of {len(found)} became worse", file=sys.stderr)
    if arguments.write:
        measured = {each.name: each.value for each in found}
        kept = {**committed, **measured}
        busy = " The machine was shared with other work." if arguments.shared else ""
        lines = [
            "# Ratios",
            "",
            f"`make bench-quick` compares with these; `python -m bench.quick --write` on "
            f"{describe_machine()}. Medians with their limits, the two sides in turns.{busy}",
            "",
            "| ratio | median (limits) |",
            "|---|---|",
            *(f"| {name} | {_shown(value)} |" for name, value in kept.items()),
        ]
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
