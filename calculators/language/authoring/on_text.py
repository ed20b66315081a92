"""`on_text`: a function or a filter over the texts of an answer becomes a calculator.

`TextWalk` finds the texts in the deltas of an answer, by choice and by channel, and puts the
changed ones in their place, so that filters need to know nothing about deltas: what a filter holds
back delays the events that follow it, and their order stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable
from enum import StrEnum
from functools import partial
from typing import (
    Any,
    Concatenate,
    Final,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    overload,
)

from msgspec import structs

from calculators.kit.requests.http_payload import RequestError
from calculators.language.authoring.functions import (
    AuthorError,
    GeneratorRun,
    check_generator,
    make_calculator,
    option_values,
    options_of,
)
from calculators.language.delta import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
)
from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    Reasoning,
    Refused,
    SpeechSamples,
    ToolCall,
    is_object,
)
from calculators.language.generation_request import Refusal
from calculators.language.mistakes import AuthorMistake, named, place_of
from graph_runtime import Calculator, CalculatorContext, Code, In, Out
from graphrt_base.interrupts import contained, raise_interrupt

log = logging.getLogger(__name__)


class Channel(StrEnum):
    """A kind of text of a choice."""

    CONTENT = "content"
    REASONING = "reasoning"
    ARGUMENTS = "arguments"


class Feed(NamedTuple):
    """A question of the walk: new text of a channel.

    Attributes:
        ends: the text has ended.
    """

    choice: int
    channel: Channel
    text: str
    ends: bool


class Fed(NamedTuple):
    """The answer to a `Feed`: the text that goes on in its place.

    Attributes:
        is_done: the answer ends here.
        error: raised after the text, for the whole answer.
    """

    text: str
    is_done: bool = False
    error: Exception | None = None


#: A part of the walk: asks `Feed`, receives `Fed`, returns nothing.
_Steps: TypeAlias = Generator[Feed, Fed, None]

_CHANNELS: Final[dict[type, Channel]] = {
    Content: Channel.CONTENT,
    Reasoning: Channel.REASONING,
    Arguments: Channel.ARGUMENTS,
}


class TextWalk:
    """The state of one answer on its way through a node that changes texts.

    Attributes:
        is_over: the answer has ended or failed; texts that have not ended are dropped.
    """

    def __init__(self, channels: Collection[Channel], node: str) -> None:
        """``node``: the node's name, for errors."""
        self._channels = frozenset(channels)
        self._node = node
        self._begun: Begun | None = None
        self._open: set[int] = set()
        #: The channels with a text that has not ended, by choice.
        self._texts: dict[int, set[Channel]] = {}
        #: The changed arguments of the open call, by choice.
        self._arguments: dict[int, list[str]] = {}
        #: The choices that ended with a refusal, and their texts with it.
        self._refused: set[int] = set()
        self._has_changed = False
        #: The answer has failed here; the rest of it is dropped.
        self._has_failed = False
        self.is_over = True

    def _begin(self, begun: Begun) -> None:
        self._begun = begun
        self._open = set(range(begun.choices))
        self._texts = {choice: set() for choice in self._open}
        self._arguments.clear()
        self._refused.clear()
        self._has_changed = self._has_failed = self.is_over = False

    def plain_feed(self, packet: Deltas) -> Feed | None:
        """Return the only question of a packet that is one piece of content, like nearly all.

        `plain` then takes its answer. None: the packet needs `walk`.
        """
        if len(packet) != 1:
            return None
        item = packet[0]
        if type(item) is not Gained or len(item.events) != 1:
            return None
        event = item.events[0]
        choice = item.choice
        if type(event) is not Content or choice not in self._open:
            return None
        texts = self._texts[choice]
        if Channel.REASONING in texts or Channel.CONTENT not in self._channels:
            return None
        return Feed(choice, Channel.CONTENT, event.text, ends=False)

    def plain(self, packet: Deltas, text: str) -> Deltas:
        """Return a packet for which `plain_feed` has a question, with another text."""
        item = packet[0]
        assert isinstance(item, Gained)
        self._texts[item.choice].add(Channel.CONTENT)
        if (Content(text),) == tuple(item.events):
            return packet
        self._has_changed = True
        if not text and item.usage is None:
            return _NOTHING
        events = (Content(text),) if text else ()
        return Deltas((structs.replace(item, events=events, logprobs=None, token_ids=()),))

    def walk(self, packet: Deltas) -> Generator[Feed, Fed, Deltas]:
        """Ask for the text in place of each text; return the packet that goes on."""
        out: list[Delta] = []
        for item in packet:
            try:
                yield from self._walk_item(item, out)
            except Refusal as refusal:
                self._refuse(refusal, out)
            except RequestError as error:
                # Its frames hold this list, and the list the error.
                self._fail(error.with_traceback(None), out)
            except Exception:
                log.exception('node "%s" failed', self._node)
                text = f'node "{self._node}" failed'
                self._fail(RequestError(text, code=Code.INTERNAL), out)
        return Deltas(out)

    def _walk_item(self, item: Delta, out: list[Delta]) -> _Steps:
        match item:
            case Begun():
                self._begin(item)
                out.append(item)
            case Gained(choice) if choice in self._open:
                yield from self._walk_group(item, out)
            case Finished(choice) if choice in self._open:
                rest: list[Event] = []
                if Channel.CONTENT in self._channels and choice not in self._refused:
                    # A choice without content has an empty text, to which something may be added.
                    self._texts[choice].add(Channel.CONTENT)
                yield from self._end_texts(choice, rest, tuple(Channel))
                if rest:
                    out.append(Gained(choice, tuple(rest)))
                self._open.discard(choice)
                out.append(structs.replace(item, verbose=None) if self._has_changed else item)
            case Gained() | Finished():
                pass
            case Ended() | Failed():
                if not self._has_failed:
                    out.append(item)
                self._has_failed = False
                self._end()
            case _:
                out.append(item)

    def _walk_group(self, group: Gained, out: list[Delta]) -> _Steps:
        choice = group.choice
        events: list[Event] = []
        is_done = False
        try:
            for event in group.events:
                is_done = yield from self._walk_event(choice, event, events)
                if is_done:
                    break
        finally:
            if len(events) == len(group.events) and tuple(events) == tuple(group.events):
                out.append(group)
            else:
                self._has_changed = True
                if events or group.usage is not None:
                    changed = structs.replace(
                        group, events=tuple(events), logprobs=None, token_ids=()
                    )
                    out.append(changed)
        if is_done:
            out.append(Finished(choice, FinishReason.STOP))
            self._open.discard(choice)
            if not self._open:
                self._stop()

    def _walk_event(
        self, choice: int, event: Event, events: list[Event]
    ) -> Generator[Feed, Fed, bool]:
        """Add what an event becomes; return True if the choice ends here."""
        channel = _CHANNELS.get(type(event))
        if isinstance(event, ToolCall) or (isinstance(event, Content) and not event.text.isspace()):
            yield from self._end_texts(choice, events, (Channel.REASONING,))
        if isinstance(event, ToolCall):
            self._arguments[choice] = []
        if isinstance(event, Refused):
            # It is the last event of its choice.
            yield from self._end_texts(choice, events, tuple(Channel))
            self._refused.add(choice)
        if isinstance(event, CallDone) and Channel.ARGUMENTS in self._channels:
            yield from self._end_texts(choice, events, (Channel.ARGUMENTS,))
            text = "".join(self._arguments.pop(choice, ()))
            events.append(CallDone(text, is_object(text)))
            return False
        if isinstance(event, SpeechSamples) and Channel.CONTENT in self._channels:
            return False  # it says the text as it was
        if channel is None or channel not in self._channels:
            events.append(event)
            return False
        assert isinstance(event, Content | Reasoning | Arguments)
        self._texts[choice].add(channel)
        fed = yield Feed(choice, channel, event.text, ends=False)
        self._add(choice, channel, fed, events)
        return fed.is_done

    def _end_texts(self, choice: int, events: list[Event], channels: tuple[Channel, ...]) -> _Steps:
        """Add the rests of texts that end."""
        texts = self._texts[choice]
        for channel in channels:
            if channel in texts:
                texts.discard(channel)
                fed = yield Feed(choice, channel, "", ends=True)
                self._add(choice, channel, fed, events)

    def _add(self, choice: int, channel: Channel, fed: Fed, events: list[Event]) -> None:
        if fed.text:
            self._add_text(choice, channel, fed.text, events)
        if fed.error is not None:
            raise fed.error

    def _add_text(self, choice: int, channel: Channel, text: str, events: list[Event]) -> None:
        match channel:
            case Channel.CONTENT:
                events.append(Content(text))
            case Channel.REASONING:
                events.append(Reasoning(text))
            case Channel.ARGUMENTS:
                self._arguments.setdefault(choice, []).append(text)
                events.append(Arguments(text))

    def _refuse(self, refusal: Refusal, out: list[Delta]) -> None:
        for choice in sorted(self._open):
            out.append(Gained(choice, (Refused(refusal.text, refusal.category),)))
            out.append(Finished(choice, FinishReason.CONTENT_FILTER))
        self._open.clear()
        self._stop()

    def _fail(self, error: RequestError, out: list[Delta]) -> None:
        request = None if self._begun is None else self._begun.request
        out.append(Failed(error, request))
        self._stop()
        self._end()
        self._has_failed = True

    def _stop(self) -> None:
        if self._begun is not None:
            self._begun.stop()

    def _end(self) -> None:
        self.is_over = True
        self._open.clear()
        # It leads to the generation, and from there perhaps back here.
        self._begun = None


_NOTHING: Final = Deltas()


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
    be raised; any other exception, and a value that is not a text, ends the answer with an error
    that names the node. All of these stop the model.

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
