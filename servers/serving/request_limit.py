"""`RequestLimit`: the requests that one graph or model answers now, counted and limited."""

from __future__ import annotations

import asyncio

from calculators.requests.http_payload import RequestError
from graph_runtime import Code
from servers.serving.use_count import UseCount


class RequestLimit(UseCount):
    """Counts requests: ``with in_flight:`` around each. Belongs to one event loop.

    Entering raises `RequestError` (RESOURCE_EXHAUSTED) when there are as many as may be.
    """

    def __init__(self, name: str, limit: int) -> None:
        """``name``: of what is asked, for the client."""
        super().__init__()
        self._name = name
        self._limit = limit

    def __enter__(self) -> None:
        if self.count >= self._limit:
            raise RequestError(
                f'The model "{self._name}" has {self.count} requests in flight, as many as it '
                f"takes; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1,
            )
        self.count += 1

    def hold(self, ending: asyncio.Future[None]) -> None:
        """Count one until ``ending`` is done, above the limit if need be."""
        self.count += 1
        ending.add_done_callback(self.__exit__)
