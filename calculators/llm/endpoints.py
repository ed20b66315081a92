"""The endpoints of language models, each declared in one place.

A declaration has the path, the reader of requests and the operation of the OpenAPI document. This
module is imported for every server, also for ``graphrt serve --help``, so the functions of a
declaration import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.endpoint import PREFIXES, ErrorForm, StreamForm
from calculators.kit.tasks.operation import (
    EVENTS,
    JSON,
    LINES,
    Operation,
    TaskDescription,
    answer,
    events,
    lines,
    media,
    paths_of,
)
from calculators.llm.endpoint import Counting, Generating, LlmEndpoint, events_of
from calculators.llm.peer_endpoints import PEERS

if TYPE_CHECKING:
    from calculators.kit.requests.schema import Schema
    from calculators.llm.servable import LlmServable


@cache
def _chat_completions() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.requests.completions_request import CHAT_MEMBERS, parse_chat_request

    return Generating(
        members=CHAT_MEMBERS,
        parse=parse_chat_request,
        api=Api.CHAT,
    )


def _chat_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.completions_schemas import (
        CHAT_ANSWER_SCHEMAS,
        CHAT_TOOL_SCHEMAS,
        MESSAGE_SCHEMAS,
    )

    return {**MESSAGE_SCHEMAS, **CHAT_TOOL_SCHEMAS, **CHAT_ANSWER_SCHEMAS}


_HELLO: Final = [{"role": "user", "content": "Hello"}]

CHAT_COMPLETIONS: Final = LlmEndpoint(
    path="/chat/completions",
    aliases=("/api/v0/chat/completions",),
    streams=True,
    events_of=partial(events_of, path="/chat/completions"),
    operation="chat",
    handling=_chat_completions,
    schemas=_chat_schemas,
    id="createChatCompletion",
    summary="Answer a conversation",
    request="CreateChatCompletionRequest",
    response="ChatCompletion",
    event="ChatCompletionChunk",
    examples={
        "a_question": {"messages": _HELLO},
        "in_events": {"messages": _HELLO, "stream": True},
    },
)


@cache
def _completions() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.requests.completions_request import (
        COMPLETION_MEMBERS,
        parse_completion_request,
    )

    return Generating(
        members=COMPLETION_MEMBERS,
        parse=parse_completion_request,
        api=Api.COMPLETIONS,
    )


def _completion_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.completions_schemas import COMPLETION_ANSWER_SCHEMAS

    return COMPLETION_ANSWER_SCHEMAS


COMPLETIONS: Final = LlmEndpoint(
    path="/completions",
    aliases=("/api/v0/completions",),
    streams=True,
    events_of=partial(events_of, path="/completions"),
    operation="text_completion",
    handling=_completions,
    schemas=_completion_schemas,
    id="createCompletion",
    summary="Go on with a text",
    request="CreateCompletionRequest",
    response="Completion",
    event="Completion",
    examples={"a_text": {"prompt": "Hello", "max_tokens": 20}},
)


@cache
def _responses() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.openai.responses_request import (
        RESPONSES_MEMBERS,
        parse_responses_request,
    )

    return Generating(
        members=RESPONSES_MEMBERS,
        parse=parse_responses_request,
        api=Api.RESPONSES,
    )


def _responses_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.responses_schemas import (
        RESPONSES_ANSWER_SCHEMAS,
        RESPONSES_EVENT_SCHEMAS,
        RESPONSES_INPUT_SCHEMAS,
    )

    return {**RESPONSES_INPUT_SCHEMAS, **RESPONSES_ANSWER_SCHEMAS, **RESPONSES_EVENT_SCHEMAS}


RESPONSES: Final = LlmEndpoint(
    path="/responses",
    streams=True,
    events_of=partial(events_of, path="/responses"),
    operation="chat",
    handling=_responses,
    schemas=_responses_schemas,
    id="createResponse",
    summary="Answer a conversation, in OpenAI's newer form",
    request="CreateResponseRequest",
    response="ResponseObject",
    event="ResponseEvent",
    examples={"a_question": {"input": "Hello"}},
)


@cache
def _input_tokens() -> Counting[Any]:
    from calculators.llm.api.openai import responses_request as reader

    async def answer(servable: LlmServable, request: reader.ResponsesRequest) -> str:
        tokens = await servable.chat_tokens(
            request.messages, request.images, request.tools, request.template
        )
        return reader.input_tokens_response(tokens)

    return Counting(
        members=reader.INPUT_TOKENS_MEMBERS, parse=reader.parse_input_tokens_request, answer=answer
    )


def _compaction_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.responses_schemas import COMPACTION_SCHEMAS

    return COMPACTION_SCHEMAS


INPUT_TOKENS: Final = LlmEndpoint(
    path="/responses/input_tokens",
    handling=_input_tokens,
    schemas=_compaction_schemas,
    id="countInputTokens",
    summary="How many tokens would the input of a response have?",
    request="InputTokensRequest",
    response="InputTokens",
    examples={"a_question": {"input": "Hello"}},
    about="The count.",
)


@cache
def _compact() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.openai import responses_request as reader

    return Generating(
        members=reader.COMPACT_MEMBERS, parse=reader.parse_compact_request, api=Api.RESPONSES
    )


COMPACT: Final = LlmEndpoint(
    path="/responses/compact",
    operation="chat",
    handling=_compact,
    schemas=_compaction_schemas,
    id="compactConversation",
    summary="Shorten a conversation: the user's messages, and a summary by the model",
    request="CompactRequest",
    response="CompactedConversation",
    examples={"a_question": {"input": "Hello"}},
    about="The items with which the conversation can go on.",
)


@cache
def _messages() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.anthropic.messages_request import (
        MESSAGES_MEMBERS,
        parse_messages_request,
    )

    return Generating(
        members=MESSAGES_MEMBERS,
        parse=parse_messages_request,
        api=Api.MESSAGES,
    )


def _messages_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.messages_schemas import (
        MESSAGE_BLOCK_SCHEMAS,
        MESSAGES_ANSWER_SCHEMAS,
    )

    return {**MESSAGE_BLOCK_SCHEMAS, **MESSAGES_ANSWER_SCHEMAS}


MESSAGES: Final = LlmEndpoint(
    path="/messages",
    streams=True,
    events_of=partial(events_of, path="/messages"),
    error_form=ErrorForm.ANTHROPIC,
    tag="Anthropic",
    operation="chat",
    handling=_messages,
    schemas=_messages_schemas,
    id="createMessage",
    summary="Answer a conversation",
    request="CreateMessageRequest",
    response="Message",
    event="MessageEvent",
    examples={"a_question": {"messages": _HELLO, "max_tokens": 50}},
)


@cache
def _count_tokens() -> Counting[Any]:
    from calculators.llm.api.anthropic.messages_request import (
        COUNT_TOKENS_MEMBERS,
        count_tokens_response,
        parse_count_tokens_request,
    )
    from calculators.llm.requests.completions_request import CountTokensRequest

    async def answer(servable: LlmServable, request: CountTokensRequest) -> str:
        tokens = await servable.chat_tokens(
            request.messages, request.images, request.tools, request.template
        )
        return count_tokens_response(tokens)

    return Counting(
        members=COUNT_TOKENS_MEMBERS,
        parse=lambda body, limits, defaults: parse_count_tokens_request(body, limits),
        answer=answer,
    )


def _count_tokens_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.messages_schemas import COUNT_TOKENS_ANSWER_SCHEMAS

    return COUNT_TOKENS_ANSWER_SCHEMAS


COUNT_TOKENS: Final = LlmEndpoint(
    path="/messages/count_tokens",
    error_form=ErrorForm.ANTHROPIC,
    tag="Anthropic",
    handling=_count_tokens,
    schemas=_count_tokens_schemas,
    id="countTokens",
    summary="How many tokens would the prompt have?",
    request="CountTokensRequest",
    response="TokenCount",
    examples={"a_question": {"messages": _HELLO}},
    about="The count.",
)


@cache
def _generate_content() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.google.generate_content_request import (
        GENERATE_CONTENT_MEMBERS,
        parse_generate_content_request,
    )

    return Generating(
        members=GENERATE_CONTENT_MEMBERS,
        parse=parse_generate_content_request,
        api=Api.GENERATE_CONTENT,
    )


def _google_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.google_schemas import GOOGLE_SCHEMAS

    return GOOGLE_SCHEMAS


def _google_form(members: Mapping[str, Any]) -> StreamForm:
    from calculators.llm.api.google.generate_content_request import stream_form

    return stream_form(members)


_CONTENTS: Final = [{"role": "user", "parts": [{"text": "Hello"}]}]
_GOOGLE: Final = "/models/{model}"

GENERATE_CONTENT: Final = LlmEndpoint(
    path=f"{_GOOGLE}:generateContent",
    aliases=(f"/v1beta{_GOOGLE}:generateContent",),
    error_form=ErrorForm.GOOGLE,
    tag="Google",
    operation="generate_content",
    handling=_generate_content,
    schemas=_google_schemas,
    id="generateContent",
    summary="Answer a conversation",
    request="GenerateContentRequest",
    response="GenerateContentResponse",
    examples={"a_question": {"contents": _CONTENTS}},
    about="The answer.",
)
STREAM_GENERATE_CONTENT: Final = LlmEndpoint(
    path=f"{_GOOGLE}:streamGenerateContent",
    aliases=(f"/v1beta{_GOOGLE}:streamGenerateContent",),
    streams=True,
    always_streams=True,
    query=("alt",),
    stream_form=_google_form,
    events_of=partial(events_of, path="/generateContent"),
    error_form=ErrorForm.GOOGLE,
    tag="Google",
    operation="generate_content",
    handling=_generate_content,
    schemas=_google_schemas,
    id="streamGenerateContent",
    summary="Answer a conversation in pieces",
    request="GenerateContentRequest",
    response="GenerateContentResponse",
    event="GenerateContentResponse",
    examples={"a_question": {"contents": _CONTENTS}},
    about="One array, or with `?alt=sse` events.",
)


@cache
def _google_count() -> Counting[Any]:
    from calculators.llm.api.google.generate_content_request import (
        COUNT_MEMBERS,
        parse_count_tokens_request,
    )
    from calculators.llm.api.google.generate_content_writer import count_tokens_response
    from calculators.llm.requests.completions_request import CountTokensRequest

    async def answer(servable: LlmServable, request: CountTokensRequest) -> str:
        tokens = await servable.chat_tokens(
            request.messages, request.images, request.tools, request.template
        )
        return count_tokens_response(tokens)

    return Counting(
        members=COUNT_MEMBERS,
        parse=lambda body, limits, defaults: parse_count_tokens_request(body, limits),
        answer=answer,
        any_of=("contents", "generateContentRequest"),
    )


def _google_count_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.google_schemas import COUNT_SCHEMAS

    return COUNT_SCHEMAS


GOOGLE_COUNT_TOKENS: Final = LlmEndpoint(
    path=f"{_GOOGLE}:countTokens",
    aliases=(f"/v1beta{_GOOGLE}:countTokens",),
    error_form=ErrorForm.GOOGLE,
    tag="Google",
    handling=_google_count,
    schemas=_google_count_schemas,
    id="countContentTokens",
    summary="How many tokens would the prompt have?",
    request="CountContentTokensRequest",
    response="CountTokensResponse",
    examples={"a_question": {"contents": _CONTENTS}},
    about="The count.",
)


@cache
def _tokenize() -> Counting[Any]:
    from calculators.llm.token_requests import MEMBERS, TEXTS, answer_tokens, parse_tokens_request

    return Counting(members=MEMBERS, parse=parse_tokens_request, answer=answer_tokens, any_of=TEXTS)


@cache
def _detokenize() -> Counting[Any]:
    from calculators.llm.token_requests import (
        DETOKENIZE_MEMBERS,
        answer_detokenize,
        parse_detokenize_request,
    )

    return Counting(
        members=DETOKENIZE_MEMBERS,
        parse=lambda body, limits, defaults: parse_detokenize_request(body),
        answer=answer_detokenize,
    )


def _tokenize_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.peer_schemas import TOKEN_SCHEMAS

    return TOKEN_SCHEMAS


TOKENIZE: Final = LlmEndpoint(
    path="/tokenize",
    handling=_tokenize,
    schemas=_tokenize_schemas,
    id="tokenize",
    summary="The token ids of a text",
    request="TokenizeRequest",
    response="TokensOfText",
    examples={"a_text": {"text": "Hello"}},
    about="The ids, in the form of the server whose member has the text.",
)
DETOKENIZE: Final = LlmEndpoint(
    path="/detokenize",
    handling=_detokenize,
    schemas=_tokenize_schemas,
    id="detokenizeTokens",
    summary="The text of token ids",
    request="DetokenizeTokensRequest",
    response="TextOfTokens",
    examples={"two_tokens": {"tokens": [5, 6]}},
    about="The text.",
)
_AT_ROOT: Final[Mapping[str, Any]] = {"prefixes": ("",), "needs_model": False}
#: For clients of vLLM and llama.cpp, whose paths have no prefix.
ROOT_TOKENIZE: Final = replace(TOKENIZE, id="tokenizeAtRoot", **_AT_ROOT)
ROOT_DETOKENIZE: Final = replace(DETOKENIZE, id="detokenizeAtRoot", **_AT_ROOT)


@cache
def _ollama_chat() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.ollama import CHAT_MEMBERS, parse_chat_request

    return Generating(members=CHAT_MEMBERS, parse=parse_chat_request, api=Api.OLLAMA_CHAT)


@cache
def _ollama_generate() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.ollama import GENERATE_MEMBERS, parse_generate_request

    return Generating(
        members=GENERATE_MEMBERS, parse=parse_generate_request, api=Api.OLLAMA_GENERATE
    )


def _ollama_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.ollama_schemas import OLLAMA_SCHEMAS

    return OLLAMA_SCHEMAS


#: Members with what is said, and the value that says nothing.
_NOTHING: Final = {"messages": [], "prompt": "", "images": [], "suffix": "", "context": []}


def _loaded(
    members: Mapping[str, Any], *, handling: Callable[[], Generating[Any]], says: Mapping[str, Any]
) -> str | None:
    """Return the answer to a request that says nothing; None: it says something.

    ``says``: a member with which it would. So the others are checked as in any request.

    Raises:
        RequestError: a member is wrong.
    """
    if any(members.get(name) not in (None, nothing) for name, nothing in _NOTHING.items()):
        return None
    from calculators.llm.api.ollama import loaded_answer
    from calculators.llm.requests.model_defaults import ModelDefaults
    from calculators.llm.requests.request_limits import LIMITS

    generating = handling()
    generating.parse({**members, **says}, LIMITS, ModelDefaults())
    return loaded_answer(generating.api, members)


_OLLAMA: Final[Mapping[str, Any]] = {
    "prefixes": ("",),
    "tag": "Ollama",
    "streams": True,
    "streams_by_default": True,
    "stream_form": lambda members: StreamForm.LINES,
    "error_form": ErrorForm.OLLAMA,
    "schemas": _ollama_schemas,
    "about": "The answer: in lines of JSON, or with `stream: false` whole.",
}
OLLAMA_CHAT: Final = LlmEndpoint(
    path="/api/chat",
    events_of=partial(events_of, path="/api/chat"),
    only_loads=partial(
        _loaded, handling=_ollama_chat, says={"messages": [{"role": "user", "content": "."}]}
    ),
    operation="chat",
    handling=_ollama_chat,
    id="ollamaChat",
    summary="Answer a conversation",
    request="OllamaChatRequest",
    response="OllamaChatResponse",
    event="OllamaChatResponse",
    examples={"a_question": {"messages": _HELLO}},
    **_OLLAMA,
)
OLLAMA_GENERATE: Final = LlmEndpoint(
    path="/api/generate",
    events_of=partial(events_of, path="/api/generate"),
    only_loads=partial(_loaded, handling=_ollama_generate, says={"prompt": "."}),
    operation="text_completion",
    handling=_ollama_generate,
    id="ollamaGenerate",
    summary="Answer a prompt",
    request="OllamaGenerateRequest",
    response="OllamaGenerateResponse",
    event="OllamaGenerateResponse",
    examples={"a_prompt": {"prompt": "Hello", "options": {"num_predict": 20}}},
    **_OLLAMA,
)

#: In the order in which errors and the OpenAPI document list them.
ENDPOINTS: Final = (
    *(CHAT_COMPLETIONS, COMPLETIONS, RESPONSES, INPUT_TOKENS, COMPACT),
    *(MESSAGES, COUNT_TOKENS, TOKENIZE, DETOKENIZE),
    *(GENERATE_CONTENT, STREAM_GENERATE_CONTENT, GOOGLE_COUNT_TOKENS),
    *(OLLAMA_CHAT, OLLAMA_GENERATE, ROOT_TOKENIZE, ROOT_DETOKENIZE, *PEERS),
)

_BY_PATH: Final = {path: endpoint for endpoint in ENDPOINTS for path in endpoint.paths()}
_BEGINNINGS: Final = tuple(f"{prefix}/" for prefix in PREFIXES)


def endpoint_of(uri: str) -> LlmEndpoint:
    """Return the endpoint of a path, with or without a query.

    Paths match exactly. Paths that end in ``tokenize`` all match, as in OpenVINO Model Server,
    except those that another task declares: its models answer them in a form of their own.

    Raises:
        RequestError: NOT_FOUND, with the paths that language models answer.
    """
    path = uri.partition("?")[0]
    endpoint = _BY_PATH.get(path)
    if endpoint is None and ":" in path:
        from calculators.kit.tasks import declared_path

        endpoint = _BY_PATH.get(declared_path(path)[0])
    if endpoint is None and path.endswith("/tokenize") and path.startswith(_BEGINNINGS):
        from calculators.kit.tasks import endpoint_at

        if endpoint_at(path) is None:
            return TOKENIZE
    if endpoint is None:
        from calculators.kit.requests.http_payload import RequestError
        from graph_runtime import Code

        # A path may be as long as a request line; its end says enough.
        shown = path if len(path) <= 60 else "..." + path[-60:]
        raise RequestError(
            f'A language model does not answer "{shown}"; it answers '
            f"{', '.join(each.paths()[0] for each in ENDPOINTS)}; /v3 may be /v1",
            code=Code.NOT_FOUND,
        )
    return endpoint


def import_handlings() -> None:
    """Import the code of all endpoints."""
    for endpoint in ENDPOINTS:
        endpoint.handling()


def describe(model: str) -> TaskDescription:
    """Return the part of the OpenAPI document that is about language models.

    ``model``: a name for the examples.
    """
    from calculators.kit.tasks.operation import with_timeout
    from calculators.llm.openapi.generation_schemas import SHARED_SCHEMAS

    schemas = dict(SHARED_SCHEMAS)
    for endpoint in ENDPOINTS:
        if endpoint.request:
            handling = endpoint.handling()
            schemas[endpoint.request] = with_timeout(handling.members, any_of=handling.any_of)
        schemas.update(endpoint.schemas())
    return TaskDescription(tuple(_operation(each, model) for each in ENDPOINTS), schemas)


_ERRORS: Final = {
    ErrorForm.LLAMA_CPP: "LlamaCppError",
    ErrorForm.HUGGING_FACE: "HuggingFaceError",
}


def _operation(endpoint: LlmEndpoint, model: str) -> Operation:
    from calculators.kit.requests.schema import array, one_of, ref

    content = {JSON: media(ref(endpoint.response))}
    if endpoint.streams:
        if endpoint.error_form is ErrorForm.GOOGLE:
            event = one_of(ref(endpoint.event), ref("GoogleError"))
            content[JSON] = media(array(event))
            content[EVENTS] = events("An event; an error ends the stream.", event)
        elif endpoint.error_form in _ERRORS:
            event = one_of(ref(endpoint.event), ref(_ERRORS[endpoint.error_form]))
            said = "An event; the last one has counts, or is an error."
            # SGLang's streams have one more.
            last = "[DONE]" if endpoint.event == "TgiOrSglangEvent" else ""
            content[EVENTS] = events(said, event, last=last)
        elif endpoint.error_form is ErrorForm.OLLAMA:
            line = one_of(ref(endpoint.event), ref("OllamaError"))
            said = "A line; the last one has `done: true`, or is an error."
            content[LINES] = lines(said, line)
        elif endpoint.error_form is ErrorForm.ANTHROPIC:
            event = one_of(ref(endpoint.event), ref("AnthropicError"))
            said = "An event; the last one is `message_stop`, or an error."
            content[EVENTS] = events(said, event)
        else:
            event = one_of(ref(endpoint.event), ref("OpenAIError"))
            said = "An event; an error ends the stream. The last one is `[DONE]`."
            content[EVENTS] = events(said, event, last="[DONE]")
    named = {} if endpoint.names_model else {"model": model}
    examples = {name: {**named, **body} for name, body in endpoint.examples.items()}
    is_lookup = "POST" not in endpoint.methods
    body = {JSON: media(ref(endpoint.request), **examples)} if endpoint.request else None
    return Operation(
        method="get" if is_lookup else "post",
        paths=paths_of(endpoint),
        id=endpoint.id,
        tag=endpoint.tag,
        summary=endpoint.summary,
        form=endpoint.error_form,
        runs_graph=True,
        parameters=(
            *(("Alt",) if "alt" in endpoint.query else ()),
            *(("Model",) if is_lookup else ()),
            "Timeout",
        ),
        body=body,
        answers={200: answer(endpoint.about, content)},
    )
