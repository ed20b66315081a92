"""Answers of ``/chat/completions`` and ``/completions``, whole and as events.

Events of both carry one choice each, in the same frame: `ChunkWriter` has what they share. Chats
have messages with reasoning and calls in them, completions have texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import (
    Begun,
    FinishReason,
    TokenLogprob,
    ToolCalled,
    ToolRan,
    Usage,
    Verbose,
)
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.generation_request import Speech
from calculators.llm.answers.response import (
    DONE,
    AnswerChoice,
    AnswerDetails,
    EventFrame,
    MadeCall,
    ResponseHead,
    SpokenBase64,
    characters_started,
    chat_logprobs_json,
    completion_logprobs_json,
    quote,
    response_head,
    usage_json,
    verbose_json,
)
from calculators.llm.requests.client_tools import (
    NO_FORMS,
    ClientCallForm,
    CustomInput,
    call_forms,
    custom_input,
)


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

    def speak(self, index: int, pcm: bytes) -> str:
        return ""

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        closing = self._frame.closing if self.details is None else self._detailed(index)
        if self.verbose is not None:
            closing = self._frame.closing_with(self.verbose, closing)
        opening = f"{self._openings[index]}{self.empty}{self.after}"
        return f'{opening},"logprobs":null,"finish_reason":"{self._reason(reason)}"{closing}'

    def _reason(self, reason: FinishReason) -> str:
        """Return the word for a reason that the client knows."""
        return reason

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


class ChatAnswerWriter(ChunkWriter):
    """An `AnswerWriter` of a chat. Every event of the output is a chunk of its own.

    Clients of OpenVINO Model Server, vLLM and OpenAI know ``reasoning_content``, others (newer ones
    of vLLM, OpenRouter's) ``reasoning``; both are written. All know the order of a
    call's deltas: id and name first, with empty arguments.
    """

    __slots__ = (
        "_calls",
        "_custom",
        "_forms",
        "_has_functions",
        "_shows_reasoning",
        "_sounds",
        "_speech",
        "_spoken",
    )

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
        forms: Mapping[str, ClientCallForm] = NO_FORMS,
        has_functions: bool = False,
        speech: Speech | None = None,
    ) -> None:
        """
        Args:
            forms: how the client sees calls of other tools than functions, by their names.
            has_functions: the client offers ``functions``, the predecessor of tools. The first
                call of a choice is its ``function_call``; there is no place for further ones.
            speech: the sound that the client asks for.
        """
        super().__init__(
            head,
            choices=n,
            include_usage=include_usage,
            wants_logprobs=wants_logprobs,
            verbose=verbose,
            details=details,
        )
        self._forms = forms
        self._has_functions = has_functions
        #: The texts of calls of custom tools that grow, by choice.
        self._custom: dict[int, CustomInput] = {}
        #: The number of calls begun, by choice.
        self._calls = [0] * n
        self._shows_reasoning = shows_reasoning
        self._speech = speech
        #: The sounds that grow, by choice.
        self._sounds: dict[int, SpokenBase64] = {}
        #: The choices with output.
        self._spoken: set[int] = set()

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        """Return the body. Without content, it has an empty string."""
        written = ",".join(
            f'{{"index":{index},"message":{self._message(index, choice)},"logprobs":'
            f"{'null' if choice.logprobs is None else chat_logprobs_json(choice.logprobs)}"
            f',"finish_reason":"{self._reason(choice.finish_reason)}"'
            f"{self._token_ids(index, choice)}}}"
            for index, choice in enumerate(choices)
        )
        head = self._head.json("chat.completion")
        verbose = verbose_json(self.verbose)
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
        if (sound := self._sounds.pop(index, None)) is not None:
            rest = sound.rest()
            data = f',"data":"{rest}"' if rest else ""
            members = f'{self._sound_id(index)}{data},"expires_at":{self._head.created}'
            ended += self._event(index, f'"audio":{{{members}}}')
        return ended + super().finish(index, reason, stop_string)

    def speak(self, index: int, pcm: bytes) -> str:
        sound = self._sounds.setdefault(index, SpokenBase64())
        data = sound.add(pcm)
        if not data:
            return ""
        return self._event(index, f'"audio":{{{self._sound_id(index)},"data":"{data}"}}')

    def _sound_id(self, index: int) -> str:
        """Return the member ``id`` of a choice's sound."""
        return f'"id":"audio_{self._head.id.rpartition("-")[2]}{index}"'

    def _reason(self, reason: FinishReason) -> str:
        if self._has_functions and reason is FinishReason.TOOL_CALLS:
            return "function_call"
        return reason

    def _end_custom(self, index: int) -> str:
        """Return the rest of a custom tool's text, whose arguments are complete."""
        rest = self._custom.pop(index).end()
        return self._event(index, self._more_input(index, rest)) if rest else ""

    def _more_input(self, index: int, text: str) -> str:
        number = self._calls[index] - 1
        return f'"tool_calls":[{{"index":{number},"custom":{{"input":{quote(text)}}}}}]'

    def _delta(self, index: int, event: OutputEvent) -> str:
        match event:
            case Content(text) if self._speech is not None:
                quoted = quote(text)
                content = f'"content":{quoted},' if self._speech.has_text else ""
                return f'{content}"audio":{{{self._sound_id(index)},"transcript":{quoted}}}'
            case Content(text):
                return '"content":' + quote(text)
            case Reasoning(text):
                quoted = quote(text)
                return f'"reasoning_content":{quoted},"reasoning":{quoted}'
            case Arguments() | ToolCall() if self._has_functions:
                return self._function_delta(index, event)
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

    def _function_delta(self, index: int, event: Arguments | ToolCall) -> str:
        if isinstance(event, ToolCall):
            self._calls[index] += 1
        if self._calls[index] > 1:
            return ""
        match event:
            case ToolCall(name, _):
                return f'"function_call":{{"name":{quote(name)},"arguments":""}}'
            case Arguments(text):
                return f'"function_call":{{"arguments":{quote(text)}}}'

    def _message(self, index: int, choice: AnswerChoice) -> str:
        thought = quote(choice.reasoning) if choice.reasoning and self._shows_reasoning else ""
        reasoning = f',"reasoning_content":{thought},"reasoning":{thought}' if thought else ""
        calls = ",".join(map(self._call, choice.tool_calls))
        called = f',"tool_calls":[{calls}]' if calls else ""
        if calls and self._has_functions:
            call = choice.tool_calls[0]
            function = f'{{"name":{quote(call.name)},"arguments":{quote(call.arguments)}}}'
            called = f',"function_call":{function}'
        refused = choice.refusal
        is_shown = refused is not None and refused.text and not choice.events
        refusal = quote(refused.text) if refused is not None and is_shown else "null"
        content, audio = quote(choice.content), ""
        if choice.sound is not None and self._speech is not None:
            audio = (
                f',"audio":{{{self._sound_id(index)},"data":"'
                f'{choice.sound.whole(self._speech.format)}","expires_at":{self._head.created}'
                f',"transcript":{content}}}'
            )
            content = content if self._speech.has_text else "null"
        return (
            f'{{"role":"assistant","content":{content}{reasoning}'
            f',"refusal":{refusal}{audio}{called}}}'
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
        forms=call_forms(request.echo.get("tools", ())) if request.echo else NO_FORMS,
        has_functions="functions" in request.echo,
        speech=request.speech,
    )


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
        verbose = verbose_json(self.verbose)
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
