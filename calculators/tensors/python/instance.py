"""`Instance`: a loaded handler, in a thread or a process; `Turn`: the result of one call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

#: (stream's name, value) of each packet.
Outputs: TypeAlias = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Turn:
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

    def execute(self, key: int, inputs: Sequence[Any]) -> asyncio.Future[Turn]:
        """Request `Handler.execute`."""

    def next(self, key: int) -> asyncio.Future[Turn]:
        """Request `Handler.next`."""

    def end(self, key: int) -> None:
        """Request `Handler.end`, without an answer."""

    def abandon(self) -> None:
        """Give up the answer to the last `execute` or `next`."""

    async def close(self) -> None:
        """Call ``finalize`` after the earlier calls. No call may follow."""
