"""Answers of ``/completions``, whole and as events."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.llm.openai.finish_reason import FinishReason
from calculators.llm.openai.json_text import quote
from calculators.llm.openai.response import AnswerChoice, EventFrame, ResponseHead
from calculators.llm.openai.token_logprob import (
    TokenLogprob,
    characters_started,
    completion_logprobs_json,
)
from calculators.llm.openai.usage import Usage

#: Whole answers and events say the same.
_OBJECT = "text_completion"


def completion(
    head: ResponseHead,
    choices: Sequence[AnswerChoice],
    usage: Usage,
    *,
    top_logprobs: bool = False,
) -> str:
    """The body of a unary answer; the choices prompt by prompt."""
    written = ",".join(
        f'{{"index":{index},"text":{quote(choice.text)}'
        f',"logprobs":{_logprobs(choice.logprobs, top_logprobs)}'
        f',"finish_reason":"{choice.finish_reason}"}}'
        for index, choice in enumerate(choices)
    )
    return f'{{{head.json(_OBJECT)},"choices":[{written}],"usage":{usage.json}}}'


class CompletionStreamWriter:
    """Writes the events of one streamed answer; each method returns one, ready to be sent.

    For every choice: `text`, then `finish`. After all of them `usage` when it was asked for, and
    `calculators.llm.openai.response.DONE`.
    """

    __slots__ = ("_closing", "_frame", "_offsets", "_openings", "_rest", "_top_logprobs")

    def __init__(
        self,
        head: ResponseHead,
        *,
        choices: int = 1,
        include_usage: bool = False,
        top_logprobs: bool = False,
    ) -> None:
        self._frame = frame = EventFrame(head, _OBJECT, include_usage=include_usage)
        self._openings = [f'{frame.opening}{index},"text":' for index in range(choices)]
        self._closing = frame.closing
        self._rest = f',"logprobs":null,"finish_reason":null{frame.closing}'
        self._top_logprobs = top_logprobs
        self._offsets = [0] * choices

    def text(self, index: int, text: str, logprobs: Sequence[TokenLogprob] | None = None) -> str:
        """More text of a choice, with the log-probabilities of its tokens when asked for."""
        if logprobs is None:
            return self._openings[index] + quote(text) + self._rest
        offset = self._offsets[index]
        self._offsets[index] = offset + sum(map(characters_started, logprobs))
        written = completion_logprobs_json(logprobs, top=self._top_logprobs, first_offset=offset)
        return (
            f'{self._openings[index]}{quote(text)},"logprobs":{written}'
            f',"finish_reason":null{self._closing}'
        )

    def finish(self, index: int, reason: FinishReason) -> str:
        """The last event of a choice."""
        return (
            f'{self._openings[index]}"","logprobs":null,"finish_reason":"{reason}"{self._closing}'
        )

    def usage(self, usage: Usage) -> str:
        """The event after the last choice, for a client that asked for it."""
        return self._frame.usage(usage)


def _logprobs(tokens: Sequence[TokenLogprob] | None, top: bool) -> str:
    return "null" if tokens is None else completion_logprobs_json(tokens, top=top)
