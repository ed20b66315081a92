"""`HandlerThread`: the thread that makes all calls of one handler, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class HandlerThread:
    """Runs calls in order. It does not keep the process alive, because a handler may hang."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call. It is skipped if its future is cancelled before its turn.

        The future takes any exception of the call, which must not raise `StopIteration`.
        """
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def end(self) -> None:
        """End the thread when all queued calls are done."""
        self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            # The result belongs to the waiter; an idle thread must not keep it alive.
            del item, future, call
