"""`InFlight`: the requests that one graph or model answers now, counted and limited."""

from __future__ import annotations

import asyncio

from calculators.http_payload import RequestError
from graph_runtime import Code


class InFlight:
    """Counts requests: ``with in_flight:`` around each. Belongs to one event loop.

    Entering raises `RequestError` (RESOURCE_EXHAUSTED) when there are as many as may be.
    """

    def __init__(self, name: str, limit: int) -> None:
        """``name``: of what is asked, for the client."""
        self._name = name
        self._limit = limit
        self.count = 0
        self._none_left: asyncio.Future[None] | None = None

    def __enter__(self) -> None:
        if self.count >= self._limit:
            raise RequestError(
                f'The model "{self._name}" has {self.count} requests in flight, as many as it '
                f"takes; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1,
            )
        self.count += 1

    def __exit__(self, *raised: object) -> None:
        self.count -= 1
        if self._none_left is not None and not self.count and not self._none_left.done():
            self._none_left.set_result(None)

    def hold(self, ending: asyncio.Future[None]) -> None:
        """Count one until ``ending`` is done, above the limit if need be."""
        self.count += 1
        ending.add_done_callback(self.__exit__)

    async def wait_until_none(self) -> None:
        """Return when there is none. For one who lets no new ones in."""
        if self.count:
            self._none_left = asyncio.get_running_loop().create_future()
            await self._none_left
