"""Runs of a graph for KServe's clients: one request, or a stream of requests."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from calculators.kit.places import Places
from calculators.kit.requests.http_payload import ClientConnection, RequestError
from calculators.tensors.inference import InferRequest, InferResponse, Parameter, Parameters, quoted
from calculators.tensors.openvino.directory_models import ModelProvider, ModelSources
from calculators.tensors.openvino.placed_model import PlacedModels
from graph_runtime import (
    CalculatorGraph,
    Code,
    GraphError,
    Packet,
    ResourceSettings,
    Timestamp,
    ValidatedGraph,
)
from graph_runtime.authoring.packet_type import PacketType, value_type_name
from servers.config import GraphEntry
from servers.contract.data_plane import ModelMetadata
from servers.serving.graph_inference.graph_interface import (
    GraphInterface,
    find_model_tensors,
    model_of_session,
    sessions_of,
)
from servers.serving.graph_inference.stream_kinds import OutputStreamKind
from servers.serving.graph_runs import LoopDelivery, end_run, ending_of
from servers.serving.servable import VERSIONS
from servers.serving.served_streams import SideNeeds


async def load_tensors(
    entry: GraphEntry,
    plan: ValidatedGraph,
    models: ModelSources,
    settings: ResourceSettings,
) -> tuple[GraphInterface, ModelProvider]:
    """Return the inputs and outputs of a graph, and its models.

    The model of a session with a place is loaded there.

    Raises:
        GraphError: a model cannot be loaded, or what goes to it never fits it; the text names the
            node.
        GraphConfigError: see `GraphInterface`.
    """
    placed = await _place_models(plan, models, settings)
    known = await find_model_tensors(plan, placed, needs_models=entry.needs_models)
    return GraphInterface(entry.name, plan, known, entry.tensor_names), placed


#: The parameter of requests, and of the answers of a stream.
TIMESTAMP: Final = "OVMS_MP_TIMESTAMP"

#: The most requests of a stream that are kept; answers to older ones have no id.
REMEMBERED: Final = 10_000


def timestamp_in(parameters: Parameters) -> Timestamp | None:
    """Return the timestamp in ``OVMS_MP_TIMESTAMP``, or None.

    Raises:
        RequestError: it is not a whole number, or not a timestamp of a packet.
    """
    value = parameters.get(TIMESTAMP)
    if value is None:
        return None
    if type(value) is not int:
        raise RequestError(
            f"Malformed packet timestamp - Invalid timestamp format in request parameter "
            f"{TIMESTAMP}. Should be int64",
            param=TIMESTAMP,
        )
    timestamp = Timestamp.of(value)
    if not timestamp.is_range_value():
        raise RequestError(
            f"Malformed packet timestamp - Invalid timestamp in request parameter {TIMESTAMP}: "
            f"{value} is out of range. Should be int64, from {int(Timestamp.MIN)} to "
            f"{int(Timestamp.MAX)}",
            param=TIMESTAMP,
        )
    return timestamp


@dataclass(frozen=True, slots=True)
class Sent:
    """The part of a request that its answers need. ``outputs`` is None for all outputs."""

    id: str = ""
    outputs: tuple[OutputStreamKind, ...] | None = None


class StreamTimes:
    """The timestamps of one stream of requests.

    A request without a timestamp gets the latest one plus 1, the first one 0. Timestamps must grow
    on each input, so two requests may bring different inputs of the same time.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._next = 0
        self._times: list[int] = []
        self._sent: dict[int, Sent] = {}

    def take(self, parameters: Parameters, inputs: Sequence[str], sent: Sent) -> Timestamp:
        """Return the timestamp of a request with packets for these inputs.

        Raises:
            RequestError: the timestamp is invalid, or not later than the last one of an input; the
                state is unchanged.
        """
        time = timestamp_in(parameters)
        if time is None:
            time = Timestamp.of(self._next)
            if not time.is_range_value():
                raise RequestError(f"the stream ends at the timestamp {int(Timestamp.MAX)}")
        for name in inputs:
            last = self._last.get(name)
            if last is not None and time <= last:
                raise RequestError(
                    f"the timestamp {int(time)} is not after {last}, the last one of the input "
                    f"{quoted(name)}; the timestamps of an input must grow",
                    param=TIMESTAMP,
                )
        for name in inputs:
            self._last[name] = int(time)
        self._next = max(self._next, int(time) + 1)
        self._remember(int(time), sent)
        return time

    def sent_at(self, time: int) -> Sent:
        """Return the request of a packet: the one at its time, else the last one before.

        Safe in any thread.
        """
        times = self._times
        place = bisect_right(times, time)
        return self._sent.get(times[place - 1], _UNKNOWN) if place else _UNKNOWN

    def _remember(self, time: int, sent: Sent) -> None:
        is_new = time not in self._sent
        self._sent[time] = sent
        if not is_new:
            return
        if len(self._times) >= 2 * REMEMBERED:
            for old in self._times[:REMEMBERED]:
                del self._sent[old]
            self._times = self._times[REMEMBERED:]
        insort(self._times, time)


_UNKNOWN: Final = Sent()


async def _place_models(
    plan: ValidatedGraph, models: ModelSources, settings: ResourceSettings
) -> PlacedModels:
    """Return the models of a graph's sessions; sessions with a place have theirs there.

    Raises:
        GraphError: such a model cannot be loaded; the text names the node.
    """
    placed = PlacedModels(models)
    for session in sessions_of(plan):
        place = settings.of(Places).of_node(session.name)
        if place is None:
            continue
        try:
            await placed.place(*model_of_session(session), place, settings.progress)
        except GraphError as error:
            raise GraphError(f'node "{session.name}": {error}', code=error.code) from error
    return placed


_log: Final = logging.getLogger(__name__)


class TensorRuns:
    """Runs of one graph with tensors. Made when the graph is loaded."""

    def __init__(
        self, interface: GraphInterface, plan: ValidatedGraph, supplied: Collection[str]
    ) -> None:
        """``supplied``: the names of side packets that do not come from requests."""
        self._interface = interface
        self._parameters = SideParameters(plan, supplied)

    @property
    def metadata(self) -> ModelMetadata:
        """The metadata for clients."""
        return self._interface.metadata

    async def infer(
        self, graph: CalculatorGraph, request: InferRequest, side_packets: Mapping[str, Packet]
    ) -> InferResponse:
        """Run a new ``graph`` and return the answer, with one packet of each requested output.

        Each input gets one packet, at 0 or at the timestamp of the request. Cancelling this
        coroutine cancels the run.

        Args:
            side_packets: those that no parameter of a request gives.

        Raises:
            RequestError: the request does not fit; or (INTERNAL) an output has no packet, or no
                tensor.
            RunError: the run failed.
        """
        side_packets = {**side_packets, **self._parameters.packets_of(request.parameters)}
        outputs = self._interface.wanted_outputs(request)
        packets = await self._interface.packets_of(request, is_partial=False)
        time = timestamp_in(request.parameters) or 0
        found: dict[str, list[Any]] = {}
        for output in outputs:
            values = found[output.stream] = []
            graph.observe_output_stream(output.stream, partial(_take, values))
        try:
            await graph.run_once_async(packets, side_packets, at=time)
        except BaseException:
            await end_run(graph)
            raise
        for stream, values in found.items():
            if not values:
                raise RequestError(
                    f"output {quoted(stream)}: the graph gave nothing for this request: "
                    f"{graph.silence(stream)}",
                    code=Code.INTERNAL,
                )
            if len(values) > 1:
                _log.warning(
                    "the graph of model %r gave %d packets on %r for one request; the first is "
                    "sent",
                    request.model,
                    len(values),
                    stream,
                )
        values_of = ((each, found[each.stream][0]) for each in outputs)
        return self._interface.response(request.id, values_of, {})

    async def start_stream(
        self,
        graph: CalculatorGraph,
        first: InferRequest,
        side_packets: Mapping[str, Packet],
        client: ClientConnection,
        emit: Callable[[InferResponse], object],
    ) -> GraphStream:
        """Start a run of a new ``graph`` for the requests of a stream.

        Args:
            first: the request whose parameters become side packets.
            side_packets: those that no parameter of a request gives.

        Raises:
            RequestError: the parameters do not fit.
            RunError: the run cannot start.
        """
        side_packets = {**side_packets, **self._parameters.packets_of(first.parameters)}
        stream = GraphStream(graph, self._interface, first.model, client, emit)
        await stream.start(side_packets)
        return stream


def _take(values: list[Any], stream: str, packet: Packet) -> None:
    values.append(packet.payload)


#: The beginning of these texts in OpenVINO Model Server.
_OTHER_NAME: Final = "Subsequent request with incorrect servable name"
_OTHER_VERSION: Final = "Subsequent request with incorrect servable version"


class GraphStream:
    """Implements `servers.contract.data_plane.InferStream` for a graph.

    Each output packet is an answer at once, with its timestamp and the id of its request. While
    the client does not read, the graph begins no new calls, and no request is taken.
    """

    def __init__(
        self,
        graph: CalculatorGraph,
        interface: GraphInterface,
        model: str,
        client: ClientConnection,
        emit: Callable[[InferResponse], object],
    ) -> None:
        self._graph = graph
        self._interface = interface
        self._model = model
        self._client = client
        self._times = StreamTimes()
        self._answers = LoopDelivery(self._answer)
        self._emit = emit
        self._resuming: asyncio.Task[None] | None = None
        self._run: asyncio.Task[None]

    async def start(self, side_packets: Mapping[str, Packet]) -> None:
        """Start the run.

        Raises:
            RunError: the run cannot start.
        """
        for output in self._interface.outputs:
            self._graph.observe_output_stream(output.stream, partial(self._take, output))
        await self._graph.start_run_async(side_packets)
        self._run = asyncio.create_task(self._graph.wait_until_done_async())

    async def send(self, request: InferRequest) -> None:
        """See `servers.contract.data_plane.InferStream.send`."""
        if request.model not in ("", self._model):
            raise RequestError(
                f"{_OTHER_NAME}: this stream is one to {quoted(self._model)}, not to "
                f"{quoted(request.model)}"
            )
        if request.version not in VERSIONS:
            raise RequestError(f"{_OTHER_VERSION}: there is version 1")
        wanted = self._interface.wanted_outputs(request)
        packets = await self._interface.packets_of(request, is_partial=True)
        if not self._client.is_writable:
            await self._first_of(self._client.writable())
        if self._run.done():
            raise self._over()
        sent = Sent(request.id, None if wanted is self._interface.outputs else wanted)
        time = self._times.take(request.parameters, [name for name, _ in packets], sent)
        try:
            for name, value in packets:
                await self._graph.add_packet_to_input_stream_async(name, value, time)
        except GraphError:
            # The run has failed or ended meanwhile, and has an error of its own.
            await asyncio.wait([self._run])
            raise self._over() from None

    def close_inputs(self) -> None:
        """End the requests, and close the graph's sources."""
        if not self._run.done():
            self._graph.close_all_packet_sources()

    async def wait(self) -> None:
        """See `servers.contract.data_plane.InferStream.wait`."""
        try:
            await asyncio.shield(self._run)
        finally:
            self._answers.flush()

    async def end(self) -> None:
        """Cancel the run if it is not over, and wait for its end."""
        if self._resuming is not None:
            self._resuming.cancel()
        await end_run(self._graph)
        if ending_of(self._graph) is None:
            with suppress(GraphError):
                await self._run
        else:  # the client has gone, so the outcome does not matter
            self._run.add_done_callback(lambda run: run.cancelled() or run.exception())

    def _over(self) -> Exception:
        """Return the run's error, or the error for a request after the run has ended."""
        error = self._run.exception()
        if isinstance(error, Exception):
            return error
        return RequestError(
            "the graph has ended its run, and takes no more requests",
            code=Code.FAILED_PRECONDITION,
        )

    async def _first_of(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Return when ``waiting`` returns or the run is over."""
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait((task, self._run), return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()

    # Answers --------------------------------------------------------------------------------------

    def _take(self, output: OutputStreamKind, stream: str, packet: Packet) -> None:
        """Take a packet of an output. Called in any thread; an exception fails the run."""
        sent = self._times.sent_at(packet.time)
        if sent.outputs is not None and output not in sent.outputs:
            return
        parameters = {TIMESTAMP: packet.time}
        response = self._interface.response(sent.id, ((output, packet.payload),), parameters)
        self._answers.put(response)

    def _answer(self, response: InferResponse) -> None:
        self._emit(response)
        if self._resuming is None and not self._client.is_writable:
            self._graph.pause()
            self._resuming = asyncio.create_task(self._resume_when_read())

    async def _resume_when_read(self) -> None:
        await self._client.writable()
        self._resuming = None
        self._graph.resume()


class SideParameters(SideNeeds):
    """The side packets of a graph that come from the parameters of a request.

    A parameter becomes the side packet of its name, of type string, int64, bool or double; a whole
    number may become a double. Unknown parameters have no effect, as in OpenVINO Model Server,
    because clients send some of their own.
    """

    def packets_of(self, parameters: Parameters) -> Mapping[str, Packet]:
        """Return the side packets that a request gives.

        Raises:
            RequestError: a parameter is missing, has another type, or is the server's own.
        """
        packets: dict[str, Packet] = {}
        for name, value in parameters.items():
            if name in self.supplied:
                raise RequestError(
                    f"the parameter {quoted(name)} is not taken: the server supplies the side "
                    f"packet of this reserved name",
                    param=name,
                )
            if name in self.types and name != TIMESTAMP:
                packets[name] = Packet(_value(name, value, self.types[name]))
        for name in self.needed:
            if name not in packets:
                others = [quoted(each) for each in parameters if each not in self.types]
                given = f"; it does not know {', '.join(others[:4])}" if others else ""
                raise RequestError(
                    f"the parameter {quoted(name)} is missing: the graph needs it as side packet "
                    f"of the type {self.types[name].name}{given}",
                    param=name,
                )
        return packets


def _value(name: str, value: Parameter, kind: PacketType) -> Parameter:
    # JSON writes 2.0 as 2, too.
    is_whole = type(value) is int and not kind.is_any and int not in kind.root().types
    if is_whole and kind.accepts(0.0):
        return float(value)
    if kind.accepts(value):
        return value
    raise RequestError(
        f"the parameter {quoted(name)} is {value_type_name(value)}; the graph needs {kind.name}",
        param=name,
    )
