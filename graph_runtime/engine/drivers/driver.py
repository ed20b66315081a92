"""The base of all drivers: make calls, report their ends, deliver to observers, wake thread pools.

A driver makes a run's calls of calculators and observers. The scheduler decides which call is next;
the driver makes it, on the application's thread, an event loop, a thread pool, or a mix of them.

Terms

    call        One ``open``, ``process`` or ``close`` of one node, held by its context.
    pump        The loop that takes calls of the driver's own queue until none is ready. At most one
                thread pumps a graph at a time (``is_pumping``).
    work        The same loop in a thread of a pool, on the pool's queue. Many threads can work.
    awaited     A call whose method returned an awaitable. A task of an event loop awaits it.
    inline      The calls that such a task makes after it, one by one, up to `awaited_call.CHAIN`: a
                loop with a coroutine in it then costs no new task and no turn of the event loop per
                turn.
    step        The end of one call: its outputs have been propagated, the lock is still held.
    delivery    A packet for an observer, queued by the step that sent it.
    settled     Nothing runs, nothing can run, and everything is delivered.

Rules

(1) The graph's lock is held wherever the scheduler, its flow or a queue is touched, and released
    around every call of a calculator or an observer.
(2) Every call that is taken is reported exactly once, also when it raises: to `Scheduler.finished`,
    or to its shortcut `Flow.finished_simple`. While a call runs outside of `pump`, it counts in
    ``scheduler.running``, so that the run is not taken for idle.
(3) After each step, deliveries are made and woken pools get tasks (`after_step`), before another
    context is taken.
(4) One thread delivers for all, one packet at a time, in the order of the steps. A packet that is
    queued meanwhile is delivered by the same thread.
(5) A call that ends on another thread than the pump's ends with `settle`: it handles an idle
    graph, then asks for a pump, because new work or a waiter may need it.
(6) A call is made inline only if that delays no other: no pump is running, it is the next
    of the queue, and either its class has no coroutines or no other call is ready
    (`AsyncioDriver.take_next_inline`). Coroutines of several nodes overlap: each but the last gets
    a task of its own.
(7) No thread waits for the graph inside a call of the same graph (`check_may_wait`): it would wait
    for itself.

Who calls whom

    application -> Run -> events_added, wait  (subclass)
                             |
                             v
                           pump ----------------> Scheduler.take, Scheduler.finished
    executor thread  ->    _work -> _call_through -^            |
    event loop task  ->    drive_awaitable --------^            v
                                                            Flow: deliveries, woken
                            after_step <-----------------------'
                             |-> _deliver      -> observers
                             '-> _wake_pools   -> Executor.submit(_work)
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from heapq import heappop
from time import perf_counter_ns
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from graph_runtime.authoring.executor import Executor
from graph_runtime.engine.drivers.awaited_call import CallRecorder, drive_awaitable
from graph_runtime.engine.drivers.call_results import from_below, not_a_result
from graph_runtime.errors import GraphError, StateError, reason_of
from graphrt_base.interrupts import raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.ready_queue import ReadyQueue
    from graph_runtime.engine.scheduler import Scheduler
    from graph_runtime.packet import Packet
    from graph_runtime.streams.output_stream import StreamObserver


class Pool:
    """A thread pool's share in one graph: how many of its threads work for the graph now."""

    __slots__ = ("active", "executor", "queue")

    def __init__(self, queue: ReadyQueue, executor: Executor) -> None:
        self.queue = queue
        self.executor = executor
        self.active = 0


class Driver(ABC):
    """Runs one graph. ``lock`` guards the scheduler and is never held during a call.

    Attributes:
        queue: the calls that this driver makes itself, in its thread or event loop.
        is_pumping: a thread is in `pump`. guarded by: lock
        pumping_thread: its identity.
        working_threads: pool threads that work for this graph now. guarded by: lock
        tasks: the event loop tasks of awaited calls.
        is_delivering: a thread calls observers. guarded by: lock
        waiters: number of application calls that wait for a change. guarded by: lock
    """

    def __init__(self, lock: threading.Lock, queue: ReadyQueue) -> None:
        self.lock = lock
        self.queue = queue
        self.scheduler: Scheduler  # from `attach` on
        self.pools: dict[str, Pool] = {}
        self.tracer: CallRecorder | None = None
        self.is_pumping = False
        self.pumping_thread = 0
        self.working_threads: set[int] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_cancelled = False
        self.waiters = 0
        self.is_delivering = False
        self.on_step: Callable[[], None] | None = None
        #: An observer has been called since this was last cleared. guarded by: lock
        self.has_observed = False

    def attach(
        self, scheduler: Scheduler, pools: Mapping[str, tuple[ReadyQueue, Executor]]
    ) -> None:
        """Take over a run; ``pools``: the queue and executor of each thread pool, by name."""
        self.scheduler = scheduler
        for name, (queue, executor) in pools.items():
            self.pools[name] = Pool(queue, executor)
        self.queue.flush = self.flush
        for pool in self.pools.values():
            pool.queue.flush = self.flush

    @property
    def is_abandoned(self) -> bool:
        """True when the calls can never be made: the run's event loop is closed."""
        return False

    # For subclasses -------------------------------------------------------------------------------

    @abstractmethod
    def await_call(self, context: CalculatorContext, awaitable: Awaitable[Any]) -> None:
        """Await a call's result, then report the call. Lock held."""

    @abstractmethod
    def schedule_pump(self) -> None:
        """Make sure that a pump follows, for new work or for waiters. Lock held; any thread."""

    @abstractmethod
    def wake_waiters(self) -> None:
        """Let waiters check their conditions; there is no new work. Lock held; any thread."""

    # Calls from inside ----------------------------------------------------------------------------

    def flush(self, context: CalculatorContext) -> None:
        """Propagate what a running call has sent so far. Lock not held; inside the call."""
        with self.lock:
            if self.tracer is not None:
                self.tracer.record_flush(context)
            self.scheduler.flow.flush(context)
            self.after_step()
            self.settle()

    @property
    def is_inside_call(self) -> bool:
        """True in a call of a calculator or observer of this graph."""
        thread = threading.get_ident()
        return (
            thread == self.pumping_thread
            or thread in self.working_threads
            or (bool(self.tasks) and _current_task() in self.tasks)
        )

    def check_may_wait(self, call: str) -> None:
        """Refuse to wait inside a calculator or observer, where the wait would never end.

        Raises:
            StateError: this thread or task is in a call of the graph.
        """
        if self.is_inside_call:
            raise StateError(
                f"{call}() was called from a calculator or an observer of the same graph, where it "
                f"would wait for itself"
            )

    # The loop -------------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """True when nothing runs, nothing can run, and everything is delivered."""
        return not self.is_pumping and self.scheduler.is_idle and not self.scheduler.flow.deliveries

    @property
    def has_deliveries(self) -> bool:
        """True when packets wait for observers and no thread is delivering."""
        return bool(self.scheduler.flow.deliveries) and not self.is_delivering

    def pump(
        self,
        *,
        until: Callable[[], bool] | None = None,
        sources: bool = True,
        budget: int = -1,
    ) -> bool:
        """Make calls until none is ready. Lock held at entry and exit, not during calls.

        Returns False when it stopped early, because ``until`` holds or ``budget`` calls were made.
        """
        scheduler, queue, lock = self.scheduler, self.queue, self.lock
        flow, heap, nodes = scheduler.flow, queue.heap, queue.nodes
        finished_simple, deliveries = flow.finished_simple, flow.deliveries
        acquire, release = lock.acquire, lock.release
        self.is_pumping = True
        self.pumping_thread = threading.get_ident()
        try:
            if flow.deliveries or flow.woken or self.on_step is not None:
                self.after_step()
            while True:
                # Not before `handle_idle`: a waiter would take an idle graph for a finished one.
                if until is not None and until() and not scheduler.is_idle:
                    return False
                if budget == 0 and queue.has_work(sources=sources):
                    return False
                context: CalculatorContext | None
                if heap and queue.has_only_calls and not (node := nodes[heap[0]]).is_parallel:
                    # The hot path of `Scheduler.take`.
                    heappop(heap)
                    context = node.context
                elif heap or queue.opens or queue.sources:
                    context = scheduler.take(queue, sources=sources)
                else:
                    context = None
                if context is None:
                    if not scheduler.running:
                        scheduler.handle_idle()
                        if queue.has_work(sources=sources):
                            continue
                    if (flow.deliveries or flow.woken) and self.after_step():
                        continue
                    return True
                budget -= 1
                while context is not None:
                    release()
                    error: BaseException | None = None
                    result = None
                    started = perf_counter_ns()
                    try:
                        result = context.call(context)
                    except BaseException as raised:
                        error = from_below(raised)
                    ended = perf_counter_ns()
                    acquire()
                    node = context._node
                    node.time_ns += ended - started
                    if result is not None:
                        if type(result) is CoroutineType or inspect.isawaitable(result):
                            scheduler.running += 1
                            self.await_call(context, result)
                            break
                        error = not_a_result(result)
                    if self.tracer is not None:
                        self.tracer.record_call(context, started, ended)
                    if error is None and node.is_fast:
                        node.calls += 1
                        finished_simple(node, context)
                        context = None
                    else:
                        context = scheduler.finished(context, error)
                    if deliveries or flow.woken or self.on_step is not None:
                        self.after_step()
                    if error is not None:
                        raise_interrupt(error)
        finally:
            self.is_pumping = False
            self.pumping_thread = 0

    def after_step(self) -> bool:
        """Deliver to observers and wake pools; True when observers were called."""
        flow = self.scheduler.flow
        delivers = bool(flow.deliveries) and not self.is_delivering
        if delivers:
            self._deliver()
        if flow.woken:
            self._wake_pools()
        if self.on_step is not None:
            self.on_step()
        return delivers

    def _deliver(self) -> None:
        """Call observers outside the lock, one call at a time, in the order of events.

        Also delivers what other threads add meanwhile.
        """
        scheduler = self.scheduler
        deliveries = scheduler.flow.deliveries
        self.is_delivering = self.has_observed = True
        scheduler.running += 1
        try:
            while deliveries:
                observer, packet = deliveries.popleft()
                if observer.failed:
                    continue
                self.lock.release()
                error: BaseException | None = None
                try:
                    observer.callback(observer.stream_name, packet)
                except BaseException as raised:
                    error = raised
                finally:
                    self.lock.acquire()
                if error is not None:
                    observer.failed = True
                    scheduler.log.record(_observer_error(observer, packet, error))
                    raise_interrupt(error)
        finally:
            self.is_delivering = False
            scheduler.running -= 1

    # Thread pools ---------------------------------------------------------------------------------

    def _wake_pools(self) -> None:
        # Taken away first: an executor that refuses work ends the run below, which may wake other
        # pools.
        woken, self.scheduler.flow.woken = self.scheduler.flow.woken, []
        for queue in woken:
            pool = self.pools[queue.executor]
            if pool.active < pool.executor.num_threads and len(queue) and not queue.paused:
                pool.active += 1
                try:
                    pool.executor.submit(partial(self._work, pool))
                except BaseException as error:
                    raise_interrupt(error)
                    pool.active -= 1
                    self._give_up(queue, error)

    def _give_up(self, queue: ReadyQueue, error: BaseException) -> None:
        """Fail the run because an executor refused a task, and drop the calls in its queue."""
        failure = GraphError(
            f'The executor "{queue.executor}" failed to take work: {reason_of(error)}'
        )
        failure.__cause__ = error
        self.scheduler.log.record(failure)
        queue.clear()
        if not self.is_pumping:
            self.scheduler.handle_idle()

    def _work(self, pool: Pool) -> None:
        """Make calls of a pool's queue until none is ready. Runs in a thread of the pool."""
        thread = threading.get_ident()
        with self.lock:
            scheduler = self.scheduler
            self.working_threads.add(thread)
            while True:
                context = scheduler.take(pool.queue)
                if context is None:
                    break
                scheduler.running += 1
                if self._call_through(context):
                    scheduler.running -= 1
                self.after_step()
                self.settle()
            self.working_threads.discard(thread)
            pool.active -= 1
            self.settle()

    def _call_through(self, context: CalculatorContext | None) -> bool:
        """Make a call, and further calls of its context. Lock held at entry and exit.

        Returns False when an awaitable was handed to a task, which reports the call later.
        """
        while context is not None:
            self.lock.release()
            error: BaseException | None = None
            result = None
            started = perf_counter_ns()
            try:
                result = context.call(context)
            except BaseException as raised:
                error = from_below(raised)
            finally:
                ended = perf_counter_ns()
                self.lock.acquire()
            context._node.time_ns += ended - started
            if result is not None:
                if inspect.isawaitable(result):
                    self.await_call(context, result)
                    return False
                error = not_a_result(result)
            if self.tracer is not None:
                self.tracer.record_call(context, started, ended)
            context = self.scheduler.finished(context, error)
        return True

    def settle(self) -> None:
        """Handle an idle graph, then ask for a pump. Follows every call outside of `pump`."""
        if not self.is_pumping:
            self.scheduler.handle_idle()
            if self.scheduler.flow.woken:
                self._wake_pools()
        self.schedule_pump()

    def start_task(self, context: CalculatorContext, awaitable: Awaitable[Any] | None) -> None:
        """Await a call in a new task of the running event loop.

        ``awaitable``: what the call has returned; None: the task makes the call.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(drive_awaitable(self, context, awaitable))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        if self.is_cancelled:
            # Deferred: a task that is cancelled before its first step would report nothing.
            loop.call_soon(task.cancel)

    def take_next_inline(self) -> CalculatorContext | None:
        """The call that the task of an awaited call makes next, or None: a new task makes it."""
        return None

    def cancel_calls(self) -> None:
        """Interrupt the calls that are awaited. Any thread."""
        self.is_cancelled = True
        for task in list(self.tasks):
            task.get_loop().call_soon_threadsafe(task.cancel)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None


def _observer_error(observer: StreamObserver, packet: Packet, error: BaseException) -> GraphError:
    if isinstance(error, GraphError):
        return error
    failure = GraphError(
        f'The observer of stream "{observer.stream_name}" failed at timestamp '
        f"{packet.timestamp}: {reason_of(error)}"
    )
    failure.__cause__ = error
    return failure
