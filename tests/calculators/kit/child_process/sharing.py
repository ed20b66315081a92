"""Two workers in this process, and the pool of their shared children."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from calculators.kit.child_process.child_pool import ChildPool
from calculators.kit.child_process.shared_child import Sharing, share_by
from tests.support.patience import PATIENCE


class SharingWorkers:
    """Workers 1 and 2, without the processes."""

    def __init__(self) -> None:
        self.pool = ChildPool()
        self._ways = {number: self._way(number) for number in (1, 2)}

    def _way(self, number: int) -> Sharing:
        way = Sharing(lambda message: self.pool.take(number, message, way.take), workers=2)
        return way

    @contextmanager
    def worker(self, number: int) -> Iterator[None]:
        """Children that are started here are those of one worker."""
        share_by(self._ways[number])
        try:
            yield
        finally:
            share_by(None)


def with_workers(scenario: Callable[[SharingWorkers], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a scenario, which closes what it starts."""

    async def run() -> None:
        workers = SharingWorkers()
        try:
            await scenario(workers)
        finally:
            await workers.pool.close()

    return lambda: asyncio.run(asyncio.wait_for(run(), PATIENCE))
