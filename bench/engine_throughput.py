"""Throughput of openvino-genai's pipeline, driven directly: the upper limit of a server.

    python -m bench.engine_throughput examples/models/demo/graph.pbtxt --concurrency 8

Generates the requests of `bench.load_generator` with the options of the graph, the model's chat
template and the same sampling: ``ContinuousBatchingPipeline.step`` in a loop, and nothing else.
Prompts are made before the clock starts.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import openvino
import openvino_genai as genai

import calculators
from bench.load_generator import add_load_arguments, publish, workload_of
from calculators.llm.engine.library_config import generation_config, scheduler_config
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from calculators.llm.options.node_options import NodeOptions, read_node_options
from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.prompt.messages import Chat
from graph_runtime import REGISTRY, Registry, ResourceSettings
from servers.load.client import RequestOutcome, words
from servers.load.figures import Figures, figures_of
from servers.serving.graph_source import GraphSource


class Prompt(NamedTuple):
    """Token ids (shape (1, length), int64) and the number of tokens to generate."""

    input_ids: Any
    output_tokens: int


class EngineRun(NamedTuple):
    """Measurements of a run, and its outputs in the order of the prompts."""

    figures: Figures
    cpu_seconds: float
    token_ids: list[list[int]]


def model_options(graph: Path) -> NodeOptions:
    """The options of a graph's LLM node."""
    calculators.register_all(REGISTRY)
    plan = GraphSource(str(graph), Registry(REGISTRY)).validate()
    node = next(each for each in plan.nodes if each.calculator_type.endswith("LLMCalculator"))
    return read_node_options(node, ResourceSettings(graph.parent.resolve()))


def open_pipeline(settings: EngineSettings) -> Any:
    """Open the pipeline as the server opens it."""
    return genai.ContinuousBatchingPipeline(
        settings.model_path,
        scheduler_config(settings),
        settings.device or "CPU",
        dict(settings.plugin_config),
    )


def prompt_encoder(maker: PromptBuilder) -> Callable[[str], Any]:
    """Return a function from the text of a user's message to the token ids of its prompt."""

    def encode(text: str) -> Any:
        prompt = maker.render(Chat([{"role": "user", "content": text}]))
        return np.frombuffer(maker.encode(prompt, special=False), dtype=np.int64).reshape(1, -1)

    return encode


def tokens_per_word(maker: PromptBuilder) -> float:
    """The number of tokens per word of the prompts."""
    count = 2_000
    text = words(random.Random(1), count)
    return len(maker.encode(text, special=False)) / np.dtype(np.int64).itemsize / count


def run_engine(pipeline: Any, prompts: Sequence[Prompt], *, concurrency: int) -> EngineRun:
    """Keep ``concurrency`` requests open until all prompts are answered."""
    outcomes: list[RequestOutcome] = []
    generated: list[list[int]] = [[] for _ in prompts]
    handles: dict[int, Any] = {}
    waiting = iter(enumerate(prompts))

    def add() -> None:
        number, prompt = next(waiting, (-1, None))
        if prompt is None:
            return
        outcomes.append(RequestOutcome(perf_counter(), input_tokens=prompt.input_ids.shape[1]))
        settings = GenerationSettings(max_new_tokens=prompt.output_tokens, ignore_eos=True)
        handles[number] = pipeline.add_request(
            number, openvino.Tensor(prompt.input_ids), generation_config(settings)
        )

    gc.disable()
    cpu = process_time()
    started = perf_counter()
    for _ in range(concurrency):
        add()
    while handles:
        pipeline.step()
        now = perf_counter()
        ended: list[int] = []
        for number, handle in handles.items():
            if not handle.can_read():
                continue
            (output,) = handle.read().values()
            outcomes[number].arrivals.append(now)
            generated[number] += output.generated_ids
            if output.finish_reason != genai.GenerationFinishReason.NONE:
                outcomes[number].output_tokens = len(generated[number])
                ended.append(number)
        for number in ended:
            del handles[number]
            add()
    duration = perf_counter() - started
    cpu = process_time() - cpu
    gc.enable()
    return EngineRun(figures_of(outcomes, duration), cpu, generated)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("graph", type=Path, help="a graph.pbtxt with an LLM node")
    add_load_arguments(parser)
    arguments = parser.parse_args()
    options = model_options(arguments.graph)
    encode = prompt_encoder(PromptBuilder(str(options.model_path)))
    prompts = [Prompt(encode(each.text), each.output_tokens) for each in workload_of(arguments)]
    pipeline = open_pipeline(options.engine)
    warm_up = [Prompt(encode(f"warm up {number}"), 8) for number in range(arguments.warm_up)]
    run_engine(pipeline, warm_up, concurrency=1)
    run = run_engine(pipeline, prompts, concurrency=arguments.concurrency)
    publish(run.figures, run.cpu_seconds, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
