"""`Answer`: turns the engine's tokens for one request into deltas."""

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
    Gained,
)
from calculators.language.delta import Verbose as ShownVerbose
from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    OutputEvent,
    Reasoning,
    ToolCall,
)
from calculators.language.finish_reason import FinishReason
from calculators.language.json_object import is_object
from calculators.language.token_logprob import TokenLogprob
from calculators.language.usage import Usage
from calculators.llm.answers.choice import ChoiceOutput, OutputDelta, ScoredToken
from calculators.llm.answers.response import Verbose
from calculators.llm.engine.engine import Generation, Part
from calculators.llm.engine.messages import Tokens
from graph_runtime import Cancelled


class CallEnds:
    """Puts a `CallDone` after the last arguments of each call.

    A call ends before the next call, before text that is not only white space, and with its choice.
    White space alone ends none: models write it between the parts of a call.
    """

    __slots__ = ("_arguments",)

    def __init__(self) -> None:
        #: Pieces of the arguments of the call that has not ended.
        self._arguments: list[str] | None = None

    def add(self, events: Sequence[OutputEvent]) -> Sequence[Event]:
        """Return the events with the ends of calls between them."""
        ended: list[Event] = []
        for event in events:
            match event:
                case Arguments(text):
                    if self._arguments is not None:
                        self._arguments.append(text)
                case ToolCall():
                    ended += self.finish()
                    self._arguments = []
                case Content(text) | Reasoning(text):
                    if self._arguments is not None and not text.isspace():
                        ended += self.finish()
            ended.append(event)
        return ended

    def finish(self) -> Sequence[Event]:
        """Return the end of the open call, if there is one."""
        if self._arguments is None:
            return ()
        text = "".join(self._arguments)
        self._arguments = None
        return (CallDone(text, is_object(text)),)


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


_SEED_RANGE: Final = 2**32
_NOTHING: Final = Deltas()


class Answer:
    """The choices of one request, while their tokens arrive: a `DeltaSource`.

    Args:
        begun: the first item, whose ``usage`` has the number of tokens of all prompts and whose
            ``stop`` is made here.
        outputs: one for each choice that the engine makes, prompt by prompt.
        copies: the number of equal choices of the answer for each choice of the engine.
        pieces: the bytes of each token by id, for log-probabilities.
        echoes: choices begin with their prompts.
        verbose: prompt and raw text of the first choice, if they are shown.
        record: receives the times of the first token and the end, counts and finish reasons.
        written: the raw text of each choice, for the record; empty if it keeps no texts.

    Attributes:
        is_finished: every choice has ended.
    """

    def __init__(
        self,
        begun: Begun,
        generation: Generation,
        outputs: Sequence[ChoiceOutput],
        *,
        copies: int,
        pieces: Sequence[bytes],
        echoes: bool = False,
        verbose: Verbose | None = None,
        record: GenerationRecord | None = None,
        written: Sequence[Verbose] = (),
    ) -> None:
        request = begun.request
        self._begun: Begun | None = begun
        self._request = request
        self._wants_logprobs = request.wants_logprobs
        self._wants_ids = request.returns_token_ids
        self._has_running_usage = request.has_running_usage
        self._generation = generation
        self._outputs = outputs
        #: By choice of the engine, from its first call on.
        self._call_ends: dict[int, CallEnds] = {}
        self._pieces = pieces
        self._prompt_tokens = begun.usage.prompt_tokens
        self._verbose = verbose
        self._record = record
        if record is not None:
            record.choices = outputs
        self._written = written
        #: The choices of the answer by choice of the engine.
        self._targets: list[Sequence[int]] = []
        for number in range(len(outputs)):
            self._targets.append(range(number * copies, (number + 1) * copies))
        self._open = set(range(len(outputs)))
        self.is_finished = not outputs
        self._is_stopped = False
        #: One choice without log-probabilities and details, like nearly all requests.
        self._is_plain = (
            len(outputs) == copies == 1
            and not request.wants_logprobs
            and not request.returns_token_ids
            and not request.has_running_usage
            and not echoes
            and outputs[0].is_plain
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
                output = self._outputs[0]
                made = await output.feed_plain(tokens.token_ids)
                events = self._ends_of(0).add(made) if output.calls else made
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

    async def _items(self, number: int, tokens: Tokens) -> list[Delta]:
        """Return the items of new tokens of one choice of the engine."""
        if number not in self._open:
            return []
        items: list[Delta] = []
        ids: Sequence[int] = ()
        if self._wants_ids:
            gain, reason, ids = await self._take_ids(number, tokens)
        else:
            gain, reason = await self._take(number, tokens)
        usage = self._usage() if self._has_running_usage else None
        events: Sequence[Event] = gain.events
        if self._outputs[number].calls:
            ends = self._ends_of(number)
            events = ends.add(gain.events)
            if reason is not None:
                events = [*events, *ends.finish()]
        logprobs = self._logprobs(gain.tokens) if self._wants_logprobs else None
        if events or gain.tokens or ids or usage is not None:
            items += [
                Gained(target, events, logprobs, ids, usage) for target in self._targets[number]
            ]
        if reason is not None:
            verbose = self._verbose
            shown = None if verbose is None else ShownVerbose(verbose.prompt, verbose.content)
            stop_string = self._outputs[number].stop_string
            items += [
                Finished(target, reason, stop_string, shown) for target in self._targets[number]
            ]
        return items

    async def _take(self, number: int, tokens: Tokens) -> tuple[OutputDelta, FinishReason | None]:
        """Return the output of new tokens of an open choice, and the finish reason if it ended."""
        record = self._record
        if record is not None and not record.first_token:
            record.first_token = perf_counter_ns()
        output = self._outputs[number]
        # With images only the engine knows the number, and only at the end.
        self._prompt_tokens = max(self._prompt_tokens, tokens.prompt_tokens)
        scores = tokens.logprobs if self._wants_logprobs else ()
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
        if reason is FinishReason.STOP and output.calls and not output.has_cut_call:
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

    def _ends_of(self, number: int) -> CallEnds:
        ends = self._call_ends.get(number)
        if ends is None:
            ends = self._call_ends[number] = CallEnds()
        return ends

    def _note_end(self, record: GenerationRecord, usage: Usage) -> None:
        record.ended = perf_counter_ns()
        record.prompt_tokens = usage.prompt_tokens
        record.completion_tokens = usage.completion_tokens
        record.shared_tokens = self._generation.shared_tokens or 0
        record.choices = ()
        if self._written:
            record.answers = [text.content for text in self._written]

    def _logprobs(self, tokens: Sequence[ScoredToken]) -> list[TokenLogprob]:
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
        return Usage(
            self._prompt_tokens,
            made,
            cached_tokens=self._generation.shared_tokens,
            reasoning_tokens=thought if thinks else None,
        )


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
        structs.replace(
            prompt,
            settings=structs.replace(
                settings,
                num_return_sequences=1,
                stop_strings=(),
                rng_seed=None if seed is None else (seed + number) % _SEED_RANGE,
            ),
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
