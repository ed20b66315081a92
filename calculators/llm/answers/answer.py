"""`Answer`: turns the engine's tokens for one request into text for the client."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns

import msgspec

from calculators.language.finish_reason import FinishReason
from calculators.language.token_logprob import TokenLogprob
from calculators.language.usage import Usage
from calculators.llm.answers.answer_writer import AnswerWriter
from calculators.llm.answers.choice_output import ChoiceOutput, OutputDelta
from calculators.llm.answers.engine_reason import finish_reason
from calculators.llm.answers.response import AnswerChoice, Verbose
from calculators.llm.engine.engine import Generation, Part
from calculators.llm.engine.messages import Tokens
from calculators.llm.requests.generation_request import GenerationRequest
from calculators.llm.text.choice_text import ScoredToken
from calculators.requests.http_payload import RequestError
from calculators.requests.request_record import GenerationRecord

_SEED_RANGE = 2**32


class Answer:
    """The choices of one request, while their tokens arrive.

    Args:
        outputs: one for each choice that the engine makes, prompt by prompt.
        pieces: the bytes of each token by id, for log-probabilities.
        prompt_tokens: the number of tokens of all prompts.
        record: receives the times of the first token and the end, counts and finish reasons.
        written: the raw text of each choice, for the record; empty if it keeps no texts.
    """

    def __init__(
        self,
        request: GenerationRequest,
        writer: AnswerWriter,
        generation: Generation,
        outputs: Sequence[ChoiceOutput],
        *,
        pieces: Sequence[bytes],
        prompt_tokens: int,
        record: GenerationRecord | None = None,
        written: Sequence[Verbose] = (),
    ) -> None:
        self._writer = writer
        self._generation = generation
        self._outputs = outputs
        self._pieces = pieces
        self._prompt_tokens = prompt_tokens
        self._record = record
        self._written = written
        # If all choices of a prompt would be equal, the engine makes one of them.
        copies = request.n // request.settings.num_return_sequences
        #: The choices of the answer by choice of the engine.
        self._targets = [
            list(range(number * copies, (number + 1) * copies)) for number in range(len(outputs))
        ]
        self._open = set(range(len(outputs)))
        self._has_begun = False
        self._details = writer.details
        #: One choice without log-probabilities and details, like nearly all requests.
        self._is_plain = (
            self._targets == [[0]]
            and not writer.wants_logprobs
            and writer.details is None
            and not request.settings.echo
            and outputs[0].is_plain
        )

    @property
    def is_finished(self) -> bool:
        """Has every choice ended?"""
        return not self._open

    def cancel(self) -> None:
        """Cancel the generation: the client is gone."""
        self._generation.cancel()
        self._note_end(self._usage())

    async def whole(self) -> str:
        """Wait for the end of all choices and return the body of a unary answer.

        Raises:
            RequestError: the generation failed.
        """
        choices = [
            AnswerChoice(logprobs=[] if self._writer.wants_logprobs else None)
            for targets in self._targets
            for _ in targets
        ]
        while self._open:
            for number, tokens in _merged(await self._generation.read()):
                ids: Sequence[int] = ()
                if self._details is None:
                    gain, reason = await self._take(number, tokens)
                else:
                    gain, reason, ids = await self._take_ids(number, tokens)
                logprobs = self._logprobs(gain.tokens)
                for target in self._targets[number]:
                    choice = choices[target]
                    choice.events += gain.events
                    choice.token_ids += ids
                    if choice.logprobs is not None and logprobs is not None:
                        choice.logprobs += logprobs
                    if reason is not None:
                        choice.finish_reason = reason
                        choice.stop_string = self._outputs[number].stop_string
        usage = self._usage()
        self._note_end(usage)
        return self._writer.whole(choices, usage)

    async def events(self) -> str:
        """Wait for new tokens and return their events as text; "" if there is nothing to show.

        Raises:
            RequestError: the generation failed, and the endpoint has no events of its own for that.
        """
        writer = self._writer
        try:
            gained = await self._generation.read()
        except RequestError as error:
            ending = writer.failure(error) if self._has_begun else ""
            if not ending:
                raise
            self._open.clear()
            return ending
        if self._is_plain and self._has_begun and len(gained) == 1:
            tokens = gained[0][1]
            if tokens.finish_reason is None and 0 in self._open:
                events = await self._outputs[0].feed_plain(tokens.token_ids)
                return writer.more(0, events, None) if events else ""
        written: list[str] = []
        details = self._details
        if not self._has_begun:
            self._has_begun = True
            if details is not None:
                details.usage = self._usage()
            written.append(writer.start(Usage(self._prompt_tokens, 0)))
            written += [writer.begin(target) for targets in self._targets for target in targets]
        for number, tokens in gained if len(gained) == 1 else _merged(gained):
            if details is None:
                gain, reason = await self._take(number, tokens)
            else:
                gain, reason, ids = await self._take_ids(number, tokens)
                for target in self._targets[number]:
                    details.add(target, ids)
                details.usage = self._usage()
            if gain.events or gain.tokens:
                logprobs = self._logprobs(gain.tokens)
                for target in self._targets[number]:
                    written.append(writer.more(target, gain.events, logprobs))
            if reason is not None:
                stop_string = self._outputs[number].stop_string
                for target in self._targets[number]:
                    written.append(writer.finish(target, reason, stop_string))
        if not self._open:
            usage = self._usage()
            self._note_end(usage)
            written.append(writer.end(usage))
        return "".join(written)

    async def _take(self, number: int, tokens: Tokens) -> tuple[OutputDelta, FinishReason | None]:
        """Return the output of new tokens of a choice, and the finish reason if it ended."""
        if number not in self._open:
            return OutputDelta(()), None
        record = self._record
        if record is not None and not record.first_token:
            record.first_token = perf_counter_ns()
        output = self._outputs[number]
        # With images only the engine knows the number, and only at the end.
        self._prompt_tokens = max(self._prompt_tokens, tokens.prompt_tokens)
        scores = tokens.logprobs if self._writer.wants_logprobs else ()
        gain = await output.feed(tokens.token_ids, scores)
        ended: str | None = tokens.finish_reason
        if output.is_stopped:
            ended = "stop"
        elif ended is not None:
            rest = await output.finish()
            gain = OutputDelta([*gain.events, *rest.events], [*gain.tokens, *rest.tokens])
        if ended is None:
            return gain, None
        self._open.discard(number)
        if tokens.finish_reason is None:
            # A stop string, which the engine does not look for.
            self._generation.cancel_choice(number)
        reason = finish_reason(ended)
        if reason is FinishReason.STOP and output.calls:
            reason = FinishReason.TOOL_CALLS
        if record is not None:
            record.finish_reasons += [str(reason)] * len(self._targets[number])
        return gain, reason

    async def _take_ids(
        self, number: int, tokens: Tokens
    ) -> tuple[OutputDelta, FinishReason | None, Sequence[int]]:
        """Do as `_take`, and return also the ids of the tokens that count as the completion's.

        Tokens of an echoed prompt, and tokens behind a stop string, do not count.
        """
        output = self._outputs[number]
        count, echoed = output.completion_tokens, output.echoed
        gain, reason = await self._take(number, tokens)
        first = echoed - output.echoed
        ids = tokens.token_ids[first : first + output.completion_tokens - count]
        return gain, reason, ids

    def _note_end(self, usage: Usage) -> None:
        record = self._record
        if record is None or record.ended:
            return
        record.ended = perf_counter_ns()
        record.prompt_tokens = usage.prompt_tokens
        record.completion_tokens = usage.completion_tokens
        record.answers = [text.content for text in self._written]

    def _logprobs(self, tokens: Sequence[ScoredToken]) -> list[TokenLogprob] | None:
        if not self._writer.wants_logprobs:
            return None
        scored: list[TokenLogprob] = []
        for token in tokens:
            known = token.token_id < len(self._pieces)
            piece = self._pieces[token.token_id] if known else b""
            scored.append(TokenLogprob(piece.decode(errors="replace"), piece, token.logprob))
        return scored

    def _usage(self) -> Usage:
        made, thought, thinks = 0, 0, False
        for output, targets in zip(self._outputs, self._targets, strict=True):
            made += output.completion_tokens * len(targets)
            reasoning = output.reasoning_tokens
            if reasoning is not None:
                thinks = True
                thought += reasoning * len(targets)
        return Usage(self._prompt_tokens, made, reasoning_tokens=thought if thinks else None)


def parts_of(prompt: Part) -> list[Part]:
    """Return the engine's requests for one prompt: one request, or one per sample.

    The engine's own parallel sampling would share the cache of the prompt, but returns nothing
    before all samples are done (openvino-genai 2026.4). So each sample is a request with its own
    seed. The engine does not get the stop strings either: it stops before one that ends in a space
    is complete, and `ChoiceText` cuts the text anyway. Only beam search, which returns nothing
    before its end, needs them.
    """
    settings = prompt.settings
    is_single = settings.num_return_sequences == 1 and not settings.stop_strings
    if settings.num_beams > 1 or is_single:
        return [prompt]
    seed = settings.rng_seed
    return [
        prompt._replace(
            settings=msgspec.structs.replace(
                settings,
                num_return_sequences=1,
                stop_strings=(),
                rng_seed=None if seed is None else (seed + number) % _SEED_RANGE,
            )
        )
        for number in range(settings.num_return_sequences)
    ]


def _merged(gained: Sequence[tuple[int, Tokens]]) -> list[tuple[int, Tokens]]:
    """Merge the tokens of each choice, in the order of the choices' first tokens."""
    by_choice: dict[int, Tokens] = {}
    for number, tokens in gained:
        before = by_choice.get(number)
        by_choice[number] = tokens if before is None else before.followed_by(tokens)
    return list(by_choice.items())
