"""Templates of well-known families: their prompts are Hugging Face's, byte for byte.

``families/expected.json`` holds the prompts of `transformers` for every template and every chat. If
`transformers` is installed (or GRAPHRT_TRANSFORMERS_PYTHON is a Python that has it), they are
rendered again.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from calculators.llm.prompt.chat_template.analysis import analyze
from calculators.llm.prompt.chat_template.chat_renderer import prepare_history
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError, clean
from calculators.llm.requests.messages import normalise_messages
from graph_runtime import Code
from tests.calculators.llm.prompt.chat_template.families.conversations import (
    ASK,
    CONVERSATIONS,
    PLACE,
    REASONED,
    TOOLS,
    Conversation,
    assistant,
    call,
    tool,
    user,
)
from tests.calculators.llm.prompt.chat_template.families.oracle import (
    BOS,
    EOS,
    EXPECTED,
    FAMILIES,
    FixedTime,
    digest,
    shared_templates,
)
from tests.support.checkout import ROOT

TEMPLATES = {**FAMILIES, **shared_templates()}
ANSWERS: dict[str, dict[str, Any]] = json.loads(EXPECTED.read_text("utf-8"))["answers"]
ARGUMENTS = json.dumps(PLACE, ensure_ascii=False)
LIVE_PYTHON = os.environ.get("GRAPHRT_TRANSFORMERS_PYTHON") or (
    sys.executable if importlib.util.find_spec("transformers") else ""
)


@pytest.fixture(autouse=True)
def _fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calculators.llm.prompt.chat_template.environment.datetime", FixedTime)


@functools.cache
def template_of(family: str) -> ChatTemplate:
    return ChatTemplate.of_source(TEMPLATES[family], bos_token=BOS, eos_token=EOS)


def answer(family: str, chat: Conversation) -> dict[str, Any]:
    """Return the prompt, or the error."""
    try:
        prompt = template_of(family).render(
            chat.messages,
            tools=chat.tools,
            add_generation_prompt=chat.add_generation_prompt,
            template_kwargs=chat.variables,
        )
    except ChatTemplateError as error:
        if error.code is not Code.INVALID_ARGUMENT:
            raise
        return {"error": str(error)}
    return {"prompt": prompt}


def agrees(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    if expected.get("prompt") == "":
        return "empty prompt" in found.get("error", "")  # templates cannot render nothing
    if "prompt" in expected:
        return found == expected
    if "digest" in expected:
        return digest(found, 0) == expected
    if expected["by_template"]:
        return found == {"error": clean(expected["error"])}
    return clean(expected["error"]) in found.get("error", "")


def differences(family: str, answers: dict[str, Any]) -> list[str]:
    found = {title: answer(family, chat) for title, chat in CONVERSATIONS.items()}
    return [
        f"{family}, {title}: {found[title]} instead of {expected}"
        for title, expected in answers.items()
        if not agrees(found[title], expected)
    ]


@pytest.mark.parametrize("family", sorted({*ANSWERS, *FAMILIES}))
def test_every_prompt_is_that_of_hugging_face(family: str) -> None:
    assert set(ANSWERS[family]) == set(CONVERSATIONS)
    assert differences(family, ANSWERS[family]) == []


@pytest.mark.skipif(not LIVE_PYTHON, reason="transformers is not installed")
def test_hugging_face_still_gives_the_same_prompts() -> None:
    run = subprocess.run(
        [
            LIVE_PYTHON,
            "-m",
            "tests.calculators.llm.prompt.chat_template.families.oracle",
            "--stdin",
        ],
        input=json.dumps(TEMPLATES),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers = json.loads(run.stdout)["answers"]
    assert [each for family in TEMPLATES for each in differences(family, answers[family])] == []


# --- from OpenAI's clients to the template --------------------------------------------------------


def prompt_of_request(family: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the template's input for a request's messages and `TOOLS`."""
    normal = normalise_messages(json.loads(json.dumps(messages)))
    history = prepare_history(normal, analyze(template_of(family)))
    return answer(family, Conversation(history, TOOLS))


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {}])
@pytest.mark.parametrize("family", FAMILIES)
def test_tool_turns_as_openai_s_clients_send_them(family: str, content: dict[str, Any]) -> None:
    """Arguments are JSON text and the content is null; the template gets the form that it needs."""
    messages = [
        ASK,
        {"role": "assistant", **content, "tool_calls": [call(ARGUMENTS)]},
        tool("21"),
        {"role": "assistant", "content": "21 degrees.", "tool_calls": None, "refusal": None},
        user([{"type": "text", "text": "Thanks!"}]),
    ]
    title = "tool turn, answered"
    found = analyze(template_of(family))
    if not found.requires_object_arguments:
        title = "tool turn with text arguments, answered"
    prompt = prompt_of_request(family, messages)
    if found.ids_are_headers:  # the template writes no name, which only this model's ids hold
        prompt["prompt"] = prompt["prompt"].replace("functions.weather:0", "call00001")
    assert agrees(prompt, ANSWERS[family][title])


@pytest.mark.parametrize("family", FAMILIES)
def test_text_parts_are_joined_before_the_template_sees_them(family: str) -> None:
    """By design: most templates accept text only. Hugging Face passes the list on."""
    parts = CONVERSATIONS["parts"].messages
    joined = answer(family, Conversation([user("One2")], TOOLS))
    assert prompt_of_request(family, parts) == joined


@pytest.mark.parametrize("family", ["gpt_oss", "lfm2"])
def test_reasoning_is_put_where_the_template_reads_it(family: str) -> None:
    calling = assistant(None, reasoning_content=REASONED, tool_calls=[call(ARGUMENTS)])
    found = prompt_of_request(family, [ASK, calling, tool("21")])
    assert agrees(found, ANSWERS[family]["thinking and call"])


def test_reasoning_is_dropped_where_a_template_refuses_it_beside_text() -> None:
    assert "error" in ANSWERS["gpt_oss"]["thinking, content and call"]
    calling = assistant("So", reasoning_content=REASONED, tool_calls=[call(ARGUMENTS)])
    found = prompt_of_request("gpt_oss", [ASK, calling, tool("21")])
    assert "<|channel|>analysis<|message|>So<|end|>" in found["prompt"]


def test_long_histories_are_far_from_the_limits() -> None:
    """2,400 messages: most templates need a fiftieth of their two seconds."""
    chat = CONVERSATIONS["turns"]
    messages = [chat.messages[0], *chat.messages[1:3] * 1200, chat.messages[-1]]
    for family in FAMILIES:
        assert len(answer(family, Conversation(messages))["prompt"]) > 20_000
