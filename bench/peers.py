"""graphrt's server beside llama.cpp's and vLLM's, on CPU, with the same models and load.

    python -m bench.peers --llama-server PATH --vllm PATH [--write FILE] [--quick]

``--llama-server`` and ``--vllm`` are executables; ``vllm`` is of an environment of its own. One
server runs at a time, each with several settings (`bench.peer_servers`), all of them in turns, and
openvino-genai's pipeline without a server, which graphrt's cannot be faster than; the load is that
of `bench.serve_vs_engine`, and ``--write`` writes after every repetition.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.engine import model_options, tokens_per_word
from bench.machine import describe_machine, head, report_parser, row, say, versions
from bench.peer_servers import (
    GGUF_TYPES,
    STREAMS,
    PeerModel,
    Setting,
    example_peer_model,
    graphrt,
    llama_cpp,
    random_peer_model,
    vllm,
)
from bench.serve_vs_engine import Model, find_models, load_arguments, run_engine, run_part
from calculators.llm.prompt.builder import PromptBuilder

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
    columns = ("concurrency", "server", "setting", "tokens/s")
    lines = [
        "TTFT and TPOT in ms: mean, median, p99. Tokens: of all prompts and of all outputs.",
        "",
        *head(*columns, *("TTFT", "", ""), *("TPOT", "", ""), "tokens in", "out"),
    ]
    for concurrency in model.concurrencies:
        lines += [_row(model, way, concurrency) for way in model.runs]
    return lines


def _ratios(model: ModelRuns, server: str, words: str) -> list[str]:
    """Return the throughput of a server relative to that of each peer."""
    lines = ["", words, "", *head("concurrency", *LEAST_RATIOS)]
    for concurrency in model.concurrencies:
        ratios = [_shown(model, peer, concurrency, of=server) for peer in LEAST_RATIOS]
        lines.append(row(concurrency, *ratios))
    return lines


def aims(model: ModelRuns) -> Iterator[str]:
    """Return a row for each peer."""
    most = max(model.concurrencies)
    for server, least in LEAST_RATIOS.items():
        ratio = model.ratio(server, most)
        aim = f"at least {least} times {server}" if least > 1 else f"ahead of {server}"
        reached = "-" if ratio is None else "yes" if _reaches(ratio, least) else "no"
        shown = _shown(model, server, most)
        words = f"{model.name}, {most} streams: {aim}, its best setting"
        yield row(words, shown, reached)


def _reaches(ratio: float, least: float) -> bool:
    return ratio >= least if least > 1 else ratio > least


def _shown(model: ModelRuns, server: str, concurrency: int, *, of: str = OURS) -> str:
    ratio, best = model.ratio(server, concurrency, of=of), model.best(server, concurrency)
    return "not measured" if ratio is None or best is None else f"{ratio:.2f} ({best.setting})"


def _row(model: ModelRuns, way: Way, concurrency: int) -> str:
    runs = model.runs[way][concurrency]
    return row(
        *(concurrency, way.server, way.setting),
        f"{model.throughput(way, concurrency):,.0f}",
        *(f"{median(run.ttft[figure] for run in runs):,.1f}" for figure in _FIGURES),
        *(f"{median(run.tpot[figure] for run in runs):,.2f}" for figure in _FIGURES),
        f"{median(run.input_tokens for run in runs):,.0f}",
        f"{median(run.output_tokens for run in runs):,.0f}",
    )


_FIGURES: Final = ("mean", "median", "p99")


CONCURRENCIES: Final = (1, 8, STREAMS)
REPETITIONS: Final = 3
#: A seed that no load has; loads have their concurrency as seed.
WARM_UP_SEED: Final = 1000
NOTES: Final = (
    "One server at a time, all settings in turns; the clients share the machine with the server. "
    "Before it is measured a server answers as many requests as it can have streams. "
    "Prompts of about 215 tokens, outputs of about 200 (log-normal), greedy, `ignore_eos`, no "
    "common prefixes, no reuse of prompts.",
    "graphrt serves the example as it is in `examples/models/demo` and the random model from a "
    "GGUF file of float16. The peers have the same weights, tokens and chat templates, made by "
    "`bench.peer_servers`: llama.cpp GGUF files of the types named below, vLLM safetensors, "
    "computed in bfloat16. Of the example model they lack the bias of the attention's output (4 "
    "vectors of 256), for which their Qwen3 has no place. llama.cpp has 64 slots of 2,048 tokens, "
    "and a new connection for every request, made before its time counts, as it closes them; vLLM "
    "64 sequences, and the threads that it chooses leave a core for the rest of it.",
)


def settings_of(
    model: Model, peer_model: PeerModel, scratch: Path, arguments: argparse.Namespace
) -> list[Setting]:
    """Return all requested ways to serve a model."""
    settings = graphrt(model.directory)
    if arguments.llama_server:
        settings += llama_cpp(arguments.llama_server, peer_model, arguments.llama_types)
    if arguments.vllm:
        settings += vllm(arguments.vllm, peer_model, scratch)
    return settings


def make_peer_model(model: Model, directory: Path) -> PeerModel:
    if model.name == "small":
        return example_peer_model(directory, model.directory)
    return random_peer_model(directory)


def word_length(model: Model) -> float:
    """Tokens per word of the prompts."""
    options = model_options(model.directory / "graph.pbtxt")
    return tokens_per_word(PromptBuilder(str(options.model_path)))


def measure(
    model: Model, setting: Setting, tokens_per_word: float, concurrencies: Sequence[int]
) -> Iterator[tuple[int, Run]]:
    """Start the server and load it at each concurrency."""
    with setting.start() as target:
        common = [
            *("--url", target.url, "--model", target.model),
            *("--tokens_per_word", f"{tokens_per_word:.4f}"),
            *(["--reconnect"] if setting.reconnect else []),
        ]
        load([*common, "--output_tokens", "16"], STREAMS, STREAMS, seed=WARM_UP_SEED)
        for concurrency in concurrencies:
            run = load(common, concurrency, model.requests[concurrency], seed=concurrency)
            say(
                f"{model.name}, {concurrency}: {setting.server}, {setting.words}: "
                f"{run.throughput:.0f} tokens/s"
            )
            yield concurrency, run


def load(common: Sequence[str], concurrency: int, requests: int, *, seed: int) -> Run:
    """Run the load generator."""
    return Run.of(
        run_part("bench.load_generator", *common, *load_arguments(concurrency, requests, seed))
    )


def load_engine(model: Model, tokens_per_word: float, concurrency: int) -> Run:
    """Run the same load on the engine, without a server."""
    arguments = load_arguments(concurrency, model.requests[concurrency], concurrency)
    run = Run.of(run_engine(model, [*arguments, "--tokens_per_word", f"{tokens_per_word:.4f}"]))
    say(f"{model.name}, {concurrency}: no server: {run.throughput:.0f} tokens/s")
    return run


def way_of(setting: Setting) -> Way:
    return Way(setting.server, setting.words)


def report(models: Sequence[ModelRuns], peers: Sequence[str], repetitions: int) -> str:
    """Return all tables as Markdown."""
    lines = [
        "# Beside other servers",
        "",
        f"`python -m bench.peers` on {describe_machine()}; {', '.join((versions(), *peers))}. "
        f"Medians of {repetitions}.",
        "",
        *(line for note in NOTES for line in (note, "")),
    ]
    for model in models:
        lines += tables(model)
    lines += ["## Aims", "", *head("aim", "measured", "reached")]
    lines += [aim for model in models for aim in aims(model)]
    return "\n".join(lines) + "\n"


def peer_versions(arguments: argparse.Namespace) -> list[str]:
    """Return the peers' own descriptions of their versions, a line each."""
    programs = {"llama.cpp": arguments.llama_server, "vLLM": arguments.vllm}
    return [
        f"{name} {peer_version(program)}"
        for name, program in programs.items()
        if program is not None
    ]


def peer_version(program: Path) -> str:
    """Return a program's own description of its version."""
    done = subprocess.run(
        [program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("version")]
    return (named or lines or ["of an unknown version"])[-1].removeprefix("version:").strip()


def run(arguments: argparse.Namespace, place: Path) -> str:
    """Measure everything; return the report."""
    peers = peer_versions(arguments)
    models = list(find_models(arguments.models, place / "large", quick=arguments.quick))
    results = [ModelRuns(model.name, model.words, arguments.concurrencies) for model in models]
    ways: list[list[Setting]] = []
    for model in models:
        peer_model = make_peer_model(model, place / f"{model.name}_for_peers")
        ways.append(settings_of(model, peer_model, place / "scratch", arguments))
    lengths = [word_length(model) for model in models]
    text = ""
    for repetition in range(arguments.repetitions):
        for model, result, settings, length in zip(models, results, ways, lengths, strict=True):
            for concurrency in arguments.concurrencies:
                result.add(ENGINE, concurrency, load_engine(model, length, concurrency))
            # The order changes, so that a machine that slows down favours no server.
            first = repetition % len(settings)
            for setting in settings[first:] + settings[:first]:
                for concurrency, figures in measure(
                    model, setting, length, arguments.concurrencies
                ):
                    result.add(way_of(setting), concurrency, figures)
        text = report(results, peers, repetition + 1)
        if arguments.write:
            arguments.write.write_text(text, encoding="utf-8")
    return text


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = report_parser(__doc__)
    parser.add_argument("--llama-server", metavar="PATH", type=Path)
    parser.add_argument(
        "--llama-types",
        nargs="+",
        choices=GGUF_TYPES,
        default=["bf16"],
        help="of matrices; bf16 is the faster one where the processor multiplies it",
    )
    parser.add_argument("--vllm", metavar="PATH", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    parser.add_argument(
        "--models", nargs="+", choices=("small", "large"), default=("small", "large")
    )
    parser.add_argument(
        "--concurrencies", nargs="+", type=int, choices=CONCURRENCIES, default=CONCURRENCIES
    )
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(run(arguments, Path(place)))


if __name__ == "__main__":
    main()
