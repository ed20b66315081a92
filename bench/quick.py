"""The ratios by which graphrt is judged, in under five minutes, beside the committed ones.

    python -m bench.quick [--only packets kserve streams] [--write] [--shared]
    python -m bench.quick --plots

Every figure is a ratio whose two sides are measured in turns within this run, so that the speed of
the machine cancels out: a packet beside a plain loop of calls (CPU time), a request beside an echo
of bytes, a stream beside the engine without a server. The committed ones are in
``bench/quick.md``, which ``--write`` replaces. A ratio has moved when its interval and the
committed one have nothing in common.

``--plots`` draws committed figures over commits, for ``docs/performance.md``: it reads the pages of
results in ``bench/`` as each commit left them, and writes one SVG per plot into ``docs/pictures/``.
A point is a commit that changed a page; nothing is measured. Most pages are of a shared machine,
and of different days: a step in a curve shows where to look.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from html import escape
from pathlib import Path
from time import monotonic, process_time
from typing import Final, NamedTuple

from bench.engine import tokens_per_word
from bench.graph_throughput import run_async, run_sync, whole_life
from bench.kserve_throughput import CLIENTS, LIMITS, ask, echo_server, graphrt
from bench.machine import DEMO, ROOT, ServerProcess, describe_machine, head, row
from bench.serve_vs_engine import (
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
    with graphrt() as own, ExitStack() as stack:
        for protocol, limits in LIMITS.items():
            echo = stack.enter_context(echo_server(limits[0]))
            for clients in CLIENTS:
                ratios = []
                for turn in range(_KSERVE_TURNS):
                    pair = (own, echo) if turn % 2 else (echo, own)
                    rates = {
                        each.name: ask(each, protocol, clients, _KSERVE_SECONDS).rate
                        for each in pair
                    }
                    ratios.append(rates[own.name] / rates[echo.name])
                name = f"KServe over {protocol}, {clients} clients / an echo"
                yield Ratio(name, _of(ratios), False)


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


def ratio_row(ratio: Ratio, committed: Interval | None) -> str:
    """Return the row of a table."""
    shown = _shown(ratio.value)
    before = "" if committed is None else _shown(committed)
    return row(ratio.name, shown, before, verdict(ratio, committed))


def _shown(value: Interval) -> str:
    digits = 3 if value.median < 10 else 1
    return f"{value.median:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"


# Plots --------------------------------------------------------------------------------------------

FOLDER: Final = ROOT / "docs" / "pictures"

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 170, 34, 40
_COLORS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")


class Curve(NamedTuple):
    """One figure of a page. ``pattern``: its first group is the number."""

    name: str
    pattern: str


class Plot(NamedTuple):
    """Curves of one page in ``bench/``."""

    file: str
    title: str
    page: str
    curves: tuple[Curve, ...]


class Point(NamedTuple):
    """A figure as a commit left it."""

    commit: str
    when: datetime
    value: float


PLOTS: Final = (
    Plot(
        "performance_packets.svg",
        "Packets: microseconds per packet and node",
        "bench/graph_throughput.md",
        tuple(
            Curve(f"{driver}, {nodes}", rf"\| {driver} \| {nodes} \| [^|]+\| ([\d.]+)")
            for driver in ("synchronous", "asyncio")
            for nodes in (1, 10, 50)
        ),
    ),
    Plot(
        "performance_streams.svg",
        "Streams: throughput as a part of the engine's, example model",
        "bench/serve_vs_engine.md",
        tuple(
            Curve(f"{streams} streams", rf"\| small: at least [^|]+\|[^|]*?([\d.]+) at {streams}\b")
            for streams in (1, 8, 32, 64)
        ),
    ),
    Plot(
        "performance_metrics.svg",
        "Metrics: microseconds that they add to a request",
        "bench/metrics_cost.md",
        (
            Curve("KServe", r"a graph that passes it on[^|]*\|[^|]+\| ([\d.]+) µs"),
            Curve("one packet", r"answers with one packet[^|]*\|[^|]+\| ([\d.]+) µs"),
        ),
    ),
)


def history(page: str, curve: Curve) -> list[Point]:
    """Return the points of a curve, oldest first; commits whose page lacks the figure have none."""
    log = _git("log", "--reverse", "--format=%h %cI", "--", page)
    points: list[Point] = []
    for line in log.splitlines():
        commit, when = line.split()
        found = re.search(curve.pattern, _git("show", f"{commit}:{page}", may_fail=True))
        if found is not None:
            points.append(Point(commit, datetime.fromisoformat(when), float(found[1])))
    return points


def _git(*words: str, may_fail: bool = False) -> str:
    """Run git; ``may_fail``: a failure is an empty text, as for a commit that removes a page."""
    done = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=not may_fail
    )
    return done.stdout


def draw(plot: Plot, curves: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """Return the SVG of a plot: commits from left to right at equal distances."""
    commits = sorted({(each.when, each.commit) for _, points in curves for each in points})
    place = {commit: number for number, (_, commit) in enumerate(commits)}
    most = max(each.value for _, points in curves for each in points) * 1.1
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(commit: str) -> float:
        return _LEFT + wide * place[commit] / max(1, len(commits) - 1)

    def y(value: float) -> float:
        return _TOP + high * (1 - value / most)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{escape(plot.title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="13">{escape(plot.title)}</text>',
    ]
    for step in range(5):
        value = most * step / 4
        parts.append(
            f'<path d="M{_LEFT} {y(value):.1f}h{wide}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
    for when, commit in (commits[0], commits[-1]):
        anchor = "start" if commit == commits[0][1] else "end"
        parts.append(
            f'<text x="{x(commit):.1f}" y="{_HEIGHT - 16}" text-anchor="{anchor}">'
            f"{commit}, {when:%Y-%m-%d}</text>"
        )
    for number, (name, points) in enumerate(curves):
        color = _COLORS[number % len(_COLORS)]
        line = " ".join(f"{x(each.commit):.1f},{y(each.value):.1f}" for each in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{x(each.commit):.1f}" cy="{y(each.value):.1f}" r="2.5" fill="{color}">'
            f"<title>{each.commit}: {each.value:g}</title></circle>"
            for each in points
        ]
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 12}" y="{_TOP + 10 + 16 * number}" fill="{color}">'
            f"{escape(name)}: {points[-1].value:g}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def draw_all() -> None:
    """Write all plots."""
    for plot in PLOTS:
        found = [(each.name, history(plot.page, each)) for each in plot.curves]
        curves = [(name, points) for name, points in found if points]
        (FOLDER / plot.file).write_text(draw(plot, curves), encoding="utf-8")
        print(f"{plot.file}: {', '.join(f'{name} {len(points)}' for name, points in curves)}")


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, and write the page if requested; return 1 if a ratio became worse."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    parser.add_argument("--plots", action="store_true", help="only draw the figures of commits")
    arguments = parser.parse_args(words)
    if arguments.plots:
        draw_all()
        return 0
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    committed = read_committed(old)
    begin = monotonic()
    found: list[Ratio] = []
    print(*head("ratio", "now", "committed", ""), sep="\n")
    for group in arguments.only:
        for ratio in GROUPS[group]():
            found.append(ratio)
            print(ratio_row(ratio, committed.get(ratio.name)), flush=True)
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
            *head("ratio", "median (limits)"),
            *(row(name, _shown(value)) for name, value in kept.items()),
        ]
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
