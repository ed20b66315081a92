"""`ChoiceOutput`: turns the tokens of one choice into events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, structs

from calculators.language.call_id import new_call_id
from calculators.language.events import Arguments, Content, OutputEvent, ToolCall
from calculators.language.json_object import is_object
from calculators.llm.answers.reasoning_count import ReasoningCount
from calculators.llm.answers.response import Verbose
from calculators.llm.parsers.output_parsers import merged
from calculators.llm.text.choice_text import ChoiceText, Piece, ScoredToken
from calculators.llm.text.text_stream import TextStream


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
