"""Speculative decoding against one token at a time: the same greedy requests, one after the other.

    python -m bench.speculative_decoding [--write FILE] [--repetitions N]

``plain`` is the example model; ``draft model`` and ``prompt look-up`` add the options of
``examples/graphs/speculative`` and ``prompt_lookup``. The engine is driven as its process does it,
without a server. An accepted token is one that was proposed and is in the answer.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.engine_throughput import model_options, prompt_encoder
from bench.machine import add_write, describe_machine, publish
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.requests.sampling import read_assisted_decoding

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
GRAPHS: Final = {
    "plain": EXAMPLES / "models/demo/graph.pbtxt",
    "draft model": EXAMPLES / "graphs/speculative/graph.pbtxt",
    "prompt look-up": EXAMPLES / "graphs/prompt_lookup/graph.pbtxt",
}
MAX_TOKENS: Final = 120
TEXTS: Final = {
    "counting": ("Count from 3 to 40.", "Count from 20 to 1.", "Count from 50 to 99."),
    "answers": ("What is graphrt?", "How do I serve a model?", "What is a calculator?"),
    "stories": ("Tell me a long story about a fox.", "Write a poem", "A story about a duck"),
    "repeating": (
        "Repeat: one two three four five six seven eight nine ten",
        "Copy this: red house blue tree green hill white cloud black stone",
        "Repeat the words: apple river stone cloud horse lamp",
    ),
}


class Measured(NamedTuple):
    """Sums over all requests of a kind; ``passes`` excludes those of the prompts."""

    tokens: int
    seconds: float
    passes: int


def measure(engine: GenaiPipeline, settings: EngineSettings, prompts: Sequence[bytes]) -> Measured:
    """Run one request after the other."""
    assisted = read_assisted_decoding({}, settings.decoding_mode)
    asked = GenerationSettings(max_new_tokens=MAX_TOKENS, **assisted._asdict())
    tokens = steps = 0
    start = time.perf_counter()
    for number, prompt in enumerate(prompts):
        engine.add(Add(number, prompt, asked))
        while engine.has_work:
            gained = sum(len(each.token_ids) for each in engine.step())
            tokens += gained
            steps += gained > 0
    return Measured(tokens, time.perf_counter() - start, steps - len(prompts))


def compare(repetitions: int) -> dict[str, dict[str, list[Measured]]]:
    """Compare all ways with all texts; return the results by text and way."""
    settings = {way: model_options(graph).engine for way, graph in GRAPHS.items()}
    engines = {way: GenaiPipeline(each) for way, each in settings.items()}
    encode = prompt_encoder(PromptBuilder(settings["plain"].model_path))
    prompts = {text: [encode(each).tobytes() for each in asked] for text, asked in TEXTS.items()}
    results: dict[str, dict[str, list[Measured]]] = {
        text: {way: [] for way in GRAPHS} for text in TEXTS
    }
    for _ in range(repetitions + 1):
        # The ways take turns, so that a machine that slows down favours none; the first turn warms
        # up.
        for text, asked in prompts.items():
            for way, engine in engines.items():
                results[text][way].append(measure(engine, settings[way], asked))
                sys.stderr.write(f"{text}, {way}: {results[text][way][-1]}\n")
    return {text: {way: runs[1:] for way, runs in ways.items()} for text, ways in results.items()}


def report(results: dict[str, dict[str, list[Measured]]], repetitions: int, note: str) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Proposed tokens",
        "",
        f"`python -m bench.speculative_decoding` on {describe_machine()}. Median (minimum to "
        f"maximum) of {repetitions}; greedy, one request at a time, at most {MAX_TOKENS} tokens "
        f"each. {note}".rstrip(),
        "",
        "| texts | way | tokens | tokens per pass | accepted per pass | tokens/s |",
        "|---|---|---|---|---|---|",
    ]
    for text, ways in results.items():
        for way, runs in ways.items():
            one = runs[0]
            after = one.tokens - len(TEXTS[text])
            speeds = [run.tokens / run.seconds for run in runs]
            lines.append(
                f"| {text} | {way} | {one.tokens} | {after / one.passes:.2f} "
                f"| {after / one.passes - 1:.2f} | {statistics.median(speeds):.0f} "
                f"({min(speeds):.0f} to {max(speeds):.0f}) |"
            )
    lines += [
        "",
        "A pass of the model over a request brings one token of its own, and those that it accepts "
        "of the proposed ones (5 at a time). The example model is so small that a pass of its "
        "draft model costs nearly as much as one of its own; the passes that are saved are what a "
        "large model gains. In bf16 the last digits of a pass over several tokens differ, so an "
        "answer may take another turn where two tokens are as likely: then the numbers of tokens "
        "differ.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_write(parser)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--note", default="", help="a sentence on the circumstances")
    arguments = parser.parse_args()
    text = report(compare(arguments.repetitions), arguments.repetitions, arguments.note)
    publish(text, arguments.write)


if __name__ == "__main__":
    main()
