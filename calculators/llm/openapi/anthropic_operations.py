"""Anthropic's endpoints."""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.requests.endpoint import Endpoint
from calculators.requests.schema import one_of, ref
from calculators.tasks import ErrorForm
from calculators.tasks.operation import EVENTS, JSON, Operation, answer, events, media, prefixed

_TAG: Final = "Anthropic"
_EVENTS: Final = "An event; the last one is `message_stop`, or an error."


def anthropic_operations(model: str) -> list[Operation]:
    """``model``: a name for the examples."""
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return [
        Operation(
            method="post",
            paths=prefixed(Endpoint.MESSAGES),
            id="createMessage",
            tag=_TAG,
            summary="Answer a conversation",
            form=ErrorForm.ANTHROPIC,
            runs_graph=True,
            parameters=("Timeout",),
            body={
                JSON: media(ref("CreateMessageRequest"), a_question={**asked, "max_tokens": 50}),
            },
            answers={
                200: answer(
                    "The answer: whole, or with `stream` in events.",
                    {
                        JSON: media(ref("Message")),
                        EVENTS: events(_EVENTS, one_of(ref("MessageEvent"), ref("AnthropicError"))),
                    },
                )
            },
        ),
        Operation(
            method="post",
            paths=prefixed(Endpoint.COUNT_TOKENS),
            id="countTokens",
            tag=_TAG,
            summary="How many tokens would the prompt have?",
            form=ErrorForm.ANTHROPIC,
            runs_graph=True,
            parameters=("Timeout",),
            body={JSON: media(ref("CountTokensRequest"), a_question=asked)},
            answers={200: answer("The count.", {JSON: media(ref("TokenCount"))})},
        ),
    ]
