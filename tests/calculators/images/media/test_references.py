"""References to images in the requests of each endpoint, in the order of the messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from calculators.images.media.image import ImageReference
from calculators.images.media.tags import with_tags
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.api.anthropic.messages_request import (
    parse_count_tokens_request,
    parse_messages_request,
)
from calculators.llm.api.openai.responses_request import parse_responses_request
from calculators.llm.requests.completions_request import ChatRequest, parse_chat_request
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

LIMITS = RequestLimits(max_images=3)
Part = Callable[[str], dict[str, Any]]


def chat(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def response(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url}


def message(url: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "url", "url": url}}


def asked_chat(messages: list[Any]) -> ChatRequest:
    return parse_chat_request({"model": "m", "messages": messages}, LIMITS, ModelDefaults())


def asked_response(items: list[Any]) -> ChatRequest:
    return parse_responses_request({"model": "m", "input": items}, LIMITS, ModelDefaults())


def asked_message(messages: list[Any]) -> ChatRequest:
    body = {"model": "m", "max_tokens": 5, "messages": messages}
    return parse_messages_request(body, LIMITS, ModelDefaults())


ENDPOINTS = [
    (asked_chat, chat, "messages[{}].content[{}].image_url.url"),
    (asked_response, response, "input[{}].content[{}].image_url"),
    (asked_message, message, "messages[{}].content[{}].source"),
]
Ask = Callable[[list[Any]], ChatRequest]


@pytest.mark.parametrize(("ask", "part", "place"), ENDPOINTS)
def test_images_of_all_messages_are_found_with_their_places(
    ask: Ask, part: Part, place: str
) -> None:
    said = {"role": "assistant", "content": "a"}
    request = ask(
        [
            {"role": "user", "content": [part("x"), part("y")]},
            said,
            {"role": "user", "content": [part("z")]},
        ]
    )
    assert request.images == (
        ImageReference("x", place.format(0, 0)),
        ImageReference("y", place.format(0, 1)),
        ImageReference("z", place.format(2, 0)),
    )
    texts = [message["content"] for message in with_tags(request.messages)]
    assert [len(text) if isinstance(text, list) else text for text in texts] == [2, "a", 1]


@pytest.mark.parametrize(("ask", "part", "place"), ENDPOINTS)
def test_too_many_images_are_refused(ask: Ask, part: Part, place: str) -> None:
    with pytest.raises(RequestError, match="only 3 images are allowed"):
        ask([{"role": "user", "content": [part("x")] * 2}] * 2)


def test_the_result_of_a_tool_may_be_an_image() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "YWJj"}
    result = {"type": "tool_result", "tool_use_id": "1",
              "content": [{"type": "image", "source": source}]}  # fmt: skip
    call = {"type": "tool_use", "id": "1", "name": "see", "input": {}}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": [message("x")]},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, message("y")]},
        ],
    }
    urls = [image.url for image in parse_count_tokens_request(body, LIMITS).images]
    assert urls == ["x", "data:image/png;base64,YWJj", "y"]
