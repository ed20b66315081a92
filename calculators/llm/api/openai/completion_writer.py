"""Answers of ``/completions``, whole and as events."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.language.delta import Begun, ToolCalled, ToolRan
from calculators.language.events import Content, OutputEvent, Refused
from calculators.language.finish_reason import FinishReason
from calculators.language.token_logprob import TokenLogprob
from calculators.language.usage import Usage
from calculators.llm.answers.answer_details import AnswerDetails
from calculators.llm.answers.json_text import quote
from calculators.llm.answers.response import (
    DONE,
    AnswerChoice,
    EventFrame,
    ResponseHead,
    Verbose,
    response_head,
)
from calculators.llm.answers.token_logprob import (
    characters_started,
    completion_logprobs_json,
)
from calculators.llm.answers.usage import usage_json
from calculators.requests.http_payload import RequestError

#: The ``object`` of whole answers and events.
_OBJECT = "text_completion"


class CompletionAnswerWriter:
    """An `AnswerWriter` of plain text; the choices are numbered prompt by prompt."""

    __slots__ = (
        "_closing",
        "_frame",
        "_head",
        "_include_usage",
        "_offsets",
        "_openings",
        "_per_prompt",
        "_rest",
        "_top_logprobs",
        "details",
        "verbose",
        "wants_logprobs",
    )

    def __init__(
        self,
        head: ResponseHead,
        *,
        choices: int = 1,
        per_prompt: int = 1,
        include_usage: bool = False,
        logprobs: int | None = None,
        verbose: Verbose | None = None,
        details: AnswerDetails | None = None,
    ) -> None:
        """
        Args:
            choices: the number of all choices.
            per_prompt: the number of choices of each prompt.
            logprobs: None: without; 1 repeats each token as the top one of its place.
        """
        self.wants_logprobs = logprobs is not None
        self.details = details
        self._per_prompt = per_prompt
        self._head = head
        self._include_usage = include_usage
        self.verbose = verbose
        self._frame = frame = EventFrame(head, _OBJECT, include_usage=include_usage)
        self._openings = [f'{frame.opening}{index},"text":' for index in range(choices)]
        self._closing = frame.closing
        self._rest = f',"logprobs":null,"finish_reason":null{frame.closing}'
        self._top_logprobs = bool(logprobs)
        self._offsets = [0] * choices

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        written = ",".join(
            f'{{"index":{index},"text":{quote(choice.content)}'
            f',"logprobs":{self._whole_logprobs(choice)}'
            f',"finish_reason":"{choice.finish_reason}"{self._ids(index, choice)}}}'
            for index, choice in enumerate(choices)
        )
        verbose = "" if self.verbose is None else self.verbose.json
        head = self._head.json(_OBJECT)
        return f'{{{head},"choices":[{written}],"usage":{usage_json(usage)}{verbose}}}'

    def _ids(self, index: int, choice: AnswerChoice) -> str:
        if self.details is None:
            return ""
        self.details.add(index, choice.token_ids)
        return self.details.prompt(index // self._per_prompt) + self.details.take(index)

    def _detailed(self, index: int) -> str:
        """Return the end of an event with token ids and counts."""
        assert self.details is not None
        prompt = self.details.prompt_once(index, index // self._per_prompt)
        return self._frame.detailed(self.details, prompt + self.details.take(index))

    def _whole_logprobs(self, choice: AnswerChoice) -> str:
        if choice.logprobs is None:
            return "null"
        return completion_logprobs_json(choice.logprobs, top=self._top_logprobs)

    def start(self, usage: Usage) -> str:
        return ""

    def begin(self, index: int) -> str:
        return ""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        if logprobs is None:
            if self.details is None:
                return self._openings[index] + quote(text) + self._rest
            opening = self._openings[index] + quote(text)
            return f'{opening},"logprobs":null,"finish_reason":null{self._detailed(index)}'
        offset = self._offsets[index]
        self._offsets[index] = offset + sum(map(characters_started, logprobs))
        written = completion_logprobs_json(logprobs, top=self._top_logprobs, first_offset=offset)
        closing = self._closing if self.details is None else self._detailed(index)
        return (
            f'{self._openings[index]}{quote(text)},"logprobs":{written}'
            f',"finish_reason":null{closing}'
        )

    def tool(self, item: ToolCalled | ToolRan) -> str:
        return ""  # a client would run the call itself

    def refuse(self, index: int, refused: Refused) -> str:
        return ""  # only the finish reason tells

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        closing = self._closing if self.details is None else self._detailed(index)
        if self.verbose is not None:
            closing = self._frame.closing_with(self.verbose, closing)
        return f'{self._openings[index]}"","logprobs":null,"finish_reason":"{reason}"{closing}'

    def end(self, usage: Usage) -> str:
        return self._frame.usage(usage) + DONE if self._include_usage else DONE

    def failure(self, error: RequestError) -> str:
        return ""


def completion_writer(begun: Begun) -> CompletionAnswerWriter:
    """Return the writer of an answer that begins."""
    request = begun.request
    details = None
    if request.returns_token_ids or request.has_running_usage:
        details = AnswerDetails(request, begun.prompt_ids, begun.choices)
    return CompletionAnswerWriter(
        response_head(begun),
        choices=begun.choices,
        per_prompt=request.n,
        include_usage=request.include_usage,
        logprobs=int(request.sampling.get("logprobs", 0)) if request.wants_logprobs else None,
        details=details,
    )
