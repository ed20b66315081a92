"""The driver for applications with an event loop: many graphs on one loop.

Terms as in `driver`, and

    slice       One pump of at most `SLICE` calls, as one callback of the event loop.

Rules

(1) At most one slice is scheduled, however much work is added before it runs.
(2) `AsyncioDriver.wait` makes the ready calls itself before it waits: a run whose nodes do not
    await ends in the wait of its application, within one turn of the loop.
(3) Waiters are asked after each slice, not after each call.
(4) Calls of coroutines overlap, each in a task; a loop through one of them stays in its task
    (`AsyncioDriver.take_next_inline`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from graph_runtime.engine.drivers.driver import Driver

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.ready_queue import ReadyQueue

#: Calls made before other users of the loop get their turn.
SLICE: Final = 200


class AsyncioDriver(Driver):
    """Makes the calls on the event loop that was running when the run started.

    Coroutines become tasks of that loop. The graph's blocking and asynchronous calls may be used
    from it; other threads may add packets.
    """

    def __init__(self, lock: threading.Lock, queue: ReadyQueue) -> None:
        super().__init__(lock, queue)
        self.loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        #: The slice that the loop will run. guarded by: lock
        self._scheduled: asyncio.Handle | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    @property
    def is_on_loop(self) -> bool:
        """True in the thread of the event loop."""
        return threading.get_ident() == self._loop_thread

    @property
    def is_abandoned(self) -> bool:
        return self.loop.is_closed()

    async def wait(self, done: Callable[[], bool]) -> None:
        """Return when ``done`` holds. Entered without the lock."""
        future: asyncio.Future[None] | None = None
        with self.lock:
            # Ready calls run at once: most runs end with them, and cost one turn of the loop.
            if self._scheduled is not None:
                self._scheduled.cancel()
                self._scheduled = None
            self._run_slice()
            if not done():
                future = self.loop.create_future()
                self._waiting.append((done, future))
        # Yield in any case, or a task that waits for run after run would starve the others.
        await (asyncio.sleep(0) if future is None else future)

    def wait_in_thread(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Run `wait` from a thread other than the event loop's. Lock held at entry and exit.

        It returns after ``timeout`` seconds in any case.
        """
        self.lock.release()
        try:
            waiting = asyncio.run_coroutine_threadsafe(self.wait(done), self.loop)
            try:
                waiting.result(timeout)
            except TimeoutError:
                waiting.cancel()
        finally:
            self.lock.acquire()

    def schedule_pump(self) -> None:
        if self._scheduled is not None or self.loop.is_closed():
            return
        if self.is_on_loop:
            self._scheduled = self.loop.call_soon(self._take_turn)
        else:
            self._scheduled = self.loop.call_soon_threadsafe(self._take_turn)

    def settle(self) -> None:
        if self.is_pumping or not self.is_on_loop:
            super().settle()
            return
        self.scheduler.handle_idle()
        if self.scheduler.flow.woken:
            self._wake_pools()
        if self.queue.has_work(sources=True) or self.has_deliveries:
            self.schedule_pump()
        elif self._waiting:
            # A pump would find nothing to do: most runs that await end here.
            self._wake_ready_waiters()

    def events_added(self) -> None:
        """React to packets or bounds from the application: work like any other. Lock held."""
        self.schedule_pump()

    def wake_waiters(self) -> None:
        if self._waiting:
            self.schedule_pump()

    def _take_turn(self) -> None:
        with self.lock:
            self._scheduled = None
            self._run_slice()

    def _run_slice(self) -> None:
        if self.is_pumping:
            return
        if not self.pump(budget=SLICE):
            self.schedule_pump()
        if self._waiting:
            self._wake_ready_waiters()

    def _wake_ready_waiters(self) -> None:
        still = []
        for done, future in self._waiting:
            if future.done():
                continue
            if done():
                future.set_result(None)
            else:
                still.append((done, future))
        self._waiting = still

    def await_call(self, context: CalculatorContext, awaitable: Awaitable[Any]) -> None:
        if self.is_on_loop:
            self.start_task(context, awaitable)
        else:
            self.loop.call_soon_threadsafe(self.start_task, context, awaitable)

    def take_next_inline(self) -> CalculatorContext | None:
        # A loop stays in one task: its awaiting node, and the nodes after it that do not wait. With
        # a node after the loop a turn took 58.5 us of processor time before, 17.2 since (decision
        # 0048).
        queue = self.queue
        heap = queue.heap
        if self.is_pumping or not heap or not queue.has_only_calls:
            return None
        while queue.nodes[heap[0]].plan.is_awaited:
            if queue.sources:
                return None
            if len(heap) == 1:
                break
            # Coroutines of several nodes overlap: each but the last gets a task of its own.
            context = self.scheduler.take(queue)
            assert context is not None
            self.scheduler.running += 1
            self.start_task(context, None)
        return self.scheduler.take(queue)
