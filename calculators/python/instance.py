"""`Instance`: a handler that is loaded, wherever it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from calculators.python.turn import Turn


class Instance(Protocol):
    """Makes one call after the other, in the order in which they were asked for.

    Belongs to the event loop that made it. The futures are never cancelled: who does not wait any
    more says `abandon`. They have a `RequestError` if the call failed.
    """

    @property
    def unavailable_reason(self) -> str:
        """Why it can take no call now; "" while it can."""

    def execute(self, key: int, inputs: Sequence[Any]) -> asyncio.Future[Turn]:
        """`Handler.execute`."""

    def next(self, key: int) -> asyncio.Future[Turn]:
        """`Handler.next`."""

    def end(self, key: int) -> None:
        """`Handler.end`, after the calls before; nobody waits for it."""

    def abandon(self) -> None:
        """Nobody waits for the answer to the last `execute` or `next` any more."""

    async def close(self) -> None:
        """``finalize``, after the calls before, and no more calls."""
