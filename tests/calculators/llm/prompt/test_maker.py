"""Prompts from messages and from text, and the text of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.prompt.messages import (
    Chat,
    Decode,
    DecodedTokens,
    Encode,
    Prompt,
    PromptRefused,
)
from tests.calculators.llm.demo_model import DEMO, copy_of_demo, demo_tokenizer, rewrite

MESSAGES = [{"role": "user", "content": "Hello, Grüße!"}]


@pytest.fixture(scope="module")
def maker() -> PromptBuilder:
    return PromptBuilder(str(DEMO), 2048)


def ids_of(prompt: Prompt) -> list[int]:
    return np.frombuffer(prompt.input_ids, dtype=np.int64).tolist()  # type: ignore[no-any-return]


def encoded(text: str, *, special: bool) -> list[int]:
    ids = demo_tokenizer().encode(text, add_special_tokens=special).input_ids
    return ids.data[0].tolist()  # type: ignore[no-any-return]


def refused(answer: object) -> PromptRefused:
    assert isinstance(answer, PromptRefused)
    return answer


def test_a_chat_is_rendered_and_tokenized(maker: PromptBuilder) -> None:
    answer = maker.answer(Chat(MESSAGES, None, {"add_generation_prompt": True}))
    assert isinstance(answer, Prompt)
    assert answer.text == "<|im_start|>user\nHello, Grüße!<|im_end|>\n<|im_start|>assistant\n"
    assert ids_of(answer) == encoded(answer.text, special=False)


def test_tools_and_template_arguments_reach_the_template(maker: PromptBuilder) -> None:
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {}}}
    answer = maker.answer(
        Chat(MESSAGES, [tool], {"enable_thinking": True, "add_generation_prompt": False})
    )
    assert isinstance(answer, Prompt)
    assert "look_up" in answer.text
    assert "/think" in answer.text
    assert not answer.text.endswith("assistant\n")


@pytest.mark.parametrize("text", ["Hello", "", "  ", "\x00", "<|im_end|>", "漢字" * 50])
@pytest.mark.parametrize("special", [True, False])
def test_text_is_tokenized(maker: PromptBuilder, text: str, special: bool) -> None:
    answer = maker.answer(Encode(text, special))
    assert isinstance(answer, Prompt)
    assert ids_of(answer) == encoded(text, special=special)
    assert answer.text == text


@pytest.mark.parametrize("skip", [True, False])
def test_tokens_are_detokenized(maker: PromptBuilder, skip: bool) -> None:
    ids = encoded("<|im_start|>Hello<|im_end|>", special=False)
    answer = maker.answer(Decode(ids, skip))
    assert answer == DecodedTokens("Hello" if skip else "<|im_start|>Hello<|im_end|>")


def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenized(maker: PromptBuilder) -> None:
    answer = refused(maker.answer(Encode("x" * 1_000_000)))
    assert "1000000 characters" in answer.reason
    assert "2048 tokens" in answer.reason
    assert (answer.param, answer.code) == ("prompt", "OUT_OF_RANGE")
    answer = refused(maker.answer(Chat([{"role": "user", "content": "x" * 1_000_000}])))
    assert answer.param == "messages"


def test_ready_describes_template_and_tokens(maker: PromptBuilder) -> None:
    ready = maker.ready()
    assert ready.template_problem == ""
    assert ready.tool_parser == "hermes"
    assert ready.tokens.is_exact
    assert ready.tokens.decode(encoded("Hello", special=True)) == "Hello"


# Templates ----------------------------------------------------------------------------------------


def with_template(folder: Path, source: str) -> PromptBuilder:
    copy_of_demo(folder)
    rewrite(folder / "chat_template.jinja", lambda _: source.encode())
    return PromptBuilder(str(folder), 2048)


@pytest.mark.parametrize("source", ["{% if %}", "{{ messages", "{% endfor %}"])
def test_a_template_that_does_not_parse_fails_chats_only(tmp_path: Path, source: str) -> None:
    maker = with_template(tmp_path / "model", source)
    assert maker.ready().template_problem
    answer = refused(maker.answer(Chat(MESSAGES)))
    assert "template" in answer.reason
    assert answer.code == "INTERNAL"
    assert str(tmp_path) not in answer.reason
    assert isinstance(maker.answer(Encode("Hello")), Prompt)


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[5].content }}", ""),
        ("{{ 1 / 0 }}", ""),
        ("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", ""),
        ("{{ 'A' * 10 ** 9 }}", ""),
        ("{{ ''.__class__ }}{{ messages.__class__.__mro__[1] }}", ""),
    ],
)
def test_a_template_that_fails_refuses_its_request(tmp_path: Path, source: str, word: str) -> None:
    # The check at the start sees only what the loading probes see.
    source = (
        "{% if messages[0].content == 'Hello, Grüße!' %}"
        + source
        + "{% endif %}{{ messages[0].content }}"
    )
    maker = with_template(tmp_path / "model", source)
    assert maker.ready().template_problem == ""
    answer: Any = maker.answer(Chat(MESSAGES))
    assert word in refused(answer).reason
    assert isinstance(maker.answer(Chat([{"role": "user", "content": "Hi"}])), Prompt)


def test_a_chat_to_a_model_without_a_template_is_refused(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model", without="chat_template.jinja")
    maker = PromptBuilder(str(folder))
    answer = maker.answer(Chat(MESSAGES))
    assert isinstance(answer, (Prompt, PromptRefused))
    if isinstance(answer, PromptRefused):
        assert "template" in answer.reason
