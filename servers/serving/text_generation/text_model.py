"""`TextGenerationModel`: a graph that answers completions, as a model of KServe's protocol."""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.tensors.inference import InferRequest, InferResponse, Parameter, Tensor
from graph_runtime import Code, GraphError, RunError
from servers.contract.data_plane import (
    Disconnection,
    InferAnswer,
    InferFailure,
    InferStream,
    ModelMetadata,
)
from servers.serving.text_generation.generation_request import (
    CUM_LOG_PROBS,
    CUMULATIVE_LOGPROB,
    FINISH_REASON,
    INPUTS,
    NUM_INPUT_TOKENS,
    NUM_OUTPUT_TOKENS,
    OUTPUT_LOG_PROBS,
    OUTPUTS,
    TEXT_OUTPUT,
    TextRequest,
    read_request,
)

_DATA: Final = "data:"
_DONE: Final = "[DONE]"

#: Types or codes of error objects in answers, with the codes of errors that they become.
_CODES: Final = {
    "invalid_request_error": Code.INVALID_ARGUMENT,
    "rate_limit_error": Code.RESOURCE_EXHAUSTED,
    "service_unavailable": Code.UNAVAILABLE,
    "timeout": Code.DEADLINE_EXCEEDED,
}


@dataclass(frozen=True, slots=True)
class CompletionChoice:
    """A text, or a piece of one.

    Attributes:
        index: the number of the text among the answers to one prompt.
        finish_reason: why the text ended; None if it has not.
        logprobs: the log-probabilities of its tokens; empty if they were not requested.
    """

    index: int
    text: str
    finish_reason: str | None
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer, or an event of one. Numbers of tokens are None if it has none."""

    choices: tuple[CompletionChoice, ...]
    input_tokens: int | None
    output_tokens: int | None

    @classmethod
    def of(cls, text: str) -> Completion:
        """Parse an answer of ``/v3/completions`` or ``/v3/chat/completions``, or an event of one.

        Raises:
            RequestError: the text is an error object.
            GraphError: the text is no such answer.
        """
        try:
            value = json.loads(text)
            if "error" in value:
                raise _failure(value["error"])
            usage = value.get("usage") or {}
            return cls(
                tuple(_choice(each) for each in value["choices"]),
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            raise no_completion() from error


class EventReader:
    """Splits the packets of a stream into events, which may be cut anywhere."""

    def __init__(self) -> None:
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, packet: str | bytes) -> Iterator[str]:
        """Yield the data of each complete event, except the one that ends a stream."""
        text = packet if isinstance(packet, str) else self._decoder.decode(packet)
        *events, self._rest = (self._rest + text).split("\n\n")
        for event in events:
            lines = [line for line in event.split("\n") if line.startswith(_DATA)]
            data = "\n".join(line.removeprefix(_DATA).strip() for line in lines)
            if data and data != _DONE:
                yield data


def no_completion() -> GraphError:
    """Return the error for a graph that answers something else, or nothing."""
    return GraphError("the graph's answer is not a completion", code=Code.INTERNAL)


def _choice(value: dict[str, Any]) -> CompletionChoice:
    # Pieces of a chat are deltas, whole answers are messages. Reasoning is not part of the answer.
    message = value.get("delta") or value.get("message") or {}
    text = value["text"] if "text" in value else message.get("content")
    return CompletionChoice(
        int(value.get("index") or 0),
        text or "",
        value.get("finish_reason"),
        tuple(_logprobs(value.get("logprobs") or {})),
    )


def _logprobs(value: dict[str, Any]) -> Iterator[float]:
    for logprob in value.get("token_logprobs") or ():
        yield 0.0 if logprob is None else float(logprob)
    for token in value.get("content") or ():
        yield float(token["logprob"])


def _failure(error: dict[str, Any]) -> RequestError:
    code = _CODES.get(error.get("code") or "") or _CODES.get(error.get("type") or "")
    return RequestError(
        str(error.get("message") or "the request failed"),
        param=error.get("param"),
        code=code or Code.INTERNAL,
    )


class StreamClients:
    """Makes a `ClientConnection` for every request of a stream.

    The callbacks of a request are dropped with it. The connection itself has one callback for the
    stream, so that a long stream does not collect the callbacks of thousands of requests.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._clients: set[PieceClient] = set()
        connection.on_disconnect(self._disconnect)

    def new(self) -> PieceClient:
        """Return a client, which lasts until `forget`."""
        client = PieceClient(self.connection)
        self._clients.add(client)
        return client

    def forget(self, client: PieceClient) -> None:
        """Drop a client whose request is over."""
        self._clients.discard(client)

    def _disconnect(self) -> None:
        for client in tuple(self._clients):
            client.disconnect()
        self._clients.clear()


class PieceClient(Disconnection):
    """A `ClientConnection` for one request."""

    def __init__(self, connection: ClientConnection) -> None:
        self.is_disconnected = connection.is_disconnected
        self._connection = connection

    @property
    def is_writable(self) -> bool:
        return self._connection.is_writable

    async def writable(self) -> None:
        await self._connection.writable()


Generate: TypeAlias = Callable[
    [TextRequest, ClientConnection, Callable[[InferResponse], object]], Awaitable[None]
]

#: Concurrent requests of one stream; the sender of the next one waits.
STREAM_LIMIT: Final = 64


class TextStream:
    """Implements `servers.contract.data_plane.InferStream`. Requests fail independently."""

    def __init__(
        self,
        read: Callable[[InferRequest], TextRequest],
        generate: Generate,
        client: ClientConnection,
        emit: Callable[[InferAnswer], object],
        limit: int = STREAM_LIMIT,
    ) -> None:
        """``read`` parses a request and may raise `RequestError`. ``generate`` emits the answers to
        a request in order, and raises if it fails."""
        self._generate = generate
        self._read = read
        self._clients = StreamClients(client)
        self._emit = emit
        self._room = asyncio.Semaphore(limit)
        self._requests: set[asyncio.Task[None]] = set()
        self._inputs_closed = asyncio.Event()

    async def send(self, request: InferRequest) -> None:
        """Take a request. Return once there is room for it.

        Raises:
            RequestError: the request is invalid.
        """
        asked = self._read(request)
        await self._room.acquire()
        task = asyncio.create_task(self._answer(asked), name=f"text for {request.id[:64]}")
        self._requests.add(task)
        task.add_done_callback(self._end)

    def close_inputs(self) -> None:
        """End the requests."""
        self._inputs_closed.set()

    async def wait(self) -> None:
        """Return when the requests have ended and all are answered.

        Raises nothing: the errors of requests are answers.
        """
        await self._inputs_closed.wait()
        while self._requests:
            await asyncio.wait(self._requests)

    async def cancel(self) -> None:
        """Cancel requests without an answer, and wait for their end."""
        for task in self._requests:
            task.cancel()
        while self._requests:
            await asyncio.wait(self._requests)

    async def _answer(self, request: TextRequest) -> None:
        client = self._clients.new()
        try:
            await self._generate(request, client, self._emit)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._emit(InferFailure(request.id, GraphError("cancelled", code=Code.CANCELLED)))
        except Exception as error:
            self._emit(InferFailure(request.id, error))
        finally:
            self._clients.forget(client)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._room.release()


#: Triton's parameter of an answer: it is the last one to its request.
FINAL: Final = "triton_final_response"

#: The finish reason of a text that continues, as in vLLM's backend.
_NOT_FINISHED: Final = "None"


class ResponseWriter:
    """Writes the answers to one request. Each tensor has one element per requested text."""

    def __init__(self, request: TextRequest) -> None:
        self._request = request
        count = request.answers
        self._prefixes = [request.prefix] * count
        self._reasons = [_NOT_FINISHED] * count
        self._sums = [0.0] * count
        self._tokens = [0] * count
        self._input_tokens: int | None = None
        self._output_tokens: int | None = None
        self.has_begun = False

    def whole(self, completion: Completion) -> InferResponse:
        """Return the only answer."""
        self._learn(completion)
        return self._response(completion.choices, is_last=True)

    def piece(self, completions: Iterable[Completion]) -> InferResponse | None:
        """Return an answer with the text of these events; None if they have no text.

        The `last` answer says how the text ended.
        """
        choices: list[CompletionChoice] = []
        for completion in completions:
            self._learn(completion)
            choices += completion.choices
        if not any(choice.text or choice.logprobs for choice in choices):
            return None
        return self._response(choices, is_last=False)

    def last(self) -> InferResponse:
        """Return the last answer of a stream: no text, but finish reasons and numbers of tokens."""
        return self._response((), is_last=True)

    def empty(self) -> InferResponse:
        """Return an answer without outputs that marks the end."""
        request = self._request
        return InferResponse(request.model, request.version, request.id, {FINAL: True})

    def _learn(self, completion: Completion) -> None:
        self.has_begun = True
        if completion.input_tokens is not None:
            self._input_tokens = completion.input_tokens
            self._output_tokens = completion.output_tokens
        for choice in completion.choices:
            self._grow(choice.index + 1)
            if choice.finish_reason is not None:
                self._reasons[choice.index] = choice.finish_reason
            self._sums[choice.index] += sum(choice.logprobs)

    def _grow(self, count: int) -> None:
        """Make room for ``count`` texts: a graph may return more than were requested."""
        while len(self._sums) < count:
            self._prefixes.append(self._request.prefix)
            self._reasons.append(_NOT_FINISHED)
            self._sums.append(0.0)
            self._tokens.append(0)

    def _response(self, choices: Iterable[CompletionChoice], *, is_last: bool) -> InferResponse:
        texts = [""] * len(self._sums)
        logprobs: list[list[float]] = [[] for _ in texts]
        for choice in choices:
            texts[choice.index] += choice.text
            logprobs[choice.index] += choice.logprobs
        texts = [before + text for before, text in zip(self._prefixes, texts, strict=True)]
        self._prefixes = [""] * len(texts)
        tokens = [len(each) for each in logprobs]
        self._tokens = [old + new for old, new in zip(self._tokens, tokens, strict=True)]
        if is_last and len(tokens) == 1 and self._output_tokens is not None:
            # Tokens without text have no log-probability in an answer.
            tokens = [tokens[0] + max(0, self._output_tokens - self._tokens[0])]
        reasons = self._reasons if is_last else [_NOT_FINISHED] * len(texts)
        arrays: dict[str, NDArray[Any]] = {
            TEXT_OUTPUT: np.array(texts, dtype=object),
            FINISH_REASON: np.array(reasons, dtype=object),
            CUMULATIVE_LOGPROB: np.array(self._sums, dtype=np.float32),
            CUM_LOG_PROBS: np.array(self._sums, dtype=np.float32),
            OUTPUT_LOG_PROBS: _padded(logprobs),
            NUM_OUTPUT_TOKENS: np.array(tokens, dtype=np.uint32),
        }
        if is_last and self._input_tokens is not None:
            arrays[NUM_INPUT_TOKENS] = np.array([self._input_tokens], dtype=np.uint32)
        request = self._request
        parameters: dict[str, Parameter] = {}
        if request.in_stream:
            parameters[FINAL] = is_last and not request.wants_empty_final
        return InferResponse(
            request.model,
            request.version,
            request.id,
            parameters,
            tuple(Tensor.of(name, arrays[name]) for name in request.outputs if name in arrays),
        )


def _padded(rows: list[list[float]]) -> NDArray[np.float32]:
    """Return one row per text, padded with zeros, as in TensorRT-LLM's backend."""
    array = np.zeros((len(rows), max(map(len, rows))), dtype=np.float32)
    for row, values in zip(array, rows, strict=True):
        row[: len(values)] = values
    return array


#: Answers one HTTP request, like `servers.serving.loaded_graph.LoadedGraph.answer`.
RunGraph: TypeAlias = Callable[[HttpPayload, Callable[[ResponsePacket], object]], Awaitable[None]]

Emit: TypeAlias = Callable[[InferResponse], object]


class TextGenerationModel:
    """Text in, text out. The methods: see `servers.contract.data_plane.LoadedServable`.

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
            RunError, GraphError: the graph failed, or its answer is not a completion.
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

    def _read(self, request: InferRequest, model: str, *, in_stream: bool) -> TextRequest:
        return read_request(request, model or self._name, self._version, in_stream=in_stream)

    async def _generate(self, request: TextRequest, client: ClientConnection, emit: Emit) -> None:
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

    def __init__(self, request: TextRequest, emit: Emit) -> None:
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

    def __init__(self, request: TextRequest, emit: Emit) -> None:
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
