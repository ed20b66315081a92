"""Answers of ``/chat/completions``, whole and as events."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.llm.openai.finish_reason import FinishReason
from calculators.llm.openai.json_text import quote
from calculators.llm.openai.response import AnswerChoice, EventFrame, ResponseHead
from calculators.llm.openai.token_logprob import TokenLogprob, chat_logprobs_json
from calculators.llm.openai.usage import Usage


def chat_completion(head: ResponseHead, choices: Sequence[AnswerChoice], usage: Usage) -> str:
    """The body of a unary answer. The content is a string also when it is empty."""
    written = ",".join(
        f'{{"index":{index},"message":{{"role":"assistant","content":{quote(choice.text)}'
        f',"refusal":null}},"logprobs":{_logprobs(choice.logprobs)}'
        f',"finish_reason":"{choice.finish_reason}"}}'
        for index, choice in enumerate(choices)
    )
    return f'{{{head.json("chat.completion")},"choices":[{written}],"usage":{usage.json}}}'


class ChatStreamWriter:
    """Writes the events of one streamed answer; each method returns one, ready to be sent.

    For every choice: `role` first, then `content`, then `finish`. After all of them `usage` when it
    was asked for, and `calculators.llm.openai.response.DONE`.
    """

    __slots__ = ("_closing", "_frame", "_openings", "_rest")

    def __init__(self, head: ResponseHead, *, n: int = 1, include_usage: bool = False) -> None:
        self._frame = frame = EventFrame(head, "chat.completion.chunk", include_usage=include_usage)
        self._openings = [f'{frame.opening}{index},"delta":{{' for index in range(n)]
        self._closing = frame.closing
        # Of nearly every event: all that follows the text.
        self._rest = f'}},"logprobs":null,"finish_reason":null{frame.closing}'

    def role(self, index: int) -> str:
        """The first event of a choice."""
        return f'{self._openings[index]}"role":"assistant","content":""{self._rest}'

    def content(self, index: int, text: str, logprobs: Sequence[TokenLogprob] | None = None) -> str:
        """More text of a choice, with the log-probabilities of its tokens when asked for."""
        if logprobs is None:
            return self._openings[index] + '"content":' + quote(text) + self._rest
        return (
            f'{self._openings[index]}"content":{quote(text)}}}'
            f',"logprobs":{chat_logprobs_json(logprobs)},"finish_reason":null{self._closing}'
        )

    def finish(self, index: int, reason: FinishReason) -> str:
        """The last event of a choice."""
        return (
            f'{self._openings[index]}}},"logprobs":null,"finish_reason":"{reason}"{self._closing}'
        )

    def usage(self, usage: Usage) -> str:
        """The event after the last choice, for a client that asked for it."""
        return self._frame.usage(usage)


def _logprobs(tokens: Sequence[TokenLogprob] | None) -> str:
    return "null" if tokens is None else chat_logprobs_json(tokens)
