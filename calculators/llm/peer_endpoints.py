"""The endpoints of language models that other servers brought, beside the large APIs.

See `calculators.llm.endpoint` for what a declaration is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.endpoint import ErrorForm
from calculators.llm.endpoint import Counting, Generating, LlmEndpoint, events_of

if TYPE_CHECKING:
    from calculators.kit.requests.schema import Schema
    from calculators.llm.requests.completions_request import CompletionRequest
    from calculators.llm.requests.model_defaults import ModelDefaults
    from calculators.llm.requests.request_limits import RequestLimits


@cache
def _llama_cpp_completion() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.llama_cpp import (
        COMPLETION_MEMBERS_OF_LLAMA_CPP,
        parse_llama_cpp_completion,
    )

    return Generating(
        members=COMPLETION_MEMBERS_OF_LLAMA_CPP,
        parse=parse_llama_cpp_completion,
        api=Api.LLAMA_CPP_COMPLETION,
    )


@cache
def _infill() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.llama_cpp import INFILL_MEMBERS, parse_infill_request

    return Generating(members=INFILL_MEMBERS, parse=parse_infill_request, api=Api.INFILL)


def _llama_cpp_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.peer_schemas import LLAMA_CPP_SCHEMAS

    return LLAMA_CPP_SCHEMAS


_LLAMA_CPP: Final[Mapping[str, Any]] = {
    "prefixes": ("",),
    "error_form": ErrorForm.LLAMA_CPP,
    "needs_model": False,
    "tag": "llama.cpp",
    "schemas": _llama_cpp_schemas,
}
LLAMA_CPP_COMPLETION: Final = LlmEndpoint(
    path="/completion",
    streams=True,
    events_of=partial(events_of, path="/completion"),
    operation="text_completion",
    handling=_llama_cpp_completion,
    id="llamaCppCompletion",
    summary="Go on with a text",
    request="LlamaCppCompletionRequest",
    response="LlamaCppAnswer",
    event="LlamaCppCompletion",
    examples={"a_text": {"prompt": "Hello", "n_predict": 20}},
    **_LLAMA_CPP,
)
INFILL: Final = LlmEndpoint(
    path="/infill",
    streams=True,
    events_of=partial(events_of, path="/infill"),
    operation="text_completion",
    handling=_infill,
    id="infill",
    summary="Complete code between two texts",
    request="InfillRequest",
    response="LlamaCppAnswer",
    event="LlamaCppCompletion",
    **_LLAMA_CPP,
)


@cache
def _generate() -> Generating[Any]:
    """Return the code of ``/generate``, which SGLang's clients post bodies of their own to."""
    from calculators.kit.requests import fields, members
    from calculators.kit.requests.schema import const, record
    from calculators.llm.api import sglang

    tgi = _tgi(is_list=False)
    of_sglangs_only = sglang.GENERATE_MEMBERS.keys() - tgi.members.keys()

    def parse(body: object, limits: RequestLimits, defaults: ModelDefaults) -> CompletionRequest:
        is_sglangs = sglang.is_sglangs(body)
        if isinstance(body, dict) and not is_sglangs:
            for name in body.keys() & of_sglangs_only:
                if body[name] is not None:
                    raise fields.combined(name, "inputs")
        read = sglang.parse_generate_request if is_sglangs else tgi.parse
        return read(body, limits, defaults)

    nothing = const(None)
    of_tgi = record({"text": nothing, "input_ids": nothing})
    of_sglang = record(
        {"inputs": nothing, "parameters": nothing},
        anyOf=[{"required": ["text"]}, {"required": ["input_ids"]}],
    )
    both = tgi.members.keys() & sglang.GENERATE_MEMBERS.keys()
    texts = (
        replace(member, is_required=False, beside={} if name in both else of_tgi)
        for name, member in tgi.members.items()
    )
    sglangs = (
        member if name in both or member.beside else replace(member, beside=of_sglang)
        for name, member in sglang.GENERATE_MEMBERS.items()
    )
    return Generating(
        members=members.table(sglangs, texts),
        any_of=("inputs", "text", "input_ids"),
        parse=parse,
        api=tgi.api,
    )


@cache
def _tgi(*, is_list: bool) -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.tgi import GENERATE_MEMBERS, parse_generate_request

    return Generating(
        members=GENERATE_MEMBERS,
        parse=partial(parse_generate_request, is_list=is_list),
        api=Api.TGI,
    )


def _tgi_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.peer_schemas import GENERATE_SCHEMAS

    return GENERATE_SCHEMAS


_TGI: Final[Mapping[str, Any]] = {
    "prefixes": ("",),
    "streams": True,
    "events_of": partial(events_of, path="/generate"),
    "operation": "text_completion",
    "error_form": ErrorForm.HUGGING_FACE,
    "needs_model": False,
    "tag": "text-generation-inference",
    "schemas": _tgi_schemas,
    "request": "TgiRequest",
    "event": "TgiEvent",
}
TGI_GENERATE: Final = LlmEndpoint(
    path="/generate",
    handling=_generate,
    id="tgiGenerate",
    examples={
        "a_text": {"inputs": "Hello", "parameters": {"max_new_tokens": 20}},
        "a_text_of_sglangs": {"text": "Hello", "sampling_params": {"max_new_tokens": 20}},
    },
    summary="Go on with a text, in the form of text-generation-inference or of SGLang",
    **{**_TGI, "request": "TgiOrSglangRequest", "event": "TgiOrSglangEvent"},
    response="TgiOrSglangAnswer",
)
TGI_STREAM: Final = LlmEndpoint(
    path="/generate_stream",
    always_streams=True,
    handling=partial(_tgi, is_list=False),
    id="tgiGenerateStream",
    summary="Go on with a text, token by token",
    response="TgiAnswer",
    about="The answer in events.",
    **_TGI,
)
TGI_COMPATIBLE: Final = LlmEndpoint(
    path="/",
    handling=partial(_tgi, is_list=True),
    id="tgiCompatible",
    summary="Go on with a text; a whole answer is a list",
    response="TgiAnswers",
    **_TGI,
)


def _lookup_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.peer_schemas import LOOKUP_SCHEMAS

    return LOOKUP_SCHEMAS


@cache
def _looked_up(name: str) -> Counting[Any]:
    from calculators.llm import lookups

    return Counting(
        members={},
        parse=lambda body, limits, defaults: None,
        answer=getattr(lookups, name),
    )


def _lookup(
    path: str, name: str, summary: str, response: str, tag: str, *aliases: str
) -> LlmEndpoint:
    """Return an endpoint with GET; ``name``: of its function in `calculators.llm.lookups`."""
    return LlmEndpoint(
        path=path,
        prefixes=("",),
        aliases=aliases,
        methods=("GET",),
        handling=partial(_looked_up, name),
        schemas=_lookup_schemas,
        id=name,
        summary=summary,
        response=response,
        tag=tag,
        about="What the server knows.",
    )


PROPS: Final = _lookup(
    "/props", "llama_cpp_props", "The properties of a model", "LlamaCppProps", "llama.cpp"
)
SLOTS: Final = _lookup(
    "/slots", "llama_cpp_slots", "The requests that run", "LlamaCppSlots", "llama.cpp"
)
TOKENIZER_INFO: Final = _lookup(
    "/tokenizer_info", "tokenizer_info", "The tokenizer and its template", "TokenizerInfo", "vLLM"
)
LOAD: Final = _lookup("/load", "server_load", "The load of a model", "ServerLoad", "vLLM")
MODEL_INFO: Final = _lookup(
    *("/model_info", "sglang_model_info", "What a model takes", "SglangModelInfo", "SGLang"),
    "/get_model_info",
)
HEALTH_GENERATE: Final = _lookup(
    "/health_generate", "sglang_health", "Whether the engine writes a token", "Health", "SGLang"
)
TGI_INFO: Final = _lookup(
    "/info", "tgi_info", "The limits of a model", "TgiInfo", "text-generation-inference"
)


@cache
def _apply_template() -> Counting[Any]:
    from calculators.llm.lookups import TEMPLATE_MEMBERS, applied_template, parse_template_request

    return Counting(members=TEMPLATE_MEMBERS, parse=parse_template_request, answer=applied_template)


APPLY_TEMPLATE: Final = LlmEndpoint(
    path="/apply-template",
    prefixes=("",),
    needs_model=False,
    error_form=ErrorForm.LLAMA_CPP,
    handling=_apply_template,
    schemas=_lookup_schemas,
    id="applyTemplate",
    summary="The prompt of a chat",
    tag="llama.cpp",
    request="ApplyTemplateRequest",
    response="AppliedTemplate",
    examples={"a_question": {"messages": [{"role": "user", "content": "Hello"}]}},
    about="The prompt.",
)


@cache
def _cohere_chat() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.cohere import COHERE_CHAT_MEMBERS, parse_cohere_chat_request

    return Generating(
        members=COHERE_CHAT_MEMBERS, parse=parse_cohere_chat_request, api=Api.COHERE_CHAT
    )


def _cohere_schemas() -> Mapping[str, Schema]:
    from calculators.llm.api.cohere import COHERE_SCHEMAS

    return COHERE_SCHEMAS


COHERE_CHAT: Final = LlmEndpoint(
    path="/v2/chat",
    prefixes=("",),
    streams=True,
    events_of=partial(events_of, path="/v2/chat"),
    error_form=ErrorForm.COHERE,
    operation="chat",
    handling=_cohere_chat,
    schemas=_cohere_schemas,
    id="cohereChat",
    summary="Answer a conversation",
    request="CohereChatRequest",
    response="CohereChatAnswer",
    event="CohereChatEvent",
    tag="Cohere",
    examples={"a_question": {"messages": [{"role": "user", "content": "Hello"}]}},
)

PEERS: Final = (
    COHERE_CHAT,
    *(LLAMA_CPP_COMPLETION, INFILL, APPLY_TEMPLATE, PROPS, SLOTS),
    *(TOKENIZER_INFO, LOAD, MODEL_INFO, HEALTH_GENERATE),
    *(TGI_GENERATE, TGI_STREAM, TGI_COMPATIBLE, TGI_INFO),
)
