"""Answers of ``/messages``, as Anthropic's own types and client read them."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.language.delta import FinishReason
from calculators.llm.answers.response import AnswerChoice
from tests.calculators.llm.api.anthropic.test_messages_writer import ALL, read, streamed, whole
from tests.calculators.llm.canned_server import answering

pydantic = pytest.importorskip("pydantic")


@pytest.fixture(scope="module")
def anthropic() -> Any:
    """The library, which takes more than a second: not in each process that collects tests."""
    return pytest.importorskip("anthropic")


def test_every_event_is_one_of_anthropics(anthropic: Any) -> None:
    known = pydantic.TypeAdapter(anthropic.types.RawMessageStreamEvent)
    for event in read(streamed(ALL, FinishReason.TOOL_CALLS)):
        value = known.validate_python(event)
        assert value.type == event["type"]
        assert value.model_extra in (None, {}), event


def test_every_member_of_the_message_is_one_of_anthropics(anthropic: Any) -> None:
    choice = AnswerChoice(finish_reason=FinishReason.TOOL_CALLS)
    choice.events += ALL
    message = anthropic.types.Message.model_validate(whole(choice))
    assert message.model_extra in (None, {})
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]


def test_anthropics_client_gathers_the_stream(anthropic: Any) -> None:
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    with (
        answering(streamed(ALL, FinishReason.TOOL_CALLS)) as url,
        anthropic.Anthropic(base_url=url, api_key="-", max_retries=0) as client,
        client.messages.stream(**asked) as stream,
    ):
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == "Hello you \u2028😀"
    assert message.stop_reason == "tool_use"
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.content[0].thinking == "hm..."
    assert message.content[2].input == {"a": 1}
    assert message.usage.output_tokens == 4
