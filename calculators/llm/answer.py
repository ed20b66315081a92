"""`Answer`: one request being answered, from the engine's tokens to text for the client."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from calculators.llm.answer_writers import AnswerWriter
from calculators.llm.engine.engine import Generation, Part
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.messages import Tokens
from calculators.llm.openai.finish_reason import FinishReason, finish_reason
from calculators.llm.openai.generation_request import GenerationRequest
from calculators.llm.openai.response import DONE, AnswerChoice
from calculators.llm.openai.token_logprob import TokenLogprob
from calculators.llm.openai.usage import Usage
from calculators.llm.servable import LlmServable
from calculators.llm.text.choice_text import ChoiceText, Piece, ScoredToken
from calculators.llm.text.stop_strings import StopStrings

_SEED_RANGE = 2**32


class Answer:
    """The choices of one request as their tokens come.

    Args:
        prompt_tokens: of each prompt, in order.
        parts: per prompt what the engine was given, see `parts_of`.
    """

    def __init__(
        self,
        request: GenerationRequest,
        servable: LlmServable,
        writer: AnswerWriter,
        generation: Generation,
        prompt_tokens: Sequence[int],
    ) -> None:
        self._request = request
        self._servable = servable
        self._writer = writer
        self._generation = generation
        self._prompt_tokens = sum(prompt_tokens)
        made = _made_per_prompt(request)
        #: Per choice of the engine the choices of the answer: several where all would be equal.
        self._targets = [
            list(range(first, first + request.n // made))
            for first in range(0, request.n * len(prompt_tokens), request.n // made)
        ]
        settings = request.settings
        self._texts = [
            ChoiceText(
                servable.text_stream(skip_special_tokens=request.skip_special_tokens),
                StopStrings(settings.stop_strings, include=request.include_stop_str_in_output),
                echoed=prompt_tokens[number // made] if settings.echo else 0,
            )
            for number in range(made * len(prompt_tokens))
        ]
        self._open = set(range(len(self._texts)))
        self._has_begun = False
        #: One choice without probabilities, as nearly all requests are.
        self._is_plain = self._targets == [[0]] and not writer.wants_logprobs and not settings.echo

    @property
    def is_finished(self) -> bool:
        """Has every choice ended?"""
        return not self._open

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self._generation.cancel()

    async def whole(self) -> str:
        """The body of a unary answer."""
        choices = [
            AnswerChoice("", FinishReason.STOP, [] if self._writer.wants_logprobs else None)
            for targets in self._targets
            for _ in targets
        ]
        while self._open:
            for number, tokens in _merged(await self._generation.read()):
                piece, reason = await self._take(number, tokens)
                logprobs = self._logprobs(piece.tokens)
                for target in self._targets[number]:
                    choice = choices[target]
                    choice.text += piece.text
                    if choice.logprobs is not None and logprobs is not None:
                        choice.logprobs += logprobs
                    if reason is not None:
                        choice.finish_reason = finish_reason(reason)
        return self._writer.whole(choices, self._usage())

    async def events(self) -> str:
        """The events of what is new, as text; waits for it. "" when there is nothing to show."""
        gained = await self._generation.read()
        writer = self._writer
        if self._is_plain and self._has_begun and len(gained) == 1:
            tokens = gained[0][1]
            if tokens.finish_reason is None and not self._texts[0].has_stops:
                text = await self._texts[0].feed_plain(tokens.token_ids)
                return writer.more(0, text, None) if text else ""
        written: list[str] = []
        if not self._has_begun:
            self._has_begun = True
            written += [writer.begin(target) for targets in self._targets for target in targets]
        for number, tokens in gained if len(gained) == 1 else _merged(gained):
            piece, reason = await self._take(number, tokens)
            if piece.text or piece.tokens:
                logprobs = self._logprobs(piece.tokens)
                for target in self._targets[number]:
                    written.append(writer.more(target, piece.text, logprobs))
            if reason is not None:
                for target in self._targets[number]:
                    written.append(writer.finish(target, finish_reason(reason)))
        if not self._open:
            if self._request.include_usage:
                written.append(writer.usage(self._usage()))
            written.append(DONE)
        return "".join(written)

    async def _take(self, number: int, tokens: Tokens) -> tuple[Piece, str | None]:
        """What tokens of a choice make, and why it ended if it did."""
        if number not in self._open:
            return Piece(""), None
        text = self._texts[number]
        scores = tokens.logprobs if self._writer.wants_logprobs else ()
        piece = await text.feed(tokens.token_ids, scores)
        reason: str | None = tokens.finish_reason
        if text.is_stopped:
            reason = "stop"
        elif reason is not None:
            rest = await text.finish()
            piece = Piece(piece.text + rest.text, piece.tokens + rest.tokens)
        if reason is not None:
            self._open.discard(number)
            if tokens.finish_reason is None:
                # A stop string, of which the engine does not know.
                self._generation.cancel_choice(number)
        return piece, reason

    def _logprobs(self, tokens: Sequence[ScoredToken]) -> list[TokenLogprob] | None:
        if not self._writer.wants_logprobs:
            return None
        pieces = self._servable.tokens.pieces
        scored: list[TokenLogprob] = []
        for token in tokens:
            piece = pieces[token.token_id] if token.token_id < len(pieces) else b""
            scored.append(TokenLogprob(piece.decode(errors="replace"), piece, token.logprob))
        return scored

    def _usage(self) -> Usage:
        return Usage(
            self._prompt_tokens,
            sum(
                text.completion_tokens * len(targets)
                for text, targets in zip(self._texts, self._targets, strict=True)
            ),
        )


def _made_per_prompt(request: GenerationRequest) -> int:
    """How many choices the engine makes of each prompt."""
    return request.settings.num_return_sequences


def parts_of(input_ids: bytes, settings: GenerationSettings) -> list[Part]:
    """What the engine is given for one prompt.

    Its own parallel sampling would share the prompt's cache, but shows nothing before all are done
    (openvino-genai 2026.4). So each sample is a request, with a seed of its own. It does not get
    the stop strings either: it stops before one that ends in a space is complete, and text is cut
    here in any case. Only beam search, which shows nothing before its end, has to know them.
    """
    if settings.num_beams > 1:
        return [Part(input_ids, settings)]
    seed = settings.rng_seed
    return [
        Part(
            input_ids,
            msgspec.structs.replace(
                settings,
                num_return_sequences=1,
                stop_strings=(),
                rng_seed=None if seed is None else (seed + number) % _SEED_RANGE,
            ),
        )
        for number in range(settings.num_return_sequences)
    ]


def _merged(gained: Sequence[tuple[int, Tokens]]) -> list[tuple[int, Tokens]]:
    """One entry per choice, in the order of their first tokens."""
    by_choice: dict[int, Tokens] = {}
    for number, tokens in gained:
        before = by_choice.get(number)
        by_choice[number] = tokens if before is None else before.followed_by(tokens)
    return list(by_choice.items())
