"""A graph that is loaded: its plan and its resources, and one run of it per request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from calculators.http_payload import HttpPayload, RequestError
from calculators.openvino.directory_models import DirectoryModels
from calculators.openvino.model_provider import MODELS, ModelProvider
from graph_runtime import (
    CalculatorGraph,
    Code,
    GraphError,
    GraphResources,
    Packet,
    Registry,
    ResourceError,
    ResourceSettings,
    ValidatedGraph,
    make_resources,
)
from servers.config import GraphEntry
from servers.graph_source import GraphSource

Emit = Callable[[str | bytes], object]

#: The streams of an HTTP graph, by tag, else by name (OpenVINO Model Server knows only the names).
REQUEST_TAGS: Final = ("HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD")
RESPONSE_TAGS: Final = ("HTTP_RESPONSE_PAYLOAD", "RESPONSE_PAYLOAD")
REQUEST_NAME: Final = "input"
RESPONSE_NAME: Final = "output"

#: Requests of one graph in flight, those that wait inside it included.
REQUEST_LIMIT: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """What the server says about all its graphs.

    Attributes:
        cache_dir: where compiled models may be kept; "" is nowhere.
        request_limit: requests of one graph in flight; more get 429.
        verbose_response: answers show what the model was given, and the raw text it wrote.
    """

    cache_dir: str = ""
    request_limit: int = REQUEST_LIMIT
    verbose_response: bool = False


async def load_graph(
    entry: GraphEntry, registry: Registry, settings: GraphSettings | None = None
) -> LoadedGraph:
    """Check the graph and make its resources.

    Raises:
        GraphError: its file cannot be read or does not parse, the graph cannot run, a resource
            cannot be made or a side packet has no resource.
    """
    source = GraphSource(str(entry.graph_path), registry, text=entry.graph_text)
    source.queue_size()
    plan = source.validate()
    settings = settings or GraphSettings()
    resource_settings = ResourceSettings(
        entry.directory,
        settings.cache_dir,
        entry.name,
        settings.request_limit,
        settings.verbose_response,
    )
    resources = await make_resources(plan, resource_settings, source.registry)
    missing = [
        name
        for name, (_, is_optional) in plan.side_packet_types.items()
        if not is_optional and name not in resources.side_packets
    ]
    if missing:
        await resources.close()
        names = ", ".join(f'"{name}"' for name in missing)
        raise ResourceError(
            f"the graph needs the input side packet {names}, and nothing provides it: a server "
            f"supplies the resources of nodes, by tags such as LLM_NODE_RESOURCES"
        )
    return LoadedGraph(
        entry.name,
        plan,
        source.registry,
        resources,
        DirectoryModels(entry.directory),
        settings.request_limit,
    )


class LoadedGraph:
    """What exists between loading a graph and closing it. Belongs to one event loop."""

    def __init__(
        self,
        name: str,
        plan: ValidatedGraph,
        registry: Registry,
        resources: GraphResources,
        models: ModelProvider,
        request_limit: int = REQUEST_LIMIT,
    ) -> None:
        self.plan = plan
        self._name = name
        self._request_limit = request_limit
        self._resources = resources
        #: Plain models beside the graph; loaded when a run first asks for one, and kept.
        self._models = models
        self._registry = registry
        self._side_packets = {name: Packet(value) for name, value in resources.side_packets.items()}
        self.request_stream = request_stream_of(plan)
        self.response_stream = response_stream_of(plan)
        self._refusal = refusal_of(name, self.request_stream, self.response_stream)
        self.in_flight = 0
        self._idle: asyncio.Future[None] | None = None

    @property
    def unavailable_reason(self) -> str:
        """Why it cannot answer now; "" while it can."""
        return self._resources.unavailable_reason

    @property
    def answers_http(self) -> bool:
        return not self._refusal

    async def answer(self, payload: HttpPayload, emit: Emit) -> None:
        """One run for one request; see `servers.data_plane.DataPlane.answer`.

        Raises:
            RequestError: the graph takes no HTTP requests (INVALID_ARGUMENT), or no more of them
                for now (RESOURCE_EXHAUSTED).
            RunError: the graph failed.
        """
        if self._refusal:
            raise RequestError(self._refusal, param="model")
        if self.in_flight >= self._request_limit:
            raise RequestError(
                f'The model "{self._name}" has {self.in_flight} requests in flight, as many as it '
                f"takes; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1,
            )
        graph = CalculatorGraph(validated_graph=self.plan, registry=self._registry)
        graph.set_service_object(MODELS, self._models)
        graph.observe_output_stream(self.response_stream, partial(_send, emit))
        self.in_flight += 1
        try:
            await graph.start_run_async(self._side_packets)
            graph.add_packet_to_input_stream(self.request_stream, payload, 0)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
        except BaseException:
            await _end(graph)
            raise
        finally:
            self.in_flight -= 1
            if self._idle is not None and not self.in_flight and not self._idle.done():
                self._idle.set_result(None)

    async def close(self) -> None:
        """Wait until no request is in flight, then give the resources back."""
        if self.in_flight:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        await self._resources.close()


def request_stream_of(plan: ValidatedGraph) -> str:
    """The graph input that takes an `HttpPayload`; "" without one."""
    inputs = [
        (graph_input.tag, graph_input.name)
        for graph_input in plan.graph_inputs
        if graph_input.checker is None or graph_input.checker.accepts(HttpPayload("/", {}))
    ]
    return _find(inputs, REQUEST_TAGS, REQUEST_NAME)


def response_stream_of(plan: ValidatedGraph) -> str:
    """The graph output whose packets go to the client; "" without one."""
    outputs = [
        (tag, name) for (tag, _), name in zip(plan.outputs.keys, plan.outputs.names, strict=True)
    ]
    return _find(outputs, RESPONSE_TAGS, RESPONSE_NAME)


def refusal_of(name: str, request_stream: str, response_stream: str) -> str:
    """Why a graph with these streams does not answer HTTP requests; "" when it does."""
    if not request_stream:
        lack = f'input stream that takes an HttpPayload: input_stream: "{REQUEST_TAGS[0]}:input"'
    elif not response_stream:
        lack = f'output stream for the answer: output_stream: "{RESPONSE_TAGS[0]}:output"'
    else:
        return ""
    return f'The model "{name}" does not answer HTTP requests: its graph has no {lack}'


def _find(streams: Iterable[tuple[str, str]], tags: Iterable[str], name: str) -> str:
    streams = list(streams)
    for wanted in tags:
        for tag, stream in streams:
            if tag == wanted:
                return stream
    return next((stream for _, stream in streams if stream == name), "")


def _send(emit: Emit, stream: str, packet: Packet) -> None:
    value = packet.payload
    if not isinstance(value, (str, bytes)):
        raise GraphError(
            f'the response stream "{stream}" carries str or bytes, not {type(value).__name__}',
            code=Code.INTERNAL,
        )
    emit(value)


async def _end(graph: CalculatorGraph) -> None:
    """Cancel the run and wait for its end, whatever happens to this task meanwhile."""

    async def cancel() -> None:
        graph.cancel()
        with contextlib.suppress(GraphError):
            await graph.wait_until_done_async()

    ending = asyncio.ensure_future(cancel())
    while not ending.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(ending)
