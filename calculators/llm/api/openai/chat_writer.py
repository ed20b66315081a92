"""Answers of ``/chat/completions``, whole and as events."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.language.delta import Begun
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.token_logprob import TokenLogprob
from calculators.language.usage import Usage
from calculators.llm.answers.answer_details import AnswerDetails
from calculators.llm.answers.json_text import quote
from calculators.llm.answers.response import (
    AnswerChoice,
    MadeCall,
    ResponseHead,
    Verbose,
    response_head,
)
from calculators.llm.answers.token_logprob import chat_logprobs_json
from calculators.llm.answers.usage import usage_json
from calculators.llm.api.openai.chunk_writer import ChunkWriter, details_of


class ChatAnswerWriter(ChunkWriter):
    """An `AnswerWriter` of a chat. Every event of the output is a chunk of its own.

    Clients of OpenVINO Model Server, vLLM and OpenAI know ``reasoning_content``, others (newer ones
    of vLLM, OpenRouter's) ``reasoning``; both are written. All know the order of a
    call's deltas: id and name first, with empty arguments.
    """

    __slots__ = ("_calls", "_shows_reasoning", "_spoken")

    chunk = "chat.completion.chunk"
    before = ',"delta":{'
    after = "}"
    empty = ""

    def __init__(
        self,
        head: ResponseHead,
        *,
        n: int = 1,
        include_usage: bool = False,
        wants_logprobs: bool = False,
        verbose: Verbose | None = None,
        details: AnswerDetails | None = None,
        shows_reasoning: bool = True,
    ) -> None:
        super().__init__(
            head,
            choices=n,
            include_usage=include_usage,
            wants_logprobs=wants_logprobs,
            verbose=verbose,
            details=details,
        )
        #: The number of calls begun, by choice.
        self._calls = [0] * n
        self._shows_reasoning = shows_reasoning
        #: The choices with output.
        self._spoken: set[int] = set()

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        """Return the body. Without content, it has an empty string."""
        written = ",".join(
            f'{{"index":{index},"message":{self._message(choice)},"logprobs":'
            f"{'null' if choice.logprobs is None else chat_logprobs_json(choice.logprobs)}"
            f',"finish_reason":"{choice.finish_reason}"{self._token_ids(index, choice)}}}'
            for index, choice in enumerate(choices)
        )
        head = self._head.json("chat.completion")
        verbose = "" if self.verbose is None else self.verbose.json
        prompt = "" if self.details is None else self.details.prompt()
        return f'{{{head},"choices":[{written}],"usage":{usage_json(usage)}{prompt}{verbose}}}'

    def _token_ids(self, index: int, choice: AnswerChoice) -> str:
        if self.details is None:
            return ""
        self.details.add(index, choice.token_ids)
        return self.details.take(index)

    def begin(self, index: int) -> str:
        return self._event(index, '"role":"assistant","content":""')

    def _detailed(self, index: int) -> str:
        """Return the end of an event with token ids and counts."""
        assert self.details is not None
        prompt = self.details.prompt_once(0)
        return self._frame.detailed(self.details, self.details.take(index), prompt)

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        self._spoken.add(index)
        if not self._shows_reasoning:
            events = [event for event in events if not isinstance(event, Reasoning)]
        if not events and not (logprobs is None and self.details is None):
            events = [Content("")]
        # The log-probabilities and ids of the tokens go into the first of their chunks.
        written = ""
        shown = "null" if logprobs is None else chat_logprobs_json(logprobs)
        for event in events:
            written += self._event(index, self._delta(index, event), shown)
            shown = "null"
        return written

    def _delta(self, index: int, event: OutputEvent) -> str:
        match event:
            case Content(text):
                return '"content":' + quote(text)
            case Reasoning(text):
                quoted = quote(text)
                return f'"reasoning_content":{quoted},"reasoning":{quoted}'
            case Arguments(text):
                number = self._calls[index] - 1
                return (
                    f'"tool_calls":[{{"index":{number},"function":{{"arguments":{quote(text)}}}}}]'
                )
            case ToolCall(name, call_id):
                number = self._calls[index]
                self._calls[index] = number + 1
                return (
                    f'"tool_calls":[{{"index":{number},"id":{quote(call_id)},"type":"function"'
                    f',"function":{{"name":{quote(name)},"arguments":""}}}}]'
                )

    def _message(self, choice: AnswerChoice) -> str:
        thought = quote(choice.reasoning) if choice.reasoning and self._shows_reasoning else ""
        reasoning = f',"reasoning_content":{thought},"reasoning":{thought}' if thought else ""
        calls = ",".join(map(_call, choice.tool_calls))
        called = f',"tool_calls":[{calls}]' if calls else ""
        refused = choice.refusal
        is_shown = refused is not None and refused.text and not choice.events
        refusal = quote(refused.text) if refused is not None and is_shown else "null"
        return (
            f'{{"role":"assistant","content":{quote(choice.content)}{reasoning}'
            f',"refusal":{refusal}{called}}}'
        )

    def refuse(self, index: int, refused: Refused) -> str:
        if index in self._spoken or not refused.text:
            return ""
        return self._event(index, f'"refusal":{quote(refused.text)}')


def _call(call: MadeCall) -> str:
    return (
        f'{{"id":{quote(call.call_id)},"type":"function","function":{{"name":{quote(call.name)}'
        f',"arguments":{quote(call.arguments)}}}}}'
    )


def chat_writer(begun: Begun) -> ChatAnswerWriter:
    """Return the writer of an answer that begins."""
    request = begun.request
    return ChatAnswerWriter(
        response_head(begun),
        n=begun.choices,
        include_usage=request.include_usage,
        wants_logprobs=request.wants_logprobs,
        details=details_of(begun),
        shows_reasoning=request.shows_thinking,
    )
