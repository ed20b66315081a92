"""Runs of graphs on an event loop: their packets come to it, and they end or are abandoned."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from graph_runtime import CalculatorGraph, GraphError

#: Seconds that a cancelled run may take to end before it is abandoned.
GIVE_UP_SECONDS: Final = 5.0

_stuck: Final[weakref.WeakKeyDictionary[CalculatorGraph, asyncio.Future[None]]] = (
    weakref.WeakKeyDictionary()
)


async def end_run(graph: CalculatorGraph, seconds: float = GIVE_UP_SECONDS) -> None:
    """Cancel the run and wait for its end, even if this task is cancelled meanwhile.

    A call in a thread of a pool that does not return cannot be ended. After ``seconds`` the run is
    abandoned, and `ending_of` is done when it ends after all.
    """

    async def cancel() -> None:
        graph.cancel()
        with suppress(GraphError):
            await graph.wait_until_done_async()

    loop = asyncio.get_running_loop()
    ending = loop.create_task(cancel())
    due = loop.time() + seconds
    while not ending.done() and loop.time() < due:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([ending], timeout=due - loop.time())
    if not ending.done():
        _stuck[graph] = ending


def ending_of(graph: CalculatorGraph) -> asyncio.Future[None] | None:
    """Return a future for the end of an abandoned run; None if it was not abandoned."""
    return _stuck.get(graph)


def stuck_nodes(graph: CalculatorGraph) -> list[str]:
    """Return the names of the nodes whose calls have not returned."""
    return [node.name for node in graph.statistics().nodes if node.in_flight]


T = TypeVar("T")


class LoopDelivery(Generic[T]):
    """Calls a function on the event loop for each item.

    The threads of a pool call the observers of a graph, but fronts belong to the event loop. Make
    this object on the loop.
    """

    def __init__(self, deliver: Callable[[T], object]) -> None:
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: deque[T] = deque()

    def put(self, thing: T) -> None:
        """Deliver an item, at once on the loop, else at its next turn. Safe in any thread."""
        if threading.get_ident() != self._thread:
            self._waiting.append(thing)
            self._loop.call_soon_threadsafe(self.flush)
            return
        if self._waiting:
            self.flush()
        self._deliver(thing)

    def flush(self) -> None:
        """Deliver the items of other threads. Must be called on the loop."""
        while self._waiting:
            self._deliver(self._waiting.popleft())
