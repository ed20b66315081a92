"""Requests to ``/responses``: members, reader and the checked request.

``/responses/input_tokens`` and ``/responses/compact`` are about the length of a conversation. A
compacted one is the user's messages as they were, and one item with the model's own summary of the
rest, sealed: this server reads the item as a message when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    BOOLEAN,
    COUNT,
    STRING,
    Array,
    Enumeration,
    Members,
    Object,
    Value,
    check_object,
    honoured,
    ignored,
    refused,
    table,
)
from calculators.kit.requests.schema import anything, array, flag, one_of, ref, request, string
from calculators.language.generation_request import TemplateArguments, Tools
from calculators.llm.api.openai.responses_input import read_input
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.requests.checked_request import (
    GENERATING,
    SPEECH_MEMBERS,
    STREAM_OPTIONS,
    read_body,
    read_generation,
)
from calculators.llm.requests.client_tools import read_client_tools, shown_tool_choice, shown_tools
from calculators.llm.requests.completions_request import ChatRequest
from calculators.llm.requests.messages import MediaCheck
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import (
    CHAT_LOGPROBS_MEMBERS,
    N,
    max_tokens_member,
    stop_member,
)
from calculators.llm.requests.structured_output import only_one, read_text_format
from calculators.llm.requests.template_arguments import (
    EFFORT,
    TEMPLATE_MEMBERS,
    VERBOSITY,
    read_template_arguments,
)
from calculators.llm.requests.tools import TOOL_MEMBERS, read_mcp_tools

#: Only the effort has an effect; a summary is not made.
REASONING: Final = ("effort", "summary", "generate_summary", "context", "mode")
TEXT: Final = ("format", "verbosity")
#: The second one is not OpenAI's here; aiperf sends it.
_STREAM_OPTIONS: Final = ("include_obfuscation", "include_usage")
#: Members that need a server that keeps responses.
_ID: Final = string(minLength=1)
_KEPT: Final = ("previous_response_id", "conversation", "background")

RESPONSES_MEMBERS: Final[Members] = table(
    GENERATING,
    TEMPLATE_MEMBERS,
    TOOL_MEMBERS,
    CHAT_LOGPROBS_MEMBERS,
    SPEECH_MEMBERS,
    honoured("n", N, "There is one answer.", maximum=1),
    honoured(
        "input",
        Value(
            one_of(
                string(minLength=1),
                array(ref("InputItem"), minItems=1, maxItems=LIMITS.max_messages),
            )
        ),
        is_required=True,
    ),
    honoured("instructions", STRING, "The first message to the model."),
    honoured(
        "stream_options",
        Object(
            request({name: flag() for name in _STREAM_OPTIONS}, additionalProperties=False),
        ),
        "Changes nothing: no padding is sent, and the last event always has the usage.",
    ),
    max_tokens_member("max_output_tokens"),
    stop_member("stop"),
    honoured(
        "include",
        Array(string()),
        "`message.output_text.logprobs` and `reasoning.encrypted_content` have an effect; what "
        "OpenAI's API does not have is left out with a warning.",
    ),
    honoured(
        "text",
        Object(
            request(
                dict(zip(TEXT, (ref("TextFormat"), VERBOSITY.schema("")), strict=True)),
                additionalProperties=False,
            )
        ),
    ),
    honoured(
        "reasoning",
        Object(
            request(
                {
                    **{name: {} for name in REASONING},
                    "effort": EFFORT.schema(""),
                    "summary": string(),
                },
                additionalProperties=False,
            )
        ),
        "Only the effort has an effect.",
    ),
    honoured(
        "tools",
        Value(
            array(
                one_of(ref("Tool"), ref("McpTool"), ref("ToolOfClient")), maxItems=LIMITS.max_tools
            )
        ),
    ),
    honoured(
        "tool_choice",
        Value(one_of(ref("ToolChoice"), ref("AllowedTools"), ref("ChosenClientTool"))),
    ),
    honoured(
        "max_tool_calls",
        COUNT,
        "The most calls of this server's own tools; calls of the client's are not counted.",
    ),
    honoured(
        "truncation", Enumeration(("auto", "disabled")), "Changes nothing: no item is dropped."
    ),
    honoured(
        "store",
        BOOLEAN,
        "By default the response is kept, where the server keeps responses; `false`: it is not.",
    ),
    honoured("metadata", Object(anything()), "The answer repeats it."),
    honoured("prompt_cache_key", STRING, "The answer repeats it."),
    honoured("safety_identifier", STRING, "The answer repeats it."),
    ignored("changes nothing: the conversation is taken whole", "context_management"),
    honoured(
        "previous_response_id",
        STRING,
        "A response that the server keeps: its input and its output come before this input.",
        minLength=1,
    ),
    honoured(
        "conversation",
        Value(
            one_of(_ID, request({"id": _ID}, required=("id",))),
        ),
        "A conversation that the server keeps: its items come before this input, and this input "
        "and the output are added to it. Not with `previous_response_id`.",
    ),
    honoured(
        "background",
        BOOLEAN,
        "The response is made whether its client stays or not, and can be read and cancelled by "
        "its id.",
    ),
    refused(
        "is not supported: no prompt template is stored; send instructions and input", "prompt"
    ),
    refused("is not one of responses; use max_output_tokens", "max_tokens"),
)


class ResponsesRequest(ChatRequest, frozen=True, kw_only=True):
    """A checked responses request.

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
    return _checked(read_body(value, RESPONSES_MEMBERS), limits, defaults)


def _checked(
    body: dict[str, Any], limits: RequestLimits, defaults: ModelDefaults
) -> ResponsesRequest:
    """Check the members of a body as `read_body` returns them."""
    for name in _KEPT:
        if body.get(name):
            # The front has taken them out of the body where it keeps responses.
            raise fields.invalid(
                name, "no responses are kept here; send the earlier items as input"
            )
    _check_stream_options(body)
    # All options are without effect.
    body = {name: member for name, member in body.items() if name != "stream_options"}
    generation = read_generation(body, defaults, limits)
    if generation.n > 1:
        raise fields.invalid("n", f"{generation.n} is not supported: a response is one answer")
    servers = read_mcp_tools(body)
    media = MediaCheck(limits)
    messages, more = read_input(body.get("input"), limits, media)
    tools = read_client_tools(body, limits, more=more, has_servers=bool(servers))
    text = body.get("text", {})
    structured = only_one(
        generation.structured, read_text_format(text.get("format"), "text.format")
    )
    settings = generation.settings
    return ResponsesRequest(
        **structs.asdict(structs.replace(generation, structured=structured)),
        tools=tools,
        tool_servers=servers,
        parallel_tool_calls=body.get("parallel_tool_calls", True),
        messages=_with_instructions(body.get("instructions"), messages),
        template=_read_template(body),
        logprobs=settings.logprobs,
        images=tuple(media.images),
        sounds=tuple(media.sounds),
        echo=_read_echo(body, settings, tools, more),
    )


def _check_stream_options(body: Mapping[str, Any]) -> None:
    options = body.get("stream_options")
    if not options:
        return
    if options.get("continuous_usage_stats"):
        raise fields.invalid(
            "stream_options.continuous_usage_stats",
            "the events of responses have no place for it; the last one has the usage",
        )
    check_object(options, "stream_options", STREAM_OPTIONS)
    for name in _STREAM_OPTIONS:
        fields.boolean(options, name, f"stream_options.{name}")


def _with_instructions(
    instructions: str | None, messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the messages after a system message with the instructions.

    A system message at the beginning is joined with the instructions, because many templates refuse
    or ignore a second one.
    """
    if not instructions:
        return messages
    if not messages:
        return [{"role": "system", "content": instructions}]
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
    body: Mapping[str, Any],
    settings: GenerationSettings,
    tools: Tools,
    more: Sequence[tuple[str, Any]],
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
        "tools": shown_tools(body, tools, more),
        "top_logprobs": 0,
        "top_p": 1 if settings.top_p is None else settings.top_p,
        "truncation": "disabled",
        "user": body.get("user"),
    }


# The length of a conversation ---------------------------------------------------------------------

#: What these endpoints do not do.
_NOT_HERE: Final = frozenset({"stream", "stream_options", "background", "store", "n"})
INPUT_TOKENS_MEMBERS: Final[Members] = {
    name: member for name, member in RESPONSES_MEMBERS.items() if name not in _NOT_HERE
}
COMPACT_MEMBERS: Final[Members] = {
    name: member for name, member in INPUT_TOKENS_MEMBERS.items() if name != "conversation"
}
#: Members that shape an answer, and that a summary must not follow.
_OF_ANSWERS: Final = frozenset({"text", "tools", "tool_choice", "parallel_tool_calls", "include"})
#: The member of `ResponsesRequest.echo` with the user's messages, which marks such a request.
COMPACTION: Final = "compaction"
_ASK: Final = (
    "Summarise the conversation so far, so that it can go on from your summary alone, without "
    "what was said before. Name the task, the decisions and their reasons, facts and results that "
    "tools have returned, names of files and other things that are needed again, and what is left "
    "to do. Write only the summary."
)


def parse_input_tokens_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ResponsesRequest:
    """Check a request to count the tokens of a response's input.

    Raises:
        RequestError: the first member that is wrong.
    """
    return _checked(read_body(value, INPUT_TOKENS_MEMBERS), limits, defaults)


def input_tokens_response(tokens: int) -> str:
    """Return the body of the answer."""
    return f'{{"object":"response.input_tokens","input_tokens":{tokens}}}'


def parse_compact_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ResponsesRequest:
    """Check a request to compact a conversation. The model is asked for a summary.

    Raises:
        RequestError: the first member that is wrong.
    """
    body = read_body(value, COMPACT_MEMBERS)
    _checked(body, limits, defaults)
    asked = {name: member for name, member in body.items() if name not in _OF_ANSWERS}
    request = _checked(asked, limits, defaults)
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    return structs.replace(
        request,
        structured=None,
        messages=[*request.messages, {"role": "user", "content": _ASK}],
        echo={COMPACTION: [each for each in items or () if _is_of_user(each)]},
    )


def _is_of_user(item: dict[str, Any]) -> bool:
    return item.get("type") in (None, "message") and item.get("role") == "user"
