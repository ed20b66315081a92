"""The body of a request to ``/chat/completions``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.generation_request import (
    GenerationRequest,
    read_body,
    read_generation,
)
from calculators.llm.requests.media import MediaCheck
from calculators.llm.requests.messages import normalise_messages
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.template_arguments import TemplateArguments, read_template_arguments
from calculators.llm.requests.tools import Tools, read_tools
from calculators.media.encoded_image import ImageReference
from calculators.requests import fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(GenerationRequest):
    """A checked chat request; beside what `GenerationRequest` has:

    Attributes:
        messages: for the template; content may still be an array of parts.
        images: where the images in the messages come from, in their order.
        tools: what may be called, see there.
        template: further arguments of the template.
        logprobs: each token of the answer comes with its log-probability.
        parallel_tool_calls: one answer may call several tools.
    """

    messages: list[dict[str, Any]]
    tools: Tools
    template: TemplateArguments
    logprobs: bool = False
    parallel_tool_calls: bool = True
    images: tuple[ImageReference, ...] = ()


def parse_chat_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ChatRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, Endpoint.CHAT_COMPLETIONS)
    generation = read_generation(body, Endpoint.CHAT_COMPLETIONS, defaults, limits)
    media = MediaCheck(limits)
    return ChatRequest(
        **generation,
        tools=read_tools(body, limits),
        parallel_tool_calls=body.get("parallel_tool_calls", True),
        messages=_read_messages(body.get("messages"), limits, media),
        template=read_template_arguments(body),
        logprobs=generation["settings"].logprobs,
        images=tuple(media.images),
    )


def _read_messages(value: object, limits: RequestLimits, media: MediaCheck) -> list[dict[str, Any]]:
    if value is None:
        raise fields.missing("messages", "the conversation, an array of messages")
    if isinstance(value, list) and len(value) > limits.max_messages:
        raise fields.invalid(
            "messages", f"{len(value)} messages are more than the maximum {limits.max_messages}"
        )
    messages = normalise_messages(value)
    _check_media(messages, media)
    return messages


def _check_media(messages: list[dict[str, Any]], media: MediaCheck) -> None:
    """Refuse parts that the model cannot read; the messages have been checked."""
    for i, message in enumerate(messages):
        content = message["content"]
        for j, part in enumerate(content if isinstance(content, list) else ()):
            path = f"messages[{i}].content[{j}]"
            if part["type"] == "image_url":
                media.image(path, part["image_url"]["url"], "image_url.url")
            elif part["type"] == "input_audio":
                media.audio(path)
