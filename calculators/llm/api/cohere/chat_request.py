"""Requests to Cohere's ``/v2/chat``: members and their reader.

Documents become texts of the system's message with a number each, and the model is asked to write
the number where it takes something from one. The answer cites what the model marks so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests import members as declared
from calculators.kit.requests import schema as schemas
from calculators.kit.requests.http_payload import RequestError
from calculators.language.generation_request import (
    NO_ARGUMENTS,
    NO_TOOLS,
    Message,
    Source,
    StructuredOutput,
    TemplateArguments,
    Tools,
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
