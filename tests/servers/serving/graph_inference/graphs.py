"""Graphs served without a front, and requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calculators.kit.requests.http_payload import ClientConnection, NoClient
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    Parameter,
    RequestedOutput,
    Tensor,
)
from graph_runtime import REGISTRY, Registry
from servers.config import find_graph
from servers.contract.data_plane import InferStream
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph


def between(calculator: str, entry: str, out: str) -> str:
    """Return a node without tags between streams of the graph, each ``TAG:name``."""
    name, out_name = (each.rpartition(":")[2] for each in (entry, out))
    return (
        f'input_stream: "{entry}" output_stream: "{out}" node {{ calculator: "{calculator}" '
        f'input_stream: "{name}" output_stream: "{out_name}" }}'
    )


def passing(entry: str = "in", out: str = "out") -> str:
    """Return a graph that passes one stream on; ``entry`` and ``out`` are ``TAG:name``."""
    return between("PassThroughCalculator", entry, out)


def one_node(calculator: str, inputs: str = "in", outputs: str = "out", extra: str = "") -> str:
    """Return a graph of one node; its streams, separated by spaces, are those of the graph."""
    ends = "".join(f' input_stream: "{each}"' for each in inputs.split())
    ends += "".join(f' output_stream: "{each}"' for each in outputs.split())
    return f'{ends} node {{ calculator: "{calculator}" {ends} {extra} }}'


def registry_of(*made_by: Any) -> Registry:
    """Return a registry with the usual calculators, and those of a test."""
    registry = Registry(REGISTRY)
    for each in made_by:
        registry.register_calculator(each)
    return registry


@asynccontextmanager
async def loaded(
    folder: Path, text: str, *made_by: Any, **settings: Any
) -> AsyncIterator[LoadedGraph]:
    """Load the graph from that folder, served as "graph"; nothing is left of it afterwards."""
    (folder / "graph").mkdir(exist_ok=True)
    (folder / "graph" / "graph.pbtxt").write_text(text)
    entry = find_graph(folder / "graph")
    graph = await load_graph(entry, registry_of(*made_by), GraphSettings(**settings))
    try:
        yield graph
    finally:
        await graph.close()
    assert len(asyncio.all_tasks()) == 1


def served(
    folder: Path,
    text: str,
    scenario: Callable[[LoadedGraph], Awaitable[None]],
    *made_by: Any,
    **settings: Any,
) -> None:
    """Run a scenario on a loaded graph."""

    async def run() -> None:
        async with loaded(folder, text, *made_by, **settings) as graph:
            await scenario(graph)

    asyncio.run(run())


def tensor(name: str, value: Any, dtype: Any = None) -> Tensor:
    """Return a read-only tensor, as a front makes it."""
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        dtype = object
    array = np.array(value, dtype)
    made = Tensor.of(name, array)
    made.data.flags.writeable = False
    return made


def bf16(name: str, bits: Sequence[int]) -> Tensor:
    return Tensor(name, Datatype.BF16, np.array(bits, np.uint16))


def asking(
    *inputs: Tensor | CustomTensor,
    outputs: Sequence[str] = (),
    version: str = "",
    id: str = "",
    model: str = "graph",
    **parameters: Parameter,
) -> InferRequest:
    requested = tuple(map(RequestedOutput, outputs))
    return InferRequest(model, version, id, parameters, inputs, requested)


async def ask(graph: LoadedGraph, *inputs: Tensor | CustomTensor, **request: Any) -> InferResponse:
    return await graph.infer(asking(*inputs, **request), NoClient())


async def ask_one(graph: LoadedGraph, given: Tensor | CustomTensor) -> Any:
    """Return the only output for the only input."""
    (output,) = (await ask(graph, given)).outputs
    return output


class Session:
    """A stream, and its answers so far."""

    def __init__(self, stream: InferStream, answers: list[InferResponse]) -> None:
        self.stream = stream
        self.answers = answers

    async def send(self, *inputs: Tensor | CustomTensor, **request: Any) -> None:
        await self.stream.send(asking(*inputs, **request))

    async def finish(self) -> list[InferResponse]:
        """Send no more requests; return all answers."""
        self.stream.close_inputs()
        await self.stream.wait()
        return self.answers


@asynccontextmanager
async def session(
    graph: LoadedGraph, client: ClientConnection | None = None, **first: Any
) -> AsyncIterator[Session]:
    """Open a stream by a request with the members ``first``, which is not sent."""
    answers: list[Any] = []
    opened = graph.open_stream(asking(**first), client or NoClient(), answers.append)
    async with opened as stream:
        yield Session(stream, answers)


def times(answers: Sequence[InferResponse]) -> list[Any]:
    return [answer.parameters["OVMS_MP_TIMESTAMP"] for answer in answers]


def values(answers: Sequence[InferResponse]) -> list[tuple[str, Any]]:
    """Return (output, its elements) of each answer, which has one output."""
    found = []
    for answer in answers:
        (output,) = answer.outputs
        assert isinstance(output, Tensor)
        found.append((output.name, output.data.tolist()))
    return found
