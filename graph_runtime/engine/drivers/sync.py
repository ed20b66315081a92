"""The driver for applications without an event loop.

Terms as in `driver`, and

    eager       The driver pumps in every call of the application, not only in calls that wait.
    helper      A thread of the cache that pumps while no application thread does.

Rules

(1) The threads that may pump are the one that waits, the one that adds packets to an eager graph,
    and the helper. A thread that finds another pumping leaves the work to it.
(2) The helper works in slices, and gives way to a thread that waits.
(3) A thread that cannot pump waits for the condition; every end of a pump, and every call that
    ends elsewhere, notifies it.
(4) Coroutines run on one event loop of the process, in a thread of its own (`coroutine_loop`).
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from graph_runtime.authoring.executor import THREADS
from graph_runtime.engine.drivers.driver import Driver

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.ready_queue import ReadyQueue


class SyncDriver(Driver):
    """Makes the calls in the application's thread.

    An eager driver works in every call of the application: ``add_packet_to_input_stream`` returns
    when everything that the packet caused is done. When no application thread is in such a call, a
    cached thread makes the calls of sources and those that follow from thread pools and coroutines.
    A driver that is not eager works only inside the calls that wait, in one repeatable order
    (MediaPipe's ApplicationThreadExecutor).
    """

    def __init__(self, lock: threading.Lock, queue: ReadyQueue, *, eager: bool) -> None:
        super().__init__(lock, queue)
        self.eager = eager
        #: Made by the first waiter: most graphs come and go without one.
        self._changed: threading.Condition | None = None
        self._has_helper = False  # guarded by: lock

    def wait(
        self,
        done: Callable[[], bool],
        *,
        ask_each_call: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Make calls until ``done`` holds. Lock held at entry and exit.

        Args:
            ask_each_call: ``done`` can become true before the graph is idle.
            timeout: seconds after which it returns in any case; None: it does not.
        """
        deadline = math.inf
        if timeout is not None:
            deadline = time.monotonic() + timeout
            done = partial(_is_done_or_late, done, deadline)
        self.waiters += 1
        try:
            while not done():
                if not self.is_pumping:
                    try:
                        self.pump(until=done if ask_each_call else None)
                    finally:
                        self.wake_waiters()
                    if done() or self._has_work():
                        continue
                if self._changed is None:
                    self._changed = threading.Condition(self.lock)
                self._changed.wait(None if timeout is None else deadline - time.monotonic())
        finally:
            self.waiters -= 1

    def wake_waiters(self) -> None:
        if self._changed is not None:
            self._changed.notify_all()

    def _has_work(self) -> bool:
        return self.queue.has_work(sources=True) or self.has_deliveries

    def events_added(self) -> None:
        """React to packets or bounds from the application. Lock held."""
        if self.eager and not self.is_pumping:
            self.pump(sources=False)
            if self.waiters or self.queue.has_work(sources=True):
                self.schedule_pump()
        elif not self.is_pumping:
            if self.has_deliveries:
                # Observers of graph inputs get a packet at once, before the run can end.
                self.pump(until=lambda: True)
            if self.scheduler.is_idle:
                self.scheduler.handle_idle()
            if self.scheduler.flow.woken:
                self._wake_pools()
            self.wake_waiters()

    def schedule_pump(self) -> None:
        self.wake_waiters()
        if (
            self.eager
            and not self.is_pumping
            and not self.waiters
            and not self._has_helper
            and self._has_work()
        ):
            self._has_helper = True
            THREADS.start(self._help, "graphrt")

    def _help(self) -> None:
        """Pump when no application thread does."""
        with self.lock:
            try:
                while not self.is_pumping and not self.waiters and self._has_work():
                    # In slices, so that a waiting application takes over.
                    self.pump(until=lambda: self.waiters > 0)
                    self.wake_waiters()
            finally:
                self._has_helper = False
                self.wake_waiters()

    def await_call(self, context: CalculatorContext, awaitable: Awaitable[Any]) -> None:
        coroutine_loop().call_soon_threadsafe(self.start_task, context, awaitable)


_loop: asyncio.AbstractEventLoop | None = None
_loop_lock = threading.Lock()


def coroutine_loop() -> asyncio.AbstractEventLoop:
    """One event loop in a thread of its own, for the coroutines of graphs that have none."""
    global _loop
    with _loop_lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(
                target=_run_always, args=(_loop,), name="graphrt-coroutines", daemon=True
            ).start()
        return _loop


def _run_always(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop that others wait for, whatever a task of a calculator raises."""
    while not loop.is_closed():
        try:
            loop.run_forever()
        except BaseException as error:
            text = "a task of a calculator stopped the event loop, which goes on"
            loop.call_exception_handler({"message": text, "exception": error})


def _forget_loop() -> None:
    global _loop
    _loop = None


# A forked child has the loop's object, but not the thread that runs it: its coroutines would never
# be awaited.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop)


def _is_done_or_late(done: Callable[[], bool], deadline: float) -> bool:
    return done() or time.monotonic() >= deadline
