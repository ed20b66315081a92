"""Checked requests of all APIs in the neutral form, and back for the model that answers.

A request is checked twice on its way through nodes: when it is read, against the rules of all
models, and by the model that answers, which has limits and defaults of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests.http_payload import ClientConnection, Continued, RequestError
from calculators.kit.requests.members import Members, Standing, read_members, table
from calculators.kit.requests.request_record import RequestRecord
from calculators.language.generation_request import (
    Api,
    GenerationRequest,
    check_sampling_by,
    frozen,
)
from calculators.llm.api.anthropic.messages_request import MESSAGES_MEMBERS, MessagesRequest
from calculators.llm.api.cohere import CohereChatRequest
from calculators.llm.api.google.generate_content_request import GenerateContentRequest
from calculators.llm.api.ollama import CHAT_MEMBERS as OLLAMA_CHAT_MEMBERS
from calculators.llm.api.ollama import GENERATE_MEMBERS
from calculators.llm.api.openai.responses_request import RESPONSES_MEMBERS, ResponsesRequest
from calculators.llm.api.sglang import SglangRequest
from calculators.llm.requests.checked_request import (
    TRUNCATION_MEMBERS,
    CheckedRequest,
    checked_speech,
    read_generation,
)
from calculators.llm.requests.completions_request import (
    CHAT_MEMBERS,
    COMPLETION_MEMBERS,
    ChatRequest,
    CompletionRequest,
)
from calculators.llm.requests.messages import check_media
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import (
    ASSISTED_MEMBERS,
    CHOICE_MEMBERS,
    LINE_MEMBERS,
    MAX_TOKENS_NAMES,
    SAMPLING_MEMBERS,
    STOP_MEMBERS,
    max_tokens_member,
    stop_member,
)
from calculators.llm.requests.structured_output import STRUCTURED_MEMBERS, only_one

#: The tables of the bodies of each API.
_BODIES: Final[Mapping[Api, Members]] = {
    Api.CHAT: CHAT_MEMBERS,
    Api.COMPLETIONS: COMPLETION_MEMBERS,
    Api.RESPONSES: RESPONSES_MEMBERS,
    Api.MESSAGES: MESSAGES_MEMBERS,
    Api.GENERATE_CONTENT: CHAT_MEMBERS,
    Api.COHERE_CHAT: {**CHAT_MEMBERS, "stop_sequences": stop_member("stop_sequences")},
    Api.LLAMA_CPP_COMPLETION: {**COMPLETION_MEMBERS, **LINE_MEMBERS},
    Api.INFILL: {**COMPLETION_MEMBERS, **LINE_MEMBERS},
    Api.OLLAMA_CHAT: OLLAMA_CHAT_MEMBERS,
    Api.OLLAMA_GENERATE: GENERATE_MEMBERS,
    Api.TGI: COMPLETION_MEMBERS,
    Api.SGLANG: COMPLETION_MEMBERS,
}
#: The members that a model reads, beside those that the neutral request has fields for.
_NEUTRAL: Final[Members] = table(
    SAMPLING_MEMBERS,
    CHOICE_MEMBERS,
    STOP_MEMBERS,
    ASSISTED_MEMBERS,
    TRUNCATION_MEMBERS,
    (max_tokens_member(name) for name in MAX_TOKENS_NAMES),
    stop_member("stop"),
)
_ID_BEGINNINGS: Final[Mapping[Api, str]] = {
    Api.CHAT: "chatcmpl-",
    Api.COMPLETIONS: "cmpl-",
    Api.RESPONSES: "resp_",
    Api.MESSAGES: "msg_",
    Api.GENERATE_CONTENT: "",
    Api.COHERE_CHAT: "chat_",
    Api.LLAMA_CPP_COMPLETION: "cmpl-",
    Api.INFILL: "cmpl-",
    # Ollama's answers have no id: only logs and nodes see it.
    Api.OLLAMA_CHAT: "ollama-",
    Api.OLLAMA_GENERATE: "ollama-",
    Api.TGI: "cmpl-",
    Api.SGLANG: "cmpl-",
}
#: The APIs whose limit of new tokens may be more than the model has room for.
_MAY_BE_SHORTER: Final = (
    *(Api.MESSAGES, Api.LLAMA_CPP_COMPLETION, Api.INFILL),
    *(Api.OLLAMA_CHAT, Api.OLLAMA_GENERATE),
)
_OF_SOME: Final = frozenset(
    {"stop_sequences", "logprobs", "top_logprobs", "include", "echo", "add_special_tokens"}
    | LINE_MEMBERS.keys()
)
_FIELDS: Final = frozenset({"n"})


def _sampled(api: Api) -> Members:
    """Return the members that `GenerationRequest.sampling` may have, of requests by an API."""
    own = {
        name: member
        for name, member in _BODIES[api].items()
        if (name in _NEUTRAL or name in _OF_SOME) and member.standing is Standing.HONOURED
    }
    members = table(_NEUTRAL, STRUCTURED_MEMBERS, own)
    return {name: member for name, member in members.items() if name not in _FIELDS}


_SAMPLED: Final[Mapping[Api, Members]] = {api: _sampled(api) for api in Api}


#: The limits of requests that no model takes, and defaults that refuse nothing.
OPEN_LIMITS: Final = RequestLimits(
    best_of_limit=2**31,
    max_model_length=2**31,
    max_images=2**31,
    max_sounds=2**31,
    voices=None,
    max_choices=2**31,
    may_get_tools=True,
)
OPEN_DEFAULTS: Final = ModelDefaults(temperature=0.0)


def _sampling_problem(request: GenerationRequest) -> str:
    try:
        body = read_members(request.sampling, _SAMPLED[request.api])
        members = {name: value for name, value in body.items() if name not in ASSISTED_MEMBERS}
        read_generation(
            # Any name: it is not of the sampling, and a node's blank request has none.
            {**members, "model": "any", "n": request.n},
            OPEN_DEFAULTS,
            OPEN_LIMITS,
            may_echo=request.api is Api.COMPLETIONS,
        )
    except RequestError as error:
        return str(error)
    return ""


# Clients' members were read by the same readers.
check_sampling_by(_sampling_problem)


def without_model_dependent(body: object) -> object:
    """Return a body without the members that only the model can check."""
    if not isinstance(body, dict) or ASSISTED_MEMBERS.keys().isdisjoint(body):
        return body
    return {name: value for name, value in body.items() if name not in ASSISTED_MEMBERS}


def neutral_request(
    checked: CheckedRequest,
    api: Api,
    body: Mapping[str, Any],
    client: ClientConnection,
    record: RequestRecord | None,
    continued: Continued | None = None,
    *,
    has_prompt: bool = True,
) -> GenerationRequest:
    """Return the neutral form of a request.

    Args:
        checked: the request as its API's reader returns it.
        body: the body, of which the members for the model are taken as they are; see
            `calculators.llm.endpoints.Generating.flat`.
        has_prompt: without it, messages, prompts and all that only the model needs are left out:
            an answer can be written, and the memory of a long prompt is free.
    """
    if checked.members is not None:
        body = checked.members
    if isinstance(checked, SglangRequest):
        api = Api.SGLANG
    sampled = _SAMPLED[api]
    sampling = {
        name: value
        for name, value in body.items()
        if value is not None and name in sampled and name not in STRUCTURED_MEMBERS
    }
    written: dict[str, Any] = {}
    wants_logprobs = False
    if isinstance(checked, CompletionRequest):
        wants_logprobs = checked.logprobs is not None
        written["prompts"] = checked.prompts if has_prompt else ((),) * len(checked.prompts)
        written["infill"] = checked.infill if has_prompt else None
        written["echo"] = checked.shown
    elif isinstance(checked, ChatRequest):
        wants_logprobs = checked.logprobs
        if has_prompt:
            written |= {
                "messages": tuple(checked.messages),
                "context": checked.context,
                "images": checked.images,
                "sounds": checked.sounds,
                "tools": checked.tools,
                "tool_servers": checked.tool_servers,
                "template": checked.template,
                "parallel_tool_calls": checked.parallel_tool_calls,
            }
    if isinstance(checked, CohereChatRequest):
        written["sources"] = checked.documents
    if isinstance(checked, MessagesRequest):
        written["sources"] = checked.passages
    if isinstance(checked, GenerateContentRequest):
        written["echo"] = {"array": checked.is_array}
    if isinstance(checked, ResponsesRequest):
        # The model's answer fills in what depends on the model.
        written["echo"] = {
            **checked.echo,
            "max_output_tokens": _whole(body.get("max_output_tokens")),
            "temperature": body.get("temperature", 1),
            "top_p": body.get("top_p", 1),
            **({} if continued is None else continued.echo),
        }
        written["max_tool_calls"] = _whole(body.get("max_tool_calls"))
    if isinstance(checked, ChatRequest):
        written["shows_thinking"] = checked.shows_thinking
        if checked.custom_tools:
            written["echo"] = {"tools": checked.custom_tools}
        if checked.has_functions:
            written["echo"] = {"functions": True}
    return GenerationRequest(
        api=api,
        model=checked.model or ("" if record is None else record.model),
        form=checked.structured if has_prompt else None,
        sampling=frozen(sampling),
        speech=checked.speech,
        n=checked.n,
        stream=checked.stream,
        include_usage=checked.include_usage,
        has_running_usage=checked.has_running_usage,
        returns_token_ids=checked.returns_token_ids,
        wants_logprobs=wants_logprobs,
        id=(continued.id if continued is not None else "") or new_answer_id(api),
        created=int(time.time()),
        deadline=None if record is None else record.deadline,
        client=client,
        record=record,
        **written,
    )


def _whole(value: Any) -> Any:
    """Return a member of a checked body that is an integer, which may be written as 4.0."""
    return int(value) if isinstance(value, float) else value


def new_answer_id(api: Api) -> str:
    """Return a new id in the form that the answers of an API have, with 128 random bits."""
    return f"{_ID_BEGINNINGS[api]}{os.urandom(16).hex()}"


def resolved_request(
    request: GenerationRequest, limits: RequestLimits, defaults: ModelDefaults
) -> ChatRequest | CompletionRequest:
    """Return a request for the model with these limits and defaults.

    Raises:
        RequestError: the model does not take it, or a node has put a wrong member into
            ``sampling``.
    """
    body = read_members(request.sampling, _SAMPLED[request.api])
    body["model"] = request.model
    body["stream"] = request.stream
    body["n"] = request.n
    generation = read_generation(
        body,
        defaults,
        limits,
        needs_max_tokens=request.api is Api.MESSAGES,
        may_echo=request.api is Api.COMPLETIONS,
    )
    generation = structs.replace(
        generation,
        include_usage=request.include_usage,
        has_running_usage=request.has_running_usage,
        returns_token_ids=request.returns_token_ids,
        # A node's limit is none of the client's, whose prompt may leave less room than that.
        limits_itself=generation.limits_itself
        and request.api not in _MAY_BE_SHORTER
        and not any(request.setter_of(name) for name in MAX_TOKENS_NAMES),
        structured=only_one(request.form, generation.structured),
        speech=checked_speech(request.speech, limits),
    )
    if request.prompts:
        return CompletionRequest(
            **structs.asdict(generation),
            prompts=request.prompts,
            infill=request.infill,
            logprobs=body.get("logprobs"),
            add_special_tokens=body.get("add_special_tokens", True),
        )
    check_media(request.images, request.sounds, limits)
    return ChatRequest(
        **structs.asdict(generation),
        messages=list(request.messages),
        context=request.context,
        images=request.images,
        sounds=request.sounds,
        tools=request.tools,
        tool_servers=request.tool_servers,
        template=request.template,
        logprobs=generation.settings.logprobs,
        parallel_tool_calls=request.parallel_tool_calls,
    )
