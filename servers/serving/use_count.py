"""`UseCount`: the requests and streams that use one loaded graph or version of a model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, UnavailableError


class UseCount:
    """Counts and limits requests in flight. Belongs to one event loop.

    Put ``with users:`` around each request, and ``with users.stream():`` around a stream whose
    requests are counted one by one.

    Attributes:
        requests: the number of requests in flight, abandoned runs included.
        limit: the most of them.
    """

    def __init__(self, name: str, limit: int) -> None:
        """
        Args:
            name: the model's name, for errors.
            limit: the most requests in flight.
        """
        self.requests = 0
        self._streams = 0
        self._name = name
        self.limit = limit
        self._idle_since = time.monotonic()
        self._none_left: asyncio.Future[None] | None = None
        self._is_closed = False

    def __enter__(self) -> None:
        """
        Raises:
            RequestError: the limit is reached (RESOURCE_EXHAUSTED).
            UnavailableError: `close` has returned.
        """
        if self.requests >= self.limit:
            raise RequestError(
                f'The model "{self._name}" has {self.requests} requests in flight, as many as it '
                f"takes; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1,
            )
        if self._is_closed:
            raise self._unavailable()
        self.requests += 1

    def __exit__(self, *raised: object) -> None:
        self.requests -= 1
        if not self.requests and not self._streams:
            self._note_idle()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count an open stream, to which the limit does not apply.

        Raises:
            UnavailableError: `close` has returned.
        """
        if self._is_closed:
            raise self._unavailable()
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            if not self.requests and not self._streams:
                self._note_idle()

    def hold(self, ending: asyncio.Future[None]) -> None:
        """Count a request until ``ending`` is done, even above the limit."""
        self.requests += 1
        ending.add_done_callback(self.__exit__)

    def touch(self) -> None:
        """Restart the idle time."""
        self._idle_since = time.monotonic()

    def idle_seconds(self) -> float:
        """Return the seconds since the last request or stream ended; 0 during one."""
        is_used = self.requests or self._streams
        return 0.0 if is_used else time.monotonic() - self._idle_since

    async def close(self) -> None:
        """Wait until there are no requests and streams, and refuse new ones afterwards.

        Open streams may send requests until then.
        """
        while self.requests or self._streams:
            self._none_left = asyncio.get_running_loop().create_future()
            await self._none_left
        self._is_closed = True

    def _note_idle(self) -> None:
        self._idle_since = time.monotonic()
        if self._none_left is not None and not self._none_left.done():
            self._none_left.set_result(None)

    def _unavailable(self) -> UnavailableError:
        return UnavailableError(f'The model "{self._name}" is not served any more')
