"""`TextModel`: a graph that answers completion requests, as a model of KServe's protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import GraphError, RunError
from servers.contract.data_plane import InferAnswer, InferStream, ModelMetadata
from servers.serving.text_generation.completion import Completion, EventReader, no_completion
from servers.serving.text_generation.generation_request import GenerationRequest, read_request
from servers.serving.text_generation.inputs import INPUTS
from servers.serving.text_generation.outputs import OUTPUTS
from servers.serving.text_generation.response_writer import ResponseWriter
from servers.serving.text_generation.text_stream import TextStream

#: Answers one HTTP request, like `servers.serving.loaded_graph.LoadedGraph.answer`.
RunGraph: TypeAlias = Callable[[HttpPayload, Callable[[ResponsePacket], object]], Awaitable[None]]

Emit: TypeAlias = Callable[[InferResponse], object]


class TextModel:
    """Text in, text out. The methods are those of `servers.contract.data_plane.LoadedServable`.

    The text is the prompt, without a chat template, as in vLLM's backend. With ``chat`` it becomes
    a user's message of a request to ``/v3/chat/completions``.
    """

    def __init__(self, name: str, run: RunGraph, version: str = "1") -> None:
        """``version`` is the only version."""
        self._name = name
        self._run = run
        self._version = version

    def metadata(self) -> ModelMetadata:
        """Return the metadata, which all such models share except for the name."""
        inputs = tuple(each.metadata for each in INPUTS.values())
        return ModelMetadata(self._name, (self._version,), "graphrt", inputs, OUTPUTS)

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """Return the whole answer. Cancelling this coroutine cancels the graph.

        Raises:
            RequestError: as in `read_request`, or the graph refuses the request.
            RunError, GraphError: the graph failed, or its answer is no completion.
        """
        answers: list[InferResponse] = []
        asked = self._read(request, request.model, in_stream=False)
        await self._generate(asked, client, answers.append)
        return answers[0]

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """Open a stream whose requests are answered concurrently, each with its own parameters.

        Ids distinguish the answers.
        """
        # Later requests may omit the model's name, which may be the name of an adapter.
        read = partial(self._read, model=first.model, in_stream=True)
        stream = TextStream(read, self._generate, client, emit)
        try:
            yield stream
        finally:
            await stream.cancel()

    def _read(self, request: InferRequest, model: str, *, in_stream: bool) -> GenerationRequest:
        return read_request(request, model or self._name, self._version, in_stream=in_stream)

    async def _generate(
        self, request: GenerationRequest, client: ClientConnection, emit: Emit
    ) -> None:
        """Run the graph; ``emit`` receives at least one answer."""
        answer = _PiecewiseAnswer if request.in_pieces else _WholeAnswer
        taken = answer(request, emit)
        try:
            await self._run(request.payload(client), taken.take)
            taken.end()
        except RunError as error:
            refusal = _refusal_in(error)
            if refusal is None:
                raise
            raise request.blamed(refusal) from error
        except RequestError as error:
            raise request.blamed(error) from error


class _WholeAnswer:
    """Takes the one packet of a graph."""

    def __init__(self, request: GenerationRequest, emit: Emit) -> None:
        self._request = request
        self._emit = emit
        self._packets: list[str | bytes] = []

    def take(self, packet: ResponsePacket) -> None:
        self._packets.append(_text_of(packet))

    def end(self) -> None:
        """The graph is done."""
        if not self._packets:
            raise no_completion()
        packet = self._packets[0]
        text = packet if isinstance(packet, str) else packet.decode("utf-8", "replace")
        writer = ResponseWriter(self._request)
        self._emit(writer.whole(Completion.of(text)))
        if self._request.wants_empty_final and self._request.in_stream:
            self._emit(writer.empty())


class _PiecewiseAnswer:
    """Takes the packets of events of a graph, and emits each piece of text at once."""

    def __init__(self, request: GenerationRequest, emit: Emit) -> None:
        self._request = request
        self._emit = emit
        self._writer = ResponseWriter(request)
        self._events = EventReader()
        self._error: GraphError | None = None

    def take(self, packet: ResponsePacket) -> None:
        if self._error is not None:
            return
        try:
            completions = [Completion.of(text) for text in self._events.read(_text_of(packet))]
        except GraphError as error:
            # The graph may run on; its output after an error is dropped.
            self._error = error
            return
        answer = self._writer.piece(completions)
        if answer is not None:
            self._emit(answer)

    def end(self) -> None:
        """The graph is done."""
        if self._error is not None:
            raise self._error
        if not self._writer.has_begun:
            raise no_completion()
        self._emit(self._writer.last())
        if self._request.wants_empty_final:
            self._emit(self._writer.empty())


def _refusal_in(run: RunError) -> RequestError | None:
    causes = (error.__cause__ or error for error in run.errors)
    return next((cause for cause in causes if isinstance(cause, RequestError)), None)


def _text_of(packet: ResponsePacket) -> str | bytes:
    """Return a packet that may be a completion.

    Raises:
        GraphError: it has a content type of its own.
    """
    if isinstance(packet, HttpAnswer):
        raise no_completion()
    return packet
