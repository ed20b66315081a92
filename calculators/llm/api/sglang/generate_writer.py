"""Answers of SGLang's ``/generate``, whole and as events.

Each event has the whole text of its choice so far, and all token ids. What has been written is
kept as JSON, so a token costs a copy of that, and nothing is escaped twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final

from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage
from calculators.language.events import Content, OutputEvent
from calculators.llm.answers.answer_writer import TextOnlyWriter
from calculators.llm.answers.response import DONE, IMPOSSIBLE, AnswerChoice, quote

_NANO: Final = 1e-9
_TOKEN_BYTES: Final = 8


class _Written:
    """The text, ids and scores of a choice so far, as JSON without quotes and brackets."""

    __slots__ = ("count", "ids", "logprobs", "reason", "text")

    def __init__(self) -> None:
        self.count = 0
        self.ids = ""
        self.logprobs = ""
        self.reason = "null"
        self.text = ""


class SglangWriter(TextOnlyWriter):
    """An `AnswerWriter` of SGLang's texts."""

    __slots__ = ("_began", "_begun", "_choices", "_heads", "_prompt_tokens", "_shown")

    def __init__(self, begun: Begun) -> None:
        super().__init__(begun)
        self._began = perf_counter_ns()
        self._begun = begun
        self._shown = begun.request.echo
        self._choices = [_Written() for _ in range(begun.choices)]
        prompts = begun.prompt_ids
        self._prompt_tokens = [
            begun.usage.prompt_tokens
            if prompts is None
            else len(prompts[begun.prompt_of(index, len(prompts))]) // _TOKEN_BYTES
            for index in range(begun.choices)
        ]
        named = self._shown.get("rid") or begun.request.id
        self._heads = [
            f'"id":{quote(named if begun.choices == 1 else f"{named}_{index}")}'
            for index in range(begun.choices)
        ]

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        for index, choice in enumerate(choices):
            self._add(index, choice.content, choice.token_ids, choice.logprobs)
            self.finish(index, choice.finish_reason, choice.stop_string)
        answers = [f"{{{self._answer(index, usage)}}}" for index in range(len(choices))]
        return answers[0] if self._is_single else f"[{','.join(answers)}]"

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        ids = [] if self.details is None else self.details.take_ids(index)
        if self._shown.get("only_prompt") or not (text or ids):
            return ""
        self._add(index, text, ids, logprobs)
        return self._event(index, self._begun.usage)

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        choice = self._choices[index]
        if self.details is not None:
            # Tokens that made no text, as the tokens of a stop string do not.
            self._add(index, "", self.details.take_ids(index), None)
        if reason is FinishReason.LENGTH or self._shown.get("only_prompt"):
            choice.reason = f'{{"type":"length","length":{choice.count}}}'
        elif reason is FinishReason.STOP:
            # The token that ended the text is not known here.
            matched = "null" if stop_string is None else quote(stop_string)
            choice.reason = f'{{"type":"stop","matched":{matched}}}'
        else:
            choice.reason = f'{{"type":"abort","message":{quote(reason)}}}'
        return ""

    def end(self, usage: Usage) -> str:
        # Here, where the tokens are counted.
        events = [self._event(index, usage) for index in range(len(self._choices))]
        return "".join([*events, DONE])

    @property
    def _is_single(self) -> bool:
        return len(self._choices) == 1

    def _add(
        self,
        index: int,
        text: str,
        ids: Sequence[int],
        logprobs: Sequence[TokenLogprob] | None,
    ) -> None:
        if self._shown.get("only_prompt"):
            return
        choice = self._choices[index]
        choice.text += quote(text)[1:-1]
        if logprobs:
            known = [*ids, *(0 for _ in range(len(logprobs) - len(ids)))]
            written = ",".join(map(self._logprob, known, logprobs))
            choice.logprobs += f",{written}" if choice.logprobs else written
        if ids:
            written = ",".join(map(str, ids))
            choice.ids += f",{written}" if choice.count else written
            choice.count += len(ids)

    def _logprob(self, token_id: int, token: TokenLogprob) -> str:
        value = token.logprob
        known = IMPOSSIBLE if value is None or not value <= 0 else max(value, IMPOSSIBLE)
        text = quote(token.token) if self._shown.get("texts") else "null"
        return f"[{known!r},{token_id},{text}]"

    def _event(self, index: int, usage: Usage) -> str:
        place = "" if self._is_single else f',"index":{index}'
        return f"data: {{{self._answer(index, usage)}{place}}}\n\n"

    def _answer(self, index: int, usage: Usage) -> str:
        choice = self._choices[index]
        # Cached tokens are counted for the request, not for each of several answers.
        cached = usage.cached_tokens or 0 if self._is_single else 0
        logprobs = ""
        if self.wants_logprobs:
            logprobs = f',"input_token_logprobs":[],"output_token_logprobs":[{choice.logprobs}]'
        latency = ""
        if choice.reason != "null":
            latency = f',"e2e_latency":{(perf_counter_ns() - self._started) * _NANO:.6f}'
        return (
            f'"text":"{choice.text}","output_ids":[{choice.ids}],"meta_info":{{'
            f'{self._heads[index]},"finish_reason":{choice.reason}'
            f',"prompt_tokens":{self._prompt_tokens[index]},"weight_version":"default"'
            f',"completion_tokens":{choice.count},"cached_tokens":{cached}{logprobs}{latency}}}'
        )

    @property
    def _started(self) -> int:
        record = self._begun.request.record
        if record is None or not record.generations:
            return self._began
        return record.generations[-1].began
