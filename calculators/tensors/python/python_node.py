"""`PythonNode`: the instances of a node's handler, and the calls that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from calculators.kit.child_process.supervisor import unavailable
from calculators.tensors.python.instance import HandlerTurn, Instance

LOOPBACK: Final = "LOOPBACK"
REQUEST_TAGS: Final = ("HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD")
RESPONSE_TAGS: Final = ("HTTP_RESPONSE_PAYLOAD", "RESPONSE_PAYLOAD")


class HandlerCall:
    """A call that waits for an instance, or is being made by one.

    Attributes:
        order: place among the calls of a node; older calls come first.
        answer: the caller's future; cancelled when the caller stops waiting.
        worker: the only worker that may make the call; None until one is chosen.
        is_begun: the call was handed to the instance.
    """

    __slots__ = ("answer", "is_begun", "make", "order", "worker")

    def __init__(self, order: int, make: Callable[[Instance], asyncio.Future[HandlerTurn]]) -> None:
        self.order = order
        self.make = make
        self.answer: asyncio.Future[HandlerTurn] = asyncio.get_running_loop().create_future()
        self.worker: InstanceLane | None = None
        self.is_begun = False


class InstanceLane:
    """One instance, its current call, and the calls that wait for it alone.

    Attributes:
        generators: keys of the generators that live in it.
    """

    __slots__ = ("call", "generators", "instance", "waiting")

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.call: HandlerCall | None = None
        self.waiting: deque[HandlerCall] = deque()
        self.generators: set[int] = set()


class PythonNode:
    """The handler of a node. Shared by all runs of a graph; belongs to the event loop that made it.

    A request goes to an idle instance, else to the first that becomes idle. Calls are made in the
    order of their arrival; an instance makes one at a time. A generator stays in its instance,
    which takes other calls between its steps.
    """

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._loop = asyncio.get_running_loop()
        self._workers: list[InstanceLane] = []
        self._waiting: deque[HandlerCall] = deque()
        self._orders = itertools.count()
        self._keys = itertools.count(1)

    def add(self, instance: Instance) -> None:
        """Add a loaded instance."""
        self._workers.append(InstanceLane(instance))

    @property
    def instances(self) -> Sequence[Instance]:
        return [worker.instance for worker in self._workers]

    @property
    def unavailable_reason(self) -> str:
        """The reason why no instance can work; "" while one can."""
        reasons = [worker.instance.unavailable_reason for worker in self._workers]
        return "" if not all(reasons) else next(iter(reasons), "it is not loaded")

    async def close(self) -> None:
        """Call ``finalize`` of all instances."""
        await asyncio.gather(*(worker.instance.close() for worker in self._workers))

    def new_key(self) -> int:
        """A new key for a generator."""
        return next(self._keys)

    async def execute(self, key: int, inputs: Sequence[Any]) -> tuple[HandlerTurn, InstanceLane]:
        """Call ``execute`` of an instance; returns its turn, and the worker with its generator.

        Cancelling drops a call that waits, and closes the generator of a running one.

        Raises:
            RequestError: the handler failed, or returned something that is not an output;
                UNAVAILABLE if no instance works now, or its process ended.
        """
        if reason := self.unavailable_reason:
            raise unavailable(reason)
        call = HandlerCall(next(self._orders), lambda instance: instance.execute(key, inputs))
        self._waiting.append(call)
        try:
            turn = await self._answered(call)
        except asyncio.CancelledError:
            if call.worker is not None:
                # A generator is closed where it lives: its `finally` may hold locks or files of
                # that process (decision 0026).
                call.worker.instance.end(key)
            raise
        assert call.worker is not None, "who answered made the call"
        if turn.is_generating:
            call.worker.generators.add(key)
        return turn, call.worker

    async def next(self, key: int, worker: InstanceLane) -> HandlerTurn:
        """Make the next step of a generator.

        Raises:
            RequestError: like `execute`.
        """
        if key not in worker.generators:
            raise unavailable(f'the process of node "{self._node_name}" that answered has ended')
        call = HandlerCall(next(self._orders), lambda instance: instance.next(key))
        call.worker = worker
        worker.waiting.append(call)
        is_generating = False
        try:
            turn = await self._answered(call)
            is_generating = turn.is_generating
            return turn
        except asyncio.CancelledError:
            is_generating = key in worker.generators
            raise
        finally:
            if not is_generating:
                worker.generators.discard(key)

    def end(self, key: int, worker: InstanceLane) -> None:
        """Close a generator when the current call has returned. Any thread."""

        def end() -> None:
            if key in worker.generators:
                worker.generators.discard(key)
                worker.instance.end(key)

        with contextlib.suppress(RuntimeError):  # the loop is closed, and the handler gone
            self._loop.call_soon_threadsafe(end)

    def instance_ended(self, instance: Instance) -> None:
        """React to the end of an instance: its generators are lost, its current call has failed."""
        for worker in self._workers:
            if worker.instance is instance:
                worker.generators.clear()
                reason = f'the process of node "{self._node_name}" that answered has ended'
                _fail(worker.waiting, reason)
        if reason := self.unavailable_reason:
            _fail(self._waiting, reason)

    def instance_is_back(self) -> None:
        """Make waiting calls after an instance has come back."""
        self._make_calls()

    async def _answered(self, call: HandlerCall) -> HandlerTurn:
        self._make_calls()
        try:
            return await call.answer
        except asyncio.CancelledError:
            if call.is_begun:
                assert call.worker is not None, "a worker began it"
                if call.worker.call is call:
                    call.worker.instance.abandon()
            else:
                queue = self._waiting if call.worker is None else call.worker.waiting
                with contextlib.suppress(ValueError):
                    queue.remove(call)
            raise

    def _make_calls(self) -> None:
        for worker in self._workers:
            if worker.call is None and not worker.instance.unavailable_reason:
                call = self._oldest(worker)
                if call is not None:
                    worker.call = call
                    call.worker = worker
                    call.is_begun = True
                    try:
                        made = call.make(worker.instance)
                    except Exception as error:  # no memory for the message, for example
                        made = self._loop.create_future()
                        made.set_exception(error)
                    made.add_done_callback(partial(self._call_ended, worker, call))

    def _oldest(self, worker: InstanceLane) -> HandlerCall | None:
        """Return the next call that a worker may make, or None."""
        own, all_ = worker.waiting, self._waiting
        if own and (not all_ or own[0].order < all_[0].order):
            return own.popleft()
        return all_.popleft() if all_ else None

    def _call_ended(
        self, worker: InstanceLane, call: HandlerCall, made: asyncio.Future[HandlerTurn]
    ) -> None:
        worker.call = None
        error = made.exception()
        if not call.answer.done():
            if error is not None:
                call.answer.set_exception(error)
            else:
                call.answer.set_result(made.result())
        self._make_calls()


def _fail(calls: deque[HandlerCall], reason: str) -> None:
    while calls:
        call = calls.popleft()
        if not call.answer.done():
            call.answer.set_exception(unavailable(reason))
