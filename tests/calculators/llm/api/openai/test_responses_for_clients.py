"""Answers of ``/responses``, as OpenAI's own types and client read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import FinishReason, Usage
from calculators.language.events import Arguments, Content, Reasoning, ToolCall
from calculators.llm.answers.response import AnswerChoice
from graph_runtime import Code
from tests.calculators.llm.api.openai.test_responses_writer import (
    ALL,
    USAGE,
    read,
    streamed,
    writer,
)
from tests.calculators.llm.canned_server import answering


# Imported by the tests that use it: it takes longer than to collect a hundred tests.
@pytest.fixture(scope="module")
def openai() -> Any:
    return pytest.importorskip("openai")


@pytest.fixture(scope="module")
def types(openai: Any) -> Any:
    return pytest.importorskip("openai.types.responses")


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
def test_every_event_is_one_of_openais(reason: FinishReason, types: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    known = pydantic.TypeAdapter(types.ResponseStreamEvent)
    events = read(streamed(ALL, reason))
    made = writer()
    events += read(made.start(Usage(1, 0)) + made.failure(RequestError("no")))
    for event in events:
        value = known.validate_python(event)
        assert value.type == event["type"]
        # What OpenAI does not know would be kept as it came.
        assert value.model_extra in (None, {}), event


def test_every_member_of_the_object_is_one_of_openais(types: Any) -> None:
    choice = AnswerChoice(
        [Reasoning("hm"), Content("Hi"), ToolCall("f", "c"), Arguments("{}")],
        FinishReason.TOOL_CALLS,
    )
    body = json.loads(writer().whole([choice], USAGE))
    response = types.Response.model_validate(body)
    # OpenAI's answers have this, its types do not.
    assert response.model_extra == {"store": False}
    assert response.output_text == "Hi"
    missing = {name for name in types.Response.model_fields if name not in body}
    assert missing == {"conversation", "moderation", "prompt", "prompt_cache_options",
                       "prompt_cache_retention"}  # fmt: skip


def test_openais_client_gathers_the_stream(openai: Any) -> None:
    with (
        answering(streamed(ALL, FinishReason.TOOL_CALLS)) as url,
        openai.OpenAI(base_url=url, api_key="-", max_retries=0) as client,
        client.responses.stream(model="m", input="hi") as stream,
    ):
        gathered = [event for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()
    assert gathered[-1].snapshot == "Hello you \u2028😀"
    assert response.output_text == "Hello you \u2028😀"
    assert [item.type for item in response.output] == [
        "reasoning", "message", "function_call", "function_call",
    ]  # fmt: skip
    assert response.output[2].arguments == '{"a":1}'
    assert response.usage.output_tokens == 4


def test_openais_client_sees_a_failure(openai: Any) -> None:
    made = writer()
    text = made.start(Usage(3, 0)) + made.more(0, [Content("Hel")], None)
    text += made.failure(RequestError("down", code=Code.UNAVAILABLE))
    with (
        answering(text) as url,
        openai.OpenAI(base_url=url, api_key="-", max_retries=0) as client,
    ):
        *_, last = client.responses.create(model="m", input="hi", stream=True)
    assert last.type == "response.failed"
    assert last.response.error.message == "down"
