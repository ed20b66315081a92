"""OpenAI's endpoints, and OpenVINO Model Server's ``tokenize`` beside them."""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.requests.endpoint import Endpoint
from calculators.requests.schema import one_of, ref
from calculators.tasks import ErrorForm
from calculators.tasks.operation import EVENTS, JSON, Operation, answer, events, media, prefixed

_TAG: Final = "OpenAI"
_EVENTS: Final = "An event; an error ends the stream. The last one is `[DONE]`."


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
            runs_graph=True,
            parameters=("Timeout",),
            body={
                JSON: media(ref("TokenizeRequest"), a_text={"model": model, "text": "Hello"}),
            },
            answers={200: answer("The ids.", {JSON: media(ref("TokenizeResponse"))})},
        ),
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
        runs_graph=True,
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
