"""`UseCount`: who uses one loaded graph or model now, and since when nobody does."""

from __future__ import annotations

import asyncio
import time


class UseCount:
    """Counts: ``with users:`` around each use. Belongs to one event loop.

    Open streams count too, whether or not a request is in flight in them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._idle_since = time.monotonic()
        self._none_left: asyncio.Future[None] | None = None

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *raised: object) -> None:
        self.count -= 1
        if not self.count:
            self._idle_since = time.monotonic()
            if self._none_left is not None and not self._none_left.done():
                self._none_left.set_result(None)

    def idle_seconds(self) -> float:
        """How long nobody has used it; 0 while somebody does."""
        return 0.0 if self.count else time.monotonic() - self._idle_since

    async def wait_until_none(self) -> None:
        """Return when nobody uses it. For one who lets no new ones in."""
        if self.count:
            self._none_left = asyncio.get_running_loop().create_future()
            await self._none_left
