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
