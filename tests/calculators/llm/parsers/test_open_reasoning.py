"""Calls inside reasoning that never ends, and drafts that are none."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from calculators.language.events import Reasoning
from tests.calculators.llm.parsers.said import Said, events_of, parse, parsers, said

TOOLS: Final[dict[str, Any]] = {"f": {"properties": {"a": {"type": "string"}}}}
CALLS: Final = {
    "hermes3": '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>',
    "qwen3coder": "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n"
    "</tool_call>",
}
READ: Final = ("f", '{"a":"x"}')
KINDS: Final = pytest.mark.parametrize("tool", CALLS)


def cuts(text: str, seed: int) -> list[str]:
    chance = random.Random(seed)
    pieces: list[str] = []
    while text:
        size = chance.randint(1, 13)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@KINDS
def test_a_call_at_the_end_of_open_reasoning_counts(tool: str) -> None:
    call = CALLS[tool]
    assert parse(f"<think>Hm.{call}", tool, "qwen3", tools=TOOLS) == Said("", "Hm.", [READ])
    result = parse(f"Hm.{call}\n{call}", tool, "qwen3", tools=TOOLS, prompt="<think>\n")
    assert (result.content.strip(), result.reasoning, result.calls) == ("", "Hm.", [READ] * 2)


@KINDS
@pytest.mark.parametrize("behind", [" is one.", " is one.</think>", "</think>", "</think>\n"])
def test_a_draft_is_reasoning(tool: str, behind: str) -> None:
    thought = f"Hm {CALLS[tool]}"
    result = parse(f"<think>{thought}{behind}", tool, "qwen3", tools=TOOLS)
    assert result.reasoning == thought + behind.partition("</think>")[0]
    assert (result.content.strip(), result.calls) == ("", [])
    after = parse(f"<think>{thought}{behind}</think>{CALLS[tool]}", tool, "qwen3", tools=TOOLS)
    assert after.calls == [READ]


@KINDS
def test_what_is_no_whole_call_of_a_tool_of_the_request_is_reasoning(tool: str) -> None:
    call = CALLS[tool]
    of_another = call.replace('"f"', '"g"').replace("=f", "=g")
    for text in (of_another, call[: len(call) // 2], "<tool_call>"):
        assert parse(f"<think>{text}", tool, "qwen3", tools=TOOLS) == Said("", text, [])
    chosen = parsers(tool, "qwen3").start(tools=None)
    assert said(events_of(chosen, [f"<think>{call}"])) == Said("", call, [])


@KINDS
def test_a_mark_in_prose_hides_no_call_behind_it(tool: str) -> None:
    text = f"<think>The mark <tool_call> begins it. {CALLS[tool]}"
    result = parse(text, tool, "qwen3", tools=TOOLS)
    assert result == Said("", "The mark <tool_call> begins it.", [READ])


@KINDS
def test_reasoning_is_held_back_from_a_mark_on_only(tool: str) -> None:
    stream = parsers(tool, "qwen3").start(tools=TOOLS)
    assert stream.feed("<think>Well, ") == [Reasoning("Well,")]
    assert stream.feed("then. <tool_call>\n") == [Reasoning(" then.")]
    assert stream.feed("is ") == [Reasoning(" <tool_call>\nis")]
    assert stream.feed("all") == [Reasoning(" all")]


@KINDS
def test_the_reading_does_not_depend_on_the_pieces(tool: str) -> None:
    chance = random.Random(5)
    parts = [
        "<tool_call>",
        "<function=f>",
        "\n",
        "</tool_call>",
        "x",
        "</think>",
        "<think>",
        "<",
        "{",
    ]
    parts += [CALLS[tool], "<parameter=a>", "</parameter>", "</function>", CALLS[tool][:40]]
    for seed in range(300):
        text = "<think>" + "".join(chance.choices(parts, k=chance.randint(1, 10)))
        whole = parse(text, tool, "qwen3", tools=TOOLS)
        assert said(events_of(parsers(tool, "qwen3").start(tools=TOOLS), cuts(text, seed))) == whole
