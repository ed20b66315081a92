"""Report of a serving benchmark, with the definitions and the layout of vLLM's.

TTFT: from sending a request to its first token. TPOT: the rest of its time by the rest of its
tokens. ITL: the time between two arrivals of tokens. E2EL: the whole request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from servers.load.figures import Spread, spread
from servers.load.outcome import Outcome

_WIDTH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of a run. ``duration`` in seconds."""

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
    """Summarize a run; only requests that succeeded count."""
    good = [each for each in outcomes if each.is_good]
    output_tokens = sum(each.output_tokens for each in good)
    return Summary(
        concurrency=concurrency,
        successful=len(good),
        failed=len(outcomes) - len(good),
        duration=duration,
        input_tokens=sum(each.input_tokens for each in good),
        output_tokens=output_tokens,
        throughput=output_tokens / duration if duration else 0.0,
        ttft=spread([each.ttft for each in good]),
        tpot=spread([each.tpot for each in good if each.tpot is not None]),
        itl=spread([gap for each in good for gap in each.gaps]),
        e2el=spread([each.e2el for each in good]),
        errors=tuple({each.error: None for each in outcomes if each.error})[:5],
    )


def report(summary: Summary) -> str:
    """Return the table that vLLM's benchmark prints."""
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
