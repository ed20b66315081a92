"""`AnswerWriter`: how an endpoint writes an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from calculators.llm.answers.finish_reason import FinishReason
from calculators.llm.answers.response import AnswerChoice
from calculators.llm.answers.token_logprob import TokenLogprob
from calculators.llm.answers.usage import Usage
from calculators.llm.parsers.events import OutputEvent
from calculators.requests.http_payload import RequestError


class AnswerWriter(Protocol):
    """Writes one answer: whole, or as server-sent events ready to be sent.

    A stream is `start` once; then for every choice `begin`, `more` any number of times, `finish`,
    those of several choices in any order among each other; then `end`. Each returns complete
    events, maybe none. `failure` may take the place of whatever would have come next.
    """

    wants_logprobs: bool

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        """The body of a unary answer."""

    def start(self, usage: Usage) -> str:
        """What a stream begins with; ``usage`` knows the prompt's tokens and no others yet."""

    def begin(self, index: int) -> str:
        """What a choice begins with."""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        """More of a choice. ``logprobs``: of the tokens it came from; None when not asked for.

        Every `calculators.llm.parsers.events.ToolCall` has its ``call_id``.
        """

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        """The end of a choice; ``reason`` is "tool_calls" where it stopped to call tools.

        ``stop_string``: the one that ended it, if one did.
        """

    def end(self, usage: Usage) -> str:
        """What follows the last choice, with ``[DONE]`` where the endpoint has it."""

    def failure(self, error: RequestError) -> str:
        """The events that end a stream which has started and cannot go on.

        "" leaves them to the front, which writes an error event and ``[DONE]``.
        """
