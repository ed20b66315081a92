"""A gRPC call from its start to its status: the one place where exceptions become a status."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn, Protocol, Self, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from calculators.kit.child_process.fair_turns import FairTurns
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, current_record, note_reason
from graph_runtime import Code
from servers.access import KEY_HEADERS, Access
from servers.contract.data_plane import Disconnection
from servers.contract.failure import failure_of, forget_frames
from servers.fronts.body_room import (
    DEFLATE,
    GZIP,
    SMALL,
    BodyHold,
    ContentTooLargeError,
    NotCompressedError,
    inflated,
)
from servers.fronts.kserve_grpc.gate import Gate
from servers.operations.request_log import RequestEnd, RequestJournal, reason_for_log, request_id_of

M = TypeVar("M", bound=Message)

_MAX_BYTES: Final = 64 * 1024


def parsed(kind: type[M], data: bytes) -> M:
    """Parse a message.

    Raises:
        RequestError: ``data`` is not such a message, or is longer than 64 KiB.
    """
    name = kind.DESCRIPTOR.name
    if len(data) > _MAX_BYTES:
        raise RequestError(f"a {name} can have {_MAX_BYTES} bytes, not {len(data)}")
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise RequestError(f"the request is not a {name} message") from error


_log: Final = logging.getLogger(__name__)

STATUS: Mapping[Code, grpc.StatusCode] = MappingProxyType(
    {
        **{code: grpc.StatusCode[code.name] for code in Code},
        # Clients take CANCELLED for their own cancellation.
        Code.CANCELLED: grpc.StatusCode.UNAVAILABLE,
    }
)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Return status and text for a call that failed with ``error``, for any exception.

    The cause of an internal error is logged with the request's id, which the text contains.
    """
    failure = failure_of(error)
    code = failure.reason or failure.code.name
    note_reason(reason_for_log(code, failure.param, failure.detail))
    if failure.cause is None:
        return STATUS[failure.code], failure.text
    record = current_record()
    reference = secrets.token_hex(8) if record is None else record.request_id
    _log.error("request %s failed", reference, exc_info=failure.cause)
    return STATUS[failure.code], failure.internal_text(reference)


REQUEST_ID: Final = "x-request-id"

#: Statuses that are the server's fault, by OpenTelemetry's conventions.
_FAILURES: Final = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)

#: Methods that monitoring polls.
_PROBES: Final = frozenset(
    {
        "grpc.health.v1.Health/Check",
        "grpc.health.v1.Health/Watch",
        "inference.GRPCInferenceService/ServerLive",
        "inference.GRPCInferenceService/ServerReady",
        "inference.GRPCInferenceService/ModelReady",
    }
)


class CallEntry:
    """One call: ``with CallEntry(...) as entry:`` around it.

    Attributes:
        status: CANCELLED until the call sets another: its client has left.
        request_bytes, response_bytes: sizes of messages; None if they are not known.
    """

    __slots__ = ("_access", "_context", "_identify", "_journal", "_method", "_record",
                 "request_bytes", "response_bytes", "status")  # fmt: skip

    def __init__(
        self,
        journal: RequestJournal,
        method: str,
        context: Any,
        access: Access,
        identify: Callable[[str], ClientIdentity],
    ) -> None:
        """``method``: service and method, ``inference.GRPCInferenceService/ModelInfer``.

        ``identify``: returns the client of a peer of grpcio.
        """
        self._journal = journal
        self._method = method
        self._context = context
        self._access = access
        self._identify = identify
        self._record: RequestRecord | None = None
        self.status = grpc.StatusCode.CANCELLED
        self.request_bytes: int | None = None
        self.response_bytes: int | None = None

    def __enter__(self) -> Self:
        # Values of names that end in -bin are bytes; no header here is one of them.
        header = {
            name: value
            for name, value in self._context.invocation_metadata() or ()
            if isinstance(value, str)
        }.get
        request_id = request_id_of(header(REQUEST_ID))
        is_probe = self._method in _PROBES
        self._record = self._journal.begin(request_id, header, is_probe=is_probe)
        if not is_probe:
            keys = map(header, KEY_HEADERS)
            self._record.client = self._access.client(self._identify(self._context.peer()), *keys)
        self._context.set_trailing_metadata(((REQUEST_ID, request_id),))
        return self

    def __exit__(self, *raised: object) -> None:
        assert self._record is not None
        end = RequestEnd(
            protocol="grpc",
            method=self._method,
            path="",
            route=self._method,
            status=self.status.name,
            is_failure=self.status in _FAILURES,
            is_quiet=self.status is grpc.StatusCode.OK or self._method in _PROBES,
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
        )
        self._journal.end(self._record, end)


# The client must read the answers before the status; one that does not is abandoned.
_STATUS_SECONDS: Final = 2.0
# After so many calls at a time, their memory goes back to the system, so many seconds later.
_MANY: Final = 256
_TRIM_SECONDS: Final = 2.0

_large_messages: Final = FairTurns()


class ClientGone(Exception):
    """The client is gone, so nothing can be sent to it."""


class Call(Disconnection):
    """A call in progress; its client as a `calculators.kit.requests.http_payload.ClientConnection`.

    The client of a unary call gets one answer, so it is always writable. A client that cancels its
    call is gone.

    Attributes:
        ending: the error with which the server is ending the call; None while it is not.
        is_idle: the call only waits for events, so a server that stops does not wait for it.
    """

    __slots__ = ("_deadline", "_gate", "_hold", "_peer", "ending", "is_idle", "task")

    def __init__(self, task: asyncio.Task[Any], context: Any, gate: Gate) -> None:
        super().__init__()
        self.task = task
        self._peer: str = context.peer()
        self._gate = gate
        self._hold: BodyHold | None = None
        self.ending: Exception | None = None
        self.is_idle = False
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_writable(self) -> bool:
        return True

    async def writable(self) -> None:
        await asyncio.sleep(0)

    def cut_off(self, error: Exception | None = None) -> None:
        """End the call with this error; by default UNAVAILABLE, because the server stops."""
        if self.ending is None:
            self.ending = error or _shutting_down()
            self.task.cancel()

    def end_after(self, seconds: float) -> None:
        """End the call with DEADLINE_EXCEEDED unless it has ended by then; 0 means no limit."""
        if seconds > 0:
            self._deadline = asyncio.get_running_loop().call_later(seconds, self._expire, seconds)

    def _expire(self, seconds: float) -> None:
        text = f"the request was not answered within {seconds:g} s, the server's limit"
        record = current_record()  # a timer has the context of its call
        if record is not None:
            text = record.unanswered(text)
        self.cut_off(RequestError(text, code=Code.DEADLINE_EXCEEDED, detail=text))

    async def content(self, message: bytes) -> bytes:
        """Return a message without compression. It has room until the next one, or `release`.

        Raises:
            RequestError: UNAVAILABLE, there is no room for it in time; RESOURCE_EXHAUSTED, its
                content is too large; INVALID_ARGUMENT, it is compressed, but not soundly.
        """
        self.release()
        compression = _compression(message)
        # Small messages take no turn and no room, so calls of kilobytes pass whatever others send
        # (decision 0087).
        if len(message) <= SMALL and not compression:
            return message
        self._hold = hold = await self._gate.admit(self._peer, len(message))
        if not compression:
            return message
        most = self._gate.most_bytes
        try:
            # grpcio would decompress in one go on the event loop's thread: 0.28 s for 60 MiB. So
            # `grpc.per_message_decompression` is 0, and the content is made here, in steps
            # (decision 0087).
            return await inflated(message, compression, most, hold, _large_messages)
        except NotCompressedError:
            raise RequestError("the compressed message is damaged") from None
        except ContentTooLargeError:
            text = f"the content of the compressed message is larger than {most} bytes"
            raise RequestError(text, code=Code.RESOURCE_EXHAUSTED) from None

    def release(self) -> None:
        """Give the room of the last message back."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def finish(self) -> None:
        """Note that the call has ended."""
        self.release()
        if self._deadline is not None:
            self._deadline.cancel()


class StreamCall(Call):
    """A call with any number of requests and answers."""

    __slots__ = ("_active_at", "_context", "_loop", "_writing_since")

    def __init__(self, task: asyncio.Task[Any], context: Any, gate: Gate) -> None:
        super().__init__(task, context, gate)
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        self._writing_since: float | None = None

    async def begin(self) -> None:
        """Send the headers: gRPC would send them twice if the call ended during its first `write`.

        For the same reason the call must not be ended while this runs.

        Raises:
            ClientGone: the call is over.
        """
        try:
            await self._context.send_initial_metadata(())
        except grpc.aio.BaseError as error:
            raise ClientGone from error

    def watch(self, stall_seconds: float, idle_seconds: float) -> None:
        """End the call when its client reads nothing for so long, or no side sends; 0: never."""
        now = self._loop.time()
        since = self._writing_since
        if since is not None:
            if now - since > stall_seconds > 0:
                text = f"the client took nothing of its answers for {stall_seconds:g} s"
                self.cut_off(RequestError(text, code=Code.RESOURCE_EXHAUSTED))
        elif now - self._active_at > idle_seconds > 0 and not self.is_idle:
            text = f"nothing was sent in this stream for {idle_seconds:g} s"
            self.cut_off(RequestError(text, code=Code.DEADLINE_EXCEEDED))
        # Checked periodically: a timer set and cancelled for every message would cost more.
        pause = min(stall_seconds or idle_seconds, idle_seconds or stall_seconds) / 4
        if pause > 0:
            self._deadline = self._loop.call_later(pause, self.watch, stall_seconds, idle_seconds)

    async def read(self) -> bytes | None:
        """Return the next message, for `content`; None: the client sends no more, or is gone.

        Must not be cancelled: gRPC would keep the message that arrives for ever.
        """
        try:
            message = await self._context.read()
        except grpc.aio.BaseError:  # the call is over
            return None
        self._active_at = self._loop.time()
        return None if message is grpc.aio.EOF else message

    async def write(self, message: bytes) -> None:
        """Send a message. Return when the client has read enough to send the next.

        Raises:
            ClientGone: the call is over.
        """
        self._writing_since = self._loop.time()
        try:
            await self._context.write(message)
        except grpc.aio.BaseError as error:
            raise ClientGone from error
        self._writing_since = None
        self._active_at = self._loop.time()


Unary = Callable[[bytes, Call], Awaitable[bytes]]
Stream = Callable[[StreamCall], Awaitable[None]]


class Service(Protocol):
    """Methods by name. Exceptions that they raise become the status."""

    unary: Mapping[str, Unary]
    streams: Mapping[str, Stream]


class Calls:
    """Turns functions into gRPC's handlers, and knows the calls in progress."""

    def __init__(
        self,
        stall_seconds: float,
        idle_seconds: float,
        gate: Gate,
        journal: RequestJournal | None = None,
        access: Access | None = None,
    ) -> None:
        """``stall_seconds``, ``idle_seconds``: time limits of every stream, as in `GrpcSettings`.

        ``gate``: knows the clients, and the memory.

        ``access``: distinguishes clients by their keys.
        """
        self._journal = journal or RequestJournal()
        self._access = access or Access()
        self._gate = gate
        self._most_in_hand = 0
        self._stall_seconds = stall_seconds
        self._idle_seconds = idle_seconds
        self._in_hand: set[Call] = set()
        self._is_over = False

    def in_hand(self) -> list[Call]:
        return list(self._in_hand)

    def cut_off(self) -> int:
        """End all calls, and all that start later, with UNAVAILABLE. Return their number now."""
        self._is_over = True
        for call in self._in_hand:
            call.cut_off()
        return len(self._in_hand)

    def unary(self, name: str, function: Unary) -> grpc.RpcMethodHandler:
        """Return a handler with one request and one answer. ``name`` contains the service.

        Exceptions of ``function`` become the status.
        """

        async def answer(request: bytes, context: Any) -> bytes:
            call = Call(_current_task(), context, self._gate)
            with self._entry(name, context) as entry:
                entry.request_bytes = len(request)
                try:
                    self._add(call)
                    request = await call.content(request)
                    response = await function(request, call)
                except BaseException as raised:
                    # The status alone: an error is in a cycle with this frame, which its
                    # traceback has, and would keep the message.
                    code, text = status_of(_reason_of(raised, call))
                    forget_frames(raised)
                else:
                    entry.status = grpc.StatusCode.OK
                    entry.response_bytes = len(response)
                    return response
                finally:
                    self._end(call)
                del request
                return await _refuse(context, entry, code, text)

        return grpc.unary_unary_rpc_method_handler(answer)

    def stream(self, name: str, function: Stream) -> grpc.RpcMethodHandler:
        """Return a handler of a stream. Exceptions of ``function`` become the status."""

        async def answer(requests: object, context: Any) -> None:
            call = StreamCall(_current_task(), context, self._gate)
            with self._entry(name, context) as entry:
                try:
                    await call.begin()
                    self._add(call)
                    call.watch(self._stall_seconds, self._idle_seconds)
                    await function(call)
                except ClientGone as gone:
                    call.disconnect()
                    raise asyncio.CancelledError from gone  # gRPC then sends no status
                except BaseException as raised:
                    code, text = status_of(_reason_of(raised, call))
                    forget_frames(raised)
                else:
                    entry.status = grpc.StatusCode.OK
                    return
                finally:
                    self._end(call)
                await _refuse(context, entry, code, text)

        return grpc.stream_stream_rpc_method_handler(answer)

    def refused(self, name: str, error: Exception) -> grpc.RpcMethodHandler:
        """Return a handler that ends calls of any kind with ``error``."""

        async def answer(requests: object, context: Any) -> None:
            with self._entry(name, context) as entry:
                await _refuse(context, entry, *status_of(error))

        return grpc.stream_stream_rpc_method_handler(answer)

    def _entry(self, name: str, context: Any) -> CallEntry:
        return CallEntry(self._journal, name, context, self._access, self._gate.identity)

    def _add(self, call: Call) -> None:
        if self._is_over:
            raise _shutting_down()
        self._in_hand.add(call)
        self._most_in_hand = max(self._most_in_hand, len(self._in_hand))

    def _end(self, call: Call) -> None:
        call.finish()
        self._in_hand.discard(call)
        if self._most_in_hand > _MANY and len(self._in_hand) < _MANY // 2:
            # gRPC's library and asyncio keep the memory of as many calls as there were at a time.
            self._most_in_hand = 0
            asyncio.get_running_loop().call_later(_TRIM_SECONDS, self._free_memory)

    def _free_memory(self) -> None:
        gc.collect()  # a call that is refused is in a cycle with the error by which gRPC ends it
        self._gate.room.trim()


def _compression(message: bytes) -> int:
    """Return the format of a compressed message, 0 if it is not compressed.

    grpcio does not pass on whether it is. The messages of the services have few fields, and none
    begins as the formats do: gzip with a tag that cannot be, deflate with that of a field 15.
    """
    if message[:2] == b"\x1f\x8b":
        return GZIP
    if message[:1] == b"\x78" and int.from_bytes(message[:2]) % 31 == 0:
        return DEFLATE
    return 0


def _shutting_down() -> RequestError:
    return RequestError("the server is shutting down", code=Code.UNAVAILABLE)


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None, "gRPC runs each call in a task"
    return task


def _reason_of(raised: BaseException, call: Call) -> Exception:
    """Return the error that ended the call. Raise ``raised`` if the client is gone."""
    if isinstance(raised, asyncio.CancelledError):
        if call.ending is not None:
            call.task.uncancel()
            return call.ending
        if not call.task.cancelling():
            return RuntimeError("the call was cancelled, but not by the client")
        call.disconnect()
    elif isinstance(raised, Exception):
        return raised
    try:
        raise raised
    finally:
        del raised  # this frame is in its traceback


async def _refuse(context: Any, entry: CallEntry, code: grpc.StatusCode, text: str) -> NoReturn:
    entry.status = code
    try:
        async with asyncio.timeout(_STATUS_SECONDS):
            await context.abort(code, text)
    except grpc.aio.AbortError:
        raise
    except TimeoutError as error:
        raise asyncio.CancelledError from error
    except grpc.aio.BaseError as error:  # the client is gone
        raise asyncio.CancelledError from error
    raise AssertionError("abort raises")
