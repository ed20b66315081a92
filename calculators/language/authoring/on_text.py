"""`on_text`: a function or a filter over the texts of an answer becomes a calculator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from functools import partial
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeAlias, overload

from calculators.language.authoring.functions import (
    AuthorError,
    check_generator,
    make_calculator,
    option_values,
    options_of,
)
from calculators.language.authoring.generator_run import GeneratorRun
from calculators.language.authoring.text_walk import Channel, Fed, Feed, TextWalk
from calculators.language.delta import Deltas
from calculators.language.mistakes import AuthorMistake, named, place_of
from graph_runtime import Calculator, CalculatorContext, In, Out
from graph_runtime.interrupts import contained, raise_interrupt

P = ParamSpec("P")

#: The kinds of text that a node may take.
Kind: TypeAlias = Literal["content", "reasoning", "arguments"]
#: A function for `on_text`, without its options.
TextFunction: TypeAlias = Callable[[AsyncIterator[str]], AsyncIterator[str]]

_CONTENT: Final[tuple[Kind, ...]] = ("content",)


class TextFilter(Protocol):
    """The fast form of a function on texts: a class, of which each text gets an instance.

    It runs without a task, in the call of its node, so its methods must be quick.
    """

    def feed(self, text: str) -> str:
        """Take more text, and return the text that goes on now.

        May raise `Refusal` or `RequestError`.
        """

    def finish(self) -> str:
        """Return what is left at the end of the text."""


@overload
def on_text(
    target: Callable[Concatenate[AsyncIterator[str], P], AsyncIterator[str]], /
) -> type[Calculator]: ...
@overload
def on_text(target: Callable[P, TextFilter], /) -> type[Calculator]: ...
@overload
def on_text(*, kinds: Iterable[Kind] = _CONTENT) -> _Decorator: ...
def on_text(target: Any = None, /, *, kinds: Iterable[Kind] = _CONTENT) -> Any:
    """Make a calculator of an async generator over text, or of a class like `TextFilter`.

    ::

        @on_text
        async def redact(text: AsyncIterator[str]) -> AsyncIterator[str]:
            async for piece in text:
                yield piece.replace("foo", "bar")

    The calculator has the function's name, and the ports ``DELTAS`` in and out. The function is
    called for each choice of an answer, and for each kind of text: ``content`` is one text per
    choice, also around calls of tools, and empty if the model writes none; ``reasoning`` is one
    until content begins; ``arguments`` are one per call. The text that it yields for a piece
    takes the piece's place. Returning early ends the answer there. `Refusal` and `RequestError` may
    be raised; any other exception, and a value that is no text, ends the answer with an error that
    names the node. All of these stop the model.

    Parameters beside the text are options: annotate them with a class that
    ``graph_runtime.options`` decorates.

    Args:
        kinds: the kinds of text that the function gets; others pass.

    Raises:
        AuthorError: the target is neither an async generator nor a filter.
    """
    chosen = tuple(kinds)
    unknown = [kind for kind in chosen if kind not in tuple(Channel)]
    if unknown or not chosen:
        given = ", ".join(unknown) or "none"
        raise AuthorError(f"@on_text: kinds must be some of {', '.join(Channel)}, not {given}")
    channels = tuple(Channel(kind) for kind in chosen)
    return partial(_make, channels=channels) if target is None else _make(target, channels)


class _Decorator(Protocol):
    @overload
    def __call__(
        self, target: Callable[Concatenate[AsyncIterator[str], P], AsyncIterator[str]], /
    ) -> type[Calculator]: ...
    @overload
    def __call__(self, target: Callable[P, TextFilter], /) -> type[Calculator]: ...


def _make(target: Any, channels: tuple[Channel, ...]) -> type[Calculator]:
    if not isinstance(target, type):
        check_generator(target, "on_text")
        return make_calculator(target, TextGenerators, options_of(target), channels=channels)
    if not callable(getattr(target, "feed", None)) or not callable(getattr(target, "finish", None)):
        raise AuthorError(
            f"@on_text: the class {target.__qualname__} is no filter: it needs feed(text) -> str "
            f"and finish() -> str"
        )
    return make_calculator(target, TextFilters, options_of(target, skip=0), channels=channels)


class TextFilters(Calculator):
    """Changes texts by a class like `TextFilter`. Subclasses are made by `on_text`."""

    deltas = In[Deltas]("DELTAS")
    changed = Out[Deltas]("DELTAS")
    channels: tuple[Channel, ...] = (Channel.CONTENT,)
    function: Callable[..., TextFilter]

    def open(self, cc: CalculatorContext) -> None:
        self._walk = TextWalk(self.channels, cc.node_name)
        self._make: Callable[[], TextFilter] = partial(self.function, **option_values(self))
        self._filters: dict[tuple[int, Channel], TextFilter] = {}

    def process(self, cc: CalculatorContext) -> None:
        # A plain function: a coroutine would cost a task for each delta.
        packet: Deltas = cc.get(self.deltas)
        walk = self._walk
        fed: Fed | None = None
        feed = walk.plain_feed(packet)
        if feed is not None:
            fed = self._fed(feed)
            if fed.error is None:
                packet = walk.plain(packet, fed.text)
                if packet:
                    cc.emit(self.changed, packet)
                return
        packet = self._walked(walk.walk(packet), fed)
        if packet:
            cc.emit(self.changed, packet)
        if walk.is_over:
            self._filters.clear()

    def _walked(self, steps: Generator[Feed, Fed, Deltas], fed: Fed | None) -> Deltas:
        """Return the packet of a walk. ``fed``: the answer to its first question, if known."""
        try:
            feed = next(steps)
            while True:
                feed = steps.send(self._fed(feed) if fed is None else fed)
                fed = None
        except StopIteration as end:
            packet: Deltas = end.value
            return packet

    def _fed(self, feed: Feed) -> Fed:
        key = feed.choice, feed.channel
        try:
            found = self._filters.get(key)
            if found is None:
                found = self._filters[key] = self._make()
            if feed.ends:
                del self._filters[key]
                return Fed(_text(found.finish(), found.finish))
            return Fed(_text(found.feed(feed.text), found.feed))
        except BaseException as error:
            raise_interrupt(error)
            return Fed("", error=contained(error))


class TextGenerators(Calculator):
    """Changes texts by an async generator. Subclasses are made by `on_text`."""

    deltas = In[Deltas]("DELTAS")
    changed = Out[Deltas]("DELTAS")
    channels: tuple[Channel, ...] = (Channel.CONTENT,)
    function: Callable[..., AsyncIterator[str]]

    def open(self, cc: CalculatorContext) -> None:
        self._walk = TextWalk(self.channels, cc.node_name)
        self._function: TextFunction = partial(self.function, **option_values(self))
        self._runs: dict[tuple[int, Channel], GeneratorRun[str, str]] = {}

    async def process(self, cc: CalculatorContext) -> None:
        packet: Deltas = cc.get(self.deltas)
        walk = self._walk
        fed: Fed | None = None
        feed = walk.plain_feed(packet)
        if feed is not None:
            fed = await self._fed(feed)
        if fed is not None and fed.error is None and not fed.is_done:
            packet = walk.plain(packet, fed.text)
        else:
            packet = await self._walked(walk.walk(packet), fed)
        if packet:
            cc.emit(self.changed, packet)
        if self._walk.is_over and self._runs:
            await self._close_runs()

    async def close(self, cc: CalculatorContext) -> None:
        await self._close_runs()

    async def _close_runs(self) -> None:
        runs, self._runs = list(self._runs.values()), {}
        await asyncio.gather(*(run.close() for run in runs))

    async def _walked(self, steps: Generator[Feed, Fed, Deltas], fed: Fed | None) -> Deltas:
        try:
            feed = next(steps)
            while True:
                feed = steps.send(await self._fed(feed) if fed is None else fed)
                fed = None
        except StopIteration as end:
            packet: Deltas = end.value
            return packet

    async def _fed(self, feed: Feed) -> Fed:
        key = feed.choice, feed.channel
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = GeneratorRun(self._function, _text_problem)
        pieces = await run.feed((feed.text,) if feed.text else (), ends=feed.ends)
        if feed.ends:
            del self._runs[key]
            # It may go on after its input has ended.
            if not run.is_done:
                await run.close()
        error = run.take_error()
        return Fed("".join(pieces), run.is_done and not feed.ends, error)


def _text(value: object, function: Callable[..., object]) -> str:
    if not isinstance(value, str):
        raise AuthorMistake(
            f'{place_of(function)} returned {named(value)}, no text: `return text`, or `return ""`'
        )
    return value


def _text_problem(value: object) -> str:
    if isinstance(value, str):
        return ""
    return f"it yields {named(value)}, no text: `yield text`, or nothing"
