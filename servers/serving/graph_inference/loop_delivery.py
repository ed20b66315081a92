"""`LoopDelivery`: delivery from the threads of a graph to the event loop, in order."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

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
