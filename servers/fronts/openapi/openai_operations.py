"""OpenAI's endpoints, and OpenVINO Model Server's ``tokenize`` beside them."""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.requests.endpoint import PREFIXES, Endpoint
from calculators.requests.schema import one_of, ref
from servers.fronts.http.errors import STATUS
from servers.fronts.http.routes import ErrorForm
from servers.fronts.openapi.operation import EVENTS, JSON, Operation, answer, events, media

_TAG: Final = "OpenAI"
#: What a graph may answer with; the authors of graphs choose freely among these.
OF_A_GRAPH: Final = frozenset(STATUS.values())
_EVENTS: Final = "An event; an error ends the stream. The last one is `[DONE]`."


def prefixed(rest: str) -> dict[str, str]:
    """The paths of an endpoint under all prefixes; operations under the first have plain ids."""
    return {
        "" if prefix == PREFIXES[0] else prefix.replace("/", "").upper(): prefix + rest
        for prefix in PREFIXES
    }


def openai_operations(model: str) -> list[Operation]:
    """``model``: a name for the examples."""
    hello = [{"role": "user", "content": "Hello"}]
    return [
        _generates(
            Endpoint.CHAT_COMPLETIONS,
            "createChatCompletion",
            "Answer a conversation",
            request="CreateChatCompletionRequest",
            whole="ChatCompletion",
            event="ChatCompletionChunk",
            examples={
                "a_question": {"model": model, "messages": hello},
                "in_events": {"model": model, "messages": hello, "stream": True},
            },
        ),
        _generates(
            Endpoint.COMPLETIONS,
            "createCompletion",
            "Go on with a text",
            request="CreateCompletionRequest",
            whole="Completion",
            event="Completion",
            examples={"a_text": {"model": model, "prompt": "Hello", "max_tokens": 20}},
        ),
        _generates(
            Endpoint.RESPONSES,
            "createResponse",
            "Answer a conversation, in OpenAI's newer form",
            request="CreateResponseRequest",
            whole="ResponseObject",
            event="ResponseEvent",
            examples={"a_question": {"model": model, "input": "Hello"}},
        ),
        Operation(
            method="post",
            paths=prefixed(Endpoint.TOKENIZE),
            id="tokenize",
            tag=_TAG,
            summary="The token ids of a text",
            form=ErrorForm.OPENAI,
            errors=OF_A_GRAPH,
            parameters=("Timeout",),
            body={
                JSON: media(ref("TokenizeRequest"), a_text={"model": model, "text": "Hello"}),
            },
            answers={200: answer("The ids.", {JSON: media(ref("TokenizeResponse"))})},
        ),
        *_models(),
    ]


def _generates(
    endpoint: Endpoint,
    name: str,
    summary: str,
    *,
    request: str,
    whole: str,
    event: str,
    examples: dict[str, Any],
) -> Operation:
    return Operation(
        method="post",
        paths=prefixed(endpoint),
        id=name,
        tag=_TAG,
        summary=summary,
        form=ErrorForm.OPENAI,
        errors=OF_A_GRAPH,
        parameters=("Timeout",),
        body={JSON: media(ref(request), **examples)},
        answers={
            200: answer(
                "The answer: whole, or with `stream` in events.",
                {
                    JSON: media(ref(whole)),
                    EVENTS: events(_EVENTS, one_of(ref(event), ref("OpenAIError")), last="[DONE]"),
                },
            )
        },
    )


def _models() -> list[Operation]:
    return [
        Operation(
            method="get",
            paths=prefixed("/models"),
            id="listModels",
            tag=_TAG,
            summary="What is served",
            form=ErrorForm.OPENAI,
            answers={200: answer("The models.", {JSON: media(ref("ModelList"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/models/{model}"),
            id="retrieveModel",
            tag=_TAG,
            summary="One of them",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The model.", {JSON: media(ref("Model"))})},
        ),
    ]
