"""Requests to ``/chat/completions`` and ``/completions``: members, readers and checked requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from calculators.images.media.image import ImageReference, SoundReference, VideoSampling
from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    BOOLEAN,
    STRING,
    TOKEN_ID,
    Members,
    Object,
    Value,
    check_object,
    honoured,
    ignored,
    refused,
    table,
)
from calculators.kit.requests.schema import array, flag, one_of, ref, request, string
from calculators.language.generation_request import (
    NO_ARGUMENTS,
    NO_TOOLS,
    Infill,
    Message,
    TemplateArguments,
    Tools,
    ToolServer,
)
from calculators.llm.requests.checked_request import (
    GENERATING,
    SPEECH_MEMBERS,
    TOKEN_IDS_MEMBER,
    CheckedRequest,
    read_body,
    read_generation,
)
from calculators.llm.requests.client_tools import has_only_functions, read_client_tools
from calculators.llm.requests.messages import MediaCheck, normalise_messages
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import (
    CHAT_LOGPROBS_MEMBERS,
    COMPLETION_LOGPROBS_MEMBERS,
    max_tokens_member,
    read_token_id,
    stop_member,
)
from calculators.llm.requests.template_arguments import (
    EFFORT,
    TEMPLATE_MEMBERS,
    THINKING_MEMBER,
    read_template_arguments,
)
from calculators.llm.requests.tools import (
    CHAT_NAME,
    FUNCTION_MEMBERS,
    TOOL_MEMBERS,
    read_functions,
    read_tools,
)

_THINKING: Final = ("type", "budget_tokens", "display", "clear_thinking")
REASONING: Final = ("effort", "enabled", "exclude", "max_tokens", "summary")

CHAT_MEMBERS: Final[Members] = table(
    GENERATING,
    TEMPLATE_MEMBERS,
    TOOL_MEMBERS,
    CHAT_LOGPROBS_MEMBERS,
    SPEECH_MEMBERS,
    FUNCTION_MEMBERS,
    honoured(
        "messages",
        Value(array(ref("ChatMessage"), minItems=1, maxItems=LIMITS.max_messages)),
        "The conversation.",
        is_required=True,
    ),
    honoured(
        "store",
        BOOLEAN,
        "`true`: the chat completion is kept with its messages and its `metadata`, where the "
        "server keeps responses.",
    ),
    TOKEN_IDS_MEMBER,
    max_tokens_member(),
    max_tokens_member("max_completion_tokens", "The same; it wins."),
    stop_member("stop"),
    honoured(
        "tools",
        Value(
            array(
                one_of(ref("Tool"), ref("CustomChatTool"), ref("ToolOfClient"), ref("ServerTool")),
                maxItems=LIMITS.max_tools,
            )
        ),
    ),
    honoured(
        "tool_choice",
        Value(one_of(ref("ToolChoice"), ref("ChosenCustomTool"), ref("AllowedChatTools"))),
    ),
    THINKING_MEMBER,
    honoured(
        "reasoning",
        Object(
            request(
                {
                    "effort": EFFORT.schema(""),
                    "enabled": flag(),
                    "exclude": flag("The answer does not show the reasoning."),
                    **{name: {} for name in ("max_tokens", "summary")},
                },
                additionalProperties=False,
            )
        ),
        "OpenRouter's form of `reasoning_effort`, `enable_thinking` and `include_reasoning`.",
    ),
    honoured("include_reasoning", BOOLEAN, "False: the answer does not show the reasoning."),
    ignored("is about how soon an answer comes", "prediction"),
    refused("is for /completions", "echo"),
    refused(
        "is not supported: the chat template writes those that are needed",
        "add_special_tokens",
    ),
)


_TEMPLATE_NAMES: Final = TEMPLATE_MEMBERS.keys() | {"thinking", "reasoning"}


class ChatRequest(CheckedRequest, frozen=True, kw_only=True):
    """A checked chat request.

    Attributes:
        messages: for the template; content may be an array of parts.
        images: the sources of the images in the messages, in their order.
        sounds: the sounds in the messages, in their order.
        tools: the tools that may be called.
        template: further variables of the template.
        logprobs: the answer has the log-probability of each token.
        parallel_tool_calls: one answer may call several tools.
        tool_servers: servers of tools that the client names.
        shows_thinking: the answer shows the reasoning.
        custom_tools: the client's tools that take a text, as it wrote them.
        has_functions: the client offers ``functions``, so its calls are ``function_call``.
        context: token ids that the prompt begins with, from an earlier answer.
    """

    messages: list[dict[str, Any]]
    tools: Tools
    template: TemplateArguments
    logprobs: bool = False
    parallel_tool_calls: bool = True
    images: tuple[ImageReference, ...] = ()
    sounds: tuple[SoundReference, ...] = ()
    tool_servers: tuple[ToolServer, ...] = ()
    shows_thinking: bool = True
    custom_tools: tuple[dict[str, Any], ...] = ()
    has_functions: bool = False
    context: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTokensRequest:
    """A checked request for the length of a prompt; attributes as in `ChatRequest`."""

    model: str
    messages: list[dict[str, Any]]
    tools: Tools
    template: TemplateArguments
    images: tuple[ImageReference, ...]


def parse_chat_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ChatRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, CHAT_MEMBERS)
    generation = read_generation(body, defaults, limits)
    tools = NO_TOOLS
    custom: tuple[dict[str, Any], ...] = ()
    has_functions = bool(body.get("functions"))
    if has_functions or isinstance(body.get("function_call"), dict):
        tools = read_functions(body, limits)
    elif not TOOL_MEMBERS.keys().isdisjoint(body):
        if has_only_functions(body):
            tools = read_tools(body, limits, longest_name=CHAT_NAME)
        else:
            tools = read_client_tools(body, limits, takes_servers=False, longest_name=CHAT_NAME)
            custom = tuple(each for each in body.get("tools") or () if each.get("type") == "custom")
    messages = _read_messages(body.get("messages"), limits)
    media = media_of(messages, limits)
    is_excluded = "reasoning" in body and fields.boolean(
        body["reasoning"], "exclude", "reasoning.exclude"
    )
    return ChatRequest(
        **structs.asdict(generation),
        tools=tools,
        parallel_tool_calls=not has_functions and body.get("parallel_tool_calls", True),
        messages=messages,
        template=NO_ARGUMENTS if _TEMPLATE_NAMES.isdisjoint(body) else _template_of(body),
        logprobs=generation.settings.logprobs,
        images=tuple(media.images),
        sounds=tuple(media.sounds),
        custom_tools=custom,
        has_functions=has_functions,
        shows_thinking=body.get("include_reasoning", True) and not is_excluded,
    )


def _template_of(body: Mapping[str, Any]) -> TemplateArguments:
    """Read the variables of the template, of which ``reasoning`` sets those about thinking."""
    check_object(body.get("thinking", {}), "thinking", _THINKING)
    reasoning = body.get("reasoning", {})
    check_object(reasoning, "reasoning", REASONING)
    nested: dict[str, Any] = {}
    if (effort := reasoning.get("effort")) is not None:
        nested["reasoning_effort"] = EFFORT.read(effort, "reasoning.effort")
    if (is_enabled := fields.boolean(reasoning, "enabled", "reasoning.enabled")) is not None:
        nested["enable_thinking"] = is_enabled
    return read_template_arguments({**nested, **body})


def _read_messages(value: object, limits: RequestLimits) -> list[dict[str, Any]]:
    if value is None:
        raise fields.missing("messages", "the conversation, an array of messages")
    if isinstance(value, list) and len(value) > limits.max_messages:
        raise fields.invalid(
            "messages", f"{len(value)} messages are more than the maximum {limits.max_messages}"
        )
    return normalise_messages(value)


def media_of(messages: Sequence[Message], limits: RequestLimits) -> MediaCheck:
    """Return the media of messages that have been checked; refuse what the model cannot read."""
    media = MediaCheck(limits)
    for i, message in enumerate(messages):
        content = message["content"]
        for j, part in enumerate(content if isinstance(content, list) else ()):
            path = f"messages[{i}].content[{j}]"
            if part["type"] == "image_url":
                media.image(path, part["image_url"]["url"], "image_url.url")
            elif part["type"] == "video_url":
                sampling = VideoSampling(part["fps"])
                media.video(path, part["video_url"]["url"], "video_url.url", sampling)
            elif part["type"] == "input_audio":
                media.sound(path, part["input_audio"]["data"], "input_audio.data")
    return media


_PROMPT_TEXT: Final = string(minLength=1)
_PROMPT_IDS: Final = array(TOKEN_ID.schema(""), minItems=1)
COMPLETION_MEMBERS: Final[Members] = table(
    GENERATING,
    COMPLETION_LOGPROBS_MEMBERS,
    honoured(
        "prompt",
        Value(
            one_of(
                _PROMPT_TEXT,
                array(_PROMPT_TEXT, minItems=1, maxItems=LIMITS.max_prompts),
                _PROMPT_IDS,
                array(_PROMPT_IDS, minItems=1, maxItems=LIMITS.max_prompts),
            )
        ),
        "A text, or the ids of its tokens; or several of either.",
        is_required=True,
    ),
    max_tokens_member(about="How many tokens the answer may have; 0 only with `echo`.", least=0),
    TOKEN_IDS_MEMBER,
    stop_member("stop"),
    honoured(
        "suffix",
        STRING,
        "The answer is the text between `prompt`, which is a text then and may be empty, and this "
        "one. The model must have tokens for that, as models for code have.",
    ),
    honoured("echo", BOOLEAN, "Each answer begins with its prompt."),
    honoured("add_special_tokens", BOOLEAN),
)

#: A text, or the ids of its tokens; not empty.
Prompt = str | tuple[int, ...]


class CompletionRequest(CheckedRequest, frozen=True, kw_only=True):
    """A checked completion request.

    Attributes:
        prompts: each has ``n`` answers; the choices are numbered prompt by prompt. Token ids are
            not negative, but may be beyond the vocabulary.
        logprobs: None: without log-probabilities; 0: with that of each token; 1: repeated under
            ``top_logprobs``.
        add_special_tokens: add the tokens that the model expects at the beginning of a text.
        infill: see `GenerationRequest.infill`.
        shown: see `GenerationRequest.echo`.
    """

    prompts: tuple[Prompt, ...]
    logprobs: int | None = None
    add_special_tokens: bool = True
    infill: Infill | None = None
    shown: Mapping[str, Any] = {}

    @property
    def echo(self) -> bool:
        """True if each answer begins with its prompt."""
        return self.settings.echo


def parse_completion_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> CompletionRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    if isinstance(value, dict) and "messages" in value and value.get("prompt") is None:
        raise fields.missing("prompt", "messages are for /v3/chat/completions")
    body = read_body(value, COMPLETION_MEMBERS)
    # Clients that complete the end of a file send "".
    suffix = body.get("suffix") or None
    prompts = read_prompts(body, limits, least=1 if suffix is None else 0)
    if suffix is not None:
        _check_infill(body, prompts)
    return CompletionRequest(
        **structs.asdict(read_generation(body, defaults, limits, may_echo=True)),
        prompts=prompts,
        infill=None if suffix is None else Infill(suffix, user=body.get("user", "")),
        logprobs=body.get("logprobs"),
        add_special_tokens=body.get("add_special_tokens", True),
    )


#: Members that a text which is filled in cannot have, beside token ids as the prompt.
_NOT_BESIDE_SUFFIX: Final = ("echo", "truncate_prompt_tokens")


def _check_infill(body: Mapping[str, Any], prompts: tuple[Prompt, ...]) -> None:
    for name in _NOT_BESIDE_SUFFIX:
        if body.get(name):
            raise fields.combined(name, "suffix")
    if not all(isinstance(each, str) for each in prompts):
        raise fields.invalid("prompt", "with suffix the prompt must be a text, not token ids")


def read_prompts(
    body: Mapping[str, Any], limits: RequestLimits, *, least: int
) -> tuple[Prompt, ...]:
    """Read a string, an array of strings, an array of ids, or an array of arrays of ids."""
    value = body.get("prompt")
    if value is None:
        raise fields.missing("prompt")
    if isinstance(value, str):
        return (_check_text("prompt", value, least),)
    if not isinstance(value, list):
        raise fields.wrong_type("prompt", "a string or an array", value)
    if not value:
        raise fields.invalid("prompt", "an empty array holds no prompt")
    if type(value[0]) in (int, float, bool):
        return (_check_ids("prompt", value),)
    if len(value) > limits.max_prompts:
        raise fields.invalid(
            "prompt", f"{len(value)} prompts are more than the maximum {limits.max_prompts}"
        )
    if isinstance(value[0], str):
        return tuple(_check_text(f"prompt[{i}]", text, least) for i, text in enumerate(value))
    return tuple(_check_ids(f"prompt[{i}]", ids) for i, ids in enumerate(value))


def _check_text(path: str, text: object, least: int) -> str:
    if not isinstance(text, str):
        raise fields.wrong_type(path, "a string", text)
    if len(text) < least:
        raise fields.invalid(path, "the prompt is empty")
    return text


def _check_ids(path: str, ids: object) -> tuple[int, ...]:
    if not isinstance(ids, list):
        raise fields.wrong_type(path, "an array of token ids", ids)
    if not ids:
        raise fields.invalid(path, "the prompt is empty")
    # A prompt may have 100,000 ids: read them one by one only to name the bad one.
    if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) > fields.INT32_MAX:
        return tuple(read_token_id(f"{path}[{i}]", token) for i, token in enumerate(ids))
    return tuple(ids)
