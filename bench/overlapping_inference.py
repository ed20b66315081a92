"""Overlapping inferences on one model, beside OpenVINO's own `AsyncInferQueue`.

    python -m bench.overlapping_inference [--write FILE]

Two models, of about one and about twenty milliseconds on one core, are compiled for throughput.
Each receives the same array again and again: by an `AsyncInferQueue`, by coroutines that call
`Model.infer`, and by packets of a graph with an `OpenVINOInferenceCalculator`. All have the same
number of infer requests and give every output to Python. They take turns; the median counts.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import openvino
from openvino import opset13

import calculators.tensors.openvino
from bench.machine import add_write, describe_machine, publish
from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.model_provider import MODELS
from graph_runtime import REGISTRY, CalculatorGraph, Packet, Registry

Array = npt.NDArray[np.float32]

REPEATS: Final = 5
AIM: Final = 0.95
#: Name, channels and number of its convolutions, inferences of one run.
MODELS_MEASURED: Final = (("light", 16, 3, 1500), ("heavy", 48, 8, 120))
_SIDE: Final = 48

_GRAPH: Final = """
input_stream: "in"
output_stream: "out"
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options {
    [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions] {
      servable_name: "model"
    }
  }
}
node {
  calculator: "OpenVINOInferenceCalculator"
  max_in_flight: %d
  input_side_packet: "SESSION:session"
  input_stream: "OVTENSOR:in"
  output_stream: "OVTENSOR:out"
}
"""


@dataclass(frozen=True, slots=True)
class Result:
    """Inferences per second of one model, as medians."""

    name: str
    milliseconds: float
    requests: int
    queue: float
    coroutines: float
    graph: float


def compiled_model(channels: int, layers: int) -> Any:
    """Compile a chain of 3 by 3 convolutions over 48 by 48 pixels."""
    generator = np.random.default_rng(1)
    data = opset13.parameter([1, channels, _SIDE, _SIDE], np.float32, "in")
    data.output(0).set_names({"in"})
    found: Any = data
    for _ in range(layers):
        weights = generator.standard_normal((channels, channels, 3, 3), np.float32) / channels
        found = opset13.relu(
            opset13.convolution(found, opset13.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1])
        )
    found.output(0).set_names({"out"})
    model = openvino.Model([found], [data], "model")
    return openvino.Core().compile_model(model, "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})


class OneModel:
    """A provider of a single model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def get(self, name: str, version: int | None = None) -> Model:
        return self._model


def by_queue(compiled: Any, requests: int, array: Array, count: int) -> float:
    """Seconds for ``count`` inferences by an `AsyncInferQueue`."""

    def first(request: Any) -> float:
        return float(request.get_output_tensor(0).data[0, 0, 0, 0])

    queue = openvino.AsyncInferQueue(compiled, requests)
    sums: list[float] = []
    queue.set_callback(lambda request, _: sums.append(first(request)))
    started = perf_counter()
    for _ in range(count):
        queue.start_async({0: array})
    queue.wait_all()
    elapsed = perf_counter() - started
    assert len(sums) == count
    return elapsed


async def by_coroutines(model: Model, array: Array, count: int) -> float:
    """Seconds for ``count`` inferences by coroutines, two for each infer request."""
    left = iter(range(count))
    sums: list[float] = []

    async def work() -> None:
        for _ in left:
            found = await model.infer({"in": array})
            sums.append(found["out"][0, 0, 0, 0])

    started = perf_counter()
    await asyncio.gather(*(work() for _ in range(2 * model.nireq)))
    elapsed = perf_counter() - started
    assert len(sums) == count
    return elapsed


async def by_graph(model: Model, array: Array, count: int) -> float:
    """Seconds for ``count`` inferences by the packets of one stream."""
    registry = Registry(REGISTRY)
    calculators.tensors.openvino.register(registry)
    graph = CalculatorGraph(text_config=_GRAPH % (2 * model.nireq), registry=registry)
    graph.set_service_object(MODELS, OneModel(model))
    sums: list[float] = []

    def take(_: str, packet: Packet) -> None:
        sums.append(packet.value[0, 0, 0, 0])

    graph.observe_output_stream("out", take)
    await graph.start_run_async()
    started = perf_counter()
    for time in range(count):
        await graph.add_packet_to_input_stream_async("in", array, time)
    await graph.wait_until_idle_async()
    elapsed = perf_counter() - started
    await graph.close_async()
    assert len(sums) == count
    return elapsed


def measure(name: str, channels: int, layers: int, count: int) -> Result:
    compiled = compiled_model(channels, layers)
    model = Model.of(compiled, "model")
    array = np.random.default_rng(2).standard_normal((1, channels, _SIDE, _SIDE), np.float32)
    alone = compiled.create_infer_request()
    alone.infer({0: array})
    started = perf_counter()
    for _ in range(10):
        alone.infer({0: array})
    milliseconds = (perf_counter() - started) * 100
    ways: dict[str, Callable[[], float]] = {
        "queue": lambda: by_queue(compiled, model.nireq, array, count),
        "coroutines": lambda: asyncio.run(by_coroutines(model, array, count)),
        "graph": lambda: asyncio.run(by_graph(model, array, count)),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(REPEATS):
        for way, run in ways.items():
            seconds[way].append(run())
    rates = {way: count / median(found) for way, found in seconds.items()}
    return Result(name, milliseconds, model.nireq, **rates)


def page(results: list[Result]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# Overlapping inference",
        "",
        f"`python -m bench.overlapping_inference` on {describe_machine()}; openvino "
        f"{openvino.get_version().partition('-')[0]}. Inferences per second, medians of {REPEATS}.",
        "",
        "| model | ms alone | infer requests | AsyncInferQueue | Model.infer | graph | ratios |",
        "|---|---|---|---|---|---|---|",
    ]
    reached = True
    for each in results:
        ratios = (each.coroutines / each.queue, each.graph / each.queue)
        reached = reached and min(ratios) >= AIM
        lines.append(
            f"| {each.name} | {each.milliseconds:.1f} | {each.requests} | {each.queue:,.0f} "
            f"| {each.coroutines:,.0f} | {each.graph:,.0f} | {ratios[0]:.2f}, {ratios[1]:.2f} |"
        )
    lines += ["", f"The aim, {AIM} of AsyncInferQueue: {'reached' if reached else 'missed'}.", ""]
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_write(arguments)
    given = arguments.parse_args()
    text = page([measure(*each) for each in MODELS_MEASURED])
    publish(text, given.write)


if __name__ == "__main__":
    main()
