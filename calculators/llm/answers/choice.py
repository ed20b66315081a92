"""`Choice`: turns the tokens of one choice into events."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct, structs

from calculators.language.call_id import new_call_id
from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.language.json_object import is_object
from calculators.llm.answers.response import Verbose
from calculators.llm.detokenizer import DecodedText, TableText, TextStream, TokenTable
from calculators.llm.parsers.output_parsers import OutputParsers, TrimmedStream, merged
from calculators.llm.requests.checked_request import GenerationRequest
from calculators.llm.requests.completions_request import ChatRequest


class StopStrings:
    """Passes on text that contains no stop string and no beginning of one at its end.

    The stop string that is complete first ends the text; of several that are complete at the same
    place, the longest. So the result does not depend on the pieces in which the text arrives. With
    ``include`` the stop string is part of the text that it ended.

    Attributes:
        is_active: the text has stop strings to look for.
        matched: the stop string that ended the text, if one did.
    """

    __slots__ = ("_held", "_include", "_stops", "is_active", "matched")

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        self._stops = tuple(filter(None, stops))
        self.is_active = bool(self._stops)
        self._include = include
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Return the text that is certain; "" once a stop string has ended it (``matched``)."""
        if not self._stops:
            return text
        if self.matched is not None:
            return ""
        text = self._held + text
        places = [(text.find(stop), len(stop)) for stop in self._stops]
        found = min(
            ((place + length, place) for place, length in places if place >= 0), default=None
        )
        if found is not None:
            end, place = found
            self.matched = text[place:end]
            self._held = ""
            return text[:end] if self._include else text[:place]
        keep = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """Return the text that was held back and did not become a stop string."""
        held, self._held = self._held, ""
        return held


#: For answers that no string ends. Passes all text on, so all of them share it.
NO_STOPS: Final = StopStrings(())


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of ``text`` with which ``stop`` begins."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token as ``logprobs`` shows it. ``logprob``: None if the engine has none."""

    token_id: int
    logprob: float | None


@dataclass(slots=True)
class _Held:
    token: ScoredToken
    start: int


class Piece(msgspec.Struct, frozen=True):
    """New text of a choice, and the tokens that made it."""

    text: str
    tokens: list[ScoredToken] = []


class ChoiceText(msgspec.Struct, eq=False):
    """Turns the tokens of one sequence into pieces of text.

    Attributes:
        echoed: the number of tokens of the prompt that are still to come; these have no stop
            strings.
        completion_tokens: the number of tokens so far, without an echoed prompt.
        held: tokens whose text is not certain yet, for log-probabilities.
        length: the number of characters that the tokens so far have made.
        shown: the number that was returned.
    """

    stream: TextStream
    stops: StopStrings
    echoed: int = 0
    completion_tokens: int = 0
    held: list[_Held] = []
    length: int = 0
    shown: int = 0

    @property
    def is_stopped(self) -> bool:
        """True once a stop string has ended the text."""
        return self.stops.matched is not None

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the text, if one did."""
        return self.stops.matched

    async def feed_plain(self, ids: Sequence[int]) -> str:
        """Feed tokens without stop strings, echo and log-probabilities; return only the text."""
        self.completion_tokens += len(ids)
        return await self.stream.feed(ids)

    async def feed(self, ids: Sequence[int], logprobs: Sequence[float] = ()) -> Piece:
        """Return the text that these tokens make certain. ``logprobs``: one per token, or empty."""
        if self.echoed:
            return await self._feed_echo(ids, logprobs)
        if not logprobs and not self.stops.is_active:
            return Piece(await self.feed_plain(ids))
        # One by one: tokens after a stop string do not belong to the answer.
        shown = ""
        for place, token_id in enumerate(ids):
            if self.stops.matched is not None:
                break
            self.completion_tokens += 1
            if logprobs:
                shown += self.stops.feed(await self._feed_scored(token_id, logprobs[place]))
            else:
                shown += self.stops.feed(await self.stream.feed([token_id]))
        return self._piece(shown)

    async def _feed_echo(self, ids: Sequence[int], logprobs: Sequence[float]) -> Piece:
        count = min(self.echoed, len(ids))
        self.echoed -= count
        text = ""
        if logprobs:
            for token_id, logprob in zip(ids[:count], logprobs, strict=False):
                text += await self._feed_scored(token_id, logprob)
        else:
            text = await self.stream.feed(ids[:count])
        prompt = self._piece(text)
        if count == len(ids):
            return prompt
        rest = await self.feed(ids[count:], logprobs[count:])
        return Piece(prompt.text + rest.text, prompt.tokens + rest.tokens)

    async def _feed_scored(self, token_id: int, logprob: float) -> str:
        known = logprob if math.isfinite(logprob) and logprob <= 0 else None
        self.held.append(_Held(ScoredToken(token_id, known), self.length))
        text = await self.stream.feed([token_id])
        self.length += len(text)
        return text

    async def finish(self) -> Piece:
        """Return the remaining text, at the end of the sequence."""
        if self.stops.matched is not None:
            return Piece("")
        rest = await self.stream.finish()
        if not self.stops.is_active and not self.held:
            return Piece(rest)
        text = self.stops.feed(rest)
        if self.stops.matched is None:
            text += self.stops.finish()
        piece = self._piece(text)
        if self.stops.matched is not None:
            return piece
        piece.tokens.extend(held.token for held in self.held)
        self.held.clear()
        return piece

    def _piece(self, text: str) -> Piece:
        self.shown += len(text)
        count = 0
        while count < len(self.held) and self.held[count].start < self.shown:
            count += 1
        tokens = [held.token for held in self.held[:count]]
        del self.held[:count]
        return Piece(text, tokens)


class ReasoningCount(Struct, eq=False):
    """Counts the tokens that made reasoning, from the events that tokens made.

    A token without an event of its own (half a character, a tag) counts with the next event. So the
    tag that begins the reasoning is part of it, and the tag that ends it is not, and the count does
    not depend on how many tokens are added at a time.

    Attributes:
        turning: ids of tokens that may begin a tag; None: any.
        hidden: ids of tokens without text.
        count: of the tokens that made reasoning.
        waiting: the number of tokens without an event yet.
        is_turning: a tag may have begun that is incomplete, or that no event has followed yet.
    """

    turning: frozenset[int] | None = None
    hidden: Collection[int] = frozenset()
    count: int = 0
    waiting: int = 0
    is_turning: bool = False

    def steady(self, ids: Sequence[int]) -> int:
        """Return how many tokens, from the first on, can be added at once; at least one.

        They all make reasoning, or all do not.
        """
        turning = self.turning
        if turning is None or self.is_turning:
            return 1
        for place, token_id in enumerate(ids):
            if token_id in turning:
                return place or 1
        return len(ids)

    def add(self, ids: Sequence[int], events: Sequence[OutputEvent]) -> None:
        """Count one more token, or several that are `steady`, with the events that they made."""
        self.waiting += len(ids)
        if self.turning is None or ids[-1] in self.turning:
            self.is_turning = True
        elif events:
            self.is_turning = False
        if events:
            hidden = 0
            while hidden < len(ids) and ids[-1 - hidden] in self.hidden:
                hidden += 1
            if Reasoning in map(type, events):
                self.count += self.waiting - hidden
            self.waiting = hidden

    def finish(self, events: Sequence[OutputEvent]) -> None:
        """Count the waiting tokens with the events of the end."""
        if Reasoning in map(type, events):
            self.count += self.waiting
        self.waiting = 0


def turning_tokens(tags: Collection[str], pieces: Sequence[bytes]) -> frozenset[int]:
    """Return the ids of the tokens whose text has the first letter of one of the tags.

    These include tokens in which no tag begins: parsers of calls, whose tags mostly begin with the
    same letter, hold text back too.
    """
    turning: set[int] = set()
    for letter in {tag[:1].encode() for tag in tags if tag}:
        turning.update(token_id for token_id, piece in enumerate(pieces) if letter in piece)
    return frozenset(turning)


class Parser(Protocol):
    """Reader of the text of a choice; see `calculators.llm.parsers.output_parsers.OutputStream`.

    Adjacent events of one kind are merged afterwards.
    """

    def feed(self, text: str) -> list[OutputEvent]: ...

    def finish(self) -> list[OutputEvent]: ...


class RawText:
    """Records the raw text of a choice, special tokens included."""

    __slots__ = ("_stream", "_verbose")

    def __init__(self, stream: TextStream, verbose: Verbose) -> None:
        """``stream``: must show special tokens; ``verbose`` receives the text."""
        self._stream = stream
        self._verbose = verbose

    async def feed(self, ids: Sequence[int]) -> None:
        self._verbose.content += await self._stream.feed(ids)


class OutputDelta(Struct, frozen=True):
    """The output of some tokens of a choice."""

    events: Sequence[OutputEvent]
    tokens: Sequence[ScoredToken] = ()


class ChoiceOutput:
    """Text by `ChoiceText`, events by a parser. Without a parser all text is content.

    Attributes:
        calls: the number of calls of tools that have begun.
        is_plain: tokens may be fed with `feed_plain`: only the model can end the choice.
        is_stopped: the choice ended before the model did, by a stop string or by a call beyond
            the allowed number.
    """

    __slots__ = (
        "_arguments",
        "_max_calls",
        "_parser",
        "_raw",
        "_reasoning",
        "_text",
        "calls",
        "is_plain",
        "is_stopped",
    )

    def __init__(
        self,
        text: ChoiceText,
        parser: Parser | None = None,
        *,
        max_calls: int | None = None,
        raw: RawText | None = None,
        reasoning: ReasoningCount | None = None,
    ) -> None:
        """Make the output of a choice.

        Args:
            max_calls: the choice ends where one more call would begin; None is no limit.
            raw: receives all tokens as well.
            reasoning: counts the tokens of reasoning; without it their number is unknown.
        """
        self._text = text
        self._parser = parser
        self._max_calls = max_calls
        self._raw = raw
        self._reasoning = reasoning
        #: Pieces of the last call's arguments, where a stop string may cut them.
        self._arguments: list[str] = []
        self.calls = 0
        self.is_plain = not text.stops.is_active and max_calls is None and raw is None
        self.is_stopped = False

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the choice, if one did."""
        return self._text.stop_string

    @property
    def has_cut_call(self) -> bool:
        """Return whether a stop string ended the choice within the arguments of a call."""
        return (
            self.calls > 0
            and self.stop_string is not None
            and not is_object("".join(self._arguments))
        )

    @property
    def completion_tokens(self) -> int:
        """Tokens so far, without an echoed prompt."""
        return self._text.completion_tokens

    @property
    def echoed(self) -> int:
        """The number of tokens of an echoed prompt that are still to come."""
        return self._text.echoed

    @property
    def reasoning_tokens(self) -> int | None:
        """The number of tokens that were reasoning; None if they are not counted."""
        return None if self._reasoning is None else self._reasoning.count

    async def feed_plain(self, ids: Sequence[int]) -> Sequence[OutputEvent]:
        """Feed tokens when the choice `is_plain`, without echo and log-probabilities."""
        if self._reasoning is None:
            return self._parsed(await self._text.feed_plain(ids))
        gained: list[OutputEvent] = []
        while ids:
            count = len(ids) if len(ids) < 2 else self._reasoning.steady(ids)
            part, ids = ids[:count], ids[count:]
            events = self._parsed(await self._text.feed_plain(part))
            self._reasoning.add(part, events)
            if not ids and not gained:
                return events
            gained += events
        return merged(gained)

    def _parsed(self, text: str) -> Sequence[OutputEvent]:
        """Return the events that new text makes."""
        if not text:
            return ()
        if self._parser is None:
            return (Content(text),)
        events = self._parser.feed(text)
        if len(events) > 1:
            events = merged(events)
        return self._checked(events) if ToolCall in map(type, events) else events

    def _steady(self, ids: Sequence[int]) -> int:
        """Return how many of the tokens, from the first on, can be fed together; at least one."""
        if self._reasoning is None:
            return len(ids)
        return 1 if self._text.stops.is_active else self._reasoning.steady(ids)

    async def feed(self, ids: Sequence[int], logprobs: Sequence[float] = ()) -> OutputDelta:
        """Return the output that these tokens make certain. ``logprobs``: one each, or empty."""
        if self._raw is not None:
            await self._raw.feed(ids)
        if len(ids) < 2 or self._steady(ids) == len(ids):
            return await self._feed(ids, logprobs)
        # In parts, so that tokens of reasoning are counted apart from others.
        gained: list[OutputEvent] = []
        tokens: list[ScoredToken] = []
        while ids and not self.is_stopped:
            count = self._steady(ids)
            gain = await self._feed(ids[:count], logprobs[:count])
            gained += gain.events
            tokens += gain.tokens
            ids, logprobs = ids[count:], logprobs[count:]
        return OutputDelta(merged(gained), tokens)

    async def _feed(self, ids: Sequence[int], logprobs: Sequence[float]) -> OutputDelta:
        piece = await self._text.feed(ids, logprobs)
        ends = self._text.is_stopped and not self.is_stopped
        gain = self._gain(piece, ends=ends)
        self.is_stopped |= ends
        if self._reasoning is not None and ids:
            self._reasoning.add(ids, gain.events)
        return gain

    async def finish(self) -> OutputDelta:
        """Return the remaining output, at the end of the sequence."""
        if self.is_stopped:
            return OutputDelta(())
        gain = self._gain(await self._text.finish(), ends=True)
        if self._reasoning is not None:
            self._reasoning.finish(gain.events)
        return gain

    def _gain(self, piece: Piece, *, ends: bool) -> OutputDelta:
        """Return the output of a piece of text; ``ends``: it is the last one."""
        events = self._parsed(piece.text)
        if ends and self._parser is not None:
            last = self._parser.finish()
            if last:
                events = [*events, *self._checked(merged(last))]
        if self.calls and self._text.stops.is_active:
            for event in events:
                if isinstance(event, ToolCall):
                    self._arguments.clear()
                elif isinstance(event, Arguments):
                    self._arguments.append(event.text)
        return OutputDelta(events, piece.tokens)

    def _checked(self, events: Sequence[OutputEvent]) -> Sequence[OutputEvent]:
        """Give every call an id, and drop the first call above the limit and all that follows."""
        checked: list[OutputEvent] = []
        for event in events:
            if isinstance(event, ToolCall):
                if self.calls == self._max_calls:
                    self.is_stopped = True
                    self._parser = _Ignored()
                    break
                self.calls += 1
                event = structs.replace(event, call_id=new_call_id())
            checked.append(event)
        return checked


class _Ignored:
    """A parser that drops all text, after the last allowed call."""

    def feed(self, text: str) -> list[OutputEvent]:
        return []

    def finish(self) -> list[OutputEvent]:
        return []


class _VisibleTokens(NamedTuple):
    """The visible text of tokens.

    Attributes:
        hidden: ids of tokens without text.
        turning: ids of tokens in which reasoning may begin or end; None: any.
        start: makes the decoder of one sequence.
    """

    hidden: frozenset[int]
    turning: frozenset[int] | None
    start: Callable[[], TextStream]


class OutputFactory:
    """Makes a `ChoiceOutput` for each choice of a request."""

    def __init__(
        self,
        tokens: TokenTable,
        parsers: OutputParsers,
        decode: Callable[..., Awaitable[str]],
    ) -> None:
        """Make the factory of one model.

        Args:
            decode: decodes ids, for vocabularies whose tokens have no text of their own; takes
                ``skip_special_tokens``.
        """
        self._tokens = tokens
        self._parsers = parsers
        self._without_tools = OutputParsers(None, parsers.reasoning)
        self._decode_all = decode
        self._turning = self._find_turning()
        #: By the texts of the special tokens that are shown; None: all are.
        self._tables: dict[frozenset[str] | None, _VisibleTokens] = {}

    def output(
        self,
        request: GenerationRequest,
        prompt: str,
        prompt_tokens: int,
        *,
        is_trimmed: bool,
        verbose: Verbose | None,
    ) -> ChoiceOutput:
        """Make the output of one choice.

        ``is_trimmed``: the output follows a form, which does not begin with white space.
        ``verbose`` receives the raw text.
        """
        shown: frozenset[str] = frozenset()
        parser: Parser | None = None
        max_calls: int | None = None
        thinks = False
        if isinstance(request, ChatRequest):
            schemas = request.tools.schemas if request.tools.items else None
            parsers = self._parsers if schemas is not None else self._without_tools
            thinks = parsers.reasoning is not None
            if thinks or parsers.tool is not None:
                stream = parsers.start(tools=schemas, prompt=prompt)
                if is_trimmed:
                    parser = TrimmedStream(stream)
                else:
                    parser = stream if stream.tool is not None else stream.reasoning
                shown = parsers.special_tokens
            max_calls = None if request.parallel_tool_calls or schemas is None else 1
        visible = self._visible(shown if request.skip_special_tokens else None)
        stops = NO_STOPS
        if request.settings.stop_strings:
            include = request.include_stop_str_in_output
            stops = StopStrings(request.settings.stop_strings, include=include)
        return ChoiceOutput(
            ChoiceText(
                visible.start(),
                stops,
                echoed=prompt_tokens if request.settings.echo else 0,
            ),
            parser,
            max_calls=max_calls,
            raw=None if verbose is None else RawText(self._visible(None).start(), verbose),
            reasoning=ReasoningCount(visible.turning, visible.hidden) if thinks else None,
        )

    def _visible(self, shown: frozenset[str] | None) -> _VisibleTokens:
        """Return the table for these texts of special tokens that are shown; None: all are."""
        table = self._tables.get(shown)
        if table is None:
            hidden = frozenset[int]() if shown is None else self._tokens.hidden(shown)
            turning = None if self._turning is None else self._turning - hidden
            start: Callable[[], TextStream]
            if self._tokens.is_exact:
                pieces = self._tokens.visible(hidden)
                start = partial(TableText, pieces, strips_space=self._tokens.strips_space)
            else:
                start = partial(DecodedText, partial(self._decode, hidden))
            table = self._tables[shown] = _VisibleTokens(hidden, turning, start)
        return table

    def _find_turning(self) -> frozenset[int] | None:
        """Return the tokens in which reasoning may begin or end; None if that is unknown."""
        reasoning = self._parsers.reasoning
        if reasoning is None or not self._tokens.is_exact:
            return None
        tags = (*reasoning.start_tags, reasoning.end_tag, *reasoning.special_tokens)
        return turning_tokens(tags, self._tokens.pieces)

    async def _decode(self, hidden: frozenset[int], ids: Sequence[int]) -> str:
        if len(hidden) == len(self._tokens.special):
            return await self._decode_all(list(ids), skip_special_tokens=True)
        shown = [each for each in ids if each not in hidden]
        return await self._decode_all(shown, skip_special_tokens=False) if shown else ""
