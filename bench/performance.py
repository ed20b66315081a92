"""Plots of committed figures over commits, for ``docs/performance.md``.

    python -m bench.performance

Reads the pages of results in ``bench/`` as each commit left them, and writes one SVG per plot into
``docs/pictures/``. A point is a commit that changed a page; nothing is measured. Most pages are
of a shared machine, and of different days: a step in a curve shows where to look.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
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


def main() -> None:
    """Write all plots."""
    for plot in PLOTS:
        found = [(each.name, history(plot.page, each)) for each in plot.curves]
        curves = [(name, points) for name, points in found if points]
        (FOLDER / plot.file).write_text(draw(plot, curves), encoding="utf-8")
        print(f"{plot.file}: {', '.join(f'{name} {len(points)}' for name, points in curves)}")


if __name__ == "__main__":
    main()
