"""Marks of reasoning, the variables that switch it, and what templates want of earlier turns."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis, analyze
from calculators.llm.prompt.chat_template.chat_renderer import (
    ChatRenderer,
    one_call_a_turn,
    prepare_history,
)
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate

USER = {"role": "user", "content": "Hello"}


def chat(opening: str = "", turn: str = "{{ m.content }}") -> str:
    """Return a template with the beginning of an answer, and of the assistant's turns."""
    return (
        "{%- for m in messages -%}<|{{ m.role }}|>"
        "{%- if m.role == 'assistant' -%}" + turn + "{%- else -%}{{ m.content }}{%- endif -%}"
        "{%- endfor -%}<|assistant|>" + opening
    )


def found(opening: str = "", turn: str = "{{ m.content }}") -> TemplateAnalysis:
    return analyze(ChatTemplate.of_source(chat(opening, turn)))


def prompt(source: str, **arguments: Any) -> str:
    renderer = ChatRenderer(ChatTemplate.of_source(source))
    return renderer.render([USER], template_kwargs=arguments)


# Marks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["reasoning_content", "reasoning", "thinking"])
def test_marks_stand_around_the_reasoning_of_earlier_turns(member: str) -> None:
    turn = f"{{% if m.{member} %}}[muse]{{{{ m.{member} }}}}[/muse]{{% endif %}}{{{{ m.content }}}}"
    analysis = found(turn=turn)
    assert analysis.marks == ("[muse]", "[/muse]")
    assert analysis.reasoning_parser == "made"
    expected = "" if member == "reasoning_content" else member
    assert analysis.misnamed_reasoning_field == expected


def test_marks_that_every_turn_begins_with_are_told_from_its_header() -> None:
    turn = "<muse>{{ m.reasoning_content or '' }}</muse>{{ m.content }}"
    assert found("<muse>", turn).marks == ("<muse>", "</muse>")


def test_a_message_as_json_has_no_marks() -> None:
    assert found(turn="{{ m | tojson }}").marks is None


def test_reasoning_may_be_a_part_of_the_content() -> None:
    turn = (
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
        "{% if p.type == 'thinking' %}[THINK]{{ p.thinking }}[/THINK]{% else %}{{ p.text }}"
        "{% endif %}{% endfor %}{% endif %}"
    )
    source = chat(turn=turn)
    analysis = analyze(ChatTemplate.of_source(source))
    assert (analysis.marks, analysis.reasoning_form) == (("[THINK]", "[/THINK]"), "thinking")
    answer = {"role": "assistant", "content": "Oslo.", "reasoning_content": "Which?"}
    text = ChatRenderer(ChatTemplate.of_source(source)).render([USER, answer, USER])
    assert "[THINK]Which?[/THINK]Oslo." in text


# Switches -----------------------------------------------------------------------------------------


def test_switches_are_the_variables_that_change_the_prompt() -> None:
    analysis = found("{{ '<think>' if enable_thinking is not defined or enable_thinking }}")
    (switch,) = analysis.switches.found
    assert (switch.name, switch.values, switch.default) == ("enable_thinking", (True, False), True)
    assert analysis.opens == {"default": "open", "on": "open", "off": ""}


@pytest.mark.parametrize(
    ("opening", "off", "on"),
    [
        ("{{ 'T' if thinking else 'F' }}", "F", "T"),
        ("{{ thinking_mode }}", "disabled", "enabled"),
        ("{{ thinking_budget }}", "0", "512"),
        ("{{ 'F' if reasoning_effort == 'none' else 'T' }}", "F", "T"),
        ("{{ 'F' if reasoning_effort == 'no_think' else 'T' }}", "F", "T"),
    ],
)
def test_a_request_s_switch_has_the_name_that_the_template_reads(
    opening: str, off: str, on: str
) -> None:
    assert prompt(chat(opening), enable_thinking=False).endswith(off)
    assert prompt(chat(opening), enable_thinking=True).endswith(on)


def test_a_text_that_says_false_is_false() -> None:
    source = chat("{{ 'T' if thinking else 'F' }}")
    assert prompt(source, thinking="false").endswith("F")


RAISES = (
    "{% if reasoning_effort is defined and reasoning_effort not in ['xhigh', 'medium', 'low'] %}"
    "{{ raise_exception('no such effort') }}{% endif %}{{ reasoning_effort or 'xhigh' }}"
)


@pytest.mark.parametrize(
    ("opening", "efforts"),
    [
        (RAISES, {"high": "xhigh", "max": "xhigh", "minimal": "low", "none": "low"}),
        ("Reasoning: {{ reasoning_effort or 'medium' }}", {"xhigh": "high", "minimal": "low"}),
        ("{{ 'quick' if reasoning_effort in ['low', 'no_think'] else 'slow' }}", {"none": "low"}),
        ("{{ 'slow' if reasoning_effort == 'max' else 'quick' }}", {"xhigh": "max"}),
    ],
)
def test_an_effort_that_the_template_does_not_know_becomes_one_that_it_does(
    opening: str, efforts: dict[str, str]
) -> None:
    source = chat(opening)
    for given, known in efforts.items():
        assert prompt(source, reasoning_effort=given) == prompt(source, reasoning_effort=known)
    for known in efforts.values():
        assert prompt(source, reasoning_effort=known)


def test_a_template_without_switches_gets_the_variables_as_they_are() -> None:
    arguments = {"enable_thinking": False, "reasoning_effort": "high", "custom": [1]}
    assert found().switches.applied(arguments) == arguments


# What templates want of earlier turns -------------------------------------------------------------


def call(name: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def test_turns_are_split_for_a_template_that_takes_one_call() -> None:
    calls = [call("one", "a"), call("two", "b")]
    turn = {"role": "assistant", "content": "So", "tool_calls": calls}
    split = one_call_a_turn([USER, turn, result("b", "2"), result("a", "1"), USER])
    assert split == [
        USER,
        {"role": "assistant", "content": "So", "tool_calls": [calls[0]]},
        result("a", "1"),
        {"role": "assistant", "content": "", "tool_calls": [calls[1]]},
        result("b", "2"),
        USER,
    ]


ONE_CALL = chat(
    turn="{{ m.content }}{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}"
    "{{ raise_exception('one call a turn') }}{% endif %}{% set f = m.tool_calls[0].function %}"
    '<tool_call>{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}</tool_call>'
    "{% endif %}"
)


def test_parallel_calls_of_the_history_are_rendered_one_a_turn() -> None:
    turn = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("one", "a"), call("two", "b")],
    }
    messages = prepare_history([USER, turn, result("a", "1"), result("b", "2")])
    text = ChatRenderer(ChatTemplate.of_source(ONE_CALL)).render(messages)
    assert text.index('"one"') < text.index("<|tool|>1") < text.index('"two"')


def test_an_empty_content_is_null_for_a_template_that_shows_calls_only_then() -> None:
    source = chat(
        turn="{% if m.content is none %}{% for c in m.tool_calls %}<call>{{ c.function | tojson }}"
        "</call>{% endfor %}{% else %}{{ m.content }}{% endif %}"
    )
    turn = {"role": "assistant", "content": "", "tool_calls": [call("one", "a")]}
    assert '"one"' in ChatRenderer(ChatTemplate.of_source(source)).render([USER, turn])


def test_ids_are_short_for_a_template_that_refuses_long_ones() -> None:
    source = chat(
        turn="{{ m.content }}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}"
        "{{ raise_exception('nine letters') }}{% endif %}<call {{ c.id }}>{{ c.function | tojson }}"
        "</call>{% endfor %}"
    )
    given = "call_0123456789"
    turn = {"role": "assistant", "content": "", "tool_calls": [call("one", given)]}
    renderer = ChatRenderer(ChatTemplate.of_source(source))
    history = prepare_history([USER, turn, result(given, "1")], renderer.analysis)
    (made,) = history[1]["tool_calls"]
    assert len(made["id"]) == 9
    assert history[2]["tool_call_id"] == made["id"]
    assert made["id"] in renderer.render([USER, turn, result(given, "1")])


def test_ids_that_are_headers_hold_the_name_and_count_over_the_chat() -> None:
    first = {"role": "assistant", "content": "", "tool_calls": [call("one", "functions.one:0")]}
    second = {"role": "assistant", "content": "", "tool_calls": [call("two", "call_x")]}
    history = prepare_history(
        [USER, first, result("functions.one:0", "1"), second, result("call_x", "2")],
        TemplateAnalysis(ids_are_headers=True),
    )
    assert history[1]["tool_calls"][0]["id"] == "functions.one:0"
    assert history[3]["tool_calls"][0]["id"] == history[4]["tool_call_id"] == "functions.two:1"


@pytest.mark.parametrize("name", ["xml_tools", "functions"])
def test_tools_are_given_under_the_name_that_the_template_reads(name: str) -> None:
    renderer = ChatRenderer(ChatTemplate.of_source(f"{{{{ {name} | string }}}}" + chat()))
    assert renderer.knows_tools
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {}}}
    assert "look_up" in renderer.render([USER], tools=[tool])
