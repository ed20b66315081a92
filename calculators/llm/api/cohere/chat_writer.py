"""Answers of Cohere's ``/v2/chat``, whole and as events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypedDict

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
from calculators.language.events import OutputEvent, Refused
from calculators.language.generation_request import Source
from calculators.llm.answers import blocks
from calculators.llm.answers.response import (
    IMPOSSIBLE,
    AnswerChoice,
    AnswerDetails,
    quote,
    value_json,
)

_FINISH_REASONS: Final = {
    FinishReason.STOP: "COMPLETE",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.TOOL_CALLS: "TOOL_CALL",
    FinishReason.CONTENT_FILTER: "ERROR",
}
_MARK: Final = re.compile(r"\[(\d{1,4}(?:\s?,\s?\d{1,4})*)\]")
#: The end of a sentence, or an earlier mark.
_BEFORE: Final = re.compile(r"(?:[.!?]\s|\n|\])")
_MEMBERS: Final = {blocks.BlockKind.REASONING: "thinking"}


class Citation(TypedDict):
    """A citation as answers have it; ``start`` and ``end`` are characters of its text."""

    start: int
    end: int
    text: str
    sources: list[dict[str, Any]]
    content_index: int
    type: str


def citations(
    text: str, documents: Sequence[Source], start: int = 0, index: int = 0
) -> tuple[list[Citation], int]:
    """Return the citations of the marks from a character on, and where the next may begin."""
    by_mark = {each.mark: each for each in documents}
    found: list[Citation] = []
    for match in _MARK.finditer(text, start):
        start = match.end()
        marks = [int(mark) for mark in match[1].split(",")]
        cited = [by_mark[mark] for mark in marks if mark in by_mark]
        if not cited:
            continue
        end = len(text[: match.start()].rstrip())
        last = 0
        for before in _BEFORE.finditer(text, 0, max(end - 1, 0)):
            last = before.end()
        begin = last + len(text[last:end]) - len(text[last:end].lstrip())
        sources = [
            {"type": "document", "id": each.id, "document": {"id": each.id, "text": each.text}}
            for each in cited
        ]
        found.append(
            {
                "start": begin,
                "end": end,
                "text": text[begin:end],
                "sources": sources,
                "content_index": index,
                "type": "TEXT_CONTENT",
            }
        )
    return found, start


class CohereChatWriter:
    """An `AnswerWriter` of one answer."""

    __slots__ = (
        "_blocks",
        "_cited",
        "_documents",
        "_id",
        "_number",
        "_reason",
        "_refused",
        "details",
        "verbose",
        "wants_logprobs",
    )

    def __init__(self, begun: Begun) -> None:
        request = begun.request
        self.wants_logprobs = request.wants_logprobs
        self.verbose: Verbose | None = None
        self.details: AnswerDetails | None = None
        self._id = request.id
        self._documents = request.sources
        self._blocks = blocks.Blocks()
        self._refused: Refused | None = None
        self._reason = "COMPLETE"
        #: Where the next mark may begin in the open text, and how many citations it has so far.
        self._cited = 0
        self._number = 0

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        choice = choices[0]
        content: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        cited: list[Citation] = []
        for block in blocks.blocks_of(choice):
            if block.kind is blocks.BlockKind.CALL:
                calls.append(_call(block, block.text))
            elif block.kind in (blocks.BlockKind.CONTENT, blocks.BlockKind.REASONING):
                if block.kind is blocks.BlockKind.CONTENT:
                    cited += citations(block.text, self._documents, 0, len(content))[0]
                content.append(_content(block, block.text))
        if choice.refusal is not None and choice.refusal.text:
            content.append({"type": "text", "text": choice.refusal.text})
        members = {"content": content, "tool_calls": calls, "citations": cited}
        message = {"role": "assistant", **{name: each for name, each in members.items() if each}}
        answer: dict[str, Any] = {
            "id": self._id,
            "finish_reason": _reason(choice.finish_reason, choice.stop_string),
            "message": message,
            "usage": _usage(usage),
        }
        if choice.logprobs:
            answer["logprobs"] = [_logprobs(choice.logprobs)]
        return value_json(answer)

    def start(self, usage: Usage) -> str:
        empty: dict[str, Any] = {"tool_plan": "", "content": [], "tool_calls": [], "citations": []}
        message = {"role": "assistant", **empty}
        return _event("message-start", id=self._id, delta={"message": message})

    def begin(self, index: int) -> str:
        return ""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        return self._written(
            [step for event in events for step in self._blocks.add(event)], logprobs
        )

    def tool(self, item: ToolCalled | ToolRan) -> str:
        return ""

    def speak(self, index: int, pcm: bytes) -> str:
        return ""

    def refuse(self, index: int, refused: Refused) -> str:
        return self._written([*self._blocks.refuse(refused.text)], None)

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        self._reason = _reason(reason, stop_string)
        return self._written([*self._blocks.finish()], None)

    def end(self, usage: Usage) -> str:
        delta = {"finish_reason": self._reason, "usage": _usage(usage)}
        return _event("message-end", id=self._id, delta=delta)

    def failure(self, error: RequestError) -> str:
        delta = {"error": str(error), "finish_reason": "ERROR"}
        return _event("message-end", id=self._id, delta=delta)

    def _written(
        self, steps: Sequence[blocks.Step], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        written = ""
        for step in steps:
            block = step.block
            if type(step) is blocks.BlockDelta and block.kind is not blocks.BlockKind.CALL:
                written += self._text(block, step.text, logprobs)
                logprobs = None
                continue
            is_call = block.kind is blocks.BlockKind.CALL
            kind = "tool-call" if is_call else "content"
            match step:
                case blocks.BlockOpened():
                    self._cited = 0
                    opened = {"tool_calls": _call(block, "")}
                    if not is_call:
                        opened = {"content": _content(block, "")}
                    delta = {"message": opened}
                    written += _event(f"{kind}-start", index=block.index, delta=delta)
                case blocks.BlockDelta(_, text):
                    delta = {"message": {"tool_calls": {"function": {"arguments": text}}}}
                    written += _event("tool-call-delta", index=block.index, delta=delta)
                case blocks.BlockClosed():
                    written += _event(f"{kind}-end", index=block.index)
        return written

    def _text(
        self, block: blocks.OutputBlock, text: str, logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        """Return the event of more text or thoughts, and of what it cites."""
        scores = f',"logprobs":{value_json(_logprobs(logprobs))}' if logprobs else ""
        content = f'{{"{_MEMBERS.get(block.kind, "text")}":{quote(text)}}}'
        written = (
            f'event: content-delta\ndata: {{"type":"content-delta","index":{block.index}'
            f',"delta":{{"message":{{"content":{content}}}}}{scores}}}\n\n'
        )
        return written + self._cite(block) if "]" in text else written

    def _cite(self, block: blocks.OutputBlock) -> str:
        if not self._documents or block.kind is not blocks.BlockKind.CONTENT:
            return ""
        found, self._cited = citations(block.text, self._documents, self._cited, block.index)
        written = ""
        for each in found:
            delta = {"message": {"citations": each}}
            written += _event("citation-start", index=self._number, delta=delta)
            written += _event("citation-end", index=self._number)
            self._number += 1
        return written


def _reason(reason: FinishReason, stop_string: str | None) -> str:
    if reason is FinishReason.STOP and stop_string is not None:
        return "STOP_SEQUENCE"
    return _FINISH_REASONS[reason]


def _content(block: blocks.OutputBlock, text: str) -> dict[str, Any]:
    name = _MEMBERS.get(block.kind, "text")
    return {"type": name, name: text}


def _call(block: blocks.OutputBlock, arguments: str) -> dict[str, Any]:
    function = {"name": block.name, "arguments": arguments}
    return {"id": block.call_id, "type": "function", "function": function}


def _logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """Return the item about tokens; their ids are not known here."""
    values = [IMPOSSIBLE if each.logprob is None else each.logprob for each in tokens]
    text = "".join(each.token for each in tokens)
    return {
        "text": text,
        "token_ids": [],
        "logprobs": [max(value, IMPOSSIBLE) for value in values],
    }


def _usage(usage: Usage) -> dict[str, Any]:
    counts = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
    cached = {} if usage.cached_tokens is None else {"cached_tokens": usage.cached_tokens}
    return {"billed_units": counts, "tokens": counts, **cached}


def _event(kind: str, **members: Any) -> str:
    return f"event: {kind}\ndata: {value_json({'type': kind, **members})}\n\n"
