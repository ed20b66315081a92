"""The body of a request to ``/responses``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calculators.llm.api.openai.responses_input import read_input
from calculators.llm.api.openai.responses_tools import (
    read_responses_tools,
    shown_tool_choice,
    shown_tools,
)
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.requests.chat_request import ChatRequest
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.generation_request import read_body, read_generation
from calculators.llm.requests.media import MediaCheck
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.responses_members import REASONING, TEXT
from calculators.llm.requests.structured_output import only_one, read_text_format
from calculators.llm.requests.template_arguments import (
    EFFORT,
    VERBOSITY,
    TemplateArguments,
    read_template_arguments,
)
from calculators.llm.requests.tools import Tools
from calculators.requests import fields
from calculators.requests.members import check_object


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesRequest(ChatRequest):
    """A checked responses request; beside what `ChatRequest` has:

    Attributes:
        echo: the members of the request that the answer repeats, by name, as JSON values.
    """

    echo: dict[str, Any]


def parse_responses_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ResponsesRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, Endpoint.RESPONSES)
    _check_stream_options(body)
    # What OpenAI allows there changes nothing that is said.
    body = {name: member for name, member in body.items() if name != "stream_options"}
    generation = read_generation(body, Endpoint.RESPONSES, defaults, limits)
    if generation["n"] > 1:
        raise fields.invalid("n", f"{generation['n']} is not supported: a response is one answer")
    tools = read_responses_tools(body, limits)
    text = body.get("text", {})
    generation["structured"] = only_one(
        generation["structured"], read_text_format(text.get("format"), "text.format")
    )
    media = MediaCheck(limits)
    messages = read_input(body.get("input"), limits, media)
    settings = generation["settings"]
    return ResponsesRequest(
        **generation,
        tools=tools,
        parallel_tool_calls=body.get("parallel_tool_calls", True),
        messages=_with_instructions(body.get("instructions"), messages),
        template=_read_template(body),
        logprobs=settings.logprobs,
        images=tuple(media.images),
        echo=_read_echo(body, settings, tools),
    )


def _check_stream_options(body: Mapping[str, Any]) -> None:
    for name in body.get("stream_options", ()):
        if name != "include_obfuscation":
            raise fields.invalid(
                f"stream_options.{name}",
                'responses have only "include_obfuscation"; the last event says the usage',
            )


def _with_instructions(
    instructions: str | None, messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The messages after what the model is told first.

    Many templates know one message of the system and refuse or overlook a second one, so the two
    become one.
    """
    if not instructions:
        return messages
    first = messages[0]
    if first["role"] not in ("system", "developer"):
        return [{"role": "system", "content": instructions}, *messages]
    content = first["content"]
    if isinstance(content, str):
        content = f"{instructions}\n\n{content}"
    else:
        content = [{"type": "text", "text": instructions}, *content]
    return [{**first, "content": content}, *messages[1:]]


def _read_template(body: Mapping[str, Any]) -> TemplateArguments:
    text = body.get("text", {})
    check_object(text, "text", TEXT)
    reasoning = body.get("reasoning", {})
    check_object(reasoning, "reasoning", REASONING)
    nested = {}
    if (verbosity := text.get("verbosity")) is not None:
        nested["verbosity"] = VERBOSITY.read(verbosity, "text.verbosity")
    if (effort := reasoning.get("effort")) is not None:
        nested["reasoning_effort"] = EFFORT.read(effort, "reasoning.effort")
    return read_template_arguments({**body, **nested} if nested else body)


def _read_echo(
    body: Mapping[str, Any], settings: GenerationSettings, tools: Tools
) -> dict[str, Any]:
    text = body.get("text", {})
    reasoning = body.get("reasoning", {})
    return {
        "background": False,
        "instructions": body.get("instructions"),
        "max_output_tokens": settings.max_new_tokens,
        "max_tool_calls": body.get("max_tool_calls"),
        "metadata": body.get("metadata", {}),
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {
            "effort": reasoning.get("effort"),
            "summary": fields.string(reasoning, "summary", "reasoning.summary"),
        },
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": False,
        "temperature": settings.temperature if settings.do_sample else 0,
        "text": {
            "format": text.get("format") or {"type": "text"},
            "verbosity": text.get("verbosity") or "medium",
        },
        "tool_choice": shown_tool_choice(body),
        "tools": shown_tools(body, tools),
        "top_logprobs": 0,
        "top_p": 1 if settings.top_p is None else settings.top_p,
        "truncation": "disabled",
        "user": body.get("user"),
    }
