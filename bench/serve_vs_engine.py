"""A server against its own engine: the same prompts and sampling through both, in turns.

    python -m bench.serve_vs_engine [--write FILE] [--quick] [--models small large]
    python -m bench.serve_vs_engine --open_streams N [--write FILE]

``engine`` is openvino-genai's pipeline driven directly (`bench.engine`), ``server`` is
`graphrt serve` with streams over HTTP, loaded by `bench.load_generator`; both have the options of
the same graph and the engine's environment, and server and clients share the machine. The server
is started again now and then, as one may be faster than the next. The small model is
``examples/models/demo``; the large one has random weights and is made for the run
(`bench.random_model`).

``--open_streams`` measures nothing but the memory that many open streams cost the server's own
process: chats that the engine computes together, when each of them has brought text, and once more
a while later.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.downloads import get_smollm2
from bench.engine import model_options, tokens_per_word
from bench.limits import demo
from bench.load_generator import Address, Connection, chat_body, connect, run_loop
from bench.machine import (
    DEMO,
    ServerProcess,
    describe_machine,
    head,
    publish,
    report_parser,
    row,
    say,
    versions,
)
from bench.random_model import LARGE, make_model, write_graph
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
    columns = ["concurrency", "ratio of throughput", "TTFT, ms more", "engine alone"]
    columns += ["engine process"]
    lines = [
        f"## {comparison.name.capitalize()}: {comparison.words}",
        "",
        f"{turns} turns. TTFT and TPOT in ms: mean, median, p99.",
        "",
        *head("concurrency", "", "tokens/s", *("TTFT", "", ""), *("TPOT", "", "")),
    ]
    for concurrency, pairs in comparison.pairs.items():
        for place, side in enumerate(("engine", "server")):
            runs = [pair[place] for pair in pairs]
            lines.append(
                row(
                    *(concurrency, side, f"{median(run.throughput for run in runs):,.0f}"),
                    *_spread(runs, "ttft", 1),
                    *_spread(runs, "tpot", 2),
                )
            )
    lines += [
        "",
        "CPU in µs per output token: of the engine alone, then of the server's processes and the "
        "clients. Outside the engine: the server's processes less the engine alone.",
        "",
        *head(*columns, "server", "prompts", "outside the engine", "clients"),
    ]
    for concurrency, pairs in comparison.pairs.items():
        servers = [server for _, server in pairs]
        parts = [
            f"{median(run.cpu[part] for run in servers):,.1f}"
            for part in ("engine", "server", "prompts")
        ]
        ratios = [throughput_ratio(pair) for pair in pairs]
        lines.append(
            row(
                concurrency,
                f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
                f"{median(map(delay, pairs)):+.1f}",
                f"{median(engine.cpu['engine'] for engine, _ in pairs):,.1f}",
                *parts,
                f"{median(map(cpu_outside, pairs)):,.1f}",
                f"{median(run.cpu['clients'] for run in servers):,.1f}",
            )
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
    aim = f"{comparison.name}: at least {least} of the engine's throughput in every turn"
    yield row(aim, shown, _yes(min(ratios) >= least))
    if comparison.name != "small":
        more = median(map(delay, comparison.first_tokens))
        engine = median(pair[0].ttft["median"] for pair in comparison.first_tokens)
        yield row(
            f"{comparison.name}: at most {MOST_DELAY:.0f} ms more to the first token, at 1",
            f"{more:+.1f} ms (medians of requests for two tokens; the engine's: {engine:.1f} ms)",
            _yes(more <= MOST_DELAY),
        )
    else:
        busiest = max(comparison.pairs)
        cpu = median(map(cpu_outside, comparison.pairs[busiest]))
        own, prompts = (
            median(server.cpu[part] for _, server in comparison.pairs[busiest])
            for part in ("server", "prompts")
        )
        yield row(
            f"small: under {MOST_CPU:.0f} µs of CPU per token outside the engine",
            f"{cpu:.1f} µs at {busiest}; the server's own process {own:.1f} µs, that of prompts "
            f"{prompts:.1f}",
            _yes(max(cpu, own + prompts) < MOST_CPU),
        )


def _spread(runs: Sequence[Measurement], name: str, digits: int) -> list[str]:
    return [
        f"{median(getattr(run, name)[figure] for run in runs):,.{digits}f}"
        for figure in ("mean", "median", "p99")
    ]


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"


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
    return run_part("bench.engine", "throughput", graph, *load, environment=ENVIRONMENT)


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


# Open streams -------------------------------------------------------------------------------------

#: More tokens than are generated before the measurement.
_OPEN_TOKENS: Final = 1900
_LATER: Final = 2.0


class StreamMemory(NamedTuple):
    """Bytes of the server's process: before, with the streams open, and after they are closed."""

    streams: int
    before: int
    during: int
    after: int


def measure_open_streams(streams: int) -> StreamMemory:
    """Serve the example model to ``streams`` clients at once.

    Raises:
        RuntimeError: not all streams were open together.
    """
    with demo(f"max_num_seqs: {streams}") as place, ServerProcess(place) as server:
        return run_loop(_hold_open(server, streams))


async def _hold_open(server: ServerProcess, streams: int) -> StreamMemory:
    address = Address.parse(server.url)
    # The first request of each kind allocates what later ones share.
    warm = await connect(address)
    for number in range(20):
        await warm.ask(chat_body(server.model, f"warm up {number}", 8))
    warm.close()
    before = server.resident()
    connections = [await connect(address) for _ in range(streams)]
    tasks = [
        asyncio.create_task(each.ask(chat_body(server.model, f"{number}: go", _OPEN_TOKENS)))
        for number, each in enumerate(connections)
    ]
    while not all(map(_has_text, connections)):
        if any(task.done() for task in tasks):
            raise RuntimeError("a stream ended before all of them were open")
        await asyncio.sleep(0.1)
    during = server.resident()
    await asyncio.sleep(_LATER)
    if any(task.done() for task in tasks):
        raise RuntimeError("a stream ended while memory was measured")
    during = max(during, server.resident())
    for connection in connections:
        connection.close()
    await asyncio.gather(*tasks)
    await asyncio.sleep(_LATER)
    return StreamMemory(streams, before, during, server.resident())


def _has_text(connection: Connection) -> bool:
    """Return True if text has arrived, and not the head of the answer alone."""
    return connection.pieces >= 2


def memory_row(memory: StreamMemory) -> str:
    """Return the row of the table of aims."""
    gained = (memory.during - memory.before) / 1e6
    return row(
        f"{memory.streams:,} open streams: under 100 MB",
        f"{gained:.0f} MB ({memory.before / 1e6:.0f} before, {memory.after / 1e6:.0f} after)",
        _yes(gained < 100),
    )


# Report -------------------------------------------------------------------------------------------


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
    lines += ["## Aims", "", *head("aim", "measured", "reached")]
    lines += [aim for comparison in comparisons for aim in aims(comparison)]
    if memory is not None:
        lines.append(memory_row(memory))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = report_parser(__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer requests, one repetition, no 1,000 open streams"
    )
    parser.add_argument(
        "--models", nargs="+", choices=tuple(REPETITIONS), default=("small", "large")
    )
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--open_streams", metavar="N", type=int, help="only the memory of so many")
    arguments = parser.parse_args()
    if arguments.open_streams:
        lines = [
            *head("open streams", "memory", "reached"),
            memory_row(measure_open_streams(arguments.open_streams)),
        ]
        publish(lines, arguments.write)
        return
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
