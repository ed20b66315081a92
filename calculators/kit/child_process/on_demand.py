"""`OnDemand`: a process that starts when first asked for, and ends after an idle time.

Some processes take as much memory as the model that they serve, and most servers never need them:
an engine that scores prompts, a lane for long prompts. The first request waits for the start, and
those that come meanwhile wait for the same start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar


class ClosableProcess(Protocol):
    """A process that `OnDemand` can end."""

    async def close(self) -> None: ...


T = TypeVar("T", bound=ClosableProcess)


class OnDemand(Generic[T]):
    """One process at most, which the first `get` starts.

    Attributes:
        current: the process that is running; None before the start and after the idle time.
        is_closed: `close` was called.
    """

    def __init__(
        self,
        start: Callable[[], Coroutine[Any, Any, T]],
        *,
        is_idle: Callable[[T], bool],
        idle_seconds: float,
    ) -> None:
        """Start nothing yet.

        Args:
            start: starts a process and returns it when it is ready.
            is_idle: says whether a process has nothing to do and may end.
            idle_seconds: time after the last `get` at which an idle process ends.
        """
        self._start = start
        self._is_idle = is_idle
        self._idle_seconds = idle_seconds
        self.current: T | None = None
        self.is_closed = False
        self._starting: asyncio.Task[T] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def get(self) -> T:
        """Return the process, started if there is none; raise what its start raises."""
        self._end_when_idle()
        if self.current is not None:
            return self.current
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        # Shielded: a client that leaves must not end the start that others wait for.
        return await asyncio.shield(self._starting)

    async def close(self) -> None:
        """End the process, or its start; who waits for the start is cancelled."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self.current is not None:
            await self.current.close()
        await asyncio.gather(*self._ending)

    def _started(self, starting: asyncio.Task[T]) -> None:
        self._starting = None
        # An exception is raised in the callers that wait; asking for it here keeps asyncio from
        # reporting it as lost when all of them have left.
        if not starting.cancelled() and starting.exception() is None:
            self.current = starting.result()
            self._end_when_idle()

    def _end_when_idle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.is_closed:
            loop = asyncio.get_running_loop()
            # A process for long prompts takes 126 MiB, a second engine as much as the model:
            # neither is kept for requests that may not come (decisions 0020, 0090).
            self._timer = loop.call_later(self._idle_seconds, self._end)

    def _end(self) -> None:
        current = self.current
        if current is None:
            return  # a start that lasts sets the time again
        if not self._is_idle(current):
            self._end_when_idle()
            return
        self.current = None
        task = asyncio.create_task(current.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
