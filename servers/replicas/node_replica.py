"""`NodeReplica`: the heavy work of nodes, in a process of the cluster.

Ray calls the methods. The first argument is the key of a request, as in
`servers.replicas.replica.ServableReplica`.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import calculators
from calculators.kit.places import Question, WorkMaker
from graph_runtime import REGISTRY, GraphError, LoadProgress
from graph_runtime.errors import reason_of
from servers.operations.metrics.server_metrics import Served, ServerMetrics
from servers.replicas.outgoing import Outgoing
from servers.replicas.own_nodes import NodeWork
from servers.replicas.replica import NotLoadedError
from servers.replicas.wire import REASON_MARKS, Origin, Update


class NodeReplica:
    """The work of one order, for all graphs that have given it. Belongs to Ray's event loop."""

    async def __init__(self, work: NodeWork) -> None:  # type: ignore[misc]  # as Ray allows
        """Load the work.

        Raises:
            NotLoadedError: it cannot be loaded; Ray tries again, and gives up.
        """
        order = work.order
        self._name: Final = order.name
        context = importlib.import_module("ray.serve").get_replica_context()
        self._replica: str = context.replica_id.unique_id
        self._metrics = ServerMetrics()
        self._metrics.served = lambda: [Served(order.name, True)]
        if work.search_path and work.search_path not in sys.path:
            sys.path.append(work.search_path)
        await asyncio.to_thread(calculators.register_all, REGISTRY)
        module, _, name = order.maker.partition(":")
        maker: WorkMaker = getattr(importlib.import_module(module), name)
        metrics = self._metrics.service_of(order.name).of_node("")
        self._work = maker(order.arguments, name=order.name, metrics=metrics)
        self._questions: dict[str, _Question] = {}
        try:
            self._ready = await self._work.start(LoadProgress())
        except GraphError as error:
            raise NotLoadedError(reason_of(error).join(REASON_MARKS)) from None

    async def describe(self, key: str) -> bytes:
        """Return the first message of the work. ``key`` is that of no request."""
        return self._ready

    async def metrics(self, key: str) -> tuple[str, str]:
        """Return the name of this replica, and its metrics as text."""
        text = await self._metrics.text_in_turns()
        return self._replica, text.body.decode()

    async def answer(self, key: str, body: bytes, origin: Origin) -> AsyncGenerator[Update, None]:
        """Answer a question."""
        outgoing = Outgoing(origin.record(self._name))
        question = self._questions[key] = _Question(body, outgoing)
        updates = outgoing.updates(lambda: self._work.answer(question), f"question to {self._name}")
        try:
            async with aclosing(updates):
                async for update in updates:
                    yield update
        finally:
            del self._questions[key]

    async def credit(self, key: str, size: int) -> None:
        """Let a request send more: its asker has taken so many bytes."""
        question = self._questions.get(key)
        if question is not None:
            question.outgoing.client.give(size)

    async def note(self, key: str, note: bytes) -> None:
        """Take a note of the asker."""
        question = self._questions.get(key)
        if question is not None:
            question.on_note(note)


class _Question(Question):
    """A question, and the way of its answer."""

    def __init__(self, body: bytes, outgoing: Outgoing) -> None:
        self.body = body
        self.outgoing = outgoing
        self.emit = outgoing.put
        self.on_note = lambda note: None
