"""Messages between a front and a replica, as plain data that pickles.

Failures travel as data: an exception of Ray's would bring its traceback, and lose its cause. Times
of a record are one machine's clock's, so they travel relative to its beginning.

`Outgoing` is the answer of a replica to one request, on its way to the front.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from calculators.kit.requests.client_identity import UNKNOWN_CLIENT, ClientIdentity
from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import (
    ClientConnection,
    Continued,
    Documents,
    HttpPayload,
    Messages,
    MultipartForm,
    RequestError,
)
from calculators.kit.requests.request_record import (
    GenerationRecord,
    RequestRecord,
    RouteTaken,
    ToolCallRecord,
    set_current_record,
)
from calculators.kit.requests.unknown_members import UnknownMembers
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    RequestedOutput,
    Tensor,
)
from graph_runtime import Code, NotFoundError, RunError
from servers.contract.data_plane import (
    Disconnection,
    IndexEntry,
    InferAnswer,
    InferFailure,
    ModelMetadata,
)
from servers.contract.failure import Failure, failure_of
from servers.serving.servable import HttpRole

#: Around the reason in the text of an exception, which Ray shows with its traceback.
REASON_MARKS = ("[[graphrt: ", " :graphrt]]")
#: The size of a packet besides its content, in bytes.
_PACKET_BYTES = 64
_GENERATION_TIMES = ("began", "submitted", "first_token", "ended")
_TOOL_TIMES = ("began", "ended")


@dataclass(frozen=True, slots=True)
class Description:
    """A loaded servable as a front sees it.

    Attributes:
        version: graphrt's, which both sides must have.
        metadata: by version; "" is the default one.
    """

    version: str
    adapters: tuple[str, ...]
    role: HttpRole | None
    created: int
    metadata: Mapping[str, ModelMetadata]
    index: tuple[IndexEntry, ...]


# Requests -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """The sender of a request and its limits, out of the front's record.

    Attributes:
        seconds_left: until the front ends the request; None: it does not.
    """

    request_id: str = ""
    client: ClientIdentity = UNKNOWN_CLIENT
    keeps_texts: bool = False
    unknown_members: UnknownMembers = UnknownMembers.WARN
    seconds_left: float | None = None

    @classmethod
    def of(cls, record: RequestRecord | None) -> Origin:
        if record is None:
            return cls()
        left = None if record.deadline is None else record.deadline - time.monotonic()
        return cls(
            record.request_id, record.client, record.keeps_texts, record.unknown_members, left
        )

    def record(self, model: str) -> RequestRecord:
        """Return a new record for the replica."""
        left = self.seconds_left
        return RequestRecord(
            self.request_id,
            model,
            self.client,
            keeps_texts=self.keeps_texts,
            unknown_members=self.unknown_members,
            deadline=None if left is None else time.monotonic() + left,
        )


@dataclass(frozen=True, slots=True)
class HttpCall:
    """An `HttpPayload` without what stays at the front: connection, messages, record, documents.

    Attributes:
        has_messages: the request is a WebSocket's.
    """

    uri: str
    headers: Mapping[str, str]
    body: bytes
    parsed_json: Any
    form: MultipartForm | None
    method: str
    has_messages: bool
    continued: Continued
    origin: Origin

    @classmethod
    def of(cls, payload: HttpPayload) -> HttpCall:
        return cls(
            payload.uri,
            dict(payload.headers),
            bytes(payload.body),
            payload.parsed_json,
            payload.form,
            payload.method,
            payload.messages is not None,
            payload.continued,
            Origin.of(payload.record),
        )

    def payload(
        self,
        client: ClientConnection,
        record: RequestRecord,
        messages: Messages | None,
        documents: Documents,
    ) -> HttpPayload:
        return HttpPayload(
            self.uri,
            self.headers,
            self.body,
            self.parsed_json,
            client,
            record,
            form=self.form,
            method=self.method,
            messages=messages,
            documents=documents,
            continued=self.continued,
        )


_SentTensor: TypeAlias = tuple[Any, ...]


class SentTensors(NamedTuple):
    """An `InferRequest` or an `InferResponse`.

    Attributes:
        outputs: the requested ones of a request, with their parameters.
    """

    model: str
    version: str
    id: str
    parameters: dict[str, Any]
    tensors: tuple[_SentTensor, ...]
    outputs: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def size(self) -> int:
        """The approximate size of the tensors in bytes."""
        return _PACKET_BYTES + sum(int(each[-1]) for each in self.tensors)

    @classmethod
    def of_request(cls, request: InferRequest) -> SentTensors:
        return cls(
            request.model,
            request.version,
            request.id,
            dict(request.parameters),
            tuple(map(_sent_tensor, request.inputs)),
            tuple((each.name, dict(each.parameters)) for each in request.requested_outputs),
        )

    @classmethod
    def of_response(cls, response: InferResponse) -> SentTensors:
        return cls(
            response.model,
            response.version,
            response.id,
            dict(response.parameters),
            tuple(map(_sent_tensor, response.outputs)),
        )

    def request(self) -> InferRequest:
        return InferRequest(
            self.model,
            self.version,
            self.id,
            self.parameters,
            tuple(map(_tensor_of, self.tensors)),
            tuple(RequestedOutput(*each) for each in self.outputs),
        )

    def response(self) -> InferResponse:
        tensors = tuple(map(_tensor_of, self.tensors))
        return InferResponse(self.model, self.version, self.id, self.parameters, tensors)


def _sent_tensor(tensor: Tensor | CustomTensor) -> _SentTensor:
    """Return kind, members and, last, the size in bytes."""
    parameters = dict(tensor.parameters)
    if isinstance(tensor, Tensor):
        size = tensor.data.nbytes
        if tensor.datatype is Datatype.BYTES:
            size = sum(map(len, tensor.data.flat))
        return (True, tensor.name, tensor.datatype.value, tensor.data, parameters, size)
    data = bytes(tensor.data)
    return (
        False,
        tensor.name,
        str(tensor.datatype),
        tensor.shape,
        data,
        parameters,
        tensor.defect,
        len(data),
    )


def _tensor_of(sent: _SentTensor) -> Tensor | CustomTensor:
    if sent[0]:
        _, name, datatype, data, parameters, _ = sent
        return Tensor(name, Datatype(datatype), data, parameters)
    _, name, datatype, shape, content, parameters, defect, _ = sent
    return CustomTensor(name, datatype, shape, memoryview(content), parameters, defect)


# Answers ------------------------------------------------------------------------------------------


class SentFailure(NamedTuple):
    """A `Failure` without its cause, which stays in the replica's log.

    Attributes:
        is_of_run: the graph had begun, so that its metrics count an error and no refusal.
    """

    code: Code
    text: str
    param: str | None
    reason: str | None
    retry_after: float | None
    detail: str
    is_unknown_model: bool
    is_of_run: bool

    @classmethod
    def of(cls, error: BaseException, failure: Failure | None = None) -> SentFailure:
        """``failure``: that of ``error``, if it is known."""
        found = failure or failure_of(error)
        return cls(
            found.code,
            found.text,
            found.param,
            found.reason,
            found.retry_after,
            found.detail,
            found.is_unknown_model,
            isinstance(error, RunError),
        )

    def error(self) -> Exception:
        """Return an exception that every front answers as it would have answered the first one."""
        if self.is_unknown_model:
            return NotFoundError(self.text)
        error = RequestError(
            self.text,
            param=self.param,
            code=self.code,
            retry_after=self.retry_after,
            reason=self.reason,
            detail=self.detail,
        )
        if not self.is_of_run:
            return error
        return RunError([error])


#: An answer on a stream of requests: tensors, or the id and the failure of a request.
SentAnswer: TypeAlias = SentTensors | tuple[str, SentFailure]


def sent_answer(answer: InferAnswer) -> SentAnswer:
    """Return what stands for an answer of an `InferStream`."""
    if isinstance(answer, InferFailure):
        return answer.id, SentFailure.of(answer.error)
    return SentTensors.of_response(answer)


def answer_of(sent: SentAnswer) -> InferAnswer:
    """Return the answer that was sent."""
    if isinstance(sent, SentTensors):
        return sent.response()
    return InferFailure(sent[0], sent[1].error())


#: Messages of a replica to a front on the way.
Packet: TypeAlias = ResponsePacket | SentAnswer


def size_of(packet: Packet) -> int:
    """Return the bytes that a packet takes, about: what flow control counts."""
    if isinstance(packet, (str, bytes)):
        return _PACKET_BYTES + len(packet)
    if isinstance(packet, HttpAnswer):
        return _PACKET_BYTES + len(packet.body)
    return packet.size if isinstance(packet, SentTensors) else _PACKET_BYTES


class AnswerEnding(NamedTuple):
    """The end of a request, and what the replica has written into its record."""

    failure: SentFailure | None
    error: str = ""
    reason: str = ""
    generations: tuple[GenerationRecord, ...] = ()
    tool_calls: tuple[ToolCallRecord, ...] = ()
    routes: tuple[RouteTaken, ...] = ()

    @classmethod
    def of(cls, record: RequestRecord, failure: SentFailure | None) -> AnswerEnding:
        began = record.began
        return cls(
            failure,
            record.error,
            record.reason,
            tuple(
                _moved(replace(each, choices=()), -began, _GENERATION_TIMES)
                for each in record.generations
            ),
            tuple(_moved(replace(each), -began, _TOOL_TIMES) for each in record.tool_calls),
            tuple(each._replace(time=each.time - began) for each in record.routes),
        )

    def note_in(self, record: RequestRecord, sent: int) -> None:
        """Add these entries to the front's record. ``sent``: when the front sent the request."""
        record.error = record.error or self.error
        record.reason = record.reason or self.reason
        record.generations.extend(
            _moved(each, sent, _GENERATION_TIMES) for each in self.generations
        )
        record.tool_calls.extend(_moved(each, sent, _TOOL_TIMES) for each in self.tool_calls)
        record.routes.extend(each._replace(time=each.time + sent) for each in self.routes)


def _moved(record: Any, offset: int, times: tuple[str, ...]) -> Any:
    """Move the times that are set; 0 means "not reached"."""
    for name in times:
        if time_ns := getattr(record, name):
            setattr(record, name, time_ns + offset)
    return record


@dataclass(frozen=True, slots=True)
class Update:
    """All that a replica has for a front at one moment.

    Attributes:
        warnings: texts for the client, if there are new ones; they have to come before the answer.
        ending: the last update has it.
    """

    packets: list[Packet] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    ending: AnswerEnding | None = None


_log: Final = logging.getLogger(__name__)

#: Bytes that a replica may send before the front has passed them on; the front gives back what it
#: has passed on in halves of it.
WINDOW: Final = 256 * 1024
#: Seconds that a replica waits for the front to pass its packets on. A client that reads nothing is
#: disconnected after three times as long.
LOST_SECONDS: Final = 10.0


class RemoteClient(Disconnection):
    """The client at the front: a `calculators.kit.requests.http_payload.ClientConnection`.

    It is writable while fewer than `WINDOW` bytes are on their way to it.
    """

    __slots__ = ("_credit", "_writable")

    def __init__(self) -> None:
        super().__init__()
        self._credit = WINDOW
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_writable(self) -> bool:
        return self._credit > 0 or self.is_disconnected

    async def writable(self) -> None:
        """Return when `is_writable`, or after `LOST_SECONDS`.

        A replica that Ray is ending gets no calls any more, so the front's credit is lost; the
        streams that the replica still has go on slowly.
        """
        try:
            await asyncio.wait_for(self._writable.wait(), LOST_SECONDS)
        except TimeoutError:
            self.give(WINDOW)

    def spend(self, size: int) -> None:
        """Count bytes that are sent."""
        self._credit -= size
        if self._credit <= 0 and not self.is_disconnected:
            self._writable.clear()

    def give(self, size: int) -> None:
        """Count bytes that the front has passed on."""
        self._credit += size
        if self._credit > 0:
            self._writable.set()

    def disconnect(self) -> None:
        super().disconnect()
        self._writable.set()


class Outgoing:
    """Gathers the packets of one run, so that each update has all that is there.

    Attributes:
        client: the client as the run sees it.
        record: the record that calculators write into.
    """

    def __init__(self, record: RequestRecord) -> None:
        self.client = RemoteClient()
        self.record = record
        self._packets: list[Packet] = []
        self._has_news = asyncio.Event()
        self._warned: tuple[str, ...] = ()

    def put(self, packet: Packet) -> None:
        """Send a packet. Must be called on the event loop."""
        self._packets.append(packet)
        self.client.spend(size_of(packet))
        self._has_news.set()

    def note_open(self) -> None:
        """Send an update without a packet: the run has begun."""
        self._has_news.set()

    async def updates(
        self, run: Callable[[], Awaitable[None]], name: str
    ) -> AsyncGenerator[Update, None]:
        """Yield what ``run`` sends, and at last its end. Leaving the iterator cancels it.

        ``run`` is a task of that name, and has the record as the current one.
        """

        async def run_with_record() -> None:
            set_current_record(self.record)
            await run()

        task = asyncio.create_task(run_with_record(), name=name)
        task.add_done_callback(lambda _: self._has_news.set())
        try:
            while True:
                await self._has_news.wait()
                self._has_news.clear()
                if task.done():
                    yield self._update(self._ending(task))
                    return
                yield self._update(None)
        finally:
            if not task.done():
                self.client.disconnect()
                task.cancel()
            self.client.forget()

    def _update(self, ending: AnswerEnding | None) -> Update:
        packets, self._packets = self._packets, []
        warnings = self.record.warnings
        if warnings == self._warned:
            return Update(packets, (), ending)
        self._warned = warnings
        return Update(packets, warnings, ending)

    def _ending(self, task: asyncio.Task[None]) -> AnswerEnding:
        if task.cancelled():
            return AnswerEnding.of(self.record, None)
        error = task.exception()
        return AnswerEnding.of(self.record, None if error is None else logged(error, self.record))


def logged(error: BaseException, record: RequestRecord) -> SentFailure:
    """Return what the front gets of an error. Its cause, if it is a secret, goes to the log."""
    failure = failure_of(error)
    if failure.cause is not None:
        _log.error("request %s failed", record.request_id, exc_info=failure.cause)
    return SentFailure.of(error, failure)
