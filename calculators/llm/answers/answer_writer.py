"""`AnswerWriter`: the interface by which an endpoint writes an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import ToolCalled, ToolRan
from calculators.language.events import OutputEvent, Refused
from calculators.language.finish_reason import FinishReason
from calculators.language.token_logprob import TokenLogprob
from calculators.language.usage import Usage
from calculators.llm.answers.answer_details import AnswerDetails
from calculators.llm.answers.response import AnswerChoice, Verbose


class AnswerWriter(Protocol):
    """Writes one answer: whole, or as server-sent events ready to be sent.

    A stream is one call of `start`; then for every choice `begin`, `more` any number of times and
    `finish`, with the calls for several choices interleaved in any order; then `end`. Each returns
    complete events, maybe none. `failure` may replace the next call and all that would follow.

    Attributes:
        verbose: prompt and raw text to show beside the answer; None: they are not shown. Set before
            `finish`, `whole` and `end`.
        wants_logprobs: `more` needs the log-probabilities of the tokens.
        details: receives the token ids and counts of the events that follow; None: not needed.
    """

    verbose: Verbose | None
    wants_logprobs: bool
    details: AnswerDetails | None

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        """Return the body of a unary answer."""

    def start(self, usage: Usage) -> str:
        """Return the first events of a stream; ``usage`` counts only the prompt's tokens yet."""

    def begin(self, index: int) -> str:
        """Return the first events of a choice."""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        """Return the events for more output of a choice.

        ``logprobs``: of the tokens that made it; None unless ``wants_logprobs``. Every
        `calculators.language.events.ToolCall` has its ``call_id``.
        """

    def tool(self, item: ToolCalled | ToolRan) -> str:
        """Return the events of a call that this server runs for the only choice.

        Called for servers that the request names.
        """

    def refuse(self, index: int, refused: Refused) -> str:
        """Return the events for a refusal, which is the last before `finish`.

        APIs show its text only where the choice has no other output, or at its end.
        """

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        """Return the last events of a choice; ``reason`` is "tool_calls" if it called tools.

        ``stop_string``: the stop string of the request that ended the choice, if one did.
        """

    def end(self, usage: Usage) -> str:
        """Return the last events of a stream, with ``[DONE]`` where the endpoint has it."""

    def failure(self, error: RequestError) -> str:
        """Return the events that end a stream which has started and cannot go on.

        "" leaves this to the front, which writes an error event and ``[DONE]``.
        """
