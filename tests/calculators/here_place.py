"""A place of a node's work in this process, as a server with replicas has it on a cluster."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable

from calculators.kit.places import Question, Work, WorkOrder
from graph_runtime import NO_METRICS, LoadProgress


def made(order: WorkOrder) -> Work:
    """Make the work of an order."""
    module, _, name = order.maker.partition(":")
    work: Work = getattr(importlib.import_module(module), name)(
        order.arguments, name=order.name, metrics=NO_METRICS
    )
    return work


class HerePlace:
    """A `calculators.kit.places.Place`.

    Attributes:
        work: what has been started.
    """

    def __init__(self, make: Callable[[WorkOrder], Work] = made) -> None:
        self._make = make
        self.work: Work

    async def start(self, order: WorkOrder, progress: LoadProgress) -> bytes:
        self.work = self._make(order)
        return await self.work.start(progress)

    def ask(self, body: bytes, *, beginning: str, tokens: float) -> _Asked:
        return _Asked(self.work, body)

    async def close(self) -> None:
        await self.work.close()


class _Question(Question):
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.emit = lambda part: None
        self.on_note = lambda note: None


class _Asked:
    def __init__(self, work: Work, body: bytes) -> None:
        self._work = work
        self._question = _Question(body)

    async def answer(self, take: Callable[[bytes], None]) -> None:
        # A part comes later, as over a connection.
        loop = asyncio.get_running_loop()
        has_come: list[asyncio.Future[None]] = []

        def emit(part: bytes) -> None:
            came = loop.create_future()
            has_come.append(came)

            def bring() -> None:
                take(part)
                came.set_result(None)

            loop.call_soon(bring)

        self._question.emit = emit
        await self._work.answer(self._question)
        await asyncio.gather(*has_come)

    def note(self, note: bytes) -> None:
        asyncio.get_running_loop().call_soon(lambda: self._question.on_note(note))
