"""Tables of the measurements of `bench.peers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple

OURS: Final = "graphrt"
#: The aim: graphrt's throughput as a multiple of a peer's, at the most streams.
LEAST_RATIOS: Final = {"llama.cpp": 2.4, "vLLM": 1.0}


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one server; tokens per second, and times in milliseconds."""

    throughput: float
    input_tokens: int
    output_tokens: int
    ttft: Mapping[str, float]
    tpot: Mapping[str, float]

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Run:
        """Read the figures that the load generator wrote."""
        names = ("throughput", "input_tokens", "output_tokens", "ttft", "tpot")
        return cls(*(figures[name] for name in names))


class Way(NamedTuple):
    """A server and its settings."""

    server: str
    setting: str


#: The engine of graphrt's server, driven without a server.
ENGINE: Final = Way("openvino-genai", "no server")


@dataclass(frozen=True, slots=True)
class ModelRuns:
    """The measurements with one model.

    Attributes:
        runs: measurements by way and concurrency, one per repetition.
    """

    name: str
    words: str
    concurrencies: Sequence[int]
    runs: dict[Way, dict[int, list[Run]]] = field(default_factory=dict)

    def add(self, way: Way, concurrency: int, run: Run) -> None:
        self.runs.setdefault(way, {}).setdefault(concurrency, []).append(run)

    def best(self, server: str, concurrency: int) -> Way | None:
        """The fastest settings of a server at a concurrency; None if it was not measured."""
        ways = [way for way in self.runs if way.server == server]
        return max(ways, key=lambda way: self.throughput(way, concurrency), default=None)

    def throughput(self, way: Way, concurrency: int) -> float:
        return median(run.throughput for run in self.runs[way][concurrency])

    def ratio(self, server: str, concurrency: int, *, of: str = OURS) -> float | None:
        """Return throughput relative to another server's best: the median over the repetitions."""
        ours, theirs = self.best(of, concurrency), self.best(server, concurrency)
        if ours is None or theirs is None:
            return None
        pairs = zip(self.runs[ours][concurrency], self.runs[theirs][concurrency], strict=True)
        return median(mine.throughput / other.throughput for mine, other in pairs)


def tables(model: ModelRuns) -> list[str]:
    """Return all runs of a model, and the ratios."""
    lines = [f"## {model.name.capitalize()}: {model.words}", "", *rows(model)]
    lines += _ratios(model, OURS, "graphrt's throughput by that of a peer's best setting:")
    words = "The engine's, without a server, by the same: no server over this engine can do better:"
    return [*lines, *_ratios(model, ENGINE.server, words), ""]


def rows(model: ModelRuns) -> list[str]:
    """Return the table of all runs of a model."""
    lines = [
        "TTFT and TPOT in ms: mean, median, p99. Tokens: of all prompts and of all outputs.",
        "",
        "| concurrency | server | setting | tokens/s | TTFT | | | TPOT | | | tokens in | out |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for concurrency in model.concurrencies:
        lines += [_row(model, way, concurrency) for way in model.runs]
    return lines


def _ratios(model: ModelRuns, server: str, words: str) -> list[str]:
    """Return the throughput of a server relative to that of each peer."""
    lines = ["", words, "", "| concurrency | " + " | ".join(LEAST_RATIOS) + " |"]
    lines.append("|---|" + "---|" * len(LEAST_RATIOS))
    for concurrency in model.concurrencies:
        ratios = [_shown(model, peer, concurrency, of=server) for peer in LEAST_RATIOS]
        lines.append(f"| {concurrency} | {' | '.join(ratios)} |")
    return lines


def aims(model: ModelRuns) -> Iterator[str]:
    """Return a row for each peer."""
    most = max(model.concurrencies)
    for server, least in LEAST_RATIOS.items():
        ratio = model.ratio(server, most)
        aim = f"at least {least} times {server}" if least > 1 else f"ahead of {server}"
        reached = "-" if ratio is None else "yes" if _reaches(ratio, least) else "no"
        shown = _shown(model, server, most)
        yield f"| {model.name}, {most} streams: {aim}, its best setting | {shown} | {reached} |"


def _reaches(ratio: float, least: float) -> bool:
    return ratio >= least if least > 1 else ratio > least


def _shown(model: ModelRuns, server: str, concurrency: int, *, of: str = OURS) -> str:
    ratio, best = model.ratio(server, concurrency, of=of), model.best(server, concurrency)
    return "not measured" if ratio is None or best is None else f"{ratio:.2f} ({best.setting})"


def _row(model: ModelRuns, way: Way, concurrency: int) -> str:
    runs = model.runs[way][concurrency]
    cells = [
        *(str(concurrency), way.server, way.setting),
        f"{model.throughput(way, concurrency):,.0f}",
        *(f"{median(run.ttft[figure] for run in runs):,.1f}" for figure in _FIGURES),
        *(f"{median(run.tpot[figure] for run in runs):,.2f}" for figure in _FIGURES),
        f"{median(run.input_tokens for run in runs):,.0f}",
        f"{median(run.output_tokens for run in runs):,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


_FIGURES: Final = ("mean", "median", "p99")
