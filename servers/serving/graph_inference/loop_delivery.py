"""`LoopDelivery`: from the threads of a graph to the event loop, in order."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopDelivery(Generic[T]):
    """Calls a function on the event loop for each thing that is put in.

    Observers of a graph whose nodes run in a pool are called by its threads; fronts belong to the
    loop. To be made on it.
    """

    def __init__(self, deliver: Callable[[T], object]) -> None:
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: deque[T] = deque()

    def put(self, thing: T) -> None:
        """Deliver it: at once on the loop, else at the loop's next turn. Any thread."""
        if threading.get_ident() != self._thread:
            self._waiting.append(thing)
            self._loop.call_soon_threadsafe(self.flush)
            return
        if self._waiting:
            self.flush()
        self._deliver(thing)

    def flush(self) -> None:
        """Deliver what other threads have put in so far. On the loop."""
        while self._waiting:
            self._deliver(self._waiting.popleft())
