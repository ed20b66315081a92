"""A server against its own engine: the same prompts and sampling through both, in turns.

    python -m bench.serve_vs_engine [--write FILE] [--quick] [--models small large]

``engine`` is openvino-genai's pipeline driven directly (`bench.engine_throughput`), ``server`` is
`graphrt serve` with streams over HTTP, loaded by `bench.load_generator`; both have the options of
the same graph and the engine's environment, and server and clients share the machine. The server
is started again now and then, as one may be faster than the next. The small model is
``examples/models/demo``; the large one has random weights and is made for the run
(`bench.random_model`).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.engine_throughput import model_options, tokens_per_word
from bench.machine import ServerProcess, add_write, describe_machine, publish
from bench.open_streams import StreamMemory, measure_open_streams
from bench.random_model import LARGE, make_model, write_graph
from bench.smollm2 import get_smollm2
from calculators.llm.engine import ENVIRONMENT
from calculators.llm.engine.core import LONGEST, SECONDS_PER_STREAM
from calculators.llm.prompt.builder import PromptBuilder

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


DEMO: Final = Path(__file__).parents[1] / "examples/models/demo"
#: Many short repetitions, because the speed of a shared machine changes from minute to minute.
REPETITIONS: Final = {"small": 9, "large": 3, "smollm2": 3}
#: Repetitions after which the server is restarted.
REPETITIONS_PER_SERVER: Final = 3
STREAMS: Final = 1000
#: Requests at each concurrency: enough for some seconds, and for two rounds of every client.
REQUESTS: Final = {
    "small": {1: 20, 8: 80, 32: 160, 64: 256},
    "large": {1: 6, 8: 24, 32: 64, 64: 128},
}
QUICK_REQUESTS: Final = {
    "small": {1: 10, 8: 32, 32: 64, 64: 128},
    "large": {1: 3, 8: 8, 32: 32, 64: 64},
}
#: Number of two-token requests per turn, one after the other, that measure the time to first token.
FIRST_TOKENS, FIRST_TOKEN_TURNS = 20, 3
PACKAGES: Final = ("graphrt", "openvino", "openvino-genai", "aiohttp", "uvloop")


@dataclass(frozen=True, slots=True)
class Model:
    """A model to serve. ``requests``: the number at each concurrency."""

    name: str
    words: str
    directory: Path
    requests: dict[int, int]


def find_models(names: Sequence[str], directory: Path, *, quick: bool) -> Iterator[Model]:
    requests = QUICK_REQUESTS if quick else REQUESTS
    if "small" in names:
        yield Model("small", "the example model", DEMO, requests["small"])
    if "large" in names:
        make_model(directory)
        words = f"random weights, {LARGE.parameters() / 1e6:.0f} M parameters, float16"
        yield Model("large", words, directory, requests["large"])
    if "smollm2" in names:
        served = directory.with_name("smollm2")
        write_graph(served, get_smollm2())
        yield Model("smollm2", "SmolLM2-135M, Q4_1", served, requests["large"])


def compare(model: Model, repetitions: int) -> Comparison:
    """Make all measurements of one model."""
    options = model_options(model.directory / "graph.pbtxt")
    maker = PromptBuilder(str(options.model_path))
    common = ["--tokens_per_word", f"{tokens_per_word(maker):.4f}"]
    del maker
    comparison = Comparison(model.name, model.words, {each: [] for each in model.requests})
    for first in range(0, repetitions, REPETITIONS_PER_SERVER):
        with ServerProcess(model.directory) as server:
            for repetition in range(first, min(first + REPETITIONS_PER_SERVER, repetitions)):
                for concurrency, requests in model.requests.items():
                    load = [*load_arguments(concurrency, requests, concurrency), *common]
                    pair = measure_pair(model, server, load, is_engine_first=repetition % 2 == 0)
                    comparison.pairs[concurrency].append(pair)
                load = [
                    *("--concurrency", "1", "--requests", str(FIRST_TOKENS)),
                    *("--output_tokens", "2", *common),
                ]
                for turn in range(FIRST_TOKEN_TURNS):
                    pair = measure_pair(model, server, load, is_engine_first=turn % 2 == 0)
                    comparison.first_tokens.append(pair)
    return comparison


def load_arguments(concurrency: int, requests: int, seed: int) -> list[str]:
    """Return the arguments of the load generator, and of the engine without a server."""
    return [
        *("--concurrency", str(concurrency), "--requests", str(requests)),
        *("--seed", str(seed)),
    ]


def measure_pair(
    model: Model, server: ServerProcess, load: Sequence[str], *, is_engine_first: bool
) -> Pair:
    """Measure engine and server in alternating order, so that a slowing machine favours neither."""
    if is_engine_first:
        engine = measure_engine(model, load)
        both = engine, measure_server(server, load)
    else:
        measured = measure_server(server, load)
        both = measure_engine(model, load), measured
    shown = " against ".join(f"{each.throughput:.0f}" for each in reversed(both))
    say(f"{model.name}, {' '.join(load)}: {shown} tokens/s")
    return both


def run_engine(model: Model, load: Sequence[str]) -> dict[str, Any]:
    """Measure the engine without a server."""
    graph = str(model.directory / "graph.pbtxt")
    return run_part("bench.engine_throughput", graph, *load, environment=ENVIRONMENT)


def measure_engine(model: Model, load: Sequence[str]) -> Measurement:
    figures = run_engine(model, load)
    return Measurement.of(figures, {"engine": figures["cpu_seconds"]})


def measure_server(server: ServerProcess, load: Sequence[str]) -> Measurement:
    before = server.cpu()
    figures = run_part("bench.load_generator", "--url", server.url, "--model", server.model, *load)
    used = {part: seconds - before[part] for part, seconds in server.cpu().items()}
    return Measurement.of(figures, {**used, "clients": figures["cpu_seconds"]})


def run_part(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a benchmark in a process of its own; return its figures. Variables that are set stay."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments, "--json", file.name],
            stdout=subprocess.PIPE,
            text=True,
            timeout=1800,
            env={**(environment or {}), **os.environ},
        )
        if done.returncode:
            raise RuntimeError(f"{module} failed:\n{done.stdout}")
        figures: dict[str, Any] = json.load(file)
        return figures


def report(comparisons: Sequence[Comparison], memory: StreamMemory | None, words: str) -> str:
    """Return all tables as Markdown. ``words``: the arguments of the command."""
    lines = [
        "# The server against its engine",
        "",
        f"`{f'python -m bench.serve_vs_engine {words}'.strip()}` on "
        f"{describe_machine(with_day=False)}; {versions()}. "
        "Medians; engine and server in turns, a ratio is the median of the turns' (least to "
        f"largest), and there is a new server after {REPETITIONS_PER_SERVER} turns; the clients "
        "share the machine with the server. Prompts of about 215 tokens, outputs of about 200 "
        "(log-normal), greedy, no common prefixes; plugin options as in the graphs: the defaults. "
        "Both engines have huge pages. The server sends new text to streams every "
        f"{SECONDS_PER_STREAM * 1000:g} ms per stream, at most every {LONGEST * 1000:g} ms, "
        "or with every step that takes longer; TPOT, "
        "which is a mean over an answer, does not show that.",
        "",
    ]
    for comparison in comparisons:
        lines += tables(comparison)
    lines += ["## Aims", "", "| aim | measured | reached |", "|---|---|---|"]
    lines += [row for comparison in comparisons for row in aims(comparison)]
    if memory is not None:
        gained = (memory.during - memory.before) / 1e6
        lines.append(
            f"| {memory.streams:,} open streams: under 100 MB | {gained:.0f} MB "
            f"({memory.before / 1e6:.0f} before, {memory.after / 1e6:.0f} after) | "
            f"{'yes' if gained < 100 else 'no'} |"
        )
    return "\n".join(lines) + "\n"


def versions() -> str:
    """Return the versions of the software in one line."""
    return ", ".join(f"{name} {_version(name)}" for name in PACKAGES)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from source"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_write(parser)
    parser.add_argument(
        "--quick", action="store_true", help="fewer requests, one repetition, no 1,000 open streams"
    )
    parser.add_argument(
        "--models", nargs="+", choices=tuple(REPETITIONS), default=("small", "large")
    )
    parser.add_argument("--repetitions", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        models = find_models(arguments.models, Path(place, "large"), quick=arguments.quick)
        comparisons = [
            compare(
                model,
                arguments.repetitions or (1 if arguments.quick else REPETITIONS[model.name]),
            )
            for model in models
        ]
    memory = None if arguments.quick else measure_open_streams(STREAMS)
    publish(report(comparisons, memory, " ".join(sys.argv[1:])), arguments.write)


if __name__ == "__main__":
    main()
