"""Answers of ``/completions``, whole and as events."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.language.delta import Begun
from calculators.language.events import Content, OutputEvent, Refused
from calculators.language.token_logprob import TokenLogprob
from calculators.language.usage import Usage
from calculators.llm.answers.answer_details import AnswerDetails
from calculators.llm.answers.json_text import quote
from calculators.llm.answers.response import (
    AnswerChoice,
    ResponseHead,
    Verbose,
    response_head,
)
from calculators.llm.answers.token_logprob import (
    characters_started,
    completion_logprobs_json,
)
from calculators.llm.answers.usage import usage_json
from calculators.llm.api.openai.chunk_writer import ChunkWriter, details_of


class CompletionAnswerWriter(ChunkWriter):
    """An `AnswerWriter` of plain text; the choices are numbered prompt by prompt."""

    __slots__ = ("_offsets", "_per_prompt", "_top_logprobs")

    chunk = "text_completion"
    before = ',"text":'
    after = ""
    empty = '""'

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
        super().__init__(
            head,
            choices=choices,
            include_usage=include_usage,
            wants_logprobs=logprobs is not None,
            verbose=verbose,
            details=details,
        )
        self._per_prompt = per_prompt
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
        head = self._head.json(self.chunk)
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

    def begin(self, index: int) -> str:
        return ""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        if logprobs is None:
            return self._event(index, quote(text))
        offset = self._offsets[index]
        self._offsets[index] = offset + sum(map(characters_started, logprobs))
        written = completion_logprobs_json(logprobs, top=self._top_logprobs, first_offset=offset)
        return self._event(index, quote(text), written)

    def refuse(self, index: int, refused: Refused) -> str:
        return ""  # only the finish reason tells


def completion_writer(begun: Begun) -> CompletionAnswerWriter:
    """Return the writer of an answer that begins."""
    request = begun.request
    return CompletionAnswerWriter(
        response_head(begun),
        choices=begun.choices,
        per_prompt=request.n,
        include_usage=request.include_usage,
        logprobs=int(request.sampling.get("logprobs", 0)) if request.wants_logprobs else None,
        details=details_of(begun),
    )
