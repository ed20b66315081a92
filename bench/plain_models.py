"""Throughput of a plain model beside OpenVINO's own `AsyncInferQueue`.

    python -m bench.plain_models served [--seconds S] [--write FILE]
    python -m bench.plain_models overlapping [--write FILE]

``served``: a model of about five milliseconds on one core, compiled for throughput, gets one
picture FP32 [1, 12288] after the other: from an `AsyncInferQueue` in a process without a server,
from clients of `graphrt serve`, which are a process of their own, and from clients of a handler of
`grpcio` or aiohttp that only runs the model (`bench.echo_servers`), the best that a server on these
libraries can do. All have the same number of infer requests, and twice as many clients. They take
turns; medians count. Clients and server share the machine's cores with the model, so every
microsecond of theirs is missing there; `lean` clients use no library and cost least.

``overlapping``: two models, of about one and about twenty milliseconds on one core, are compiled
for throughput. Each receives the same array again and again: by an `AsyncInferQueue`, by coroutines
that call `Model.infer`, and by packets of a graph with an `OpenVINOInferenceCalculator`. All have
the same number of infer requests and give every output to Python. They take turns; the median
counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import openvino
from openvino import opset13

import calculators.tensors.openvino
from bench.clients import INPUT
from bench.machine import (
    ServerProcess,
    add_write,
    cpu_seconds,
    describe_machine,
    head,
    own_server,
    publish,
    row,
    run_command,
    run_json,
)
from calculators.tensors.openvino.directory_models import MODELS
from calculators.tensors.openvino.model import Model
from graph_runtime import REGISTRY, CalculatorGraph, Packet, Registry

Array = npt.NDArray[np.float32]

MODEL: Final = "pictures"
AIM: Final = 0.95
REPEATS: Final = 5
_COMPILED_FOR: Final = {"PERFORMANCE_HINT": "THROUGHPUT"}
_QUEUE: Final = "AsyncInferQueue"


def convolutions(data: Any, channels: Sequence[int]) -> Any:
    """Return 3 by 3 convolutions over pictures, each from a number of channels to the next."""
    generator = np.random.default_rng(1)
    found = data
    for before, after in pairwise(channels):
        weights = generator.standard_normal((after, before, 3, 3), np.float32) / before
        found = opset13.relu(
            opset13.convolution(found, opset13.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1])
        )
    return found


def milliseconds_alone(compiled: Any, array: Array, count: int = 20) -> float:
    """Return the milliseconds of one inference after the other."""
    alone = compiled.create_infer_request()
    alone.infer({0: array})
    started = perf_counter()
    for _ in range(count):
        alone.infer({0: array})
    return (perf_counter() - started) / count * 1e3


def by_queue(compiled: Any, requests: int, array: Array, until: Callable[[int], bool]) -> float:
    """Return inferences per second by an `AsyncInferQueue`, until so many are enough."""
    sums: list[float] = []
    queue = openvino.AsyncInferQueue(compiled, requests)
    queue.set_callback(
        lambda request, _: sums.append(float(request.get_output_tensor(0).data.flat[0]))
    )
    started = perf_counter()
    count = 0
    while not until(count):
        queue.start_async({0: array})
        count += 1
    queue.wait_all()
    return len(sums) / (perf_counter() - started)


def _version() -> str:
    return f"openvino {openvino.get_version().partition('-')[0]}"


def _reached(ratio: float) -> str:
    return "reached" if ratio >= AIM else "missed"


# Served -------------------------------------------------------------------------------------------

_SIDE: Final = 64
ELEMENTS: Final = 3 * _SIDE * _SIDE
_CHANNELS: Final = 32
_LAYERS: Final = 14
_FRONTS: Final = ("grpc", "http")
_AIMED_AT: Final = "gRPC, lean clients"


class Way(NamedTuple):
    """A way to the model: its front, its clients, and whether the front does nothing else."""

    front: str
    clients: str
    is_bare: bool


_WAYS: Final = {
    "bare gRPC handler, lean clients": Way("grpc", "grpc-frames", is_bare=True),
    _AIMED_AT: Way("grpc", "grpc-frames", is_bare=False),
    "gRPC, clients of grpcio": Way("grpc", "grpc", is_bare=False),
    "bare HTTP handler, lean clients": Way("http", "rest", is_bare=True),
    "REST, lean clients": Way("http", "rest", is_bare=False),
}


def make_model(place: Path) -> None:
    """Write a chain of convolutions with the means of its channels at the end."""
    data = opset13.parameter([1, ELEMENTS], np.float32, INPUT)
    data.output(0).set_names({INPUT})
    picture = np.array([1, 3, _SIDE, _SIDE], np.int64)
    shaped = opset13.reshape(data, opset13.constant(picture), False)
    found = convolutions(shaped, (3, *[_CHANNELS] * _LAYERS))
    found = opset13.reduce_mean(found, opset13.constant(np.array([2, 3], np.int64)), False)
    found.output(0).set_names({"out"})
    place.mkdir(parents=True)
    openvino.save_model(openvino.Model([found], [data], MODEL), place / "model.xml")


class Turn(NamedTuple):
    """Inferences per second, and the milliseconds of processor time for each.

    Attributes:
        server: of the server's process, with the model's.
        clients: of the clients' process.
    """

    rate: float
    server: float
    clients: float


def by_clients(protocol: str, address: str, pid: int, clients: int, seconds: float) -> Turn:
    """Measure a server by clients in a process of their own."""
    before = cpu_seconds(pid)
    # The least answer that counts is four bytes per element: the output has 32 of them.
    words = (protocol, address, MODEL, clients, seconds, ELEMENTS, 4 * _CHANNELS)
    found = run_json("bench.clients", "infer", *words)
    server = (cpu_seconds(pid) - before) / (found["requests"] + clients)
    return Turn(found["rate"], server * 1e3, found["cores"] / found["rate"] * 1e3)


def served_page(seconds: float) -> Iterator[str]:
    """Measure everything; yield the table."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder, MODEL)
        make_model(directory / "1")
        file = directory / "1" / "model.xml"
        entry = {"name": MODEL, "base_path": str(directory), "plugin_config": _COMPILED_FOR}
        config = Path(folder, "config.json")
        config.write_text(json.dumps({"model_config_list": [{"config": entry}]}), encoding="utf-8")
        compiled = openvino.Core().compile_model(file, "CPU", _COMPILED_FOR)
        requests = int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        array = np.zeros((1, ELEMENTS), np.float32)
        milliseconds = milliseconds_alone(compiled, array)
        server = stack.enter_context(ServerProcess(config, "--port", "auto"))
        own = server.pids["server"]
        servers = {
            ("grpc", False): (server.grpc_address, own),
            ("http", False): (server.address, own),
        }
        settings = [f"{name}={value}" for name, value in _COMPILED_FOR.items()]
        for front in _FRONTS:
            words = (f"{front}-model", str(file), str(ELEMENTS), *settings)
            port, pid = stack.enter_context(own_server("bench.echo_servers", *words))
            servers[front, True] = (f"127.0.0.1:{port}", pid)
        turns: dict[str, list[Turn]] = {name: [] for name in (_QUEUE, *_WAYS)}
        for _ in range(REPEATS):
            used, end = process_time(), perf_counter() + seconds
            rate = by_queue(compiled, requests, array, lambda _, end=end: perf_counter() >= end)  # type: ignore[misc]
            used = (process_time() - used) / (rate * seconds)
            turns[_QUEUE].append(Turn(rate, used * 1e3, 0.0))
            for name, way in _WAYS.items():
                target = servers[way.front, way.is_bare]
                turns[name].append(by_clients(way.clients, *target, 2 * requests, seconds))
    yield "# A plain model behind KServe"
    yield ""
    yield (
        f"`python -m bench.plain_models served` on {describe_machine()}; {_version()}. "
        f"A model of {milliseconds:.1f} ms, {requests} "
        f"infer requests, {2 * requests} clients, which share the machine with it. Medians "
        f"(minimum to maximum) of {REPEATS} turns of {seconds:g} s. The ratio is to "
        f"{_QUEUE} in the same turn. A bare handler only runs the model: nothing on its library "
        f"can be faster. CPU is in milliseconds per inference."
    )
    yield ""
    columns = ("way", "inferences/s", "server's CPU with the model's", "clients' CPU", "ratio")
    yield from head(*columns)
    for name, found in turns.items():
        pairs = zip(found, turns[_QUEUE], strict=True)
        ratios = [turn.rate / queue.rate for turn, queue in pairs]
        rates = [turn.rate for turn in found]
        yield row(
            name,
            f"{median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})",
            f"{median(turn.server for turn in found):.2f}",
            f"{median(turn.clients for turn in found):.2f}",
            f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        )
    limit, best = (median(turn.rate for turn in turns[name]) for name in (_QUEUE, _AIMED_AT))
    yield ""
    yield f"The aim, {AIM} of {_QUEUE} through gRPC: {_reached(best / limit)}."


def served(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Throughput of a plain model through gRPC and REST."""
    parser.add_argument("--seconds", type=float, default=2.5)
    add_write(parser)
    given = parser.parse_args(words)
    publish(served_page(given.seconds), given.write)


# Overlapping --------------------------------------------------------------------------------------

#: Name, channels and number of its convolutions, inferences of one run.
_MEASURED: Final = (("light", 16, 3, 1500), ("heavy", 48, 8, 120))
_PIXELS: Final = 48
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


class OneModel:
    """A provider of a single model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def get(self, name: str, version: int | None = None) -> Model:
        return self._model

    def file_of(self, name: str) -> None:
        return None


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


def overlapping_row(name: str, channels: int, layers: int, count: int) -> tuple[str, float]:
    """Measure one model; return its row, and the smaller of its ratios."""
    data = opset13.parameter([1, channels, _PIXELS, _PIXELS], np.float32, "in")
    data.output(0).set_names({"in"})
    found = convolutions(data, [channels] * (layers + 1))
    found.output(0).set_names({"out"})
    compiled = openvino.Core().compile_model(
        openvino.Model([found], [data], "model"), "CPU", _COMPILED_FOR
    )
    model = Model.of(compiled, "model")
    shape = (1, channels, _PIXELS, _PIXELS)
    array = np.random.default_rng(2).standard_normal(shape, np.float32)
    milliseconds = milliseconds_alone(compiled, array, 10)
    ways: dict[str, Callable[[], float]] = {
        "queue": lambda: count / by_queue(compiled, model.nireq, array, count.__le__),
        "coroutines": lambda: asyncio.run(by_coroutines(model, array, count)),
        "graph": lambda: asyncio.run(by_graph(model, array, count)),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(REPEATS):
        for way, run in ways.items():
            seconds[way].append(run())
    rates = [count / median(found) for found in seconds.values()]
    ratios = [rate / rates[0] for rate in rates[1:]]
    cells = (f"{milliseconds:.1f}", model.nireq, *(f"{rate:,.0f}" for rate in rates))
    return row(name, *cells, ", ".join(f"{each:.2f}" for each in ratios)), min(ratios)


def overlapping_page() -> Iterator[str]:
    """Measure both models; yield the table."""
    yield "# Overlapping inference"
    yield ""
    yield (
        f"`python -m bench.plain_models overlapping` on {describe_machine()}; {_version()}. "
        f"Inferences per second, medians of {REPEATS}."
    )
    yield ""
    columns = ("model", "ms alone", "infer requests", _QUEUE, "Model.infer", "graph", "ratios")
    yield from head(*columns)
    least = 1.0
    for measured in _MEASURED:
        shown, ratio = overlapping_row(*measured)
        least = min(least, ratio)
        yield shown
    yield ""
    yield f"The aim, {AIM} of {_QUEUE}: {_reached(least)}."


def overlapping(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Overlapping inferences on one model."""
    add_write(parser)
    publish(overlapping_page(), parser.parse_args(words).write)


if __name__ == "__main__":
    run_command("bench.plain_models", __doc__, {"served": served, "overlapping": overlapping})
