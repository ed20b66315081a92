"""Tools at a model whose chat template knows none: the real engine, every chat endpoint."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from calculators.llm.task_options import LlmSettings
from graph_runtime import FamilySettings
from tests.calculators.llm.demo_model import copy_of_demo, rewrite
from tests.calculators.llm.graph_runs import CHAT, MESSAGES, QUEUE, RESPONSES, Asking
from tests.calculators.llm.graph_texts import QUICKSTART, plan_of, resources_of
from tests.calculators.llm.test_understood_answers import PARIS, WEATHER, gathered
from tests.support.conditions import soon

#: Messages with their roles, as many models' templates; no word of tools.
_CHATML: Final = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: A question from which the model does not see that a tool is needed.
_HELLO: Final = [{"role": "user", "content": "Hello"}]
_FUNCTION: Final[dict[str, Any]] = WEATHER["function"]  # type: ignore[assignment]
_FLAT: Final = {"type": "function", **_FUNCTION}
_ANTHROPICS: Final = {"name": "get_weather", "input_schema": _FUNCTION["parameters"]}
_NAMED: Final = {"type": "function", "function": {"name": "get_weather"}}


@pytest.fixture(scope="module")
def plain(
    in_process_engine: None, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asking]:
    """Client of a graph with the demo model under a template that knows no tools."""
    folder = copy_of_demo(tmp_path_factory.mktemp("plain") / "model")
    rewrite(folder / "chat_template.jinja", lambda _: _CHATML.encode())
    families = FamilySettings(LlmSettings(request_limit=QUEUE))
    resources = runner.run(soon(resources_of(QUICKSTART, folder, families=families)))
    yield Asking(runner, plan_of(QUICKSTART), resources)
    runner.run(resources.close())


def check_call(name: str, arguments: str) -> None:
    assert name == "get_weather"
    read = json.loads(arguments)
    assert set(read) == {"city"}
    assert isinstance(read["city"], str)


@pytest.mark.parametrize("choice", ["required", _NAMED])
@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_is_made_to_call(plain: Asking, choice: Any, stream: bool) -> None:
    asked: dict[str, Any] = {
        "messages": _HELLO, "tools": [WEATHER], "tool_choice": choice, "max_tokens": 100,
        "parallel_tool_calls": False, "stream": stream,
    }  # fmt: skip
    answered = plain(CHAT, **asked)
    message = gathered(answered) if stream else answered.body["choices"][0]["message"]
    (call,) = message["tool_calls"]
    check_call(call["function"]["name"], call["function"]["arguments"])
    assert message["content"] == ""
    reason = message if stream else answered.body["choices"][0]
    assert reason["finish_reason"] == "tool_calls"


def test_a_response_is_made_to_call(plain: Asking) -> None:
    asked: dict[str, Any] = {"input": "Hello", "tools": [_FLAT], "tool_choice": "required"}
    more: dict[str, Any] = {"parallel_tool_calls": False, "max_output_tokens": 100}
    (item,) = plain(RESPONSES, **asked, **more).body["output"]
    assert item["type"] == "function_call"
    check_call(item["name"], item["arguments"])
    streamed = "".join(plain(RESPONSES, **asked, **more, stream=True).values)
    assert json.dumps(item["arguments"])[1:-1] in streamed
    assert "response.function_call_arguments.done" in streamed


def test_an_anthropic_message_is_made_to_call(plain: Asking) -> None:
    asked: dict[str, Any] = {
        "messages": _HELLO, "tools": [_ANTHROPICS], "max_tokens": 100,
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    }  # fmt: skip
    body = plain(MESSAGES, **asked).body
    (block,) = body["content"]
    assert body["stop_reason"] == "tool_use"
    check_call(block["name"], json.dumps(block["input"]))
    assert '"stop_reason":"tool_use"' in "".join(plain(MESSAGES, **asked, stream=True).values)


def test_a_model_that_understands_the_form_calls_by_itself(plain: Asking) -> None:
    (choice,) = plain(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=60).body["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
    assert choice["finish_reason"] == "tool_calls"
    (choice,) = plain(CHAT, messages=_HELLO, tools=[WEATHER], max_tokens=60).body["choices"]
    assert not choice["message"].get("tool_calls")
    assert choice["message"]["content"]


def test_the_result_of_a_call_is_read(plain: Asking) -> None:
    asked: dict[str, Any] = {"tools": [WEATHER], "max_tokens": 60}
    first = plain(CHAT, messages=PARIS, **asked).body["choices"][0]["message"]
    (call,) = first["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "12 degrees and rain"}
    (choice,) = plain(CHAT, messages=[*PARIS, first, result], **asked).body["choices"]
    assert not choice["message"].get("tool_calls")
    content = choice["message"]["content"]
    assert "12" in content or "rain" in content


def test_a_model_with_the_template_of_llama_3_2_is_made_to_call(
    in_process_engine: None, runner: asyncio.Runner, tmp_path: Path
) -> None:
    template = (
        "{% if tools %}{{ tools | tojson }}{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}"
        '{{ \'{"name": "\' + c.function.name + \'", "parameters": \' }}'
        "{{ c.function.arguments | tojson }}{{ '}' }}{{ '<|eot_id|>' }}{% endfor %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    folder = copy_of_demo(tmp_path / "model")
    rewrite(folder / "chat_template.jinja", lambda _: template.encode())
    resources = runner.run(soon(resources_of(QUICKSTART, folder)))
    llama = Asking(runner, plan_of(QUICKSTART), resources)
    asked: dict[str, Any] = {"tools": [WEATHER], "tool_choice": "required", "max_tokens": 100}
    body = llama(CHAT, messages=_HELLO, parallel_tool_calls=False, **asked).body
    (call,) = body["choices"][0]["message"]["tool_calls"]
    check_call(call["function"]["name"], call["function"]["arguments"])
    runner.run(resources.close())


def test_a_model_with_a_form_that_nobody_has_declared_is_made_to_call(
    in_process_engine: None,
    runner: asyncio.Runner,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    template = (
        "{% if tools %}{{ tools | tojson }}{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<<use {{ c.function.name }}>>"
        "{% for k, v in c.function.arguments.items() %}<<with {{ k }}>>{{ v }}<</with>>{% endfor %}"
        "<</use>>{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    folder = copy_of_demo(tmp_path / "model")
    rewrite(folder / "chat_template.jinja", lambda _: template.encode())
    with caplog.at_level(logging.INFO, "graphrt"):
        resources = runner.run(soon(resources_of(QUICKSTART, folder)))
    made = [text for text in caplog.messages if "made of its chat template" in text]
    assert len(made) == 1
    assert "<<use {name}>>{args}<</use>>" in made[0]
    own = Asking(runner, plan_of(QUICKSTART), resources)
    city = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
    tool = {"type": "function", "function": {**_FUNCTION, "parameters": city}}
    asked: dict[str, Any] = {"tools": [tool], "tool_choice": "required", "max_tokens": 100}
    body = own(CHAT, messages=_HELLO, parallel_tool_calls=False, **asked).body
    (call,) = body["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
    runner.run(resources.close())
