"""The report of a serving benchmark, with the definitions and the layout of vLLM's.

TTFT: from sending a request to its first token. TPOT: the rest of its time by the rest of its
tokens. ITL: the time between two arrivals of tokens. E2EL: the whole request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any

_WIDTH = 50


@dataclass(slots=True)
class Outcome:
    """One request as its client saw it; times in seconds of one clock.

    Attributes:
        arrivals: times at which tokens came; tokens that came together are one arrival.
        error: "" if it succeeded.
    """

    sent: float
    arrivals: list[float] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles in milliseconds."""

    mean: float
    median: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run. ``duration`` in seconds."""

    concurrency: int
    successful: int
    failed: int
    duration: float
    input_tokens: int
    output_tokens: int
    throughput: float
    ttft: Spread
    tpot: Spread
    itl: Spread
    e2el: Spread
    errors: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def summarize(outcomes: Sequence[Outcome], *, concurrency: int, duration: float) -> Summary:
    """The figures of a run; only requests that succeeded count."""
    good = [each for each in outcomes if not each.error and each.arrivals]
    output_tokens = sum(each.output_tokens for each in good)
    return Summary(
        concurrency=concurrency,
        successful=len(good),
        failed=len(outcomes) - len(good),
        duration=duration,
        input_tokens=sum(each.input_tokens for each in good),
        output_tokens=output_tokens,
        throughput=output_tokens / duration if duration else 0.0,
        ttft=spread([each.arrivals[0] - each.sent for each in good]),
        tpot=spread(
            [
                (each.arrivals[-1] - each.arrivals[0]) / (each.output_tokens - 1)
                for each in good
                if each.output_tokens > 1
            ]
        ),
        itl=spread([gap for each in good for gap in gaps(each.arrivals)]),
        e2el=spread([each.arrivals[-1] - each.sent for each in good]),
        errors=tuple({each.error: None for each in outcomes if each.error})[:5],
    )


def gaps(times: Sequence[float]) -> Iterator[float]:
    return (after - before for before, after in pairwise(times))


def spread(seconds: Sequence[float]) -> Spread:
    if not seconds:
        return Spread(0.0, 0.0, 0.0)
    ordered = sorted(seconds)
    return Spread(
        fmean(ordered) * 1e3, percentile(ordered, 50) * 1e3, percentile(ordered, 99) * 1e3
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """A percentile of sorted values, interpolated between the two nearest."""
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def report(summary: Summary) -> str:
    """The table that vLLM's benchmark prints."""
    lines = [
        " Serving Benchmark Result ".center(_WIDTH, "="),
        _row("Successful requests:", str(summary.successful)),
        _row("Failed requests:", str(summary.failed)),
        _row("Maximum request concurrency:", str(summary.concurrency)),
        _row("Benchmark duration (s):", f"{summary.duration:.2f}"),
        _row("Total input tokens:", str(summary.input_tokens)),
        _row("Total generated tokens:", str(summary.output_tokens)),
        _row("Request throughput (req/s):", f"{summary.successful / summary.duration:.2f}"),
        _row("Output token throughput (tok/s):", f"{summary.throughput:.2f}"),
    ]
    for title, short, each in (
        ("Time to First Token", "TTFT", summary.ttft),
        ("Time per Output Token (excl. 1st token)", "TPOT", summary.tpot),
        ("Inter-token Latency", "ITL", summary.itl),
        ("End-to-end Latency", "E2EL", summary.e2el),
    ):
        lines += [
            title.center(_WIDTH, "-"),
            _row(f"Mean {short} (ms):", f"{each.mean:.2f}"),
            _row(f"Median {short} (ms):", f"{each.median:.2f}"),
            _row(f"P99 {short} (ms):", f"{each.p99:.2f}"),
        ]
    lines.append("=" * _WIDTH)
    lines += [f"error: {error}" for error in summary.errors]
    return "\n".join(lines)


def _row(name: str, value: str) -> str:
    return f"{name:<40} {value:<9}".rstrip()
