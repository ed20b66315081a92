"""`GeneratorRun`: an author's async generator over items that come by and by."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Generic, Protocol, TypeVar, cast

from calculators.language.mistakes import AuthorMistake
from graph_runtime.interrupts import contained

T = TypeVar("T")
U = TypeVar("U", covariant=True)


class GeneratorRun(Generic[T, U]):
    """One generator, in a task of its own for its whole life.

    Stepping it inside the calls of a node would cost less, but breaks ``asyncio.timeout`` and
    libraries on anyio, which want to leave a block in the task that entered it.

    Attributes:
        is_done: the generator has returned or raised.
    """

    def __init__(
        self,
        function: Callable[[AsyncIterator[T]], AsyncIterator[U]],
        problem: Callable[[U], str],
    ) -> None:
        """Prepare the generator; the first `feed` starts it. Needs a running event loop.

        ``problem``: returns what is wrong with an output, "" if nothing is; it is raised in the
        generator, at the line of its ``yield``.
        """
        self._function = function
        self._problem = problem
        self._inputs: deque[T] = deque()
        self._has_ended = False
        self._outputs: list[U] = []
        #: The generator waits for an input.
        self._waits: asyncio.Future[None] | None = None
        #: `feed` waits for the generator.
        self._feeds: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_done = False
        self._error: Exception | None = None
        self._is_closing = False

    def take_error(self) -> Exception | None:
        """Return the exception that the generator has raised, once: it leads back here."""
        error, self._error = self._error, None
        return error

    async def feed(self, inputs: Iterable[T], *, ends: bool = False) -> list[U]:
        """Give inputs, and return what the generator yields until it asks for more.

        ``ends``: these are the last inputs.
        """
        self._inputs.extend(inputs)
        self._has_ended |= ends
        loop = asyncio.get_running_loop()
        if not self.is_done:
            self._feeds = loop.create_future()
            if self._task is None:
                self._task = loop.create_task(self._run())
            elif self._waits is not None and not self._waits.done():
                self._waits.set_result(None)
            await self._feeds
        outputs, self._outputs = self._outputs, []
        return outputs

    async def close(self) -> None:
        """End the generator: its ``finally`` and ``async with`` blocks run before this returns."""
        task = self._task
        self._is_closing = True
        if task is not None and not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        try:
            async with contextlib.aclosing(closable(self._function(self._items()))) as outputs:
                async for output in outputs:
                    if problem := self._problem(output):
                        await outputs.athrow(AuthorMistake(problem))
                    self._outputs.append(output)
        except BaseException as error:
            if self._is_closing and isinstance(error, asyncio.CancelledError):
                raise
            self._error = contained(error)
        finally:
            self.is_done = True
            self._answer_feed()

    async def _items(self) -> AsyncIterator[T]:
        while True:
            while self._inputs:
                yield self._inputs.popleft()
            if self._has_ended:
                return
            self._answer_feed()
            self._waits = asyncio.get_running_loop().create_future()
            await self._waits

    def _answer_feed(self) -> None:
        if self._feeds is not None and not self._feeds.done():
            self._feeds.set_result(None)


class Closable(Protocol[U]):
    """An iterator that can be closed, as generators can."""

    def __aiter__(self) -> AsyncIterator[U]: ...

    async def aclose(self) -> None: ...

    async def athrow(self, error: BaseException, /) -> U: ...


def closable(iterator: AsyncIterator[U]) -> Closable[U]:
    """Return an async generator as what it is, for `contextlib.aclosing`."""
    return cast(Closable[U], iterator)
