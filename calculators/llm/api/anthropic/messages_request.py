"""Requests to ``/messages`` and ``/messages/count_tokens``: members, readers, checked requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    COUNT,
    EVERYWHERE,
    Array,
    Enumeration,
    Member,
    Members,
    Object,
    Value,
    check_object,
    honoured,
    ignored,
    leave_out_type,
    read_model,
    refused,
    table,
)
from calculators.kit.requests.schema import (
    Schema,
    array,
    nullable,
    one_of,
    record,
    ref,
    request,
    string,
    word,
)
from calculators.language.generation_request import StructuredOutput, TemplateArguments
from calculators.llm.api.anthropic.citations import (
    ASKED,
    CitedPassage,
    Passages,
    asks_for_citations,
)
from calculators.llm.api.anthropic.tools import read_messages_tools
from calculators.llm.requests.checked_request import GENERATING, read_body, read_generation
from calculators.llm.requests.completions_request import ChatRequest, CountTokensRequest
from calculators.llm.requests.messages import (
    VIDEO_TYPES,
    MediaCheck,
    SaidMessage,
    check_anything_is_left,
    decoded_text,
    document_text,
    joined_parts,
    required_string,
    text_part,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import N, max_tokens_member, stop_member
from calculators.llm.requests.structured_output import only_one, read_text_format
from calculators.llm.requests.template_arguments import TEMPLATE_MEMBERS, read_template_arguments
from calculators.llm.requests.tools import MAX_SERVERS, check_toolsets, read_mcp_servers


def read_messages(
    body: Mapping[str, Any], limits: RequestLimits, media: MediaCheck, passages: Passages
) -> list[dict[str, Any]]:
    """Return the conversation. A user's turn with results of tools becomes several messages.

    The last message may be the assistant's: its text is the beginning of the answer.

    ``media`` gathers the images, ``passages`` what the answer may cite.

    Raises:
        RequestError: ``param`` is the place, such as ``messages[2].content[0].text``.
    """
    value = body.get("messages")
    if value is None:
        raise fields.missing("messages", "the conversation, an array of messages")
    if not isinstance(value, list):
        raise fields.wrong_type("messages", "an array", value)
    if not value:
        raise fields.invalid("messages", "expected at least one message")
    if len(value) > limits.max_messages:
        raise fields.invalid(
            "messages", f"{len(value)} messages are more than the maximum {limits.max_messages}"
        )
    conversation = _MessagesInput(media, passages)
    if body.get("system") is not None:
        conversation.add_text("system", body["system"], "system")
    for place, message in enumerate(value):
        conversation.add(message, f"messages[{place}]")
    if not conversation.messages:
        raise fields.invalid("messages", "nothing is said in any of them")
    check_anything_is_left(conversation.messages, conversation.left_out)
    if passages.found:
        conversation.ask_for_marks()
    return conversation.messages


class _MessagesInput:
    def __init__(self, media: MediaCheck, passages: Passages) -> None:
        self._passages = passages
        self.messages: list[dict[str, Any]] = []
        #: The paths of blocks of unknown types.
        self.left_out: list[str] = []
        self._media = media

    def add(self, message: object, path: str) -> None:
        if not isinstance(message, dict):
            raise fields.wrong_type(path, "an object", message)
        role = fields.string(message, "role", f"{path}.role")
        if role is None:
            raise fields.missing(f"{path}.role")
        check_object(message, path, _MESSAGE)
        content = message.get("content")
        path = f"{path}.content"
        if content is None:
            raise fields.missing(path)
        match role:
            case "user":
                self._add_user(content, path)
            case "assistant":
                self._add_assistant(content, path)
            case "system":
                self.add_text(role, content, path)
            case _:
                raise fields.invalid(
                    path.removesuffix("content") + "role",
                    f'{fields.describe(role)} is none of "user", "assistant", "system"',
                )

    def add_text(self, role: str, content: object, path: str) -> None:
        """Add a message that has only text."""
        if not isinstance(content, str):
            blocks = _blocks(content, path)
            content = joined_parts(self._texts(blocks))
        if content:
            self.messages.append({"role": role, "content": content})

    def ask_for_marks(self) -> None:
        """Ask the model, in the system's message, for the numbers of passages."""
        first = self.messages[0]
        if first["role"] == "system" and isinstance(first["content"], str):
            self.messages[0] = {**first, "content": f"{first['content']}\n\n{ASKED}"}
        else:
            self.messages.insert(0, {"role": "system", "content": ASKED})

    def _add_user(self, content: object, path: str) -> None:
        if isinstance(content, str):
            self.messages.append({"role": "user", "content": content})
            return
        parts: list[dict[str, Any]] = []
        blocks = _blocks(content, path)
        before = len(self.messages)
        for block, kind, place in blocks:
            if kind != "tool_result":
                parts += self._parts(block, kind, place, "tool_result")
                continue
            if parts:
                self.messages.append({"role": "user", "content": joined_parts(parts)})
                parts = []
            self._add_result(block, place)
        if parts or len(self.messages) == before:
            self.messages.append({"role": "user", "content": joined_parts(parts)})

    def _add_result(self, block: dict[str, Any], path: str) -> None:
        call_id = required_string(block, "tool_use_id", path)
        content = block.get("content")
        parts: list[dict[str, Any]] = []
        if fields.boolean(block, "is_error", f"{path}.is_error"):
            # Templates have no member for errors.
            parts.append(text_part("Error: "))
        if isinstance(content, str):
            parts.append(text_part(content))
        elif content is not None:
            path = f"{path}.content"
            for each in _blocks(content, path):
                parts += self._parts(*each, "tool_reference")
        self.messages.append(
            {"role": "tool", "tool_call_id": call_id, "content": joined_parts(parts)}
        )

    def _add_assistant(self, content: object, path: str) -> None:
        if isinstance(content, str):
            self.messages.append({"role": "assistant", "content": content})
            return
        said = SaidMessage()
        results = 0
        for block, kind, place in _blocks(content, path):
            if kind == "mcp_tool_result":
                # The server's own calls: each turn of the model was a message.
                self.messages += [said.message] if said.has_any else []
                said = SaidMessage()
                results += 1
                self._add_result(block, place)
                continue
            match kind:
                case "text":
                    said.parts.append(text_part(required_string(block, "text", place)))
                case "thinking":
                    said.reasoning.append(required_string(block, "thinking", place))
                case "redacted_thinking":
                    pass  # encrypted by its author
                case _ if _ran_elsewhere(kind):
                    pass  # by tools of Anthropic, in an earlier turn
                case "tool_use" | "mcp_tool_use":
                    said.calls.append(_call(block, place))
                case _:
                    self._leave_out(kind, place, "text", "thinking", "tool_use", "mcp_tool_use")
        if said.has_any or not results:
            self.messages.append(said.message)

    def _parts(
        self, block: dict[str, Any], kind: str, path: str, also: str
    ) -> list[dict[str, Any]]:
        """Return the parts of a block of the user's or of a result; ``also``: what else may be."""
        match kind:
            case "text":
                return [text_part(required_string(block, "text", path))]
            case "image":
                url = _image_url(block, path)
                self._media.image(path, url, "source")
                return [{"type": "image_url", "image_url": {"url": url}}]
            case "document":
                return self._document(block, path)
            case "search_result":
                return self._search_result(block, path)
            case "tool_reference" if also == kind:
                name = required_string(block, "tool_name", path)
                return [text_part(f"The tool {name} is loaded.\n")]
            case _:
                known = ("text", "image", "document", "search_result", also)
                self._leave_out(kind, path, *known)
                return []

    def _document(self, block: dict[str, Any], path: str) -> list[dict[str, Any]]:
        name = fields.string(block, "title", f"{path}.title") or ""
        about = fields.string(block, "context", f"{path}.context")
        is_cited = asks_for_citations(block, path)
        path = f"{path}.source"
        source = fields.json_object(block, "source", path)
        if source is None:
            raise fields.missing(path)
        check_object(source, path, _SOURCE)
        others: list[dict[str, Any]] = []
        match required_string(source, "type", path):
            case "text":
                text = required_string(source, "data", path)
            case "base64":
                kind = required_string(source, "media_type", path)
                text = decoded_text(required_string(source, "data", path), kind, f"{path}.data")
            case "content":
                texts, others = self._inner_texts(source.get("content"), f"{path}.content")
                if is_cited:
                    text = self._passages.numbered_blocks(texts, name, path)
                else:
                    text = "".join(texts)
                is_cited = False
            case kind:
                raise _unknown(kind, path, "text", "base64", "content")
        if is_cited:
            text = self._passages.numbered(text, name, path)
        self._passages.documents += 1
        before = [text_part(f"{about}\n")] if about else []
        return [*before, text_part(document_text(text, name)), *others]

    def _inner_texts(self, content: object, path: str) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the texts of a document of blocks, and its other parts."""
        if isinstance(content, str):
            return [content], []
        parts = [part for each in _blocks(content, path) for part in self._parts(*each, "text")]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        return texts, [part for part in parts if part["type"] != "text"]

    def _search_result(self, block: dict[str, Any], path: str) -> list[dict[str, Any]]:
        source = required_string(block, "source", path)
        title = fields.string(block, "title", f"{path}.title") or source
        is_cited = asks_for_citations(block, path)
        path = f"{path}.content"
        texts = [part["text"] for part in self._texts(_blocks(block.get("content"), path))]
        text = "".join(texts)
        if is_cited:
            text = self._passages.numbered_blocks(texts, title, path, source)
        self._passages.results += 1
        return [text_part(document_text(f"Source: {source}\n{text}", title))]

    def _texts(self, blocks: list[tuple[dict[str, Any], str, str]]) -> list[dict[str, Any]]:
        """Return the parts of blocks that can only be texts."""
        parts = []
        for block, kind, place in blocks:
            if kind == "text":
                parts.append(text_part(required_string(block, "text", place)))
            else:
                self._leave_out(kind, place, "text")
        return parts

    def _leave_out(self, kind: str, path: str, *known: str) -> None:
        if kind in VIDEO_TYPES:
            # Left out, it would leave an answer about something else.
            raise fields.invalid(path, "this API has no videos; /chat/completions takes them")
        leave_out_type(kind, known, path, _supported(known))
        self.left_out.append(path)


#: The members of messages; clients may send back an answer whole.
_MESSAGE: Final = frozenset(
    {
        *("role", "content", "id", "type", "model", "stop_reason", "stop_sequence"),
        *("stop_details", "usage", "container", "context_management"),
    }
)
_SOURCE: Final = frozenset(["type", "media_type", "data", "url", "file_id", "content"])
#: The members of blocks that are read, by the type.
_BLOCKS: Final = {
    kind: frozenset(f"type cache_control {members}".split())
    for kind, members in {
        "text": "text citations parsed_output",
        "image": "source",
        "document": "source title context citations",
        "search_result": "source title content citations",
        "tool_reference": "tool_name",
        "tool_result": "tool_use_id content is_error",
        "tool_use": "id name input caller",
        "thinking": "thinking signature",
        "mcp_tool_use": "id name input server_name",
        "mcp_tool_result": "tool_use_id content is_error",
    }.items()
}


def _ran_elsewhere(kind: str) -> bool:
    """Return True for blocks about tools that ran at Anthropic."""
    return kind == "server_tool_use" or kind.endswith("_tool_result")


def _blocks(content: object, path: str) -> list[tuple[dict[str, Any], str, str]]:
    """Return each block with its type and its path."""
    if not isinstance(content, list):
        raise fields.wrong_type(path, "a string or an array of blocks", content)
    blocks = []
    for number, block in enumerate(content):
        place = f"{path}[{number}]"
        if not isinstance(block, dict):
            raise fields.wrong_type(place, "an object", block)
        kind = required_string(block, "type", place)
        if (known := _BLOCKS.get(kind)) is not None:
            check_object(block, place, known)
        blocks.append((block, kind, place))
    return blocks


def _image_url(block: dict[str, Any], path: str) -> str:
    path = f"{path}.source"
    source = fields.json_object(block, "source", path)
    if source is None:
        raise fields.missing(path)
    check_object(source, path, _SOURCE)
    match required_string(source, "type", path):
        case "url":
            return required_string(source, "url", path)
        case "base64":
            media_type = required_string(source, "media_type", path)
            return f"data:{media_type};base64,{required_string(source, 'data', path)}"
        case kind:
            raise _unknown(kind, path, "base64", "url")


def _call(block: dict[str, Any], path: str) -> dict[str, Any]:
    arguments = fields.json_object(block, "input", f"{path}.input")
    if arguments is None:
        raise fields.missing(f"{path}.input")
    written = json.dumps(arguments, ensure_ascii=False)
    function = {"name": required_string(block, "name", path), "arguments": written}
    return {"id": required_string(block, "id", path), "type": "function", "function": function}


def _unknown(kind: str, path: str, *known: str) -> Exception:
    return fields.invalid(f"{path}.type", f"{fields.describe(kind)} {_supported(known)}")


def _supported(known: Sequence[str]) -> str:
    return "is not supported here: " + ", ".join(f'"{word}"' for word in known)


ANTHROPIC_EFFORT: Final = Enumeration(("low", "medium", "high", "xhigh", "max"))
#: True if the model thinks, by the type of ``thinking``.
THINKS: Final = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
THINKING: Final[dict[str, Schema]] = {
    "type": word(THINKS),
    "budget_tokens": nullable(COUNT.schema("")),
    "display": {"description": "`omitted` leaves out what the model thinks."},
    "block_binding": {},
}
#: ``task_budget`` is without effect: it is for the program that runs the task.
OUTPUT_CONFIG: Final[dict[str, Schema]] = {
    "effort": ANTHROPIC_EFFORT.schema(""),
    "format": {},
    "task_budget": {},
}


def _output_config(**more: Schema) -> Member:
    form = request({**OUTPUT_CONFIG, **more}, additionalProperties=False)
    return honoured("output_config", Object(form))


_CONVERSATION: Final[Members] = table(
    honoured(
        "messages",
        Value(array(ref("MessageParam"), minItems=1, maxItems=LIMITS.max_messages)),
        is_required=True,
    ),
    honoured(
        "system",
        Value(one_of(string(), array(one_of(ref("TextBlock"), ref("OtherTextBlock"))))),
    ),
    honoured(
        "tools",
        Array(
            one_of(
                ref("MessageTool"),
                ref("AnthropicTool"),
                ref("HostedMessageTool"),
                ref("McpToolset"),
            ),
            {"maxItems": LIMITS.max_tools},
        ),
    ),
    honoured("tool_choice", Value(ref("MessageToolChoice"))),
    honoured("thinking", Object(record(THINKING, required=("type",), additionalProperties=False))),
    TEMPLATE_MEMBERS,
)
_CALLER: Final[Members] = table(
    ignored("is about caches; prefixes are cached without being asked", "cache_control"),
    ignored("is a header in Anthropic's API", "betas anthropic_beta anthropic_version"),
    ignored("changes nothing: the conversation is taken whole", "context_management"),
    ignored("is about how soon an answer comes", "speed"),
    ignored(
        "says who asks, or what is kept or counted elsewhere",
        "metadata service_tier user_profile_id workspace_id billing_policy diagnostics "
        "fallback_credit_token",
    ),
    ignored("changes nothing: no other model answers instead", "fallbacks"),
    refused("is not supported: the model runs where this server runs", "inference_geo"),
)


def _only_null(name: str) -> Member:
    """Declare a member that the reader refuses in Anthropic's own words."""
    form: Schema = {"type": "null", "description": "Nothing is stored or run here."}
    return honoured(name, Value(form))


MESSAGES_MEMBERS: Final[Members] = table(
    GENERATING,
    _CONVERSATION,
    _CALLER,
    max_tokens_member(is_required=True),
    honoured("n", N, "There is one answer.", maximum=1),
    stop_member("stop_sequences"),
    _output_config(format=ref("TextFormat")),
    honoured("output_format", Object(ref("TextFormat"))),
    refused("is not one of Anthropic's; use stop_sequences", "stop"),
    honoured(
        "mcp_servers",
        Array(ref("McpServer"), {"maxItems": MAX_SERVERS}),
        "Servers of tools by their labels, for a graph with a tools node.",
    ),
    *map(_only_null, ("thread", "compaction", "container")),
)
COUNT_TOKENS_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    _CONVERSATION,
    _CALLER,
    _output_config(),
    ignored("does not change how many tokens there are", "output_format mcp_servers"),
    refused("is not supported", "compaction"),
)


class MessagesRequest(ChatRequest, frozen=True, kw_only=True):
    """A checked messages request; ``passages``: what the answer may cite."""

    passages: tuple[CitedPassage, ...] = ()


def parse_messages_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> MessagesRequest:
    """Check a parsed body.

    Further members of chat requests, such as ``seed`` or ``min_p``, have the same meaning here.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, MESSAGES_MEMBERS)
    generation = read_generation(body, defaults, limits, needs_max_tokens=True)
    if generation.n > 1:
        raise fields.invalid("n", f"{generation.n} is not supported: there is one answer")
    _refuse_what_is_kept(body)
    structured = only_one(generation.structured, _read_format(body))
    servers = read_mcp_servers(body)
    tools, is_parallel = read_messages_tools(body, limits, has_servers=bool(servers))
    thinking = body.get("thinking", {})
    media, passages = MediaCheck(limits), Passages()
    messages = read_messages(body, limits, media, passages)
    if passages.found and structured is not None:
        raise fields.combined(structured.param, "citations of documents")
    return MessagesRequest(
        **structs.asdict(structs.replace(generation, structured=structured)),
        tools=tools,
        tool_servers=servers,
        parallel_tool_calls=is_parallel,
        messages=messages,
        images=tuple(media.images),
        template=_read_template(body, thinking, messages),
        shows_thinking=thinking.get("display") != "omitted",
        passages=tuple(passages.found),
    )


def parse_count_tokens_request(value: object, limits: RequestLimits) -> CountTokensRequest:
    """Check the body of a request to count tokens.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, COUNT_TOKENS_MEMBERS)
    media = MediaCheck(limits)
    messages = read_messages(body, limits, media, Passages())
    check_toolsets(body)
    return CountTokensRequest(
        model=read_model(body),
        # Servers are not asked for their tools here.
        tools=read_messages_tools(body, limits, has_servers=True)[0],
        messages=messages,
        images=tuple(media.images),
        template=_read_template(body, body.get("thinking", {}), messages),
    )


def _refuse_what_is_kept(body: Mapping[str, Any]) -> None:
    """Refuse members for servers that store conversations."""
    if body.get("thread") is not None:
        # After this code Anthropic's client sends the whole conversation each time.
        raise RequestError(
            'Invalid value for "thread": no conversation is stored; send all messages without it',
            param="thread",
            reason="thread_unsupported_request",
        )
    for name in ("compaction", "container"):
        if body.get(name) is not None:
            raise fields.invalid(name, "the member is not supported")


def count_tokens_response(tokens: int) -> str:
    """Return the body of the answer to a request to count tokens."""
    return f'{{"input_tokens":{tokens}}}'


def _read_template(
    body: Mapping[str, Any], thinking: Mapping[str, Any], messages: list[dict[str, Any]]
) -> TemplateArguments:
    """Read ``thinking`` and ``output_config.effort``; ``chat_template_kwargs`` overrides both.

    A last message of the assistant is continued, unless ``add_generation_prompt`` says otherwise.
    ``budget_tokens`` has no effect: the engine has no limit on reasoning.
    """
    template = read_template_arguments(
        {name: value for name, value in body.items() if name != "thinking"}
    )
    values = dict(template.values)
    if "thinking" in body:
        check_object(thinking, "thinking", THINKING)
        kind = thinking.get("type")
        if not isinstance(kind, str) or kind not in THINKS:
            raise fields.invalid(
                "thinking.type",
                f'{fields.describe(kind)} is none of "enabled", "adaptive", "disabled"',
            )
        if (budget := thinking.get("budget_tokens")) is not None:
            COUNT.read(budget, "thinking.budget_tokens")
        values.setdefault("enable_thinking", THINKS[kind])
    config = body.get("output_config", {})
    check_object(config, "output_config", OUTPUT_CONFIG)
    if (effort := config.get("effort")) is not None:
        ANTHROPIC_EFFORT.read(effort, "output_config.effort")
        values.setdefault("reasoning_effort", effort)
    begins = template.add_generation_prompt
    continues = template.continues or (begins is None and messages[-1]["role"] == "assistant")
    return TemplateArguments(values, begins, continues)


def _read_format(body: Mapping[str, Any]) -> StructuredOutput | None:
    """Read ``output_config.format``, or its former name ``output_format``."""
    config = body.get("output_config", {})
    path, asked = "output_config.format", config.get("format")
    if asked is None:
        path, asked = "output_format", body.get("output_format")
    if isinstance(asked, dict) and asked.get("type") == "json_schema":
        # OpenAI's form also has ``name`` and ``strict``.
        asked = {"name": "answer", "strict": True, **asked}
    return read_text_format(asked, path)
