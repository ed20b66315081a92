"""The task of an awaited call: awaits it, reports it, and makes the calls that follow inline.

This is a module beside `driver`, which mypyc may compile: Python's own coroutines can release their
variables, and their frames show which call they are in.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable
from time import perf_counter_ns
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

from graph_runtime.engine.drivers.call_results import from_below, not_a_result
from graph_runtime.errors import Cancelled

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.scheduler import Scheduler

#: Calls that one task makes in a row before it yields to others.
CHAIN: Final = 64


class CallRecorder(Protocol):
    """Receives every call that a driver makes. The driver measures the times in any case."""

    def record_call(self, context: CalculatorContext, started: int, ended: int) -> None:
        """Record a call that has returned and is not reported yet.

        ``context`` still holds its inputs and outputs. ``started`` and ``ended`` are nanoseconds of
        ``time.perf_counter_ns``. The graph's lock is held, so this must be quick.
        """

    def record_flush(self, context: CalculatorContext) -> None:
        """Record what a call that goes on has sent since its last flush; as `record_call`."""


class AwaitingDriver(Protocol):
    """The parts of `graph_runtime.engine.drivers.driver.Driver` that such a task uses."""

    lock: threading.Lock
    scheduler: Scheduler
    tracer: CallRecorder | None
    is_cancelled: bool

    def after_step(self) -> bool: ...

    def take_next_inline(self) -> CalculatorContext | None: ...

    def settle(self) -> None: ...

    def schedule_pump(self) -> None: ...


async def drive_awaitable(
    driver: AwaitingDriver, context: CalculatorContext, awaitable: Awaitable[Any] | None
) -> None:
    """Await a call, report it, and make the calls that follow. Entered without the lock."""
    following: CalculatorContext | None = context
    waits_for: Any = awaitable
    result: Any = None
    error: BaseException | None = None
    chained = 0
    node = context._node
    while following is not None:
        error = None
        started = perf_counter_ns()
        try:
            result = waits_for if waits_for is not None else following.call(following)
            if type(result) is CoroutineType or inspect.isawaitable(result):
                result = await result
            if result is not None:
                error = not_a_result(result)
        except asyncio.CancelledError as raised:
            error = Cancelled() if driver.is_cancelled else from_below(raised)
        except BaseException as raised:
            error = from_below(raised)
        ended = perf_counter_ns()
        waits_for = None
        with driver.lock:
            node = following._node
            node.time_ns += ended - started
            if driver.tracer is not None:
                driver.tracer.record_call(following, started, ended)
            if error is None and node.is_fast:
                node.calls += 1
                driver.scheduler.flow.finished_simple(node, following)
                following = None
            else:
                following = driver.scheduler.finished(following, error)
            driver.after_step()
            if following is None and chained < CHAIN and not driver.is_cancelled:
                chained += 1
                following = driver.take_next_inline()
            if following is None:
                driver.scheduler.running -= 1
                driver.settle()
                break
            if driver.scheduler.throttling.has_released_input:
                # The chain may be long; a waiter with a packet to add can go on now.
                driver.scheduler.throttling.has_released_input = False
                driver.schedule_pump()
    # Since Python 3.13 the frames of an error keep this one, their caller, with its variables:
    # they would keep the run that keeps the error.
    del driver, context, awaitable, following, node, waits_for, error, result
