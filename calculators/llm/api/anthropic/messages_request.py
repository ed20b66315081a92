"""Requests to ``/messages`` and ``/messages/count_tokens``: members, readers, checked requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from calculators.images.media.image import ImageReference
from calculators.kit.requests import fields
from calculators.kit.requests.common_members import EVERYWHERE, read_model
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    Member,
    Members,
    check_object,
    honoured,
    ignored,
    refused,
    table,
)
from calculators.kit.requests.readers import COUNT, Array, Choice, Object, Value
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
from calculators.language.structured_output import StructuredOutput
from calculators.language.template_arguments import TemplateArguments
from calculators.language.tools import Tools
from calculators.llm.api.anthropic.messages_input import read_messages
from calculators.llm.api.anthropic.tools import read_messages_tools
from calculators.llm.requests.chat_request import ChatRequest
from calculators.llm.requests.choices import N
from calculators.llm.requests.generation_request import (
    GENERATING,
    read_body,
    read_generation,
)
from calculators.llm.requests.media import MediaCheck
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import max_tokens_member
from calculators.llm.requests.stop_conditions import stop_member
from calculators.llm.requests.structured_output import (
    only_one,
    read_text_format,
)
from calculators.llm.requests.template_arguments import (
    TEMPLATE_MEMBERS,
    read_template_arguments,
)
from calculators.llm.requests.tool_servers import MAX_SERVERS, read_mcp_servers

ANTHROPIC_EFFORT: Final = Choice(("low", "medium", "high", "xhigh", "max"))
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
    honoured("system", Value(one_of(string(), array(ref("TextBlock"))))),
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
    """A checked messages request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTokensRequest:
    """A checked request for the length of a prompt; attributes as in `MessagesRequest`."""

    model: str
    messages: list[dict[str, Any]]
    tools: Tools
    template: TemplateArguments
    images: tuple[ImageReference, ...]


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
    media = MediaCheck(limits)
    messages = read_messages(body, limits, media)
    return MessagesRequest(
        **structs.asdict(structs.replace(generation, structured=structured)),
        tools=tools,
        tool_servers=servers,
        parallel_tool_calls=is_parallel,
        messages=messages,
        images=tuple(media.images),
        template=_read_template(body, thinking, messages),
        shows_thinking=thinking.get("display") != "omitted",
    )


def parse_count_tokens_request(value: object, limits: RequestLimits) -> CountTokensRequest:
    """Check the body of a request to count tokens.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, COUNT_TOKENS_MEMBERS)
    media = MediaCheck(limits)
    messages = read_messages(body, limits, media)
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
    if thinking:
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
