"""Tables of the measurements of `bench.serve_vs_engine`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

#: The aim per model: the ratio to the engine's throughput of the worst turn.
LEAST_RATIO: Final = {"small": 0.93, "large": 0.97, "smollm2": 0.97}
#: The aim in milliseconds added to the first token, at concurrency 1, for larger models.
MOST_DELAY: Final = 2.0
#: The aim in microseconds of CPU per token outside the engine, for the small model.
MOST_CPU: Final = 25.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one side; times in milliseconds, CPU in microseconds per output token."""

    throughput: float
    tokens: int
    ttft: Mapping[str, float]
    tpot: Mapping[str, float]
    cpu: Mapping[str, float]

    @classmethod
    def of(cls, figures: Mapping[str, Any], cpu_seconds: Mapping[str, float]) -> Measurement:
        """Read the figures that a part wrote."""
        tokens = figures["output_tokens"]
        cpu = {part: seconds / tokens * 1e6 for part, seconds in cpu_seconds.items()}
        return cls(figures["throughput"], tokens, figures["ttft"], figures["tpot"], cpu)


Pair = tuple[Measurement, Measurement]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The measurements of one model: ``pairs`` of engine and server per turn, by concurrency.

    ``first_tokens``: pairs of many short answers, one after the other.
    """

    name: str
    words: str
    pairs: dict[int, list[Pair]]
    first_tokens: list[Pair] = field(default_factory=list)


def throughput_ratio(pair: Pair) -> float:
    engine, server = pair
    return server.throughput / engine.throughput


def delay(pair: Pair) -> float:
    """Return the milliseconds that the server adds to the median time to the first token."""
    engine, server = pair
    return server.ttft["median"] - engine.ttft["median"]


def cpu_outside(pair: Pair) -> float:
    """Return the CPU per token of all processes of the server, less what the engine takes alone."""
    engine, server = pair
    return sum(server.cpu[part] for part in ("server", "prompts", "engine")) - engine.cpu["engine"]


def tables(comparison: Comparison) -> list[str]:
    """Return two tables: the clients' measurements, and the costs."""
    turns = min(map(len, comparison.pairs.values()))
    lines = [
        f"## {comparison.name.capitalize()}: {comparison.words}",
        "",
        f"{turns} turns. TTFT and TPOT in ms: mean, median, p99.",
        "",
        "| concurrency | | tokens/s | TTFT | | | TPOT | | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for concurrency, pairs in comparison.pairs.items():
        for place, side in enumerate(("engine", "server")):
            runs = [pair[place] for pair in pairs]
            lines.append(
                f"| {concurrency} | {side} | {_of(runs, lambda run: run.throughput):,.0f} | "
                + " | ".join(_spread(runs, "ttft", 1))
                + " | "
                + " | ".join(_spread(runs, "tpot", 2))
                + " |"
            )
    lines += [
        "",
        "CPU in µs per output token: of the engine alone, then of the server's processes and the "
        "clients. Outside the engine: the server's processes less the engine alone.",
        "",
        "| concurrency | ratio of throughput | TTFT, ms more | engine alone | engine process | "
        "server | prompts | outside the engine | clients |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for concurrency, pairs in comparison.pairs.items():
        servers = [server for _, server in pairs]
        parts = [
            f"{median(run.cpu[part] for run in servers):,.1f}"
            for part in ("engine", "server", "prompts")
        ]
        ratios = [throughput_ratio(pair) for pair in pairs]
        lines.append(
            f"| {concurrency} | {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | "
            f"{median(map(delay, pairs)):+.1f} | "
            f"{median(engine.cpu['engine'] for engine, _ in pairs):,.1f} | "
            f"{' | '.join(parts)} | {median(map(cpu_outside, pairs)):,.1f} | "
            f"{median(run.cpu['clients'] for run in servers):,.1f} |"
        )
    return [*lines, ""]


def aims(comparison: Comparison) -> Iterator[str]:
    """Return a row for each aim of this model."""
    least = LEAST_RATIO[comparison.name]
    ratios = [min(map(throughput_ratio, pairs)) for pairs in comparison.pairs.values()]
    shown = ", ".join(
        f"{ratio:.3f} at {concurrency}"
        for concurrency, ratio in zip(comparison.pairs, ratios, strict=True)
    )
    yield (
        f"| {comparison.name}: at least {least} of the engine's throughput in every turn | "
        f"{shown} | {_yes(min(ratios) >= least)} |"
    )
    if comparison.name != "small":
        more = median(map(delay, comparison.first_tokens))
        engine = median(pair[0].ttft["median"] for pair in comparison.first_tokens)
        yield (
            f"| {comparison.name}: at most {MOST_DELAY:.0f} ms more to the first token, at 1 | "
            f"{more:+.1f} ms (medians of requests for two tokens; the engine's: {engine:.1f} ms) | "
            f"{_yes(more <= MOST_DELAY)} |"
        )
    else:
        busiest = max(comparison.pairs)
        cpu = median(map(cpu_outside, comparison.pairs[busiest]))
        own, prompts = (
            median(server.cpu[part] for _, server in comparison.pairs[busiest])
            for part in ("server", "prompts")
        )
        yield (
            f"| small: under {MOST_CPU:.0f} µs of CPU per token outside the engine | {cpu:.1f} µs "
            f"at {busiest}; the server's own process {own:.1f} µs, that of prompts {prompts:.1f} | "
            f"{_yes(max(cpu, own + prompts) < MOST_CPU)} |"
        )


def _spread(runs: Sequence[Measurement], name: str, digits: int) -> list[str]:
    return [
        f"{median(getattr(run, name)[figure] for run in runs):,.{digits}f}"
        for figure in ("mean", "median", "p99")
    ]


def _of(runs: Sequence[Measurement], figure: Callable[[Measurement], float]) -> float:
    return median(map(figure, runs))


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"
