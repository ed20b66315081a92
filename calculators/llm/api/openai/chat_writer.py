"""Answers of ``/chat/completions``, whole and as events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calculators.language.delta import Begun
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.finish_reason import FinishReason
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
from calculators.llm.requests.client_tools import (
    NO_FORMS,
    CallForm,
    CustomInput,
    call_forms,
    custom_input,
)


class ChatAnswerWriter(ChunkWriter):
    """An `AnswerWriter` of a chat. Every event of the output is a chunk of its own.

    Clients of OpenVINO Model Server, vLLM and OpenAI know ``reasoning_content``, others (newer ones
    of vLLM, OpenRouter's) ``reasoning``; both are written. All know the order of a
    call's deltas: id and name first, with empty arguments.
    """

    __slots__ = ("_calls", "_custom", "_forms", "_shows_reasoning", "_spoken")

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
        forms: Mapping[str, CallForm] = NO_FORMS,
    ) -> None:
        """``forms``: of calls that are no functions', by the names that the model knows."""
        super().__init__(
            head,
            choices=n,
            include_usage=include_usage,
            wants_logprobs=wants_logprobs,
            verbose=verbose,
            details=details,
        )
        self._forms = forms
        #: The texts of calls of custom tools that grow, by choice.
        self._custom: dict[int, CustomInput] = {}
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
            if index in self._custom and not isinstance(event, Arguments):
                written += self._end_custom(index)
            delta = self._delta(index, event)
            if delta:
                written += self._event(index, delta, shown)
                shown = "null"
        return written

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        ended = self._end_custom(index) if index in self._custom else ""
        return ended + super().finish(index, reason, stop_string)

    def _end_custom(self, index: int) -> str:
        """Return the rest of a custom tool's text, whose arguments are complete."""
        rest = self._custom.pop(index).end()
        return self._event(index, self._more_input(index, rest)) if rest else ""

    def _more_input(self, index: int, text: str) -> str:
        number = self._calls[index] - 1
        return f'"tool_calls":[{{"index":{number},"custom":{{"input":{quote(text)}}}}}]'

    def _delta(self, index: int, event: OutputEvent) -> str:
        match event:
            case Content(text):
                return '"content":' + quote(text)
            case Reasoning(text):
                quoted = quote(text)
                return f'"reasoning_content":{quoted},"reasoning":{quoted}'
            case Arguments(text):
                number = self._calls[index] - 1
                if (custom := self._custom.get(index)) is not None:
                    text = custom.add(text)
                    return self._more_input(index, text) if text else ""
                return (
                    f'"tool_calls":[{{"index":{number},"function":{{"arguments":{quote(text)}}}}}]'
                )
            case ToolCall(name, call_id):
                number = self._calls[index]
                self._calls[index] = number + 1
                form = self._forms.get(name)
                if form is not None and form.kind == "custom_tool_call":
                    self._custom[index] = CustomInput()
                    return (
                        f'"tool_calls":[{{"index":{number},"id":{quote(call_id)},"type":"custom"'
                        f',"custom":{{"name":{quote(name)},"input":""}}}}]'
                    )
                return (
                    f'"tool_calls":[{{"index":{number},"id":{quote(call_id)},"type":"function"'
                    f',"function":{{"name":{quote(name)},"arguments":""}}}}]'
                )

    def _message(self, choice: AnswerChoice) -> str:
        thought = quote(choice.reasoning) if choice.reasoning and self._shows_reasoning else ""
        reasoning = f',"reasoning_content":{thought},"reasoning":{thought}' if thought else ""
        calls = ",".join(map(self._call, choice.tool_calls))
        called = f',"tool_calls":[{calls}]' if calls else ""
        refused = choice.refusal
        is_shown = refused is not None and refused.text and not choice.events
        refusal = quote(refused.text) if refused is not None and is_shown else "null"
        return (
            f'{{"role":"assistant","content":{quote(choice.content)}{reasoning}'
            f',"refusal":{refusal}{called}}}'
        )

    def _call(self, call: MadeCall) -> str:
        form = self._forms.get(call.name)
        if form is not None and form.kind == "custom_tool_call":
            return (
                f'{{"id":{quote(call.call_id)},"type":"custom","custom":{{"name":{quote(call.name)}'
                f',"input":{quote(custom_input(call.arguments))}}}}}'
            )
        return (
            f'{{"id":{quote(call.call_id)},"type":"function","function":{{"name":{quote(call.name)}'
            f',"arguments":{quote(call.arguments)}}}}}'
        )

    def refuse(self, index: int, refused: Refused) -> str:
        if index in self._spoken or not refused.text:
            return ""
        return self._event(index, f'"refusal":{quote(refused.text)}')


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
        forms=call_forms(request.echo["tools"]) if request.echo else NO_FORMS,
    )
