"""The figures of a run, with the definitions and the layout of vLLM's benchmark.

TTFT: from sending a request to its first token. TPOT: the rest of its time by the rest of its
tokens. ITL: the time between two arrivals of tokens. E2EL: the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean, pstdev
from typing import Any, Final, TypeAlias

from servers.load.client import RequestOutcome

_WIDTH: Final = 50
#: The width of a column of numbers.
_COLUMN: Final = 10
#: The measures, with their titles in tables.
MEASURES: Final = {
    "ttft": "Time to First Token",
    "tpot": "Time per Output Token (excl. 1st token)",
    "itl": "Inter-token Latency",
    "e2el": "End-to-end Latency",
}
#: Measures for which an objective can be set: they have one value per request.
OBJECTIVES: Final = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, deviation and percentiles of a measure in milliseconds."""

    mean: float
    median: float
    std: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run.

    Attributes:
        duration: seconds from the first request to the end of the last one.
        goodput: requests per second that kept all objectives; None where none was set.
        spreads: by the names in `MEASURES`.
    """

    duration: float
    outcomes: Sequence[RequestOutcome]
    goodput: float | None
    spreads: Mapping[str, Spread]

    @property
    def good(self) -> list[RequestOutcome]:
        """The requests that succeeded."""
        return [each for each in self.outcomes if each.is_good]

    @property
    def failed(self) -> int:
        return len(self.outcomes) - len(self.good)

    @property
    def input_tokens(self) -> int:
        return sum(each.input_tokens for each in self.good)

    @property
    def output_tokens(self) -> int:
        return sum(each.output_tokens for each in self.good)

    def per_second(self, count: float) -> float:
        return count / self.duration if self.duration else 0.0

    @property
    def errors(self) -> dict[str, int]:
        """The number of times that each error occurred."""
        counts: dict[str, int] = {}
        for each in self.outcomes:
            if not each.is_good:
                text = each.error or "no token came"
                counts[text] = counts.get(text, 0) + 1
        return counts


def figures_of(
    outcomes: Sequence[RequestOutcome],
    duration: float,
    objectives: Mapping[str, float] | None = None,
) -> Figures:
    """Summarize a run; only requests that succeeded count.

    Args:
        objectives: the most milliseconds by measure, of `OBJECTIVES`.
    """
    good = [each for each in outcomes if each.is_good]
    measured = {
        "ttft": [each.ttft for each in good],
        "tpot": [each.tpot for each in good if each.tpot is not None],
        "itl": [gap for each in good for gap in each.gaps],
        "e2el": [each.e2el for each in good],
    }
    goodput = None
    if objectives:
        kept = sum(_keeps(each, objectives) for each in good)
        goodput = kept / duration if duration else 0.0
    return Figures(
        duration=duration,
        outcomes=outcomes,
        goodput=goodput,
        spreads={name: spread(values) for name, values in measured.items()},
    )


def _keeps(outcome: RequestOutcome, objectives: Mapping[str, float]) -> bool:
    values = {"ttft": outcome.ttft, "tpot": outcome.tpot or 0.0, "e2el": outcome.e2el}
    return all(values[name] * 1e3 <= most for name, most in objectives.items())


def spread(seconds: Sequence[float]) -> Spread:
    """Summarize values in seconds; all zero where there are none."""
    if not seconds:
        return Spread(0.0, 0.0, 0.0, 0.0, 0.0)
    ordered = sorted(value * 1e3 for value in seconds)
    return Spread(
        fmean(ordered),
        percentile(ordered, 50),
        pstdev(ordered),
        percentile(ordered, 90),
        percentile(ordered, 99),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values, interpolated between the two nearest."""
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


#: The figures of one server, and the settings that its run had.
Run: TypeAlias = tuple[Figures, dict[str, Any]]


def table(figures: Figures) -> str:
    """Return the table that vLLM's benchmark prints."""
    lines = [" Serving Benchmark Result ".center(_WIDTH, "=")]
    for title, rows in _rows(figures):
        if title:
            lines.append(title.center(_WIDTH, "-"))
        lines += [_row(name, _shown(value)) for name, value in rows]
    lines.append("=" * _WIDTH)
    lines += [f"error, {count} times: {text}" for text, count in figures.errors.items()]
    return "\n".join(lines)


def side_by_side(runs: Sequence[Figures], names: Sequence[str]) -> str:
    """Return the table of two servers, with the first one's part of the second one's figures.

    Args:
        names: of the servers.
    """
    widths = [max(_COLUMN, len(name) + 2) for name in names]
    width = _WIDTH - _COLUMN + sum(widths) + _COLUMN
    lines = [" Serving Benchmark Result ".center(width, "=")]
    heads = [*names, "ratio"]
    lines.append(_columns("", heads, widths))
    first, second = (_rows(figures) for figures in runs)
    for (title, ours), (_, theirs) in zip(first, second, strict=True):
        if title:
            lines.append(title.center(width, "-"))
        for (name, one), (_, other) in zip(ours, theirs, strict=True):
            ratio = f"{one / other:.2f}" if other and isinstance(one, float) else ""
            lines.append(_columns(name, [_shown(one), _shown(other), ratio], widths))
    lines.append("=" * width)
    for name, figures in zip(names, runs, strict=True):
        lines += [f"{name}: error, {n} times: {text}" for text, n in figures.errors.items()]
    return "\n".join(lines)


def _rows(figures: Figures) -> list[tuple[str, list[tuple[str, float]]]]:
    """Return the names and values of a table, below titles."""
    good = len(figures.good)
    tokens = figures.input_tokens + figures.output_tokens
    counts: list[tuple[str, float]] = [
        ("Successful requests:", good),
        ("Failed requests:", figures.failed),
        ("Benchmark duration (s):", figures.duration),
        ("Total input tokens:", figures.input_tokens),
        ("Total generated tokens:", figures.output_tokens),
        ("Request throughput (req/s):", figures.per_second(good)),
    ]
    if figures.goodput is not None:
        counts.append(("Request goodput (req/s):", figures.goodput))
    counts += [
        ("Output token throughput (tok/s):", figures.per_second(figures.output_tokens)),
        ("Total token throughput (tok/s):", figures.per_second(tokens)),
    ]
    found: list[tuple[str, list[tuple[str, float]]]] = [("", counts)]
    for name, title in MEASURES.items():
        each, short = figures.spreads[name], name.upper()
        rows = [
            (f"Mean {short} (ms):", each.mean),
            (f"Median {short} (ms):", each.median),
            (f"P99 {short} (ms):", each.p99),
        ]
        found.append((title, rows))
    return found


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def _columns(name: str, texts: Sequence[str], widths: Sequence[int]) -> str:
    cells = (f"{text:>{width}}" for text, width in zip(texts, (*widths, _COLUMN), strict=True))
    return f"{name:<{_WIDTH - _COLUMN}}{''.join(cells)}".rstrip()


def to_json(figures: Figures, settings: Mapping[str, Any], *, keeps_texts: bool) -> dict[str, Any]:
    """Return the object that vLLM's benchmark saves, with ``settings`` first.

    Args:
        keeps_texts: with the answers, for each request.
    """
    good = figures.good
    result: dict[str, Any] = {
        **settings,
        "duration": figures.duration,
        "completed": len(good),
        "failed": figures.failed,
        "total_input_tokens": figures.input_tokens,
        "total_output_tokens": figures.output_tokens,
        "request_throughput": figures.per_second(len(good)),
        "output_throughput": figures.per_second(figures.output_tokens),
        "total_token_throughput": figures.per_second(figures.input_tokens + figures.output_tokens),
        "input_lens": [each.input_tokens for each in figures.outcomes],
        "output_lens": [each.output_tokens for each in figures.outcomes],
        "ttfts": [each.ttft if each.is_good else 0.0 for each in figures.outcomes],
        "itls": [each.gaps for each in figures.outcomes],
        "errors": [each.error for each in figures.outcomes],
    }
    if figures.goodput is not None:
        result["request_goodput"] = figures.goodput
    if keeps_texts:
        result["generated_texts"] = [each.text for each in figures.outcomes]
    for name, each in figures.spreads.items():
        for statistic in ("mean", "median", "std", "p90", "p99"):
            result[f"{statistic}_{name}_ms"] = getattr(each, statistic)
    return result


def _row(name: str, value: str) -> str:
    return f"{name:<40} {value:<9}".rstrip()


_CHART_WIDTH: Final = 560
_HEIGHT: Final = 220
_LEFT: Final = 56
_BOTTOM: Final = 34
_COLORS: Final = {"ttft": "#2563eb", "tpot": "#059669", "itl": "#d97706", "e2el": "#7c3aed"}

_STYLE: Final = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem;
       background: Canvas; color: CanvasText; }
pre { overflow-x: auto; font-size: 13px; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } text { font: 11px system-ui, sans-serif; fill: CanvasText; }
.axis { stroke: GrayText; stroke-width: 1; } .grid { stroke: GrayText; stroke-opacity: .25; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; } dd { margin: 0; }
"""


def page(*runs: Run) -> str:
    """Make the page of one run, or of one server's and another's."""
    models = " and ".join(dict.fromkeys(str(each.get("model_id")) for _, each in runs))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Benchmark of {escape(models)}</title>\n<style>\n{_STYLE}</style>\n"
        f"<h1>Benchmark of {escape(models)}</h1>\n"
        + "".join(_section(figures, settings) for figures, settings in runs)
        + "</html>\n"
    )


def _section(figures: Figures, settings: Mapping[str, Any]) -> str:
    values = {
        "ttft": [each.ttft for each in figures.good],
        "tpot": [each.tpot for each in figures.good if each.tpot is not None],
        "itl": [gap for each in figures.good for gap in each.gaps],
        "e2el": [each.e2el for each in figures.good],
    }
    charts = [
        _figure(f"{title} ({name.upper()})", _distribution(values[name], _COLORS[name]))
        for name, title in MEASURES.items()
    ]
    charts.append(_figure("Requests over time", _timeline(figures)))
    shown = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
        for name, value in settings.items()
        if value is not None
    )
    return (
        f"<dl>{shown}</dl>\n<main>\n{''.join(charts)}</main>\n<pre>{escape(table(figures))}</pre>\n"
    )


def _figure(title: str, chart: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>\n"


def _distribution(seconds: Sequence[float], color: str) -> str:
    """Draw the cumulative distribution of values over milliseconds."""
    if not seconds:
        return "<p>nothing was measured</p>"
    ordered = sorted(value * 1e3 for value in seconds)
    most = ordered[-1] or 1.0
    # One point per pixel is enough.
    step = max(1, len(ordered) // _CHART_WIDTH)
    shares = [(value, (place + 1) / len(ordered)) for place, value in enumerate(ordered)]
    chosen = [*shares[::step], shares[-1]]
    line = " ".join(f"{_x(value / most):.1f},{_y(share):.1f}" for value, share in chosen)
    return _chart(
        f'<polyline fill="none" stroke="{color}" stroke-width="2" '
        f'points="{_x(0):.1f},{_y(0):.1f} {line}"/>',
        [f"{most * part / 4:.4g} ms" for part in range(5)],
        ["0 %", "50 %", "100 %"],
    )


def _timeline(figures: Figures) -> str:
    """Draw a line per request from sending to its end, dark from the first token on."""
    good = sorted(figures.good, key=lambda each: each.sent)
    if not good:
        return "<p>nothing was measured</p>"
    start = good[0].sent
    most = max(each.arrivals[-1] for each in good) - start or 1.0
    color = _COLORS["ttft"]
    lines: list[str] = []
    for place, each in enumerate(good):
        height = _y((place + 0.5) / len(good))
        sent, first, last = (
            _x((moment - start) / most)
            for moment in (each.sent, each.arrivals[0], each.arrivals[-1])
        )
        width = max(0.6, min(6.0, 0.7 * (_HEIGHT - _BOTTOM) / len(good)))
        for begin, end, opacity in ((sent, first, 0.3), (first, last, 1.0)):
            lines.append(
                f'<line x1="{begin:.1f}" x2="{end:.1f}" y1="{height:.1f}" y2="{height:.1f}" '
                f'stroke="{color}" stroke-opacity="{opacity}" stroke-width="{width:.1f}"/>'
            )
    return _chart(
        "".join(lines),
        [f"{most * part / 4:.3g} s" for part in range(5)],
        ["1", str(-(-len(good) // 2)), str(len(good))],
    )


def _chart(content: str, below: Sequence[str], beside: Sequence[str]) -> str:
    parts = [f'<svg viewBox="0 0 {_CHART_WIDTH} {_HEIGHT}" role="img">']
    for place, text in enumerate(below):
        x = _x(place / (len(below) - 1))
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 12}" text-anchor="middle">{text}</text>')
    for place, text in enumerate(beside):
        y = _y(place / (len(beside) - 1))
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_x(1)}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    axis = f"{_LEFT},{_y(1):.1f} {_LEFT},{_y(0):.1f} {_x(1)},{_y(0):.1f}"
    parts.append(f'<polyline class="axis" fill="none" points="{axis}"/>')
    return "".join([*parts, content, "</svg>"])


def _x(share: float) -> float:
    return _LEFT + share * (_CHART_WIDTH - _LEFT - 24)


def _y(share: float) -> float:
    return (1 - share) * (_HEIGHT - _BOTTOM - 10) + 10
