"""The figures of a run, with the definitions and the layout of vLLM's benchmark.

TTFT: from sending a request to its first token. TPOT: the rest of its time by the rest of its
tokens. ITL: the time between two arrivals of tokens. E2EL: the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any, Final

from servers.load.outcome import Outcome

_WIDTH: Final = 50
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
    outcomes: Sequence[Outcome]
    goodput: float | None
    spreads: Mapping[str, Spread]

    @property
    def good(self) -> list[Outcome]:
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
    outcomes: Sequence[Outcome], duration: float, objectives: Mapping[str, float] | None = None
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


def _keeps(outcome: Outcome, objectives: Mapping[str, float]) -> bool:
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


def table(figures: Figures) -> str:
    """Return the table that vLLM's benchmark prints."""
    good = len(figures.good)
    tokens = figures.input_tokens + figures.output_tokens
    lines = [
        " Serving Benchmark Result ".center(_WIDTH, "="),
        _row("Successful requests:", str(good)),
        _row("Failed requests:", str(figures.failed)),
        _row("Benchmark duration (s):", f"{figures.duration:.2f}"),
        _row("Total input tokens:", str(figures.input_tokens)),
        _row("Total generated tokens:", str(figures.output_tokens)),
        _row("Request throughput (req/s):", f"{figures.per_second(good):.2f}"),
    ]
    if figures.goodput is not None:
        lines.append(_row("Request goodput (req/s):", f"{figures.goodput:.2f}"))
    lines += [
        _row(
            "Output token throughput (tok/s):",
            f"{figures.per_second(figures.output_tokens):.2f}",
        ),
        _row("Total token throughput (tok/s):", f"{figures.per_second(tokens):.2f}"),
    ]
    for name, title in MEASURES.items():
        each, short = figures.spreads[name], name.upper()
        lines += [
            title.center(_WIDTH, "-"),
            _row(f"Mean {short} (ms):", f"{each.mean:.2f}"),
            _row(f"Median {short} (ms):", f"{each.median:.2f}"),
            _row(f"P99 {short} (ms):", f"{each.p99:.2f}"),
        ]
    lines.append("=" * _WIDTH)
    lines += [f"error, {count} times: {text}" for text, count in figures.errors.items()]
    return "\n".join(lines)


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
