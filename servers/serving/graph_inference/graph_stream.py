"""`GraphStream`: one run of a graph that takes one request after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from calculators.kit.requests.http_payload import ClientConnection, RequestError
from calculators.tensors.inference import InferRequest, InferResponse
from calculators.tensors.inference.place import quoted
from graph_runtime import CalculatorGraph, Code, GraphError, Packet
from servers.serving.graph_inference.graph_interface import VERSIONS, GraphInterface
from servers.serving.graph_inference.loop_delivery import LoopDelivery
from servers.serving.graph_inference.run_end import end_run, ending_of
from servers.serving.graph_inference.stream_kinds import OutputStream
from servers.serving.graph_inference.timestamps import TIMESTAMP, Sent, StreamTimes

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
            self._graph.observe_output_stream(output.name, partial(self._take, output))
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

    def _take(self, output: OutputStream, stream: str, packet: Packet) -> None:
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
