"""Cohere's API of chats: requests to ``/v2/chat``, and their answers.

Documents become texts of the system's message with a number each, and the model is asked to write
the number where it takes something from one. The answer cites what the model marks so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests import members as declared
from calculators.kit.requests import schema as schemas
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
from calculators.language.generation_request import (
    NO_ARGUMENTS,
    NO_TOOLS,
    Message,
    Source,
    StructuredOutput,
    TemplateArguments,
    Tools,
)
from calculators.llm.answers import blocks
from calculators.llm.answers.response import (
    IMPOSSIBLE,
    AnswerChoice,
    AnswerDetails,
    quote,
    value_json,
)
from calculators.llm.grammars import formats
from calculators.llm.requests.checked_request import STREAMING_MEMBERS, read_body, read_generation
from calculators.llm.requests.completions_request import ChatRequest, media_of
from calculators.llm.requests.messages import document_text, normalise_messages, required_string
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import (
    CHAT_LOGPROBS_MEMBERS,
    SAMPLING_MEMBERS,
    max_tokens_member,
    stop_member,
)
from calculators.llm.requests.structured_output import MAX_SIZE, check_size, read_text_format
from calculators.llm.requests.tools import CHAT_NAME, read_tools

_MOST_DOCUMENTS: Final = 1024
_FORMAT: Final = ("type", "json_schema", "schema")
COHERE_CHAT_MEMBERS: Final[declared.Members] = declared.table(
    declared.EVERYWHERE,
    {name: SAMPLING_MEMBERS[name] for name in ("temperature", "seed")},
    {name: SAMPLING_MEMBERS[name] for name in ("frequency_penalty", "presence_penalty")},
    {"logprobs": CHAT_LOGPROBS_MEMBERS["logprobs"], "stream": STREAMING_MEMBERS["stream"]},
    declared.honoured(
        "messages",
        declared.Value(
            schemas.array(schemas.ref("CohereMessage"), minItems=1, maxItems=LIMITS.max_messages)
        ),
        is_required=True,
    ),
    declared.honoured(
        "p", declared.Number(minimum=0, maximum=1), "Only the likeliest tokens, up to this sum."
    ),
    declared.honoured(
        "k",
        declared.Integer(minimum=0, maximum=fields.INT32_MAX),
        "Only so many of the likeliest tokens; 0 is all.",
    ),
    max_tokens_member(),
    stop_member("stop_sequences"),
    declared.honoured(
        "tools", declared.Value(schemas.array(schemas.ref("Tool"), maxItems=LIMITS.max_tools))
    ),
    declared.honoured(
        "strict_tools", declared.BOOLEAN, "Calls follow the schemas of the tools in full."
    ),
    declared.honoured("tool_choice", declared.Enumeration(("REQUIRED", "NONE"))),
    declared.honoured(
        "documents",
        declared.Array(
            schemas.one_of(schemas.string(), schemas.ref("CohereDocument")),
            {"maxItems": _MOST_DOCUMENTS},
        ),
        "Texts for the answer, which cites those that the model marks.",
    ),
    declared.honoured(
        "citation_options",
        declared.Object(schemas.request({"mode": schemas.string("`OFF`: no citations.")})),
    ),
    declared.honoured(
        "response_format",
        declared.Object(
            schemas.record(
                {
                    "type": schemas.word(("text", "json_object")),
                    "json_schema": {"type": ["object", "null"]},
                },
                required=("type",),
            )
        ),
    ),
    declared.honoured(
        "thinking",
        declared.Object(
            schemas.record({"type": schemas.word(("enabled", "disabled"))}, required=("type",))
        ),
        "Sets `enable_thinking`; `token_budget` is no limit.",
    ),
    declared.ignored("changes nothing: nothing is moderated here", "safety_mode"),
    declared.ignored("is about how soon an answer comes", "priority"),
    declared.refused("is not supported", "raw_prompting"),
)
_AS_CHATS: Final = {"p": "top_p", "k": "top_k"}
_NAMES: Final = {chat: name for name, chat in _AS_CHATS.items()}
_GENERATION: Final = frozenset(
    {"temperature", "seed", "frequency_penalty", "presence_penalty", "logprobs", "p", "k"}
    | {"max_tokens", "stop_sequences"}
)
_ROLE: Final = declared.Enumeration(("system", "user", "assistant", "tool"))
_ASKED: Final = (
    "Put the number of a document in brackets, such as [1], right after each sentence that takes "
    "something from it."
)


class CohereChatRequest(ChatRequest, frozen=True, kw_only=True):
    """A checked request; ``documents``: what the answer may cite."""

    documents: tuple[Source, ...] = ()


def parse_cohere_chat_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> CohereChatRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, COHERE_CHAT_MEMBERS)
    members = {_AS_CHATS.get(name, name): body[name] for name in body if name in _GENERATION}
    asked = {**members, "model": body.get("model", ""), "stream": body.get("stream", False)}
    try:
        generation = read_generation(asked, defaults, limits)
    except RequestError as error:
        raise fields.renamed(error, _NAMES) from None
    mode = fields.string(body.get("citation_options", {}), "mode", "citation_options.mode")
    cites = mode not in ("OFF", "off", "DISABLED")
    documents = _documents(body)
    messages = _messages(body, limits)
    if documents:
        _show(messages, documents, cites=cites)
    media = media_of(messages, limits)
    return CohereChatRequest(
        **structs.asdict(
            structs.replace(generation, structured=_read_format(body), members=members)
        ),
        tools=_tools(body, limits),
        messages=messages,
        template=_template(body),
        logprobs=generation.settings.logprobs,
        images=tuple(media.images),
        sounds=tuple(media.sounds),
        documents=documents if cites else (),
    )


def _messages(body: Mapping[str, Any], limits: RequestLimits) -> list[Message]:
    value = body.get("messages")
    if value is None:
        raise fields.missing("messages", "the conversation, an array of messages")
    if isinstance(value, list) and len(value) > limits.max_messages:
        raise fields.invalid(
            "messages", f"{len(value)} messages are more than the maximum {limits.max_messages}"
        )
    if isinstance(value, list):
        value = [_message(each, f"messages[{i}]") for i, each in enumerate(value)]
    return normalise_messages(value)


def _message(value: object, path: str) -> object:
    """Return a message as chats have it; what is no message is left to their reader."""
    if not isinstance(value, dict):
        return value
    if value.get("role") is not None:
        _ROLE.read(value["role"], f"{path}.role")
    message = {name: each for name, each in value.items() if name not in ("citations", "tool_plan")}
    plan = fields.string(value, "tool_plan", f"{path}.tool_plan")
    if plan and not message.get("content"):
        message["content"] = plan
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = [
            _result(part, f"{path}.content[{i}]") for i, part in enumerate(content)
        ]
    return message


def _result(part: object, path: str) -> object:
    """Return a part of a tool's result; a document in it is a text."""
    if not isinstance(part, dict) or part.get("type") != "document":
        return part
    source = _document(part.get("document"), f"{path}.document", 0)
    return {"type": "text", "text": document_text(source.text, source.id)}


def _documents(body: Mapping[str, Any]) -> tuple[Source, ...]:
    documents = body.get("documents") or ()
    fields.check_most("documents", len(documents), "documents", _MOST_DOCUMENTS)
    return tuple(_document(each, f"documents[{i}]", i + 1) for i, each in enumerate(documents))


def _document(value: object, path: str, mark: int) -> Source:
    if isinstance(value, str):
        return Source(mark, f"doc:{mark - 1}", value, f"doc:{mark - 1}")
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "a text or an object", value)
    declared.check_object(value, path, ("id", "data"))
    name = fields.string(value, "id", f"{path}.id") or f"doc:{max(mark - 1, 0)}"
    data = value.get("data")
    match data:
        case str():
            text = data
        case {"text": str(only), **rest} if not rest:
            text = only
        case dict():
            text = "\n".join(
                f"{key}: {each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)}"
                for key, each in data.items()
            )
        case None:
            raise fields.missing(f"{path}.data", "the text, or texts by name")
        case _:
            raise fields.wrong_type(f"{path}.data", "a text or an object", data)
    return Source(mark, name, text, name)


def _show(messages: list[Message], documents: Sequence[Source], *, cites: bool) -> None:
    """Put the documents into the system's message, which is made if there is none."""
    texts = [document_text(each.text, str(each.mark)) for each in documents]
    shown = "".join(texts) + (_ASKED if cites else "")
    first = messages[0]
    if first["role"] == "system" and isinstance(first["content"], str):
        messages[0] = {**first, "content": f"{first['content']}\n\n{shown}"}
    else:
        messages.insert(0, {"role": "system", "content": shown})


def _tools(body: Mapping[str, Any], limits: RequestLimits) -> Tools:
    offered = body.get("tools")
    choice = body.get("tool_choice")
    if offered is None and choice is None:
        return NO_TOOLS
    if body.get("strict_tools") and isinstance(offered, list):
        offered = [_strict(tool) for tool in offered]
    asked = {"tools": offered, "tool_choice": "auto" if choice is None else choice.lower()}
    return read_tools(asked, limits, longest_name=CHAT_NAME)


def _strict(tool: Any) -> Any:
    if isinstance(tool, dict) and isinstance(tool.get("function"), dict):
        return {**tool, "function": {**tool["function"], "strict": True}}
    return tool


def _template(body: Mapping[str, Any]) -> TemplateArguments:
    thinking = body.get("thinking")
    if thinking is None:
        return NO_ARGUMENTS
    declared.check_object(thinking, "thinking", ("type", "token_budget"))
    kind = required_string(thinking, "type", "thinking")
    if kind not in ("enabled", "disabled"):
        shown = fields.describe(kind)
        raise fields.invalid("thinking.type", f'{shown} is neither "enabled" nor "disabled"')
    return TemplateArguments({"enable_thinking": kind == "enabled"})


def _read_format(body: Mapping[str, Any]) -> StructuredOutput | None:
    asked = body.get("response_format")
    if asked is None:
        return None
    declared.check_object(asked, "response_format", _FORMAT)
    for name in ("json_schema", "schema"):
        schema = fields.json_object(asked, name, f"response_format.{name}")
        if schema is not None and asked.get("type") == "json_object":
            path = f"response_format.{name}"
            check_size(schema, MAX_SIZE, path)
            return StructuredOutput(formats.json_schema(schema, path), path)
    return read_text_format(asked, "response_format")


_DOCUMENT_PART: Final = schemas.record({"type": schemas.const("document")}, required=("type",))
COHERE_SCHEMAS: Final = {
    "CohereMessage": schemas.record(
        {
            "role": _ROLE.schema(""),
            "content": schemas.one_of(
                schemas.string(),
                schemas.array(
                    schemas.one_of(
                        {"anyOf": [schemas.ref("ContentPart")], "not": _DOCUMENT_PART},
                        schemas.ref("CohereDocumentPart"),
                        schemas.string(),
                    )
                ),
                schemas.const(None),
            ),
            "tool_calls": schemas.nullable(schemas.array(schemas.ref("SaidToolCall"))),
            "tool_plan": {"type": ["string", "null"]},
        },
        "As a message of `/chat/completions`; results of tools may have documents.",
        required=("role",),
        anyOf=[{"properties": {"role": schemas.const("assistant")}}, {"required": ["content"]}],
    ),
    "CohereDocumentPart": schemas.tagged(
        "document",
        {"document": schemas.one_of(schemas.ref("CohereDocument"), schemas.string())},
    ),
    "CohereDocument": schemas.request(
        {"id": schemas.string(), "data": schemas.one_of(schemas.string(), schemas.anything())},
        required=("data",),
    ),
    "CohereChatAnswer": schemas.record(
        {
            "id": schemas.string(),
            "finish_reason": schemas.word(
                ("COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL", "ERROR")
            ),
            "message": schemas.record(
                {
                    "role": schemas.const("assistant"),
                    "content": schemas.array(schemas.anything("A text, or thinking.")),
                    "tool_calls": schemas.array(schemas.anything("As in `/chat/completions`.")),
                    "citations": schemas.array(schemas.ref("CohereCitation")),
                },
                required=("role",),
            ),
            "usage": schemas.anything("`billed_units` and `tokens`, each of input and output."),
            "logprobs": schemas.array(schemas.anything("`text`, `token_ids`, `logprobs`.")),
        },
        required=("id", "finish_reason", "message", "usage"),
    ),
    "CohereCitation": schemas.record(
        {
            "start": {"type": "integer"},
            "end": {"type": "integer"},
            "text": schemas.string(),
            "content_index": {"type": "integer"},
            "type": schemas.const("TEXT_CONTENT"),
            "sources": schemas.array(schemas.anything("Documents by `id`.")),
        },
        "The sentence before a number in brackets that the model wrote.",
        required=("start", "end", "text", "sources"),
    ),
    "CohereChatEvent": schemas.record(
        {
            "type": schemas.string("Such as `content-delta`."),
            "index": {"type": "integer"},
            "id": schemas.string(),
            "delta": schemas.anything(),
            "logprobs": schemas.anything(),
        },
        required=("type",),
    ),
}


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
