"""`ChoiceOutput`: one choice of an answer, from its tokens to what they mean."""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from calculators.llm.answers.reasoning_count import ReasoningCount
from calculators.llm.answers.response import Verbose
from calculators.llm.parsers.events import Content, OutputEvent, ToolCall
from calculators.llm.parsers.output_stream import merged
from calculators.llm.text.choice_text import ChoiceText, Piece, ScoredToken
from calculators.llm.text.text_stream import TextStream

_ID_CHARACTERS: Final = string.ascii_letters + string.digits
#: Mistral's templates take ids of exactly this length, and all others take any.
_ID_LENGTH: Final = 9


class Parser(Protocol):
    """Reader of the text of a choice; see `calculators.llm.parsers.output_stream.OutputStream`."""

    def feed(self, text: str) -> list[OutputEvent]: ...

    def finish(self) -> list[OutputEvent]: ...


class RawText:
    """Writes down what a model wrote, special tokens included."""

    __slots__ = ("_stream", "_verbose")

    def __init__(self, stream: TextStream, verbose: Verbose) -> None:
        """``stream``: one that shows special tokens."""
        self._stream = stream
        self._verbose = verbose

    async def feed(self, ids: Sequence[int]) -> None:
        self._verbose.content += await self._stream.feed(ids)


class OutputDelta(NamedTuple):
    """What tokens of a choice have made."""

    events: Sequence[OutputEvent]
    tokens: Sequence[ScoredToken] = ()


class ChoiceOutput:
    """Text by `ChoiceText`, its meaning by a parser; without one everything is content.

    Attributes:
        calls: of tools, begun so far.
        is_stopped: is it complete though the model has not ended: by a stop string, or because a
            second call began where only one is allowed?
    """

    __slots__ = (
        "_max_calls",
        "_parser",
        "_raw",
        "_reasoning",
        "_text",
        "calls",
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
        """``max_calls``: the choice ends where one more would begin.

        ``raw`` is told as well. ``reasoning`` counts; without it no tokens of reasoning are known.
        """
        self._text = text
        self._parser = parser
        self._max_calls = max_calls
        self._raw = raw
        self._reasoning = reasoning
        self.calls = 0
        self.is_stopped = False

    @property
    def is_plain(self) -> bool:
        """May tokens be fed by `feed_plain`: does nothing end it but the model?"""
        return not self._text.has_stops and self._max_calls is None and self._raw is None

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended it."""
        return self._text.stop_string

    @property
    def completion_tokens(self) -> int:
        """Tokens so far, without an echoed prompt."""
        return self._text.completion_tokens

    @property
    def reasoning_tokens(self) -> int | None:
        """Those of them that were reasoning; None when nothing counts them."""
        return None if self._reasoning is None else self._reasoning.count

    async def feed_plain(self, ids: Sequence[int]) -> Sequence[OutputEvent]:
        """`feed` when it `is_plain`, without echo and probabilities."""
        if self._reasoning is None:
            return self._parsed(await self._text.feed_plain(ids))
        gained: list[OutputEvent] = []
        while ids:
            count = self._reasoning.steady(ids)
            events = self._parsed(await self._text.feed_plain(ids[:count]))
            self._reasoning.add(ids[:count], events)
            gained += events
            ids = ids[count:]
        return merged(gained)

    def _parsed(self, text: str) -> Sequence[OutputEvent]:
        """Return the events that new text makes."""
        if not text:
            return ()
        if self._parser is None:
            return (Content(text),)
        return self._checked(self._parser.feed(text))

    def _steady(self, ids: Sequence[int]) -> int:
        """How many of them, from the first on, nobody has to tell apart; at least one."""
        if self._reasoning is None:
            return len(ids)
        return 1 if self._text.has_stops else self._reasoning.steady(ids)

    async def feed(self, ids: Sequence[int], logprobs: Sequence[float] = ()) -> OutputDelta:
        """What these tokens make certain. ``logprobs``: one each, or none at all."""
        if self._raw is not None:
            await self._raw.feed(ids)
        if len(ids) < 2 or self._steady(ids) == len(ids):
            return await self._feed(ids, logprobs)
        # In parts: which of them were reasoning can only be told apart so.
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
        gain = self._gain(await self._text.feed(ids, logprobs))
        if self._text.is_stopped and not self.is_stopped:
            self.is_stopped = True
            gain = self._ended(gain)
        if self._reasoning is not None and ids:
            self._reasoning.add(ids, gain.events)
        return gain

    async def finish(self) -> OutputDelta:
        """What is left when the sequence has ended."""
        if self.is_stopped:
            return OutputDelta(())
        gain = self._ended(self._gain(await self._text.finish()))
        if self._reasoning is not None:
            self._reasoning.finish(gain.events)
        return gain

    def _gain(self, piece: Piece) -> OutputDelta:
        return OutputDelta(self._parsed(piece.text), piece.tokens)

    def _ended(self, gain: OutputDelta) -> OutputDelta:
        if self._parser is None:
            return gain
        return OutputDelta([*gain.events, *self._checked(self._parser.finish())], gain.tokens)

    def _checked(self, events: Sequence[OutputEvent]) -> Sequence[OutputEvent]:
        """With an id for every call; without calls that are too many."""
        for event in events:
            if type(event) is ToolCall:
                break
        else:
            return events
        checked: list[OutputEvent] = []
        for event in events:
            if isinstance(event, ToolCall):
                if self.calls == self._max_calls:
                    self.is_stopped = True
                    self._parser = _Ignored()
                    break
                self.calls += 1
                event = event._replace(call_id=new_call_id())
            checked.append(event)
        return checked


class _Ignored:
    """After the last call that counts."""

    def feed(self, text: str) -> list[OutputEvent]:
        return []

    def finish(self) -> list[OutputEvent]:
        return []


def new_call_id() -> str:
    """Nine random letters and digits."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))
