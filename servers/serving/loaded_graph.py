"""A loaded graph: its plan, its resources, and one run per request.

What the first request would import is imported while the graph is loaded. Modules import some
libraries when they need them, because a check of a graph needs none of them. In a server the first
need is a request, and an import from a cold disk blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.file_threads import in_file_thread
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.kit.requests.request_queue import REQUEST_LIMIT
from calculators.kit.requests.request_record import RequestRecord, current_record
from calculators.kit.tasks import task_of_node
from calculators.tensors.inference import InferRequest, InferResponse, quoted
from calculators.tensors.openvino.directory_models import (
    MODELS,
    DirectoryModels,
    ModelProvider,
    ModelSources,
)
from graph_runtime import (
    METRICS,
    NO_METRICS,
    CalculatorGraph,
    Code,
    FamilySettings,
    GraphError,
    GraphResources,
    GraphService,
    KeptResources,
    LoadProgress,
    NotFoundError,
    Packet,
    Registry,
    ResourceSettings,
    RunTotals,
    ValidatedGraph,
    make_resources,
)
from graph_runtime.observe.call_observers import both
from graph_runtime.plan.stall_check import has_path
from servers.config import GraphEntry
from servers.contract.data_plane import InferAnswer, InferStream, ModelMetadata
from servers.options.server_options import GraphOptions
from servers.page.feed import LiveFeed
from servers.page.live_graph import LiveGraph, ShownGraph
from servers.serving.graph_runs import (
    GIVE_UP_SECONDS,
    LoopDelivery,
    end_run,
    ending_of,
    stuck_nodes,
)
from servers.serving.graph_source import (
    REQUEST_TAGS,
    RESPONSE_TAGS,
    GraphSource,
    check_servable,
    open_files,
    request_stream_of,
    response_stream_of,
    role_of,
)
from servers.serving.python_path import registry_of
from servers.serving.servable import VERSIONS, HttpRole, UseCount
from servers.serving.served_streams import SideNeeds, has_sessions, is_only_http
from servers.serving.text_generation.text_model import TextGenerationModel

if TYPE_CHECKING:
    from servers.operations.metrics.requests import GraphRuns
    from servers.operations.metrics.server_metrics import ServerMetrics
    from servers.serving.graph_inference.runs import TensorRuns

#: The module of graphs with tensors, which a server of language models never imports.
_OF_TENSORS: Final = "servers.serving.graph_inference.runs"
#: The first part of calculators' modules, and what their first call imports: a module, or a
#: function of it that does so.
_NEEDS: Final = {
    "calculators.images.image.": ("calculators.images.image.opencv", "opencv"),
    "calculators.vision.": ("calculators.images.image.opencv", "opencv"),
    "calculators.llm.": ("calculators.llm.api.whole_answer", ""),
}


def import_for(modules: Iterable[str]) -> None:
    """Import what the first calls of calculators in these modules would."""
    needed = {
        need for module in modules for part, need in _NEEDS.items() if module.startswith(part)
    }
    for module, function in sorted(needed):
        found = import_module(module)
        if function:
            with suppress(GraphError):  # not installed: a request that needs it says so
                getattr(found, function)()


_log: Final = logging.getLogger(__name__)

Emit = Callable[[ResponsePacket], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings(GraphOptions):
    """The server's settings for all graphs and models.

    `GraphOptions` describes the settings that are options.

    Attributes:
        families: the settings of each family of calculators.
        metrics: counts runs; None: nothing is counted.
        live: shows runs to the page; None: nothing is shown.
    """

    families: FamilySettings = field(default_factory=FamilySettings)
    metrics: ServerMetrics | None = None
    live: LiveFeed | None = None


async def load_graph(
    entry: GraphEntry,
    registry: Registry,
    settings: GraphSettings | None = None,
    models: ModelSources | None = None,
    progress: LoadProgress | None = None,
    kept: KeptResources | None = None,
) -> LoadedGraph:
    """Check the graph and make its resources.

    Args:
        models: the models of sessions; None: the models beside the graph.
        progress: gets the phases of loading.
        kept: resources of the graph that this one replaces; see `make_resources`.

    Raises:
        GraphError: the file cannot be read or does not parse, the graph cannot run, a resource
            cannot be made, or a side packet has no source.
    """
    registry = await registry_of(entry, registry)
    source, plan, shown = await in_file_thread(
        f'the files of the graph "{entry.name}"', _validated, entry, registry
    )
    check_servable(plan)
    modules = {node.calculator_class.__module__ for node in plan.nodes}
    # Checks of a graph import no more than its ports (decision 0080); without this the first
    # request would pay for the rest, on the event loop.
    await asyncio.to_thread(import_for, modules)
    settings = settings or GraphSettings()
    resource_settings = ResourceSettings(
        entry.directory,
        settings.cache_dir,
        settings.cache_dir_size,
        entry.name,
        NO_METRICS if settings.metrics is None else settings.metrics.service_of(entry.name),
        settings.families,
        progress or LoadProgress(),
    )
    resources = await make_resources(plan, resource_settings, source.registry, kept)
    sources = models or DirectoryModels(entry.directory)
    provider: ModelProvider = sources
    tensors: TensorRuns | None = None
    try:
        if not is_only_http(plan) or has_sessions(plan):
            await asyncio.to_thread(import_module, _OF_TENSORS)
            from servers.serving.graph_inference.runs import TensorRuns, load_tensors

            interface, provider = await load_tensors(entry, plan, sources, resource_settings)
            if not interface.takes_http:
                tensors = TensorRuns(interface, plan, resources.side_packets)
        needs = SideNeeds(plan, resources.side_packets)
        needs.check(takes_http=tensors is None)
        services: dict[GraphService[Any], Any] = {
            # Plain models beside the graph are loaded when a run first needs them, and kept.
            MODELS: provider,
            GRAPH_DIRECTORY: entry.directory,
        }
        supplied = {name: Packet(value) for name, value in resources.side_packets.items()}
        await open_files(plan, source.registry, services, supplied, resource_settings.progress)
    except BaseException:
        await resources.close()
        raise
    resources.publish(resource_settings.metrics)
    graph = LoadedGraph(
        entry.name,
        plan,
        source.registry,
        resources,
        services,
        supplied,
        tensors,
        needs.needed,
        settings.request_limit,
    )
    if settings.metrics is not None:
        graph.count_into(settings.metrics)
    if settings.live is not None:
        graph.show_in(settings.live, shown)
    return graph


def shown_graph(
    entry: GraphEntry,
    source: GraphSource,
    plan: ValidatedGraph | None,
    problems: tuple[str, ...] = (),
) -> ShownGraph:
    """Return the files of a graph for the page, which are read. For a thread.

    ``plan`` and ``problems``: see `ShownGraph`.
    """
    return ShownGraph(
        entry.name,
        entry.graph_path.name,
        source.text,
        source.config,
        source.node_places() or (),
        source.registry,
        plan,
        problems,
    )


def _validated(
    entry: GraphEntry, registry: Registry
) -> tuple[GraphSource, ValidatedGraph, ShownGraph]:
    """Parse and validate a graph. For a thread: a large graph takes seconds."""
    source = GraphSource(str(entry.graph_path), registry, text=entry.graph_text)
    source.queue_size()
    plan = source.validate()
    return source, plan, shown_graph(entry, source, plan)


class LoadedGraph:
    """A `servers.contract.data_plane.LoadedServable`. Belongs to one event loop.

    Attributes:
        users: runs, abandoned ones included, and streams of texts.
    """

    def __init__(
        self,
        name: str,
        plan: ValidatedGraph,
        registry: Registry,
        resources: GraphResources,
        services: dict[GraphService[Any], Any],
        side_packets: Mapping[str, Packet],
        tensors: TensorRuns | None,
        needed: tuple[str, ...] = (),
        request_limit: int = REQUEST_LIMIT,
    ) -> None:
        """
        Args:
            tensors: runs with tensors; None: the graph takes HTTP requests.
            needed: the side packets that each request must give.
        """
        self.plan = plan
        self._name = name
        self._resources = resources
        self._services = services
        self._registry = registry
        self._side_packets = side_packets
        self.request_stream = request_stream_of(plan)
        self.response_stream = response_stream_of(plan)
        self._refusal = refusal_of(name, self.request_stream, self.response_stream, needed)
        self._tensors = tensors
        #: A graph that takes HTTP requests is called for completions.
        self._text_model = TextGenerationModel(name, self.answer)
        self.users = UseCount(name, request_limit)
        #: The nodes that do not return, for each abandoned run.
        self._stuck: list[str] = []
        self._has_held_back = False
        self._chooses_nodes = bool(self.request_stream and self.response_stream) and any(
            node.calculator_class.chooses_output for node in plan.nodes
        )
        self._metrics: ServerMetrics | None = None
        self._runs: GraphRuns | None = None
        self._live: LiveFeed | None = None
        self._shown: LiveGraph | None = None

    def count_into(self, metrics: ServerMetrics) -> None:
        """Count runs into these metrics until `close`."""
        self._metrics = metrics
        self._runs = metrics.begin_graph(self._name, self.plan)
        self._services[METRICS] = self._runs.service

    def show_in(self, live: LiveFeed, shown: ShownGraph) -> None:
        """Show runs in the live feed until `close`."""
        totals = RunTotals(self.plan) if self._runs is None else self._runs.totals
        self._live = live
        self._shown = live.begin_graph(shown, self.plan, totals)

    @property
    def unavailable_reason(self) -> str:
        """The reason why the graph cannot answer now; "" if it can.

        A graph that chooses among nodes can answer while one of them cannot work, if others lead to
        the answer.
        """
        reason = self._resources.unavailable_reason
        if not reason or not self._chooses_nodes:
            return reason
        down = [
            node.name
            for node in self.plan.nodes
            if any(each.unavailable_reason for each in self._resources.of_node(node.config.name))
        ]
        request, response = self.request_stream, self.response_stream
        # A router with a fall-back still answers when one of its models is down.
        return "" if down and has_path(self.plan, request, response, without=down) else reason

    def keep_resources(self) -> KeptResources:
        """Hold the resources for the graph that replaces this one."""
        return self._resources.keep()

    @property
    def stuck(self) -> str:
        """A text about cancelled runs that do not end; "" if there are none."""
        if not self._stuck:
            return ""
        count = len(self._stuck)
        what = "a run that was cancelled does" if count == 1 else f"{count} cancelled runs do"
        return f"{what} not end: node {', '.join(dict.fromkeys(self._stuck))} has not returned"

    @property
    def http_role(self) -> HttpRole | None:
        """The part that the graph plays below ``/v3/``, by the first node of a task."""
        if self._refusal:
            return None
        for node in self.plan.nodes:
            if task := task_of_node(node.calculator_type):
                for resource in self._resources.of_node(node.config.name):
                    return HttpRole(
                        task.name, task.model_facts(resource), card=task.model_card(resource)
                    )
                return HttpRole(task.name)
        return role_of(node.calculator_class for node in self.plan.nodes)

    async def answer(self, payload: HttpPayload, emit: Emit) -> None:
        """Run the graph once; see `servers.contract.data_plane.LoadedServable.answer`.

        Raises:
            RequestError: the graph takes no HTTP requests (INVALID_ARGUMENT), or too many are in
                flight (RESOURCE_EXHAUSTED).
            RunError: the graph failed.
        """
        if self._refusal:
            raise self._no_http()
        with self.users:
            graph = self._new_graph(payload.record)
            packets = [(self.request_stream, payload)]
            del payload  # free it as soon as the nodes are done with it
            answers: LoopDelivery[ResponsePacket] | None = None
            if self.plan.has_threads:
                # Only where threads call nodes: else packets are on the loop already, and the
                # hand-over costs calls (decision 0048).
                answers = LoopDelivery(emit)
                emit = answers.put
            graph.observe_output_stream(self.response_stream, partial(_send, emit))
            try:
                # A run per request, and one call for it: starting, adding, closing and waiting were
                # four, with turns of the loop between (decisions 0032, 0048).
                await graph.run_once_async(packets, self._side_packets)
            except BaseException:
                await end_run(graph)
                self._ended(graph)
                raise
            finally:
                if answers is not None:
                    answers.flush()
            if reason := graph.silence(self.response_stream):
                times = graph.silence(self.response_stream, shows_times=True)
                raise no_answer(self._name, reason, times)
            if not self._has_held_back and (held := graph.held_back()):
                self._has_held_back = True
                _log.warning(
                    "%s: an answer was sent, but the run ended with packets that no node took; "
                    "further runs of this graph are not checked: %s",
                    self._name, "; ".join(held),
                )  # fmt: skip

    # KServe ---------------------------------------------------------------------------------------

    def is_ready(self, version: str = "") -> bool:
        """Return True if the graph would answer now.

        Raises:
            NotFoundError: the version is not 1, nor "" or "0", which stand for it.
        """
        self.check_version(version)
        return not self.unavailable_reason

    def metadata(self, version: str = "") -> ModelMetadata:
        """See `servers.contract.data_plane.DataPlane.metadata`.

        Raises:
            NotFoundError: no such version.
        """
        self.check_version(version)
        return self._text_model.metadata() if self._tensors is None else self._tensors.metadata

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """Run the graph once; see `servers.contract.data_plane.LoadedServable.infer`.

        Raises:
            RequestError: the request does not fit the graph, or too many are in flight.
            RunError: the graph failed.
        """
        if self._tensors is None:
            if self._refusal:
                raise self._no_http()
            return await self._text_model.infer(request, client)
        with self.users:
            graph = self._new_graph(current_record())
            try:
                return await self._tensors.infer(graph, request, self._side_packets)
            except BaseException:
                self._ended(graph)
                raise

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """Start one run for many requests.

        See `servers.contract.data_plane.LoadedServable.open_stream`.

        Raises:
            RequestError: the parameters of ``first`` do not fit the graph, or too many requests
                are in flight.
            RunError: the run cannot begin.
        """
        if self._tensors is None:
            if self._refusal:
                raise self._no_http()
            with self.users.stream():
                async with self._text_model.open_stream(first, client, emit) as texts:
                    yield texts
            return
        with self.users:
            graph = self._new_graph(current_record())
            try:
                stream = await self._tensors.start_stream(
                    graph, first, self._side_packets, client, emit
                )
                try:
                    yield stream
                finally:
                    await stream.end()
            finally:
                self._ended(graph)

    def check_version(self, version: str) -> None:
        """Check a version.

        Raises:
            NotFoundError: the version is not 1, nor "" or "0", which stand for it.
        """
        if version not in VERSIONS:
            raise NotFoundError(
                f'The model "{self._name}" has no version {quoted(version)}; it has version 1'
            )

    def _no_http(self) -> RequestError:
        return RequestError(self._refusal, param="model")

    # Runs -----------------------------------------------------------------------------------------

    def _ended(self, graph: CalculatorGraph) -> None:
        """End a request whose run was cancelled. The run still counts if it has not ended."""
        ending = ending_of(graph)
        if ending is not None:
            self._give_up(graph, ending)

    def _give_up(self, graph: CalculatorGraph, ending: asyncio.Future[None]) -> None:
        """Abandon a run that does not end. It counts until it ends, because it holds a thread."""
        nodes = ", ".join(f'"{name}"' for name in stuck_nodes(graph))
        _log.error(
            "%s: a run does not end although it was cancelled: node %s has not returned for %g s; "
            "its request is over",
            self._name, nodes, GIVE_UP_SECONDS,
        )  # fmt: skip
        # An abandoned run counts against the limit: it may hold a thread that never returns.
        self.users.hold(ending)
        self._stuck.append(nodes)

        def ended(_: object) -> None:
            self._stuck.remove(nodes)
            _log.warning("%s: a run has ended after all: node %s", self._name, nodes)

        ending.add_done_callback(ended)

    def _new_graph(self, record: RequestRecord | None) -> CalculatorGraph:
        # New for each request, so no state leaks between requests. A pool of started graphs, as `#
        # OVMS_GRAPH_QUEUE_MAX_SIZE` asks, would keep it (decision 0032).
        graph = CalculatorGraph(
            validated_graph=self.plan, registry=self._registry, services=self._services
        )
        if self._runs is not None:
            graph.count_into(self._runs.totals)
        elif self._shown is not None:
            graph.count_into(self._shown.totals)
        if record is not None:
            # A weak reference: loaded objects are frozen and collections rare, so a cycle would
            # keep the request's packets (decision 0034).
            record.waits_for = partial(_nodes_in_flight, weakref.ref(graph))
            # Only sampled requests pay for spans (decision 0040).
            spans = record.begin_run(self._name) if record.trace is not None else None
            calls = self._live.begin_run(self._name, record) if self._live is not None else None
            if spans is not None or calls is not None:
                observer = both(spans, calls)
                assert observer is not None
                graph.trace(observer)
        return graph

    async def close(self) -> None:
        """Wait for the last request, then close the resources."""
        await self.users.close()
        if self._live is not None and self._shown is not None:
            self._live.end_graph(self._shown)
            self._shown = None
        if self._metrics is not None and self._runs is not None:
            self._metrics.end_graph(self._runs)
            self._runs = None
        await self._resources.close()


def no_answer(name: str, reason: str, times: str) -> RequestError:
    """Return the error for a request that the graph ``name`` did not answer.

    ``times`` is ``reason`` with timestamps, for the log.
    """
    _log.error("%s: the graph gave no answer: %s", name, times)
    return RequestError(
        f"the graph of model {quoted(name)} gave no answer: {reason}", code=Code.INTERNAL
    )


def refusal_of(
    name: str, request_stream: str, response_stream: str, parameters: tuple[str, ...] = ()
) -> str:
    """Return why a graph with these streams does not answer HTTP requests; "" if it does.

    ``parameters`` are the side packets that it needs from each request.
    """
    if not request_stream:
        lack = f'input stream that takes an HttpPayload: input_stream: "{REQUEST_TAGS[0]}:input"'
    elif not response_stream:
        lack = f'output stream for the answer: output_stream: "{RESPONSE_TAGS[0]}:output"'
    elif parameters:
        return (
            f'The model "{name}" does not answer HTTP requests: its graph needs the input side '
            f'packet "{parameters[0]}", which only the parameters of a KServe request can provide'
        )
    else:
        return ""
    return f'The model "{name}" does not answer HTTP requests: its graph has no {lack}'


def _nodes_in_flight(run: weakref.ref[CalculatorGraph]) -> list[str]:
    """Return the nodes that a request waits for. Without a reference, which would make a circle."""
    graph = run()
    return [] if graph is None else stuck_nodes(graph)


def _send(emit: Emit, stream: str, packet: Packet) -> None:
    value = packet.payload
    if not isinstance(value, (str, bytes, HttpAnswer)):
        kind = type(value).__name__
        raise GraphError(
            f'the response stream "{stream}" carries str, bytes or HttpAnswer, not {kind}',
            code=Code.INTERNAL,
        )
    emit(value)
