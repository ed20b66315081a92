"""`ChoiceText`: the text of one choice, with stop strings and log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from calculators.llm.text.stop_strings import StopStrings
from calculators.llm.text.text_stream import TextStream


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


class ChoiceText:
    """Turns the tokens of one sequence into pieces of text.

    Attributes:
        completion_tokens: the number of tokens so far, without an echoed prompt.
        echoed: the number of tokens of an echoed prompt that are still to come.
        has_stops: can a stop string end or hold back the text?
    """

    __slots__ = (
        "_held",
        "_length",
        "_shown",
        "_stops",
        "_stream",
        "completion_tokens",
        "echoed",
        "has_stops",
    )

    def __init__(self, stream: TextStream, stops: StopStrings, *, echoed: int = 0) -> None:
        """``echoed``: the number of first tokens that are the prompt's, without stop strings."""
        self._stream = stream
        self._stops = stops
        self.has_stops = stops.is_active
        self.echoed = echoed
        self._held: list[_Held] = []
        #: The number of characters that the tokens so far have made, and the number returned.
        self._length = 0
        self._shown = 0
        self.completion_tokens = 0

    @property
    def is_stopped(self) -> bool:
        """Has a stop string ended the text?"""
        return self._stops.matched is not None

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the text, if one did."""
        return self._stops.matched

    async def feed_plain(self, ids: Sequence[int]) -> str:
        """Feed tokens without stop strings, echo and log-probabilities; return only the text."""
        self.completion_tokens += len(ids)
        return await self._stream.feed(ids)

    async def feed(self, ids: Sequence[int], logprobs: Sequence[float] = ()) -> Piece:
        """Return the text that these tokens make certain. ``logprobs``: one per token, or empty."""
        if self.echoed:
            return await self._feed_echo(ids, logprobs)
        if not logprobs and not self.has_stops:
            return Piece(await self.feed_plain(ids))
        # One by one: tokens after a stop string do not belong to the answer.
        shown = ""
        for place, token_id in enumerate(ids):
            if self._stops.matched is not None:
                break
            self.completion_tokens += 1
            if logprobs:
                shown += self._stops.feed(await self._feed_scored(token_id, logprobs[place]))
            else:
                shown += self._stops.feed(await self._stream.feed([token_id]))
        return self._piece(shown)

    async def _feed_echo(self, ids: Sequence[int], logprobs: Sequence[float]) -> Piece:
        count = min(self.echoed, len(ids))
        self.echoed -= count
        text = ""
        if logprobs:
            for token_id, logprob in zip(ids[:count], logprobs, strict=False):
                text += await self._feed_scored(token_id, logprob)
        else:
            text = await self._stream.feed(ids[:count])
        prompt = self._piece(text)
        if count == len(ids):
            return prompt
        rest = await self.feed(ids[count:], logprobs[count:])
        return Piece(prompt.text + rest.text, prompt.tokens + rest.tokens)

    async def _feed_scored(self, token_id: int, logprob: float) -> str:
        known = logprob if math.isfinite(logprob) and logprob <= 0 else None
        self._held.append(_Held(ScoredToken(token_id, known), self._length))
        text = await self._stream.feed([token_id])
        self._length += len(text)
        return text

    async def finish(self) -> Piece:
        """Return the remaining text, at the end of the sequence."""
        if self._stops.matched is not None:
            return Piece("")
        rest = await self._stream.finish()
        if not self.has_stops and not self._held:
            return Piece(rest)
        text = self._stops.feed(rest)
        if self._stops.matched is None:
            text += self._stops.finish()
        piece = self._piece(text)
        if self._stops.matched is not None:
            return piece
        piece.tokens.extend(held.token for held in self._held)
        self._held.clear()
        return piece

    def _piece(self, text: str) -> Piece:
        self._shown += len(text)
        count = 0
        while count < len(self._held) and self._held[count].start < self._shown:
            count += 1
        tokens = [held.token for held in self._held[:count]]
        del self._held[:count]
        return Piece(text, tokens)
