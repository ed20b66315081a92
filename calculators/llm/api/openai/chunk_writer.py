"""`ChunkWriter`: streams of chunks, as ``/chat/completions`` and ``/completions`` have them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import Begun, ToolCalled, ToolRan
from calculators.language.finish_reason import FinishReason
from calculators.language.usage import Usage
from calculators.llm.answers.answer_details import AnswerDetails
from calculators.llm.answers.response import DONE, EventFrame, ResponseHead, Verbose


class ChunkWriter(ABC):
    """The parts of an `AnswerWriter` that do not depend on the content of a chunk.

    Attributes:
        chunk: the ``object`` of chunks.
        before, after: the JSON around a chunk's content.
        empty: the content of a chunk without any.
    """

    __slots__ = (
        "_frame",
        "_head",
        "_include_usage",
        "_openings",
        "_rest",
        "details",
        "verbose",
        "wants_logprobs",
    )

    chunk: ClassVar[str]
    before: ClassVar[str]
    after: ClassVar[str]
    empty: ClassVar[str]

    def __init__(
        self,
        head: ResponseHead,
        *,
        choices: int,
        include_usage: bool,
        wants_logprobs: bool,
        verbose: Verbose | None,
        details: AnswerDetails | None,
    ) -> None:
        """``choices``: the number of all choices; ``include_usage``: the last event has it."""
        self.wants_logprobs = wants_logprobs
        self.details = details
        self.verbose = verbose
        self._head = head
        self._include_usage = include_usage
        self._frame = frame = EventFrame(head, self.chunk, include_usage=include_usage)
        self._openings = [f"{frame.opening}{index}{self.before}" for index in range(choices)]
        # The end of nearly every event, after the content.
        self._rest = f'{self.after},"logprobs":null,"finish_reason":null{frame.closing}'

    @abstractmethod
    def _detailed(self, index: int) -> str:
        """Return the end of an event with token ids and counts."""

    def _event(self, index: int, content: str, logprobs: str = "null") -> str:
        """Return a chunk of a choice that goes on."""
        if self.details is None and logprobs == "null":
            return self._openings[index] + content + self._rest
        closing = self._frame.closing if self.details is None else self._detailed(index)
        opening = f"{self._openings[index]}{content}{self.after}"
        return f'{opening},"logprobs":{logprobs},"finish_reason":null{closing}'

    def start(self, usage: Usage) -> str:
        return ""

    def tool(self, item: ToolCalled | ToolRan) -> str:
        return ""  # a client would run the call itself

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        closing = self._frame.closing if self.details is None else self._detailed(index)
        if self.verbose is not None:
            closing = self._frame.closing_with(self.verbose, closing)
        opening = f"{self._openings[index]}{self.empty}{self.after}"
        return f'{opening},"logprobs":null,"finish_reason":"{reason}"{closing}'

    def end(self, usage: Usage) -> str:
        return self._frame.usage(usage) + DONE if self._include_usage else DONE

    def failure(self, error: RequestError) -> str:
        return ""


def details_of(begun: Begun) -> AnswerDetails | None:
    """Return the details that a request asks for; None: it asks for none."""
    request = begun.request
    if request.returns_token_ids or request.has_running_usage:
        return AnswerDetails(request, begun.prompt_ids, begun.choices)
    return None
