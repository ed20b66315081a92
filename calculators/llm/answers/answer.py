"""`Answer`: the choices of one request while the engine generates them, as deltas.

An answer reads the tokens of its `EngineGeneration`, gives each `Choice` its own, and returns the
events as packets: `Begun`, `Gained` for each group of events, `Finished` for each choice, `Ended`.
Choices that would be equal are generated once and copied. `parts_of` divides a prompt into the
requests that the engine gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final

from msgspec import structs

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import GenerationRecord
from calculators.language.delta import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    TokenLogprob,
    Usage,
    Verbose,
)
from calculators.language.events import Event, SpeechSamples
from calculators.llm.answers.choice import Choice, ScoredToken
from calculators.llm.engine.engine import EngineGeneration
from calculators.llm.engine.messages import Add, NewTokens
from graph_runtime import Cancelled

_SEED_RANGE: Final = 2**32
_NOTHING: Final = Deltas()


class Answer:
    """The choices of one request, while their tokens arrive: a `DeltaSource`.

    Args:
        begun: the first item, whose ``usage`` has the number of tokens of all prompts and whose
            ``stop`` is made here.
        choices: those that the engine makes, prompt by prompt.
        copies: the number of equal choices of the answer for each choice of the engine.
        pieces: the bytes of each token by id, for log-probabilities.
        shown_prompt: the first choice's, if prompt and raw text are shown beside the answer.
        record: receives the times of the first token and the end, counts and finish reasons.
        logs_raw_text: the record receives the raw text of each choice.

    Attributes:
        is_finished: every choice has ended.
    """

    def __init__(
        self,
        begun: Begun,
        generation: EngineGeneration,
        choices: Sequence[Choice],
        *,
        copies: int,
        pieces: Sequence[bytes],
        shown_prompt: str | None = None,
        record: GenerationRecord | None = None,
        logs_raw_text: bool = False,
    ) -> None:
        request = begun.request
        self._begun: Begun | None = begun
        self._request = request
        self._wants_logprobs = request.wants_logprobs
        self._wants_ids = request.returns_token_ids
        self._has_running_usage = request.has_running_usage
        self._generation = generation
        self._choices = choices
        self._pieces = pieces
        self._prompt_tokens = begun.usage.prompt_tokens
        self._heard_tokens = begun.usage.heard_tokens
        self._spoken_tokens: int | None = None if request.speech is None else 0
        self._shown_prompt = shown_prompt
        self._record = record
        if record is not None:
            record.choices = choices
        self._logs_raw_text = logs_raw_text
        #: The choices of the answer by choice of the engine.
        self._targets: list[Sequence[int]] = []
        for number in range(len(choices)):
            self._targets.append(range(number * copies, (number + 1) * copies))
        self._open = set(range(len(choices)))
        self.is_finished = not choices
        self._is_stopped = False
        #: One choice without log-probabilities and details, like nearly all requests.
        self._is_plain = (
            len(choices) == copies == 1
            and not request.wants_logprobs
            and not request.returns_token_ids
            and not request.has_running_usage
            and request.speech is None
            and choices[0].is_plain
        )

    def cancel(self) -> None:
        """Cancel the generation: the answer has no reader any more."""
        self._generation.cancel()
        if self._record is not None and not self._record.ended:
            self._note_end(self._record, self._usage())

    def stop(self) -> None:
        """End the generation in the engine; the next items are the end of the answer."""
        if self._open and not self._is_stopped:
            self._is_stopped = True
            self._generation.cancel()

    async def read(self) -> Deltas:
        """Wait for new tokens and return what they make; empty if there is nothing to show.

        A `RequestError` of the generation is returned as `Failed`.

        Raises:
            Cancelled: the client has left.
        """
        try:
            gained = () if self._is_stopped else await self._generation.read()
        except RequestError as error:
            self._open.clear()
            self.is_finished = True
            return Deltas((Failed(error, self._request),))
        except Cancelled:
            if not self._is_stopped:
                raise
            gained = ()
        begun = self._begun
        if begun is not None:
            self._begun = None
            usage = self._usage() if self._has_running_usage else begun.usage
            # Not earlier: an answer that leads back to itself would wait for the garbage collector.
            begun = structs.replace(begun, usage=usage, stop=self.stop)
        if self._is_plain and len(gained) == 1:
            tokens = gained[0][1]
            if tokens.finish_reason is None and 0 in self._open:
                choice = self._choices[0]
                made = await choice.feed_plain(tokens.token_ids)
                events: Sequence[Event] = choice.with_call_ends(made) if choice.calls else made
                if begun is None:
                    return Deltas((Gained(0, events),)) if events else _NOTHING
                if self._record is not None:
                    self._record.first_token = perf_counter_ns()
                return Deltas((begun, Gained(0, events)) if events else (begun,))
        items: list[Delta] = []
        if begun is not None:
            items.append(begun)
        for number, tokens in gained if len(gained) == 1 else _merged(gained):
            items += await self._items(number, tokens)
        if self._is_stopped:
            for number in sorted(self._open):
                items += [Finished(target, FinishReason.STOP) for target in self._targets[number]]
            self._open.clear()
        if not self._open:
            self.is_finished = True
            usage = self._usage()
            if self._record is not None and not self._record.ended:
                self._note_end(self._record, usage)
            items.append(Ended(usage))
        return Deltas(items)

    async def _items(self, number: int, tokens: NewTokens) -> list[Delta]:
        """Return the items of new tokens of one choice of the engine."""
        if number not in self._open:
            return []
        record = self._record
        if record is not None and not record.first_token:
            record.first_token = perf_counter_ns()
        # With images only the engine knows the number, and only at the end.
        self._prompt_tokens = max(self._prompt_tokens, tokens.prompt_tokens)
        choice, targets = self._choices[number], self._targets[number]
        count, echoed = choice.completion_tokens, choice.echoed
        gain = await choice.take(tokens, scored=self._wants_logprobs)
        reason = choice.finish_reason
        if reason is not None:
            self._open.discard(number)
            if tokens.finish_reason is None:
                # A stop string, which the engine does not look for.
                self._generation.cancel_choice(number)
            if record is not None:
                record.finish_reasons += [str(reason)] * len(targets)
        events: Sequence[Event] = gain.events
        if choice.calls:
            events = choice.with_call_ends(gain.events)
        # A call is not for ears: what the model makes of its text is left out.
        if tokens.speech and not choice.calls:
            assert self._spoken_tokens is not None
            self._spoken_tokens += tokens.speech_tokens * len(targets)
            events = [*events, SpeechSamples(tokens.speech)]
        logprobs = self._logprobs(gain.tokens) if self._wants_logprobs else None
        ids: Sequence[int] = ()
        if self._wants_ids:
            # Tokens of an echoed prompt, and tokens after a stop string, are not the completion's.
            first = echoed - choice.echoed
            ids = tokens.token_ids[first : first + choice.completion_tokens - count]
        usage = self._usage() if self._has_running_usage else None
        items: list[Delta] = []
        if events or gain.tokens or ids or usage is not None:
            items += [Gained(target, events, logprobs, ids, usage) for target in targets]
        if reason is not None:
            verbose: Verbose | None = None
            if self._shown_prompt is not None:
                verbose = Verbose(self._shown_prompt, self._choices[0].raw_text)
            items += [Finished(target, reason, choice.stop_string, verbose) for target in targets]
        return items

    def _note_end(self, record: GenerationRecord, usage: Usage) -> None:
        record.ended = perf_counter_ns()
        record.prompt_tokens = usage.prompt_tokens
        record.completion_tokens = usage.completion_tokens
        record.shared_tokens = self._generation.shared_tokens or 0
        record.choices = ()
        if self._logs_raw_text:
            record.answers = [choice.raw_text for choice in self._choices]

    def _logprobs(self, tokens: Sequence[ScoredToken]) -> list[TokenLogprob]:
        scored: list[TokenLogprob] = []
        for token in tokens:
            known = token.token_id < len(self._pieces)
            piece = self._pieces[token.token_id] if known else b""
            scored.append(TokenLogprob(piece.decode(errors="replace"), piece, token.logprob))
        return scored

    def _usage(self) -> Usage:
        made, thought, thinks = 0, 0, False
        for choice, targets in zip(self._choices, self._targets, strict=True):
            made += choice.completion_tokens * len(targets)
            reasoning = choice.reasoning_tokens
            if reasoning is not None:
                thinks = True
                thought += reasoning * len(targets)
        return Usage(
            self._prompt_tokens,
            # As OpenAI counts them, tokens of sound are tokens of the completion.
            made + (self._spoken_tokens or 0),
            cached_tokens=self._generation.shared_tokens,
            reasoning_tokens=thought if thinks else None,
            heard_tokens=self._heard_tokens,
            spoken_tokens=self._spoken_tokens,
        )


def parts_of(prompt: Add) -> list[Add]:
    """Return the engine's requests for one prompt: one request, or one per sample.

    The engine's own parallel sampling would share the cache of the prompt, but returns nothing
    before all samples are done (openvino-genai 2026.4). So each sample is a request with its own
    seed. The engine does not get the stop strings either: it stops before one that ends in a space
    is complete, and `Choice` cuts the text anyway. Only beam search, which returns nothing
    before its end, needs them.
    """
    settings = prompt.settings
    is_single = settings.num_return_sequences == 1 and not settings.stop_strings
    if settings.num_beams > 1 or is_single:
        return [prompt]
    seed, speech = settings.rng_seed, prompt.speech
    return [
        structs.replace(
            prompt,
            settings=structs.replace(
                settings,
                num_return_sequences=1,
                stop_strings=(),
                rng_seed=None if seed is None else (seed + number) % _SEED_RANGE,
            ),
            speech=speech and structs.replace(speech, seed=(speech.seed + number) % _SEED_RANGE),
        )
        for number in range(settings.num_return_sequences)
    ]


def _merged(gained: Sequence[tuple[int, NewTokens]]) -> list[tuple[int, NewTokens]]:
    """Merge the tokens of each choice, in the order of the choices' first tokens."""
    by_choice: dict[int, NewTokens] = {}
    for number, tokens in gained:
        before = by_choice.get(number)
        by_choice[number] = tokens if before is None else before.followed_by(tokens)
    return list(by_choice.items())
