"""`Asked`: questions to the other end of a worker's connection that have no answer yet."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from servers.server.workers.messages import Outcome


class Asked:
    """The questions of one end by their numbers. Belongs to one event loop."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}

    async def ask(self, send: Callable[[int], None]) -> Outcome:
        """Return the answer; ``send`` sends the question with its number.

        Raises:
            Exception: that of `fail`.
        """
        number = next(self._numbers)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            send(number)
            return await answer
        finally:
            del self._waiting[number]

    def answer(self, outcome: Outcome) -> None:
        """Take an answer. It is ignored if its question has no waiter any more."""
        waiting = self._waiting.get(outcome.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """End all questions: the other end is gone."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
