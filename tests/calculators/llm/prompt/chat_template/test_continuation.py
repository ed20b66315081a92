"""Prompts that stay open in their last message, for the templates of well-known families."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from calculators.llm.requests.messages import normalise_messages
from tests.calculators.llm.prompt.chat_template.families.oracle import BOS, EOS, FAMILIES

ASK = {"role": "user", "content": "Name a capital."}
BEGUN = "The capital of France is Par"


def rendered(source: str, messages: list[dict[str, Any]], *, continues: bool) -> str:
    template = ChatTemplate.of_source(source, bos_token=BOS, eos_token=EOS)
    return ChatRenderer(template).render(
        normalise_messages(messages),
        template_kwargs={"add_generation_prompt": False},
        continues=continues,
    )


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("content", [BEGUN, [{"type": "text", "text": BEGUN}]])
def test_the_prompt_ends_with_the_text_of_the_last_message(family: str, content: Any) -> None:
    source = FAMILIES[family]
    messages = [ASK, {"role": "assistant", "content": content}]
    continued = rendered(source, messages, continues=True)
    assert continued.endswith(BEGUN)
    # The whole message is rendered alike, and closed.
    whole = rendered(source, messages, continues=False)
    assert whole.startswith(continued)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages[-1].content }}<end>", "I say  "),
        ("{{ messages[-1].content | trim }}<end>", "I say"),
        ("{{ messages[-1].content | trim }} <end>", "I say  "),
    ],
)
def test_spaces_at_the_end_are_kept_or_stripped_as_the_template_does(
    source: str, expected: str
) -> None:
    messages = [ASK, {"role": "assistant", "content": "I say  "}]
    if source.endswith("} <end>"):
        # A template that strips a text and writes a space looks like one that keeps it.
        assert rendered(source, messages, continues=True).rstrip() == "I say"
    else:
        assert rendered(source, messages, continues=True) == expected


@pytest.mark.parametrize(
    ("last", "param", "words"),
    [
        ({"role": "assistant", "content": ""}, "messages[1].content", "no text"),
        ({"role": "assistant"}, "messages[1].content", "no text"),
        (
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
            },
            "messages[1].tool_calls",
            "calls tools",
        ),
    ],
)
def test_only_a_text_can_be_continued(last: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(ChatTemplateError, match=words) as raised:
        rendered(FAMILIES["chatml"], [ASK, last], continues=True)
    assert raised.value.param == param


def test_a_template_that_hides_the_end_of_the_message_is_an_error() -> None:
    with pytest.raises(ChatTemplateError, match="does not write the end of its text") as raised:
        rendered(
            "{{ messages[0].content + messages[-1].content[:40] }}",
            [ASK, {"role": "assistant", "content": "x" * 99}],
            continues=True,
        )
    assert raised.value.param == "continue_final_message"


def test_nothing_can_be_continued_in_a_conversation_without_messages() -> None:
    renderer = ChatRenderer(ChatTemplate.of_source("x", bos_token=BOS, eos_token=EOS))
    with pytest.raises(ChatTemplateError, match="there is no message"):
        renderer.render([], template_kwargs={"add_generation_prompt": False}, continues=True)
