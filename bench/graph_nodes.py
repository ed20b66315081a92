"""The cost of nodes around a language model, in CPU time per delta.

    python -m bench.graph_nodes nodes [--write FILE] [--quick] [--served] [--smollm2]
    python -m bench.graph_nodes redaction [--write FILE]

``nodes``: graphs of one request with `HttpLLMCalculator`, with its three nodes, and with further
nodes around the model, in turns. The tokens are replayed, one for each turn, and the model lets
wait for each, so only the server's own work is measured; the least of many rounds, as programs
beside it only add to it. With ``--served`` servers of the first two graphs, and of one with a node
that changes nothing, are asked by 64 clients at once, in turns, over the demo model
(``--smollm2``: over SmolLM2-135M, which `bench.downloads` fetches).

``redaction``: the cost of redacting, by itself and as a node. A delta is a piece of 4.5 characters
on average. The text is prose with now and then a word, a number or an address that is masked. The
rows of nodes are CPU time over that of a ``PassThroughCalculator`` in the same place; the two
graphs run in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np

from bench.downloads import get_smollm2
from bench.load_generator import Address, Lengths, make_workload, run_load, run_loop
from bench.machine import (
    DEMO,
    ServerProcess,
    add_write,
    describe_machine,
    head,
    publish,
    row,
    run_command,
)
from calculators.kit.requests.http_payload import HttpPayload, NoClient
from calculators.language import Begun, Content, Deltas, Gained, Usage, on_text, request_for
from calculators.language.redaction.redactors import ArgumentsRedactor, TextRedactor
from calculators.language.text_patterns import Patterns
from calculators.llm.detokenizer import TokenTable
from calculators.llm.engine.engine import EngineGeneration
from calculators.llm.engine.messages import Add, Metrics, NewTokens
from calculators.llm.prompt.messages import Prompt, PromptReady
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.servable import (
    LlmServable,
    LoadedModel,
    ModelProcesses,
    ModelProfile,
    ServingLimits,
)
from calculators.llm.task_options import LlmSettings
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    ValidatedGraph,
    parse_graph_text,
    validate_graph,
)

TOKENS: Final = 400
ROUNDS: Final = 15
_PIECES: Final = [b" word", b"<|end|>"]


@on_text
class UnchangedByClass:
    """A filter that changes nothing."""

    def feed(self, text: str) -> str:
        return text

    def finish(self) -> str:
        return ""


@on_text
async def UnchangedByGenerator(text: AsyncIterator[str]) -> AsyncIterator[str]:  # noqa: N802
    """A generator that changes nothing."""
    async for piece in text:
        yield piece


_PORTS: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
"""
_ONE: Final = """\
node {
  name: "LLMExecutor"
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { MODEL } }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }
}
"""
_READER: Final = """\
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "REQUEST:request"
}
"""
_LLM: Final = """\
node {
  name: "LLMExecutor"
  calculator: "LLMCalculator"
  input_stream: "REQUEST:REQUESTS"
  input_stream: "LOOPBACK:loopback"
  output_stream: "LOOPBACK:loopback"
  output_stream: "DELTAS:deltas"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { MODEL } }
}
"""
_WRITER: Final = """\
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:ANSWER"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def _answered(requests: str, *nodes: str, answer: str = "deltas") -> str:
    """Return a reader, nodes, the model with these requests, and a writer of these deltas."""
    *before, after = nodes or ("",)
    model = _LLM.replace("REQUESTS", requests)
    return "".join([_READER, *before, model, after, _WRITER.replace("ANSWER", answer)])


def _with(calculator: str, tag: str = "DELTAS:") -> str:
    """Return the three nodes with one more before the writer."""
    node = (
        f'node {{ calculator: "{calculator}" input_stream: "{tag}deltas" '
        f'output_stream: "{tag}changed" }}\n'
    )
    return _answered("request", node, answer="changed")


_ROUTE: Final = """\
node {
  calculator: "RouterCalculator"
  input_stream: "REQUEST:request"
  output_stream: "REQUEST:0:short"
  output_stream: "REQUEST:1:long"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options {
    [type.googleapis.com/graphrt.RouterOptions] {
      route { name: "small" node: "LLMExecutor" max_prompt_characters: 400 max_waiting: 8 }
      route { name: "large" }
    }
  }
}
"""
_BEHIND: Final = """\
node {
  calculator: "FallbackCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "DELTAS:small"
  output_stream: "REQUEST:again"
}
node {
  name: "large"
  calculator: "LLMCalculator"
  input_stream: "REQUEST:0:long"
  input_stream: "REQUEST:1:again"
  input_stream: "LOOPBACK:large_loopback"
  output_stream: "LOOPBACK:large_loopback"
  output_stream: "DELTAS:large"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { MODEL } }
}
node {
  calculator: "FirstAnswerCalculator"
  input_stream: "DELTAS:0:small"
  input_stream: "DELTAS:1:large"
  output_stream: "DELTAS:answer"
}
node {
  calculator: "RedactCalculator"
  input_stream: "DELTAS:answer"
  output_stream: "DELTAS:clean"
  node_options { [type.googleapis.com/graphrt.RedactOptions] { words: "secret" } }
}
"""


def _graphs() -> dict[str, str]:
    """Return the nodes of the graphs by what they are called in the table."""
    return {
        "`HttpLLMCalculator`": _ONE,
        "three nodes": _answered("request"),
        "+ `PassThroughCalculator`": _with("PassThroughCalculator", tag=""),
        "+ a class that changes nothing": _with("UnchangedByClass"),
        "+ a generator that changes nothing": _with("UnchangedByGenerator"),
        "router, fall-back, join, redactor": _answered("short", _ROUTE, _BEHIND, answer="clean"),
    }


class _Replay(EngineGeneration):
    """One token for each read, after a turn of the event loop."""

    def __init__(self) -> None:
        super().__init__(1, lambda choice: None)
        self._left = TOKENS

    async def read(self) -> list[tuple[int, NewTokens]]:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        loop.call_soon(waiter.set_result, None)
        await waiter
        self._left -= 1
        if self._left:
            return [(0, NewTokens(0, 0, [0]))]
        self._unfinished = 0
        return [(0, NewTokens(0, 0, [0], finish_reason="length"))]


class _ReplayEngine:
    unavailable_reason = ""
    metrics = Metrics()
    unfinished = running = cache_full = restarts = 0
    pid: int | None = None

    def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        return _Replay()


class _Prompts:
    unavailable_reason = ""

    async def chat(self, *args: Any, **options: Any) -> Prompt:
        return Prompt(np.zeros(8, dtype=np.int64).tobytes(), "Hello")

    async def decode(self, *args: Any, **options: Any) -> str:
        return ""


def _replaying() -> LlmServable:
    scripted: Any = (_ReplayEngine(), _Prompts(), None)
    engine, prompts, unused = scripted
    return LlmServable(
        LoadedModel(
            processes=ModelProcesses(engine=engine, prompts=prompts, grammars=unused),
            defaults=ModelDefaults(eos_token_ids=(1,)),
            length=8192,
            engine_ready=unused,
            prompts_ready=PromptReady(TokenTable(list(_PIECES), [1])),
        ),
        ModelProfile(),
        ServingLimits(request=RequestLimits(max_model_length=8192), queue=64),
        settings=LlmSettings(),
    )


async def _run(plan: ValidatedGraph, servable: LlmServable) -> tuple[float, float]:
    """Answer one request; return the seconds of CPU time per token, and up to the first text."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": TOKENS,
        "stream": True,
    }
    graph = CalculatorGraph(validated_graph=plan)
    times: list[float] = []
    graph.observe_output_stream("output", lambda _, packet: times.append(process_time()))
    await graph.start_run_async({"llm": {"LLMExecutor": servable, "large": servable}})
    begin = process_time()
    payload = HttpPayload("/v3/chat/completions", {}, b"", body, NoClient())
    graph.add_packet_to_input_stream("input", payload, 0)
    graph.close_all_input_streams()
    await graph.wait_until_done_async()
    taken = process_time() - begin
    assert len(times) >= TOKENS
    return taken / TOKENS, times[0] - begin


async def replayed(rounds: int) -> list[str]:
    """Return the rows of the table of replayed tokens."""
    servable = _replaying()
    model = 'models_path: "./"'
    plans = {
        name: validate_graph(parse_graph_text(_PORTS + nodes.replace("MODEL", model)))
        for name, nodes in _graphs().items()
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in plans}
    for _ in range(rounds):
        for name, plan in plans.items():
            taken[name].append(await _run(plan, servable))
    least = {
        name: [min(figures) * 1e6 for figures in zip(*each, strict=True)]
        for name, each in taken.items()
    }
    base = least["`HttpLLMCalculator`"][0]
    columns = ("graph", "µs of CPU per delta", "more than one node")
    return [
        *head(*columns, "µs of CPU up to the first text"),
        *(
            row(name, f"{each:.1f}", f"{each - base:+.1f}", f"{first:.0f}")
            for name, (each, first) in least.items()
        ),
    ]


async def served(model: str, lengths: Lengths, rounds: int, requests: int) -> list[str]:
    """Return the rows of the table of served graphs, over the model at this path."""
    rows: dict[str, list[tuple[float, float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        servers: dict[str, ServerProcess] = {}
        try:
            for number, (name, nodes) in enumerate(_graphs().items()):
                if "PassThrough" in name or "router" in name:
                    continue
                place = Path(folder) / f"graph{number}"
                place.mkdir()
                text = _PORTS + nodes.replace("MODEL", f'models_path: "{model}"')
                (place / "graph.pbtxt").write_text(text, encoding="utf-8")
                servers[name] = ServerProcess(place, "--calculators", "bench.graph_nodes")
            for seed in range(rounds):
                for name, server in servers.items():
                    rows.setdefault(name, []).append(await _load(server, requests, lengths, seed))
        finally:
            for server in servers.values():
                server.close()
    columns = ("graph", "tokens/s", "server, µs of CPU per token", "engine, µs of CPU per token")
    return [
        *head(*columns, "first token alone, ms"),
        *(
            row(
                name,
                f"{statistics.median(each[0] for each in found):,.0f}",
                f"{min(each[1] for each in found):.1f}",
                f"{min(each[2] for each in found):.0f}",
                f"{min(each[3] for each in found):.2f}",
            )
            for name, found in rows.items()
        ),
    ]


async def _load(
    server: ServerProcess, requests: int, lengths: Lengths, seed: int
) -> tuple[float, float, float, float]:
    """Ask with 64 clients; return tokens/s, CPU of server and engine per token, and TTFT alone."""
    address = Address.parse(server.url)
    alone = await run_load(
        address, server.model, make_workload(8, lengths, seed + 100), concurrency=1, warm_up=2
    )
    before = server.cpu()
    work = make_workload(requests, lengths, seed)
    figures = await run_load(address, server.model, work, concurrency=64, warm_up=2)
    after = server.cpu()
    if figures.failed:
        raise RuntimeError(f"{figures.failed} requests failed")
    tokens = sum(each.output_tokens for each in figures.good)
    spent = {name: (after[name] - before[name]) / tokens * 1e6 for name in before}
    first = min(each.ttft for each in alone.good) * 1e3
    return tokens / figures.duration, spent["server"], spent["engine"], first


def nodes(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """The cost of nodes around a language model, in CPU time per delta."""
    add_write(parser)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--served", action="store_true", help="also with servers")
    parser.add_argument("--smollm2", action="store_true", help="also over SmolLM2")
    given = parser.parse_args(words)
    models = {"the demo model": str(DEMO)} if given.served else {}
    if given.smollm2:
        models["SmolLM2-135M (Q4_1)"] = str(get_smollm2())
    publish(nodes_report(models, quick=given.quick), given.write)


def nodes_report(models: dict[str, str], *, quick: bool) -> Iterator[str]:
    """Measure, and yield the tables."""
    turns, rounds = (5, 2) if quick else (ROUNDS, 5)
    yield "# What nodes around a language model cost"
    yield ""
    yield f"`python -m bench.graph_nodes nodes` on {describe_machine()}."
    yield f"Replayed tokens, one per delta; the least of {turns} turns."
    yield ""
    yield from run_loop(replayed(turns))
    lengths = Lengths(prompt=60, output=80)
    for name, model in models.items():
        yield from ("", f"Served, {name}, 64 streams, {rounds} turns.", "")
        requests = (64 if quick else 128) if model == str(DEMO) else (24 if quick else 64)
        yield from run_loop(served(model, lengths, rounds, requests))


# Redaction ----------------------------------------------------------------------------------------

#: The aim, in microseconds per delta.
LIMIT: Final = 10.0
_REPEATS: Final = 9
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

    return min(cost_of(run) for _ in range(_REPEATS))


_REDACTED: Final = """
input_stream: "deltas"
output_stream: "clean"
node { %s output_stream: "%sclean" }
"""


def _graph(node: str, tag: str = "") -> CalculatorGraph:
    graph = CalculatorGraph(parse_graph_text(_REDACTED % (node, tag)), registry=REGISTRY)
    graph.observe_output_stream("clean", lambda _, packet: None)
    return graph


def _feed(graph: CalculatorGraph, packets: Sequence[Deltas]) -> None:
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
    for _ in range(_REPEATS):
        base = min(base, cost_of(lambda: _feed(passing, packets)))
        for name, graph in graphs.items():
            cost = cost_of(lambda graph=graph: _feed(graph, packets))  # type: ignore[misc]
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


def redaction_report() -> Iterator[str]:
    """Measure, and yield the table."""
    pieces = prose()
    nodes = as_nodes(pieces)
    cut = [f'"{piece}' if place % 8 == 0 else piece for place, piece in enumerate(pieces)]
    arguments = ["[", *(piece.replace("\n", " ") for piece in cut)]
    for place in range(8, len(arguments), 8):
        arguments[place] += '",'
    yield "# What redaction costs"
    yield ""
    yield (
        f"`python -m bench.graph_nodes redaction` on {describe_machine()}. Microseconds of CPU "
        f"per delta of 4.5 characters, the least of {_REPEATS} runs of {DELTAS:,} deltas. The aim "
        f"is less than {LIMIT:g} for a node."
    )
    yield ""
    yield from head("words and expressions", "text", "arguments of a call", "the node")
    for name, words, expressions, ignore_case in SETS:
        patterns = Patterns(words, expressions, ignore_case=ignore_case)
        text = alone(patterns, pieces, TextRedactor)
        calls = alone(patterns, arguments, ArgumentsRedactor)
        yield row(name, f"{text:.1f}", f"{calls:.1f}", f"{nodes[name]:.1f}")
    yield ""
    yield (
        "The node is CPU time over a `PassThroughCalculator` in its place. Arguments are strings "
        "of about eight deltas."
    )


def redaction(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Cost of redaction: CPU time per delta, by itself and as a node of a graph."""
    add_write(parser)
    publish(redaction_report(), parser.parse_args(words).write)


if __name__ == "__main__":
    run_command("bench.graph_nodes", __doc__, {"nodes": nodes, "redaction": redaction})
