"""Answers of ``/api/chat`` and ``/api/generate``, whole and in lines."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.keep_alive import KEEP_ALIVE
from calculators.kit.requests.request_record import RequestRecord
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
from calculators.language.generation_request import Api
from calculators.llm.answers.response import (
    AnswerChoice,
    AnswerDetails,
    MadeCall,
    answering_model,
    logprob_items_json,
    object_json,
    quote,
    verbose_json,
)

#: The last part of all lines but the last one; the front knows an answer that is cut by it.
_GOES_ON: Final = ',"done":false}\n'


class OllamaAnswerWriter:
    """An `AnswerWriter` of one message or text.

    A call is written when it is complete, because its arguments are an object in a line.
    """

    __slots__ = (
        "_after",
        "_begun",
        "_call",
        "_calls",
        "_head",
        "_reason",
        "_said",
        "_shows_thinking",
        "_text",
        "_thought",
        "details",
        "verbose",
        "wants_logprobs",
    )

    def __init__(self, begun: Begun, details: AnswerDetails | None) -> None:
        request = begun.request
        self.verbose: Verbose | None = None
        self.wants_logprobs = request.wants_logprobs
        self.details = details
        self._begun = begun
        self._head = _head(answering_model(begun))
        self._shows_thinking = request.shows_thinking
        is_chat = request.api is Api.OLLAMA_CHAT
        # The JSON before a piece of text, before one of the thoughts, and after both.
        self._text = ',"message":{"role":"assistant","content":' if is_chat else ',"response":'
        self._thought = f'{self._text}"","thinking":'
        self._after = "}" if is_chat else ""
        #: The call that is not complete yet, and the number of calls.
        self._call: MadeCall | None = None
        self._calls = 0
        self._said = False
        self._reason = FinishReason.STOP

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        choice = choices[0]
        content = choice.content
        if not content and choice.refusal is not None:
            content = choice.refusal.text
        members = f"{self._text}{quote(content)}"
        if self._shows_thinking and (reasoning := choice.reasoning):
            members += f',"thinking":{quote(reasoning)}'
        if calls := choice.tool_calls:
            written = ",".join(_call_json(call, place) for place, call in enumerate(calls))
            members += f',"tool_calls":[{written}]'
        members += self._after + _logprobs(choice.logprobs)
        context = "" if self.details is None else self.details.context(choice.token_ids)
        return self._head + members + self._ending(choice.finish_reason, context, usage)

    def start(self, usage: Usage) -> str:
        return ""

    def begin(self, index: int) -> str:
        return ""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        written = ""
        # A group has its tokens in its first line.
        extra = _logprobs(logprobs) if logprobs else ""
        for event in events:
            kind = type(event)
            if kind is Content:
                written += self._finished_call()
                self._said = True
                written += f"{self._head}{self._text}{quote(event.text)}"  # type: ignore[union-attr]
            elif kind is Reasoning:
                if not self._shows_thinking:
                    continue
                written += self._finished_call()
                written += f"{self._head}{self._thought}{quote(event.text)}"  # type: ignore[union-attr]
            elif isinstance(event, Arguments):
                if self._call is not None:
                    self._call.arguments += event.text
                continue
            else:
                assert isinstance(event, ToolCall)
                written += self._finished_call()
                self._call = MadeCall(event.call_id, event.name)
                continue
            written += self._after + extra + _GOES_ON
            extra = ""
        if extra:
            written += f'{self._head}{self._text}""{self._after}{extra}{_GOES_ON}'
        return written

    def tool(self, item: ToolCalled | ToolRan) -> str:
        return ""  # a client would run the call itself

    def speak(self, index: int, pcm: bytes) -> str:
        return ""

    def refuse(self, index: int, refused: Refused) -> str:
        if self._said or not refused.text:
            return ""
        return f"{self._head}{self._text}{quote(refused.text)}{self._after}{_GOES_ON}"

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        """Write the last call; the reason goes into the line of `end`."""
        self._reason = reason
        return self._finished_call()

    def end(self, usage: Usage) -> str:
        context = "" if self.details is None else self.details.context()
        ending = self._ending(self._reason, context, usage)
        return f'{self._head}{self._text}""{self._after}{ending}\n'

    def failure(self, error: RequestError) -> str:
        return ""  # the front knows the form

    def _finished_call(self) -> str:
        """Return the line of the call that is complete now, if there is one."""
        call = self._call
        if call is None:
            return ""
        self._call = None
        member = f'"","tool_calls":[{_call_json(call, self._calls)}]'
        self._calls += 1
        return f"{self._head}{self._text}{member}{self._after}{_GOES_ON}"

    def _ending(self, reason: FinishReason, context: str, usage: Usage) -> str:
        why = "length" if reason is FinishReason.LENGTH else "stop"
        return (
            f',"done":true,"done_reason":"{why}"{context}'
            f"{_metrics(self._begun.request.record, usage)}{verbose_json(self.verbose)}}}"
        )


def ollama_writer(begun: Begun) -> OllamaAnswerWriter:
    """Return the writer of an answer that begins."""
    details = None
    if begun.request.returns_token_ids:
        details = AnswerDetails(begun.request, begun.prompt_ids, begun.choices)
    return OllamaAnswerWriter(begun, details)


def loaded_answer(api: Api, members: Mapping[str, Any]) -> str:
    """Return the answer to a request that only loads a model, or lets it go.

    Raises:
        RequestError: its ``keep_alive`` is wrong.
    """
    keeps = members.get(KEEP_ALIVE.name)
    is_over = keeps is not None and KEEP_ALIVE.read(keeps, KEEP_ALIVE.name) == 0
    said = '"message":{"role":"assistant","content":""}'
    if api is Api.OLLAMA_GENERATE:
        said = '"response":""'
    why = "unload" if is_over else "load"
    return f'{_head(str(members.get("model")))},{said},"done":true,"done_reason":"{why}"}}'


def _head(model: str) -> str:
    now = datetime.fromtimestamp(time.time(), UTC)
    return f'{{"model":{quote(model)},"created_at":"{now:%Y-%m-%dT%H:%M:%S.%fZ}"'


def _metrics(record: RequestRecord | None, usage: Usage) -> str:
    """Return counts and durations, in nanoseconds.

    Loading is the time until a model has the request: also its wait for other requests of the
    graph, and for a model that loads on demand.
    """
    counts = f',"prompt_eval_count":{usage.prompt_tokens},"eval_count":{usage.completion_tokens}'
    if record is None or not record.generations:
        return counts
    now = time.perf_counter_ns()
    last = record.generations[-1]
    first_token = last.first_token or now
    return (
        f',"total_duration":{now - record.began}'
        f',"load_duration":{record.generations[0].began - record.began}'
        f'{counts},"prompt_eval_duration":{first_token - last.began}'
        f',"eval_duration":{max(1, now - first_token)}'
    )


def _logprobs(logprobs: Sequence[TokenLogprob] | None) -> str:
    return f',"logprobs":[{logprob_items_json(logprobs)}]' if logprobs else ""


def _call_json(call: MadeCall, place: int) -> str:
    arguments = object_json(call.arguments)
    if len(arguments.splitlines()) > 1:
        # Models write line ends between members.
        arguments = json.dumps(json.loads(arguments))
    return (
        f'{{"id":{quote(call.call_id)},"function":{{"index":{place},"name":{quote(call.name)}'
        f',"arguments":{arguments}}}}}'
    )
