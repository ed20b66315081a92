"""`Instance`: a loaded handler, in a thread or a process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from calculators.python.turn import Turn


class Instance(Protocol):
    """Makes one call after the other, in the order of the requests.

    Belongs to the event loop that made it. Its futures must not be cancelled: a caller that stops
    waiting calls `abandon`. They raise a `RequestError` if the call failed.
    """

    @property
    def unavailable_reason(self) -> str:
        """Why the handler can take no call now; "" while it can."""

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
