"""`Engine`: what the server's side of an engine can do, and `Generation`: one request in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.messages import Metrics, Tokens
from calculators.media.image import Image
from calculators.requests.http_payload import RequestError
from graph_runtime import Cancelled, Code, GraphError


class EngineDown(RequestError):
    """The engine is gone or not there yet: the request can be tried again later."""

    code = Code.UNAVAILABLE


class Part(NamedTuple):
    """One prompt to generate from, and how; the members are those of `Add`.

    It makes ``settings.num_return_sequences`` choices.
    """

    input_ids: bytes
    settings: GenerationSettings
    text: str = ""
    images: tuple[Image, ...] = ()


class Generation:
    """One request in the engine: a sequence per choice, and what each has gained.

    `read` returns what is new; one reader at a time.
    """

    def __init__(self, choices: int, cancel: Callable[[int | None], None]) -> None:
        """``cancel``: tells the engine to stop one choice, or with None all of them."""
        self._gained: list[tuple[int, Tokens]] = []
        self._unfinished = choices
        self._error: GraphError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._cancel = cancel

    @property
    def is_finished(self) -> bool:
        """Has every sequence ended, as far as has been read?"""
        return self._unfinished <= 0 and not self._gained

    async def read(self) -> list[tuple[int, Tokens]]:
        """All that is new, with the number of its choice, in order; waits while there is nothing.

        Raises:
            RequestError: the engine refused the request, or is gone (`EngineDown`).
            Cancelled: it was cancelled; whoever waits here learns of it at once.
        """
        if not self._gained and self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._gained:
            gained, self._gained = self._gained, []
            return gained
        assert self._error is not None
        raise self._error

    def try_read(self) -> list[tuple[int, Tokens]]:
        """What is new, without waiting; maybe nothing."""
        gained, self._gained = self._gained, []
        return gained

    def cancel(self) -> None:
        """Stop, free the cache. To be called whenever nobody will read to the end."""
        if self._unfinished > 0:
            self._end(Cancelled())

    def cancel_choice(self, choice: int) -> None:
        """Stop one choice that has not ended: nobody needs more of it. Not for beam search."""
        self._unfinished -= 1
        self._cancel(choice)

    # The engine's side ----------------------------------------------------------------------------

    def feed(self, choice: int, tokens: Tokens) -> None:
        """New tokens of a choice, the last ones with their finish reason."""
        self._gained.append((choice, tokens))
        if tokens.finish_reason is not None:
            self._unfinished -= 1
        self._wake()

    def fail(self, error: RequestError) -> None:
        """Nothing more will come; what still runs of the request is of no use."""
        self._end(error)

    def _end(self, error: GraphError) -> None:
        self._unfinished = 0
        self._error = error
        self._cancel(None)
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Engine(Protocol):
    """The server's side of an engine."""

    @property
    def unavailable_reason(self) -> str:
        """Why it cannot work now; "" while it can."""

    @property
    def metrics(self) -> Metrics:
        """The last ones that it sent."""

    @property
    def unfinished(self) -> int:
        """Requests that have been submitted and not ended."""

    @property
    def running(self) -> int:
        """Those of them that have begun to get tokens."""

    @property
    def cache_full(self) -> int:
        """Sequences that have ended because the cache had no room for more."""

    @property
    def restarts(self) -> int:
        """How often it had to be started again."""

    def submit(self, parts: Sequence[Part]) -> Generation:
        """Generate; the choices are numbered part by part.

        Raises:
            EngineDown: it cannot work now.
        """

    async def close(self) -> None:
        """Shut it down; what is running fails with `EngineDown`."""
