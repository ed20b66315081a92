"""No template runs for ever or fills the memory: each fails in time, in 1 GiB of addresses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calculators.llm.chat_template import ChatTemplateError, RenderLimits
from tests.calculators.llm.chat_template import hostile_templates
from tests.calculators.llm.chat_template.model_directories import render
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[4]

Outcomes = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Name -> what became of the template, in a process with a memory limit."""
    done = subprocess.run(
        [sys.executable, "-m", hostile_templates.__name__],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", hostile_templates.HOSTILE)
def test_it_fails_in_time_and_within_memory(name: str, outcomes: Outcomes) -> None:
    outcome = outcomes[name]
    assert outcome["outcome"].startswith("ChatTemplateError: ")
    assert "MemoryError" not in outcome["outcome"]
    assert "too much memory" not in outcome["outcome"]
    # One step after the last look at the clock may still take its time.
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


def test_a_long_chat_is_no_attack() -> None:
    turn = [{"role": "user", "content": "a" * 300}, {"role": "assistant", "content": "b" * 300}]
    source = (
        "{% set ns = namespace(last=-1) %}"
        "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
        "{% endfor %}{% for m in messages[1:] %}{{ '<' + m.role + '>' + m.content }}{% endfor %}"
    )
    assert len(render(source, turn * 2000)) > 1_000_000
