"""`Instance`: a loaded handler, in a thread or a process; `HandlerTurn`: the result of one call.

`HandlerSettings` is all that a handler is loaded with, and `HandlerError` the error that a client
gets for a handler that failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import msgspec

from calculators.kit.requests.http_payload import RequestError
from graphrt_base.errors import Code


class HandlerSettings(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The settings of one node, the same for each instance of its handler.

    Attributes:
        path: the handler's file.
        input_names, output_names: names of the node's streams, in the order of the graph.
        streams: names of the outputs that take the handler's results.
        response: the one of them that takes an HTTP answer, or None.
        may_generate: the node has ``LOOPBACK``, so that generators can be resumed.
        log_level: a level of ``logging``, for the handler's process.
    """

    node_name: str
    path: str
    input_names: list[str]
    output_names: list[str]
    base_path: str
    streams: list[str]
    response: str | None
    may_generate: bool
    log_level: int

    @property
    def kwargs(self) -> dict[str, Any]:
        """The argument of ``initialize``."""
        return {
            "node_name": self.node_name,
            "input_names": list(self.input_names),
            "output_names": list(self.output_names),
            "base_path": self.base_path,
        }


class HandlerError(RequestError):
    """The handler failed, or returned something that cannot be sent. The text is for the client."""

    code = Code.INTERNAL


#: (stream's name, value) of each packet.
Outputs: TypeAlias = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class HandlerTurn:
    """The outputs of one call of a handler.

    Attributes:
        is_generating: there is a generator that has not ended.
    """

    outputs: Outputs
    is_generating: bool = False


class Instance(Protocol):
    """Makes one call after the other, in the order of the requests.

    Belongs to the event loop that made it. Its futures must not be cancelled: a caller that stops
    waiting calls `abandon`. They raise a `RequestError` if the call failed.
    """

    @property
    def unavailable_reason(self) -> str:
        """The reason why the handler can take no call now; "" while it can."""

    def execute(self, key: int, inputs: Sequence[Any]) -> asyncio.Future[HandlerTurn]:
        """Request `PythonHandler.execute`."""

    def next(self, key: int) -> asyncio.Future[HandlerTurn]:
        """Request `PythonHandler.next`."""

    def end(self, key: int) -> None:
        """Request `PythonHandler.end`, without an answer."""

    def abandon(self) -> None:
        """Give up the answer to the last `execute` or `next`."""

    async def close(self) -> None:
        """Call ``finalize`` after the earlier calls. No call may follow."""
