"""A call of a client, from its begin to its status: the one place where exceptions become one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NoReturn, Protocol

import grpc
import grpc.aio

from calculators.http_payload import RequestError
from graph_runtime import Code
from servers.kserve_grpc.errors import told

_log: Final = logging.getLogger(__name__)
_access_log: Final = logging.getLogger("servers.kserve_grpc.access")


class ClientGone(Exception):
    """Nobody is there to take what was to be sent."""


class Call:
    """A call in hand, and its client as a `calculators.http_payload.ClientConnection`.

    The client of a unary call gets one answer, so it is always writable.

    Attributes:
        is_idle: it only waits for something to happen, so that a server that stops need not wait
            for it.
    """

    __slots__ = ("_callbacks", "is_cut_off", "is_disconnected", "is_idle", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.is_cut_off = False
        self.is_disconnected = False
        self.is_idle = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_writable(self) -> bool:
        return True

    async def writable(self) -> None:
        await asyncio.sleep(0)

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        if self.is_disconnected:
            callback()
        else:
            self._callbacks.append(callback)

    def disconnect(self) -> None:
        """The peer has gone, or has cancelled the call: tell everybody, once."""
        self.is_disconnected = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("a disconnect callback failed")

    def cut_off(self) -> None:
        """End it with UNAVAILABLE: the server stops."""
        self.is_cut_off = True
        self.task.cancel()


class StreamCall(Call):
    """A call that takes and gives any number of messages."""

    __slots__ = ("_context",)

    def __init__(self, task: asyncio.Task[Any], context: Any) -> None:
        super().__init__(task)
        self._context = context

    async def begin(self) -> None:
        """Send the headers: gRPC would send them twice if the call were ended in its first `write`.

        For the same reason nothing may end the call while this runs.

        Raises:
            ClientGone: the call is over.
        """
        try:
            await self._context.send_initial_metadata(())
        except grpc.aio.BaseError as error:
            raise ClientGone from error

    async def read(self) -> bytes | None:
        """The next message; None when the client sends no more, or is gone.

        Not to be cancelled: gRPC would keep what arrives for it for ever.
        """
        try:
            message = await self._context.read()
        except grpc.aio.BaseError:  # the call is over
            return None
        return None if message is grpc.aio.EOF else message

    async def write(self, message: bytes) -> None:
        """Send a message; returns when the next may come: the client has taken enough.

        Raises:
            ClientGone: the call is over.
        """
        try:
            await self._context.write(message)
        except grpc.aio.BaseError as error:
            raise ClientGone from error


Unary = Callable[[bytes, Call], Awaitable[bytes]]
Stream = Callable[[StreamCall], Awaitable[None]]


class Service(Protocol):
    """Methods by their names; exceptions that they raise become the status."""

    unary: Mapping[str, Unary]
    streams: Mapping[str, Stream]


class Calls:
    """Makes gRPC's handlers of functions, and knows the calls in hand."""

    def __init__(self) -> None:
        self._in_hand: set[Call] = set()
        self._is_over = False

    def in_hand(self) -> list[Call]:
        return list(self._in_hand)

    def cut_off(self) -> int:
        """End all with UNAVAILABLE, and those too that gRPC still brings; how many there were."""
        self._is_over = True
        for call in self._in_hand:
            call.cut_off()
        return len(self._in_hand)

    def unary(self, name: str, function: Unary) -> grpc.RpcMethodHandler:
        """One request, one answer. Exceptions of ``function`` become the status."""

        async def answer(request: bytes, context: Any) -> bytes:
            call = Call(_current_task())
            try:
                self._add(call)
                response = await function(request, call)
            except BaseException as raised:
                error = _reason_of(raised, call)
            else:
                _access_log.debug("%s OK", name)
                return response
            finally:
                self._in_hand.discard(call)
            return await _refuse(context, name, error)

        return grpc.unary_unary_rpc_method_handler(answer)

    def stream(self, name: str, function: Stream) -> grpc.RpcMethodHandler:
        """Requests and answers. Exceptions of ``function`` become the status."""

        async def answer(requests: object, context: Any) -> None:
            call = StreamCall(_current_task(), context)
            try:
                await call.begin()
                self._add(call)
                await function(call)
            except ClientGone as gone:
                call.disconnect()
                raise asyncio.CancelledError from gone  # gRPC then sends no status
            except BaseException as raised:
                await _refuse(context, name, _reason_of(raised, call))
            else:
                _access_log.debug("%s OK", name)
            finally:
                self._in_hand.discard(call)

        return grpc.stream_stream_rpc_method_handler(answer)

    def _add(self, call: Call) -> None:
        if self._is_over:
            raise _shutting_down()
        self._in_hand.add(call)


def _shutting_down() -> RequestError:
    return RequestError("the server is shutting down", code=Code.UNAVAILABLE)


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None, "gRPC runs each call in a task"
    return task


def _reason_of(raised: BaseException, call: Call) -> Exception:
    """What ended the call. Raises ``raised`` when there is no client to be told."""
    if isinstance(raised, asyncio.CancelledError):
        if call.is_cut_off:
            call.task.uncancel()
            return _shutting_down()
        if call.task.cancelling():
            call.disconnect()
            raise raised
        return RuntimeError("something inside was cancelled, but not by the client")
    if not isinstance(raised, Exception):
        raise raised
    return raised


async def _refuse(context: Any, name: str, error: Exception) -> NoReturn:
    code, text = told(error)
    _access_log.info("%s %s: %s", name, code.name, text)
    try:
        await context.abort(code, text)
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError as error:  # nobody is there to be told
        raise asyncio.CancelledError from error
    raise AssertionError("abort raises")
