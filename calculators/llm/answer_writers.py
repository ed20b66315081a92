"""How the two endpoints write an answer, behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from calculators.llm.openai.chat_request import ChatRequest
from calculators.llm.openai.chat_response import ChatStreamWriter, chat_completion
from calculators.llm.openai.completion_request import CompletionRequest
from calculators.llm.openai.completion_response import (
    CompletionStreamWriter,
    completion,
)
from calculators.llm.openai.finish_reason import FinishReason
from calculators.llm.openai.response import AnswerChoice, ResponseHead, new_response_id
from calculators.llm.openai.token_logprob import TokenLogprob
from calculators.llm.openai.usage import Usage


class AnswerWriter(Protocol):
    """Writes an answer whole, or as events ready to be sent."""

    wants_logprobs: bool

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        """The body of a unary answer."""

    def begin(self, index: int) -> str:
        """What a choice's stream begins with; maybe nothing."""

    def more(self, index: int, text: str, logprobs: Sequence[TokenLogprob] | None) -> str:
        """More text of a choice."""

    def finish(self, index: int, reason: FinishReason) -> str:
        """The end of a choice."""

    def usage(self, usage: Usage) -> str:
        """The event with the usage."""


class ChatAnswerWriter:
    """For ``/chat/completions``."""

    def __init__(self, request: ChatRequest, fingerprint: str | None) -> None:
        self._head = ResponseHead(
            new_response_id("chatcmpl"), request.model, system_fingerprint=fingerprint
        )
        self.wants_logprobs = request.logprobs
        if request.stream:
            events = ChatStreamWriter(self._head, n=request.n, include_usage=request.include_usage)
            self.begin = events.role
            self.more = events.content
            self.finish = events.finish
            self.usage = events.usage

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        return chat_completion(self._head, choices, usage)


class CompletionAnswerWriter:
    """For ``/completions``."""

    def __init__(self, request: CompletionRequest, fingerprint: str | None) -> None:
        self._head = ResponseHead(
            new_response_id("cmpl"), request.model, system_fingerprint=fingerprint
        )
        self.wants_logprobs = request.logprobs is not None
        self._top_logprobs = bool(request.logprobs)
        if request.stream:
            events = CompletionStreamWriter(
                self._head,
                choices=request.n * len(request.prompts),
                include_usage=request.include_usage,
                top_logprobs=self._top_logprobs,
            )
            self.more = events.text
            self.finish = events.finish
            self.usage = events.usage

    def begin(self, index: int) -> str:
        return ""

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        return completion(self._head, choices, usage, top_logprobs=self._top_logprobs)
