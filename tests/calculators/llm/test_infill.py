"""Answers that fill in text, by the real engine: prompts, ends and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import Begun
from calculators.language.generation_request import Api, GenerationRequest, Infill
from calculators.llm.answers.choice import Choice
from calculators.llm.detokenizer import TableDetokenizer
from calculators.llm.engine.messages import NewTokens
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.task_options import LlmSettings
from graph_runtime import FamilySettings
from tests.calculators.llm.code_model import make_code_model
from tests.calculators.llm.graph_runs import COMPLETIONS, Asking, text_of
from tests.calculators.llm.graph_texts import loop_with, plan_of, resources_of
from tests.support.conditions import soon

GRAPH = loop_with('models_path: "model.gguf", cache_size: 1, enable_prefix_caching: true')
CODE = {"prompt": "def add(a, b):\n    return ", "suffix": "\n\nprint(add(1, 2))\n"}


@pytest.fixture(scope="module")
def code(
    runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory, in_process_engine: None
) -> Iterator[Asking]:
    folder = tmp_path_factory.mktemp("code")
    make_code_model(folder)
    settings = LlmSettings(request_limit=8, verbose_response=True)
    resources = runner.run(soon(resources_of(GRAPH, folder, families=FamilySettings(settings))))
    yield Asking(runner, plan_of(GRAPH), resources)
    runner.run(resources.close())


def test_a_suffix_puts_the_gap_into_the_prompt(code: Asking) -> None:
    body = code(COMPLETIONS, **CODE, max_tokens=4, ignore_eos=True).body

    assert body["__verbose"]["prompt"] == (
        f"<|fim_prefix|>{CODE['prompt']}<|fim_suffix|>{CODE['suffix']}<|fim_middle|>"
    )
    assert body["object"] == "text_completion"
    assert body["usage"]["completion_tokens"] == 4
    streamed = code(COMPLETIONS, **CODE, max_tokens=4, ignore_eos=True, stream=True)
    assert text_of(streamed) == body["choices"][0]["text"]


def test_nothing_before_the_gap_is_a_text_too(code: Asking) -> None:
    shown = code(COMPLETIONS, prompt="", suffix="x", max_tokens=1).body["__verbose"]["prompt"]
    assert shown == "<|fim_prefix|><|fim_suffix|>x<|fim_middle|>"


def test_several_prompts_have_the_same_suffix(code: Asking) -> None:
    body = code(COMPLETIONS, prompt=["a", "b"], suffix="c", n=2, max_tokens=2).body
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]


def test_prompts_share_their_beginning(code: Asking) -> None:
    before = "".join(f"line {number}\n" for number in range(40))
    code(COMPLETIONS, prompt=before, suffix="end", max_tokens=1)
    again = code(COMPLETIONS, prompt=f"{before}de", suffix="end", max_tokens=1).body["usage"]
    assert again["prompt_tokens_details"]["cached_tokens"] > again["prompt_tokens"] / 2


def test_the_tokens_between_parts_end_an_answer(code: Asking) -> None:
    servable = code.servable
    ends = servable.model.prompts_ready.infill_ends
    assert ends is not None
    plain = servable.defaults.eos_token_ids
    settings = servable._infill_settings(GenerationSettings())
    assert settings.stop_token_ids is not None
    assert set(settings.stop_token_ids) == {*plain, *ends}


def test_a_token_that_ends_the_text_is_not_of_it(runner: asyncio.Runner) -> None:
    async def texts(*groups: NewTokens) -> tuple[str, int]:
        choice = Choice(TableDetokenizer([b"a", b"b", b"<END>"], False), ends=(2,))
        text = ""
        for tokens in groups:
            gain = await choice.take(tokens, scored=False)
            text += "".join(event.text for event in gain.events)  # type: ignore[union-attr]
        return text, choice.completion_tokens

    end = NewTokens(0, 0, [0, 1, 2], finish_reason="stop")
    assert runner.run(texts(end)) == ("ab", 3)
    length = NewTokens(0, 0, [0, 2, 1], finish_reason="length")
    assert runner.run(texts(length)) == ("a<END>b", 3)


def test_a_prompt_that_is_too_long_is_refused(code: Asking) -> None:
    with pytest.raises(RequestError, match="model") as caught:
        code(COMPLETIONS, prompt="word " * 4000, suffix="end")
    assert caught.value.reason == "context_length_exceeded"


def test_other_models_say_why_not(ask: Asking) -> None:
    with pytest.raises(RequestError, match="cannot fill in text") as caught:
        ask(COMPLETIONS, **CODE)
    assert caught.value.param == "suffix"
    assert ask(COMPLETIONS, prompt="Hello", suffix="").body["choices"]


def test_a_node_may_add_the_text_after_the_gap(code: Asking) -> None:
    request = GenerationRequest(
        api=Api.COMPLETIONS, model="demo", prompts=("a",), sampling={"max_tokens": 1}
    )
    infill = Infill("b", (("x.py", "c"),), "d", is_cut=True)

    async def prompt() -> int:
        answer = await code.servable.generate(replace(request, infill=infill), "node")
        begun = (await answer.read())[0]
        answer.cancel()
        assert isinstance(begun, Begun)
        return begun.usage.prompt_tokens

    shown = (
        "<|repo_name|>myproject\n<|file_sep|>x.py\nc<|file_sep|>filename\n"
        "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>d"
    )
    expected = code.runner.run(code.servable.prompts.encode(shown)).token_count
    assert code.runner.run(prompt()) == expected
