"""The cost of nodes around a language model, in CPU time per delta.

    python -m bench.graph_nodes [--write FILE] [--quick] [--served] [--smollm2]

Graphs of one request with `HttpLLMCalculator`, with its three nodes, and with further nodes around
the model, in turns. The tokens are replayed, one for each turn, and the model lets wait for
each, so only the server's own work is measured; the least of many rounds, because other programs
only add to it. With ``--served`` servers of the first two graphs, and of one with a node that
changes nothing, are asked by 64 clients at once, in turns, over the demo model (``--smollm2``: over
SmolLM2-135M, which `bench.smollm2` downloads).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np

from bench.load_generator import Address, Lengths, make_workload, run_load, run_loop
from bench.machine import ServerProcess, add_write, describe_machine, publish
from bench.smollm2 import get_smollm2
from calculators.kit.requests.http_payload import HttpPayload, NoClient
from calculators.language import on_text
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
from graph_runtime import CalculatorGraph, ValidatedGraph, parse_graph_text, validate_graph

DEMO: Final = Path(__file__).parents[1] / "examples/models/demo"
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
    return [
        "| graph | µs of CPU per delta | more than one node | µs of CPU up to the first text |",
        "|---|---|---|---|",
        *(
            f"| {name} | {each:.1f} | {each - base:+.1f} | {first:.0f} |"
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
    return [
        "| graph | tokens/s | server, µs of CPU per token | engine, µs of CPU per token "
        "| first token alone, ms |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {statistics.median(each[0] for each in found):,.0f} "
            f"| {min(each[1] for each in found):.1f} | {min(each[2] for each in found):.0f} "
            f"| {min(each[3] for each in found):.2f} |"
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.graph_nodes")
    add_write(parser)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--served", action="store_true", help="also with servers")
    parser.add_argument("--smollm2", action="store_true", help="also over SmolLM2")
    arguments = parser.parse_args()
    lines = [
        "# What nodes around a language model cost",
        "",
        f"`python -m bench.graph_nodes` on {describe_machine()}.",
        f"Replayed tokens, one per delta; the least of {5 if arguments.quick else ROUNDS} turns.",
        "",
        *run_loop(replayed(5 if arguments.quick else ROUNDS)),
    ]
    rounds = 2 if arguments.quick else 5
    if arguments.served:
        lengths = Lengths(prompt=60, output=80)
        lines += ["", f"Served, the demo model, 64 streams, {rounds} turns.", ""]
        lines += run_loop(served(str(DEMO), lengths, rounds, 64 if arguments.quick else 128))
    if arguments.smollm2:
        lengths = Lengths(prompt=60, output=80)
        lines += ["", f"Served, SmolLM2-135M (Q4_1), 64 streams, {rounds} turns.", ""]
        lines += run_loop(
            served(str(get_smollm2()), lengths, rounds, 24 if arguments.quick else 64)
        )
    text = "\n".join(lines) + "\n"
    publish(text, arguments.write)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
