"""Cost of redaction: CPU time per delta, by itself and as a node of a graph.

    python -m bench.redaction [--write FILE]

A delta is a piece of 4.5 characters on average. The text is prose with now and then a word, a
number or an address that is masked. The rows of nodes are CPU time over that of a
``PassThroughCalculator`` in the same place; the two graphs run in turns.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any, Final

from bench.machine import add_write, describe_machine, publish
from calculators.language import Begun, Content, Deltas, Gained, Usage, request_for
from calculators.language.redaction.redactors import ArgumentsRedactor, TextRedactor
from calculators.language.text_patterns import Patterns
from graph_runtime import REGISTRY, CalculatorGraph, parse_graph_text

#: The aim, in microseconds per delta.
LIMIT: Final = 10.0
REPEATS: Final = 9
DELTAS: Final = 10_000

NUMBER: Final = r"\b\d{3}-\d{2}-\d{4}\b"
ADDRESS: Final = r"\b[\w.+-]{1,32}@(?:[\w-]{1,32}\.){1,4}\w{2,24}\b"
FOUR: Final = ("password", "secret", "Bluebird", "hunter2")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def many_words(count: int) -> tuple[str, ...]:
    source = random.Random(1)
    return tuple("".join(source.choices(_LETTERS, k=source.randint(5, 10))) for _ in range(count))


#: Name, words, expressions, and whether case is ignored.
SETS: Final[tuple[tuple[str, tuple[str, ...], tuple[str, ...], bool], ...]] = (
    ("1 word", FOUR[:1], (), False),
    ("4 words", FOUR, (), False),
    ("4 words, any case", FOUR, (), True),
    ("200 words, any case", many_words(200), (), True),
    ("5,000 words, any case", many_words(5000), (), True),
    ("a number", (), (NUMBER,), False),
    ("4 words and a number", FOUR, (NUMBER,), False),
    ("an address of e-mail", (), (ADDRESS,), False),
    ("4 words, a number, an address", FOUR, (NUMBER, ADDRESS), False),
)


def prose() -> list[str]:
    """Return `DELTAS` pieces of prose."""
    source = random.Random(2)
    words = ["the", "answer", "of", "a", "model", "is", "streamed", "piece", "by", "and", "so"]
    rare = [*FOUR, "078-05-1120", "someone@example.org"]
    pieces: list[str] = []
    while len(pieces) < DELTAS:
        word = source.choice(rare) if source.random() < 0.01 else source.choice(words)
        piece = f" {word}"
        if len(piece) > 7:  # long words are several tokens
            pieces += [piece[:4], piece[4:]]
        else:
            pieces.append(piece)
    return pieces[:DELTAS]


def cost_of(run: Callable[[], None]) -> float:
    """Return the CPU time of a run in microseconds per delta."""
    begun = process_time()
    run()
    return (process_time() - begun) / DELTAS * 1e6


def alone(patterns: Patterns, pieces: Sequence[str], kind: Callable[..., Any]) -> float:
    def run() -> None:
        redactor = kind(patterns, "***")
        for piece in pieces:
            redactor.feed(piece)
        redactor.finish()

    return min(cost_of(run) for _ in range(REPEATS))


_GRAPH: Final = """
input_stream: "deltas"
output_stream: "clean"
node { %s output_stream: "%sclean" }
"""


def _graph(node: str, tag: str = "") -> CalculatorGraph:
    graph = CalculatorGraph(parse_graph_text(_GRAPH % (node, tag)), registry=REGISTRY)
    graph.observe_output_stream("clean", lambda _, packet: None)
    return graph


def _run(graph: CalculatorGraph, packets: Sequence[Deltas]) -> None:
    graph.start_run()
    for time, packet in enumerate(packets):
        graph.add_packet_to_input_stream("deltas", packet, time)
    graph.close_all_input_streams()
    graph.wait_until_done()


def as_nodes(pieces: Sequence[str]) -> dict[str, float]:
    """Return the CPU time of each set's node per delta, without that of passing on."""
    packets = [Deltas((Gained(0, (Content(piece),)),)) for piece in pieces]
    packets[0] = Deltas((Begun(1, Usage(1, 0), request_for()), *packets[0]))
    passing = _graph('calculator: "PassThroughCalculator" input_stream: "deltas"')
    graphs = {
        name: _graph(
            'calculator: "RedactCalculator" input_stream: "DELTAS:deltas"'
            + _options(words, patterns, ignore_case),
            "DELTAS:",
        )
        for name, words, patterns, ignore_case in SETS
    }
    least: dict[str, float] = {}
    base = float("inf")
    for _ in range(REPEATS):
        base = min(base, cost_of(lambda: _run(passing, packets)))
        for name, graph in graphs.items():
            cost = cost_of(lambda graph=graph: _run(graph, packets))  # type: ignore[misc]
            least[name] = min(least.get(name, cost), cost)
    return {name: cost - base for name, cost in least.items()}


def _options(words: Sequence[str], patterns: Sequence[str], ignore_case: bool) -> str:
    lines = [f'words: "{word}"' for word in words]
    escaped = [pattern.replace("\\", "\\\\") for pattern in patterns]
    lines += [f'patterns: "{pattern}"' for pattern in escaped]
    lines.append(f"ignore_case: {str(ignore_case).lower()}")
    return (
        "node_options { [type.googleapis.com/graphrt.RedactOptions] { " + " ".join(lines) + " } }"
    )


def report() -> str:
    pieces = prose()
    nodes = as_nodes(pieces)
    cut = [f'"{piece}' if place % 8 == 0 else piece for place, piece in enumerate(pieces)]
    arguments = ["[", *(piece.replace("\n", " ") for piece in cut)]
    for place in range(8, len(arguments), 8):
        arguments[place] += '",'
    lines = [
        "# What redaction costs",
        "",
        f"`python -m bench.redaction` on {describe_machine()}. Microseconds of CPU per delta of "
        f"4.5 characters, the least of {REPEATS} runs of {DELTAS:,} deltas. The aim is less than "
        f"{LIMIT:g} for a node.",
        "",
        "| words and expressions | text | arguments of a call | the node |",
        "|---|---|---|---|",
    ]
    for name, words, expressions, ignore_case in SETS:
        patterns = Patterns(words, expressions, ignore_case=ignore_case)
        text = alone(patterns, pieces, TextRedactor)
        calls = alone(patterns, arguments, ArgumentsRedactor)
        lines.append(f"| {name} | {text:.1f} | {calls:.1f} | {nodes[name]:.1f} |")
    lines += [
        "",
        "The node is CPU time over a `PassThroughCalculator` in its place. Arguments are strings "
        "of about eight deltas.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.redaction")
    add_write(parser)
    arguments = parser.parse_args()
    made = report()
    publish(made, arguments.write)


if __name__ == "__main__":
    main()
