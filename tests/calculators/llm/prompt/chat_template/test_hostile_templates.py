"""Limits of templates: each hostile one fails in time, in 1 GiB of address space."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError, RenderLimits
from tests.calculators.llm.prompt.chat_template import hostile_templates
from tests.calculators.llm.prompt.chat_template.model_directories import render
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

Outcomes = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Return the outcomes by name, from a process with a memory limit."""
    done = subprocess.run(
        [sys.executable, "-m", hostile_templates.__name__],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,  # for a hundred renderings
    )
    assert done.returncode == 0, done.stderr
    return {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", hostile_templates.HOSTILE)
def test_a_hostile_template_fails_in_time_and_within_memory(name: str, outcomes: Outcomes) -> None:
    outcome = outcomes[name]
    assert outcome["outcome"].startswith("ChatTemplateError: ")
    assert "MemoryError" not in outcome["outcome"]
    assert "too much memory" not in outcome["outcome"]
    # One more step after the last check of the clock may take its time.
    assert outcome["seconds"] < hostile_templates.SECONDS + 4


def test_the_limits_can_be_set() -> None:
    loop = "{% for i in range(100) %}x{% endfor %}"
    assert render(loop, limits=RenderLimits(loop_ticks=100)) == "x" * 100
    with pytest.raises(ChatTemplateError, match="more than 99 turns"):
        render(loop, limits=RenderLimits(loop_ticks=99))
    assert render(loop, limits=RenderLimits(output_characters=100)) == "x" * 100
    with pytest.raises(ChatTemplateError, match="longer than 99 characters"):
        render(loop, limits=RenderLimits(output_characters=99))
    with pytest.raises(ChatTemplateError, match="longer than 0 seconds"):
        render(loop, limits=RenderLimits(seconds=0))


def test_a_template_that_is_too_long_fails_the_load() -> None:
    source = "{{ messages[0].content }}\n" * 100_000
    with pytest.raises(ChatTemplateError, match="has 2600000 characters; it may have up to 262144"):
        ChatTemplate.of_source(source)


@pytest.mark.parametrize(
    "source", ["{{ x }}\n" * 20_000, "{{ " + ("[" + "0," * 2000) * 60 + "x" + "]" * 60 + " }}"]
)
def test_a_template_that_takes_too_long_to_compile_fails_the_load(source: str) -> None:
    limits = RenderLimits(compile_seconds=0.05)
    with pytest.raises(ChatTemplateError, match=r"compiling .* took longer than 0\.05 seconds"):
        ChatTemplate.of_source(source, limits=limits)


def test_comparisons_have_the_meaning_of_python() -> None:
    lists = "{% set a = [1, [2, 'x']] %}{% set b = [1, [2, 'x']] %}{% set d = {'k': a, a[0]: 2} %}"
    for expression, expected in {
        "a == b, a != b, a < b, a <= b, a > b, a >= b": (True, False, False, True, False, True),
        "1 < 2 < 3, 1 < 2 > 3, a == b == 1": (True, False, False),
        "a in [b], a not in [b], a in [], 'x' in b[1], 'y' in 'xyz'": (
            True,
            False,
            False,
            True,
            True,
        ),
        "'k' in d, 1 in d, 3 in d, 2 in (d.values() | map('default'))": (True, True, False, True),
        "d['k'] == b, d[1], b in d.values(), [a].count(b)": (True, 2, True, 1),
        "a is eq b, a is ne b, 'k' is in d, 1 is lt 2, nothing == 1": (
            True,
            False,
            True,
            True,
            False,
        ),
    }.items():
        assert render(lists + "{{ [" + expression + "] }}") == str(list(expected)), expression
    assert render("{% for i in range(6) if i % 2 %}{{ i }}{% endfor %}") == "135"
    assert render("{{ ['b', 'a', 'b'] | unique | sort | join }}") == "ab"
    assert render(
        "{{ [{'n': 2}, {'n': 1}] | sort(attribute='n') | map(attribute='n') | list }}"
    ) == ("[1, 2]")


def test_a_long_chat_is_not_taken_for_an_attack() -> None:
    turn = [{"role": "user", "content": "a" * 300}, {"role": "assistant", "content": "b" * 300}]
    source = (
        "{% set ns = namespace(last=-1) %}"
        "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
        "{% endfor %}{% for m in messages[1:] %}{{ '<' + m.role + '>' + m.content }}{% endfor %}"
    )
    assert len(render(source, turn * 2000)) > 1_000_000
