"""`HandlerThread`: the thread that all calls of one handler are made in, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class HandlerThread:
    """Runs calls in order. It is no reason for the process to stay: a handler may hang."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Have ``call`` made when those before are done; one that is cancelled until then is not.

        The future takes any exception of the call, except that `StopIteration` must not be one.
        """
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def end(self) -> None:
        """Let the thread end when all calls so far are done."""
        self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            # What the call made belongs to whoever waits, not to a thread that waits for more.
            del item, future, call
