"""The bodies of requests to ``/messages`` and ``/messages/count_tokens``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calculators.llm.api.anthropic.messages_input import read_messages
from calculators.llm.api.anthropic.tools import read_messages_tools
from calculators.llm.requests.chat_request import ChatRequest
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.generation_request import read_body, read_generation, read_model
from calculators.llm.requests.media import MediaCheck
from calculators.llm.requests.messages_members import (
    ANTHROPIC_EFFORT,
    OUTPUT_CONFIG,
    THINKING,
    THINKS,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import StructuredOutput, only_one, read_text_format
from calculators.llm.requests.template_arguments import TemplateArguments, read_template_arguments
from calculators.llm.requests.tools import Tools
from calculators.media.encoded_image import ImageReference
from calculators.requests import fields
from calculators.requests.http_payload import RequestError
from calculators.requests.members import check_object
from calculators.requests.readers import COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesRequest(ChatRequest):
    """A checked messages request; beside what `ChatRequest` has:

    Attributes:
        shows_thinking: the answer has what the model thinks.
    """

    shows_thinking: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTokensRequest:
    """How long would this prompt be? The attributes are those of `MessagesRequest`."""

    model: str
    messages: list[dict[str, Any]]
    tools: Tools
    template: TemplateArguments
    images: tuple[ImageReference, ...]


def parse_messages_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> MessagesRequest:
    """Check a parsed body.

    Further members of chat requests, such as ``seed`` or ``min_p``, mean here what they do there.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, Endpoint.MESSAGES)
    generation = read_generation(body, Endpoint.MESSAGES, defaults, limits)
    if generation["n"] > 1:
        raise fields.invalid("n", f"{generation['n']} is not supported: there is one answer")
    _refuse_what_is_kept_or_run(body)
    generation["structured"] = only_one(generation["structured"], _read_format(body))
    tools, is_parallel = read_messages_tools(body, limits)
    thinking = body.get("thinking", {})
    media = MediaCheck(limits)
    return MessagesRequest(
        **generation,
        tools=tools,
        parallel_tool_calls=is_parallel,
        messages=read_messages(body, limits, media),
        images=tuple(media.images),
        template=_read_template(body, thinking),
        shows_thinking=thinking.get("display") != "omitted",
    )


def parse_count_tokens_request(value: object, limits: RequestLimits) -> CountTokensRequest:
    """Check the body of a request to count.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, Endpoint.COUNT_TOKENS)
    media = MediaCheck(limits)
    return CountTokensRequest(
        model=read_model(body),
        tools=read_messages_tools(body, limits)[0],
        messages=read_messages(body, limits, media),
        images=tuple(media.images),
        template=_read_template(body, body.get("thinking", {})),
    )


def _refuse_what_is_kept_or_run(body: Mapping[str, Any]) -> None:
    """Refuse what only a server can do that keeps conversations, or runs tools itself."""
    if body.get("mcp_servers"):
        raise fields.invalid("mcp_servers", "the member is not supported; send tools")
    if body.get("thread") is not None:
        # Anthropic's client takes this word for leave to send the whole conversation each time.
        raise RequestError(
            'Invalid value for "thread": no conversation is stored; send all messages without it',
            param="thread",
            reason="thread_unsupported_request",
        )
    for name in ("compaction", "container"):
        if body.get(name) is not None:
            raise fields.invalid(name, "the member is not supported")


def count_tokens_response(tokens: int) -> str:
    """The body of the answer to a request to count."""
    return f'{{"input_tokens":{tokens}}}'


def _read_template(body: Mapping[str, Any], thinking: Mapping[str, Any]) -> TemplateArguments:
    """``thinking`` and ``output_config.effort``; ``chat_template_kwargs`` wins over both.

    How long it may think (``budget_tokens``) the engine cannot be told.
    """
    template = read_template_arguments(body)
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
    return TemplateArguments(values, template.add_generation_prompt)


def _read_format(body: Mapping[str, Any]) -> StructuredOutput | None:
    """``output_config.format``, or ``output_format`` as it was called before."""
    config = body.get("output_config", {})
    path, asked = "output_config.format", config.get("format")
    if asked is None:
        path, asked = "output_format", body.get("output_format")
    if isinstance(asked, dict) and asked.get("type") == "json_schema":
        # OpenAI's form has a name as well, and says whether it is a promise.
        asked = {"name": "answer", "strict": True, **asked}
    return read_text_format(asked, path)
