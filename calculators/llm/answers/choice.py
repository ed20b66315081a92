"""`Choice`: one answer of the model to one prompt, from the engine's tokens to events.

Tokens pass through three stages, each of which may hold back what later tokens can change:

1. the detokenizer gives the text that is certain (half a character is not);
2. `StopStrings` hold back text that may become a stop string, and end the choice at one;
3. the parser tells reasoning, content and calls of tools apart; without one all text is content.

How tokens are grouped changes neither text, events nor counts. Most choices have no stop strings,
no echo, no log-probabilities and no limit of calls: `Choice.feed_plain` is the short way for these
(decision 0048), `Choice.take` is for all.

`ChoiceFactory` makes the choices of one model: it knows the table of its tokens and its parsers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct, structs

from calculators.language.delta import FinishReason
from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    OutputEvent,
    Reasoning,
    ToolCall,
    is_object,
    merged,
    new_call_id,
)
from calculators.llm.detokenizer import Detokenizer, TableDetokenizer, TokenTable, WindowDetokenizer
from calculators.llm.engine.messages import NewTokens
from calculators.llm.parsers.output_parsers import AnswerParser, OutputParsers
from calculators.llm.requests.checked_request import CheckedRequest
from calculators.llm.requests.completions_request import ChatRequest


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token as ``logprobs`` shows it. ``logprob``: None if the engine has none."""

    token_id: int
    logprob: float | None


@dataclass(slots=True)
class _HeldToken:
    """A token whose text is not certain yet, and the number of characters before it."""

    token: ScoredToken
    start: int


class ChoiceDelta(Struct, frozen=True):
    """The events of some tokens of a choice, and the tokens with their log-probabilities."""

    events: Sequence[OutputEvent]
    tokens: Sequence[ScoredToken] = ()


class Choice:
    """The text, the events and the end of one choice.

    Attributes:
        completion_tokens: the number of tokens so far, without an echoed prompt.
        echoed: the number of tokens of an echoed prompt that are still to come; these have no stop
            strings.
        calls: the number of calls of tools that have begun.
        is_plain: tokens may be fed with `feed_plain`: only the model can end the choice.
        is_stopped: the choice ended before the model did, by a stop string or by a call beyond
            the allowed number.
        raw_text: the text so far with special tokens and stop strings; "" unless it is kept.
        finish_reason: why the choice ended; None while `take` may get more tokens.
    """

    __slots__ = (
        "_arguments",
        "_ends",
        "_held",
        "_length",
        "_max_calls",
        "_open_call",
        "_parser",
        "_raw",
        "_reasoning",
        "_shown",
        "_stops",
        "_stream",
        "calls",
        "completion_tokens",
        "echoed",
        "finish_reason",
        "is_plain",
        "is_stopped",
        "raw_text",
    )

    def __init__(
        self,
        stream: Detokenizer,
        stops: StopStrings | None = None,
        parser: AnswerParser | None = None,
        *,
        echoed: int = 0,
        max_calls: int | None = None,
        raw: Detokenizer | None = None,
        reasoning: ReasoningCount | None = None,
        ends: Collection[int] = (),
    ) -> None:
        """Make a choice without tokens.

        Args:
            stops: the strings that end the choice; None for no strings.
            echoed: the number of tokens of the prompt that come before the choice's own.
            max_calls: the choice ends where one more call would begin; None: at none.
            raw: makes `raw_text`; must show special tokens.
            reasoning: counts the tokens of reasoning; without it their number is unknown.
            ends: tokens that are not of the text where the choice ends with one.
        """
        stops = stops or _NO_STOPS
        self._stream = stream
        self._stops = stops
        self._parser = parser
        self._max_calls = max_calls
        self._raw = raw
        self._reasoning = reasoning
        self._ends = ends
        #: Pieces of the last call's arguments, where a stop string may cut them.
        self._arguments: list[str] = []
        #: Pieces of the arguments of the call that has not ended; see `with_call_ends`.
        self._open_call: list[str] | None = None
        #: Tokens with log-probabilities whose text is not certain yet, the number of characters
        #: that the tokens so far have made, and the number that was returned.
        self._held: list[_HeldToken] = []
        self._length = 0
        self._shown = 0
        self.raw_text = ""
        self.echoed = echoed
        self.completion_tokens = 0
        self.calls = 0
        self.is_plain = not stops.is_active and max_calls is None and raw is None and not echoed
        self.is_stopped = False
        self.finish_reason: FinishReason | None = None

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the choice, if one did."""
        return self._stops.matched

    @property
    def reasoning_tokens(self) -> int | None:
        """The number of tokens that were reasoning; None if they are not counted."""
        return None if self._reasoning is None else self._reasoning.count

    # From tokens to events -----------------------------------------------------------------------

    async def feed_plain(self, ids: Sequence[int]) -> Sequence[OutputEvent]:
        """Feed tokens when the choice `is_plain`, without log-probabilities; return the events."""
        reasoning = self._reasoning
        if reasoning is None:
            self.completion_tokens += len(ids)
            return self._parsed(await self._stream.feed(ids))
        gained: list[OutputEvent] = []
        while ids:
            count = len(ids) if len(ids) < 2 else reasoning.steady(ids)
            part, ids = ids[:count], ids[count:]
            self.completion_tokens += count
            events = self._parsed(await self._stream.feed(part))
            reasoning.add(part, events, is_inside=not events and self._is_thinking)
            if not ids and not gained:
                return events
            gained += events
        return merged(gained)

    async def take(self, tokens: NewTokens, *, scored: bool) -> ChoiceDelta:
        """Return what new tokens of the engine add, and set `finish_reason` if they are the last.

        ``scored``: with the log-probabilities that the engine has reported.
        """
        ids, logprobs = tokens.token_ids, tokens.logprobs if scored else []
        if self._ends and tokens.finish_reason is not None and ids and ids[-1] in self._ends:
            self.completion_tokens += 1
            ids, logprobs = ids[:-1], logprobs[: len(ids) - 1]
        gain = await self.feed(ids, logprobs)
        if self.is_stopped:
            ended = FinishReason.STOP
        elif tokens.finish_reason is None:
            return gain
        else:
            rest = await self.finish()
            gain = ChoiceDelta([*gain.events, *rest.events], [*gain.tokens, *rest.tokens])
            ended = finish_reason(tokens.finish_reason)
        if ended is FinishReason.STOP and self.calls and not self._has_cut_call():
            ended = FinishReason.TOOL_CALLS
        self.finish_reason = ended
        return gain

    async def feed(self, ids: Sequence[int], logprobs: Sequence[float] = ()) -> ChoiceDelta:
        """Return the output that these tokens make certain. ``logprobs``: one each, or empty."""
        if self._raw is not None:
            self.raw_text += await self._raw.feed(ids)
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
        return ChoiceDelta(merged(gained), tokens)

    async def finish(self) -> ChoiceDelta:
        """Return the remaining output, at the end of the sequence."""
        if self.is_stopped:
            return ChoiceDelta(())
        text = await self._stream.finish()
        tokens: list[ScoredToken] = []
        if self._stops.is_active or self._held:
            text = self._stops.feed(text)
            if self._stops.matched is None:
                text += self._stops.finish()
            tokens = self._certain_tokens(text)
            if self._stops.matched is None:
                # Tokens without a text of their own at the end.
                tokens += [held.token for held in self._held]
                self._held.clear()
        events = self._events(text, ends=True)
        if self._reasoning is not None:
            self._reasoning.finish(events)
        return ChoiceDelta(events, tokens)

    def _steady(self, ids: Sequence[int]) -> int:
        """Return how many of the tokens, from the first on, can be fed together; at least one."""
        if self._reasoning is None:
            return len(ids)
        return 1 if self._stops.is_active else self._reasoning.steady(ids)

    @property
    def _is_thinking(self) -> bool:
        return self._parser is not None and self._parser.is_thinking

    async def _feed(self, ids: Sequence[int], logprobs: Sequence[float]) -> ChoiceDelta:
        text, tokens = await self._text_of(ids, logprobs)
        ends = self._stops.matched is not None and not self.is_stopped
        events = self._events(text, ends=ends)
        self.is_stopped |= ends
        if self._reasoning is not None and ids:
            self._reasoning.add(ids, events, is_inside=not events and self._is_thinking)
        return ChoiceDelta(events, tokens)

    # From tokens to text -------------------------------------------------------------------------

    async def _text_of(
        self, ids: Sequence[int], logprobs: Sequence[float]
    ) -> tuple[str, list[ScoredToken]]:
        """Return the text that tokens make certain, and the tokens of which all text is."""
        text = ""
        tokens: list[ScoredToken] = []
        if self.echoed:
            count = min(self.echoed, len(ids))
            self.echoed -= count
            prompt, ids = ids[:count], ids[count:]
            if logprobs:
                for token_id, logprob in zip(prompt, logprobs, strict=False):
                    text += await self._scored_text(token_id, logprob)
                logprobs = logprobs[count:]
            else:
                text = await self._stream.feed(prompt)
            tokens = self._certain_tokens(text)
            if not ids:
                return text, tokens
        if not logprobs and not self._stops.is_active:
            self.completion_tokens += len(ids)
            return text + await self._stream.feed(ids), tokens
        # One by one: tokens after a stop string do not belong to the answer.
        shown = ""
        for place, token_id in enumerate(ids):
            if self._stops.matched is not None:
                break
            self.completion_tokens += 1
            if logprobs:
                shown += self._stops.feed(await self._scored_text(token_id, logprobs[place]))
            else:
                shown += self._stops.feed(await self._stream.feed([token_id]))
        return text + shown, tokens + self._certain_tokens(shown)

    async def _scored_text(self, token_id: int, logprob: float) -> str:
        known = logprob if math.isfinite(logprob) and logprob <= 0 else None
        self._held.append(_HeldToken(ScoredToken(token_id, known), self._length))
        text = await self._stream.feed([token_id])
        self._length += len(text)
        return text

    def _certain_tokens(self, text: str) -> list[ScoredToken]:
        """Return the held tokens that begin before the end of ``text``, the next that is shown."""
        self._shown += len(text)
        count = 0
        while count < len(self._held) and self._held[count].start < self._shown:
            count += 1
        tokens = [held.token for held in self._held[:count]]
        del self._held[:count]
        return tokens

    # From text to events -------------------------------------------------------------------------

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

    def _events(self, text: str, *, ends: bool) -> Sequence[OutputEvent]:
        """Return the events of a piece of text; ``ends``: it is the last one."""
        events = self._parsed(text)
        if ends and self._parser is not None:
            last = self._parser.finish()
            if last:
                events = [*events, *self._checked(merged(last))]
        if self.calls and self._stops.is_active:
            for event in events:
                if isinstance(event, ToolCall):
                    self._arguments.clear()
                elif isinstance(event, Arguments):
                    self._arguments.append(event.text)
        return events

    def _checked(self, events: Sequence[OutputEvent]) -> Sequence[OutputEvent]:
        """Give every call an id, and drop the first call above the limit and all that follows."""
        checked: list[OutputEvent] = []
        for event in events:
            if isinstance(event, ToolCall):
                # `parallel_tool_calls: false` and `max_tool_calls` are kept here: the engine cannot
                # count calls.
                if self.calls == self._max_calls:
                    self.is_stopped = True
                    self._parser = _Ignored()
                    break
                self.calls += 1
                event = structs.replace(event, call_id=new_call_id())
            checked.append(event)
        return checked

    def _has_cut_call(self) -> bool:
        """Return whether a stop string ended the choice within the arguments of a call."""
        return self.stop_string is not None and not is_object("".join(self._arguments))

    # The ends of calls ---------------------------------------------------------------------------

    def with_call_ends(self, events: Sequence[OutputEvent]) -> Sequence[Event]:
        """Return the events of a choice with calls, and a `CallDone` after each call's arguments.

        A call ends before the next call, before text that is not only white space, and with its
        choice. White space alone ends none: models write it between the parts of a call.
        """
        ended: list[Event] = []
        for event in events:
            match event:
                case Arguments(text):
                    if self._open_call is not None:
                        self._open_call.append(text)
                case ToolCall():
                    self._end_call(ended)
                    self._open_call = []
                case Content(text) | Reasoning(text):
                    if not text.isspace():
                        self._end_call(ended)
            ended.append(event)
        if self.finish_reason is not None:
            self._end_call(ended)
        return ended

    def _end_call(self, events: list[Event]) -> None:
        """Append the end of the open call, if there is one."""
        if self._open_call is not None:
            text = "".join(self._open_call)
            self._open_call = None
            events.append(CallDone(text, is_object(text)))


#: A full cache counts as a length that is reached. A cancelled answer has no reader.
_OF_ENGINE: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "cache": FinishReason.LENGTH,
    "cancelled": FinishReason.STOP,
}


def finish_reason(engine_reason: str) -> FinishReason:
    """Translate a `calculators.llm.engine.messages.FinishReason` of the engine."""
    return _OF_ENGINE.get(engine_reason, FinishReason.STOP)


class _Ignored:
    """A parser that drops all text, after the last allowed call."""

    is_thinking = False

    def feed(self, text: str) -> list[OutputEvent]:
        return []

    def finish(self) -> list[OutputEvent]:
        return []


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


class LineRules(StopStrings):
    """Stop strings that also end the text where a line would, for the code that editors show.

    The text ends before a line, after its first one, that has less white space in front than
    ``least_indent``; empty lines count as long ones. It also ends after ``most_seconds``, counted
    from its first token, once it has a whole line. Then ``matched`` is "".
    """

    __slots__ = ("_began", "_has_line", "_indent", "_least", "_now", "_seconds", "_starts_line")

    def __init__(
        self,
        stops: Sequence[str],
        *,
        include: bool,
        least_indent: int,
        most_seconds: float,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``now``: returns seconds."""
        super().__init__(stops, include=include)
        self.is_active = True
        self._least = least_indent
        self._seconds = most_seconds
        self._now = now
        self._began: float | None = None
        #: White space at the beginning of a line whose first letter is not known yet.
        self._indent = ""
        self._starts_line = False
        self._has_line = False

    def feed(self, text: str) -> str:
        if self.matched is not None:
            return ""
        if self._began is None:
            self._began = self._now()
        shown = self._indented(super().feed(text))
        if self._has_line and self._seconds and self._now() - self._began > self._seconds:
            self._end()
        return shown

    def finish(self) -> str:
        rest = self._indented(super().finish())
        indent, self._indent = self._indent, ""
        return rest + indent

    def _end(self) -> None:
        if self.matched is None:
            self.matched = ""

    def _indented(self, text: str) -> str:
        """Return the text up to a line with too little in front."""
        text, self._indent = self._indent + text, ""
        kept = ""
        while text:
            if self._starts_line:
                rest = text.lstrip(" \t")
                if not rest and self.matched is None:
                    self._indent = text
                    return kept
                if rest and rest[0] not in "\r\n" and len(text) - len(rest) < self._least:
                    self.matched = ""
                    return kept
            line, end, text = text.partition("\n")
            kept += line + end
            self._starts_line = bool(end)
            self._has_line |= self._starts_line
        return kept


#: For choices that no string ends. Passes all text on, so all of them share it.
_NO_STOPS: Final = StopStrings(())


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of ``text`` with which ``stop`` begins."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


class ReasoningCount(Struct, eq=False):
    """Counts the tokens that made reasoning, from the events that tokens made.

    A token without an event of its own (half a character, a tag) counts with the next event. So the
    tag that begins the reasoning is part of it, and the tag that ends it is not, and the count does
    not depend on how many tokens are added at a time.

    Attributes:
        turning: ids of tokens that may begin a tag, or may stand before one; None: any.
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

    def add(
        self, ids: Sequence[int], events: Sequence[OutputEvent], *, is_inside: bool = False
    ) -> None:
        """Count one more token, or several that are `steady`, with the events that they made.

        ``is_inside``: they made none, and the text ends within reasoning: white space waits.
        """
        self.waiting += len(ids)
        if is_inside and ids[-1] not in self.hidden:
            self.count += self.waiting
            self.waiting = 0
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
    """Return the ids of the tokens whose text has the first letter of one of the tags, or is blank.

    These include tokens in which no tag begins: parsers of calls, whose tags mostly begin with the
    same letter, hold text back too, and white space before a tag.
    """
    blank = (token_id for token_id, piece in enumerate(pieces) if piece.isspace())
    turning = set(blank) if any(tags) else set()
    for letter in {tag[:1].encode() for tag in tags if tag}:
        turning.update(token_id for token_id, piece in enumerate(pieces) if letter in piece)
    return frozenset(turning)


class _VisibleTokens(NamedTuple):
    """The visible text of tokens.

    Attributes:
        hidden: ids of tokens without text.
        turning: ids of tokens in which reasoning may begin or end; None: any.
        start: makes the decoder of one sequence.
    """

    hidden: frozenset[int]
    turning: frozenset[int] | None
    start: Callable[[], Detokenizer]


class ChoiceFactory:
    """Makes a `Choice` for each choice of a request."""

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
        special = [tokens.pieces[each].decode(errors="replace") for each in tokens.special]
        #: The special tokens that parsers see, without tools and with them.
        self._shown = [parsers.shown(special, with_calls=each) for each in (False, True)]
        self._decode_all = decode
        self._turning = self._find_turning()
        #: By the texts of the special tokens that are shown; None: all are.
        self._tables: dict[frozenset[str] | None, _VisibleTokens] = {}

    def choice(
        self,
        request: CheckedRequest,
        prompt: str,
        prompt_tokens: int,
        *,
        keeps_space: bool,
        keeps_raw_text: bool,
        ends: Collection[int] = (),
    ) -> Choice:
        """Make one choice.

        ``keeps_space``: the answer follows a form that may begin with white space.
        ``keeps_raw_text``: see `Choice.raw_text`. ``ends``: see `Choice`; the answer fills in text.
        """
        shown: frozenset[str] = frozenset()
        parser: AnswerParser | None = None
        max_calls: int | None = None
        thinks = False
        if isinstance(request, ChatRequest):
            schemas = request.tools.schemas if request.tools.items else None
            parsers = self._parsers
            thinks = parsers.reasoning is not None
            if thinks or parsers.tool is not None:
                parser = parsers.start(
                    tools=schemas,
                    prompt=prompt,
                    keeps_space=keeps_space,
                    keeps_stops=not request.skip_special_tokens,
                )
                shown = self._shown[schemas is not None]
            max_calls = None if request.parallel_tool_calls or schemas is None else 1
        visible = self._visible(shown if request.skip_special_tokens else None)
        stream = visible.start()
        if ends and isinstance(stream, TableDetokenizer):
            # The space in front belongs to the text, as indentation does.
            stream.strips_space = False
        stops: StopStrings | None = None
        if request.least_indent or request.most_seconds:
            stops = LineRules(
                request.settings.stop_strings,
                include=request.include_stop_str_in_output,
                least_indent=request.least_indent,
                most_seconds=request.most_seconds,
            )
        elif request.settings.stop_strings:
            include = request.include_stop_str_in_output
            stops = StopStrings(request.settings.stop_strings, include=include)
        return Choice(
            stream,
            stops,
            parser,
            echoed=prompt_tokens if request.settings.echo else 0,
            max_calls=max_calls,
            raw=self._visible(None).start() if keeps_raw_text else None,
            reasoning=ReasoningCount(visible.turning, visible.hidden) if thinks else None,
            ends=ends,
        )

    def _visible(self, shown: frozenset[str] | None) -> _VisibleTokens:
        """Return the table for these texts of special tokens that are shown; None: all are."""
        table = self._tables.get(shown)
        if table is None:
            hidden = frozenset[int]() if shown is None else self._tokens.hidden(shown)
            turning = None if self._turning is None else self._turning - hidden
            start: Callable[[], Detokenizer]
            if self._tokens.is_exact:
                pieces = self._tokens.visible(hidden)
                start = partial(TableDetokenizer, pieces, strips_space=self._tokens.strips_space)
            else:
                start = partial(WindowDetokenizer, partial(self._decode, hidden))
            table = self._tables[shown] = _VisibleTokens(hidden, turning, start)
        return table

    def _find_turning(self) -> frozenset[int] | None:
        """Return the tokens in which reasoning may begin or end; None if that is unknown."""
        if self._parsers.reasoning is None or not self._tokens.is_exact:
            return None
        begins, ends = self._parsers.reasoning_marks
        return turning_tokens((*begins, *ends, *self._shown[False]), self._tokens.pieces)

    async def _decode(self, hidden: frozenset[int], ids: Sequence[int]) -> str:
        if len(hidden) == len(self._tokens.special):
            return await self._decode_all(list(ids), skip_special_tokens=True)
        shown = [each for each in ids if each not in hidden]
        return await self._decode_all(shown, skip_special_tokens=False) if shown else ""
