"""Sandbox: templates see messages, not Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import calculators
import graph_runtime
import servers
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from tests.calculators.llm.prompt.chat_template.model_directories import render


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__.__mro__[1].__subclasses__()",
        "(''|attr('__class__')).mro()",
        "'{0.__class__.__mro__}'.format('')",
        "'{x.__class__.__mro__}'.format_map({'x': ''})",
        "cycler.__init__.__globals__.os",
        "raise_exception.__globals__.datetime",
        "self.__init__.__globals__",
        "namespace.__init__.__globals__",
        "messages.append(1)",
        "messages[0].update(a=1)",
        "messages[0].pop('role')",
        "[].__class__",
        "lipsum(9)",
        "tojson.__wrapped__",
        "(messages | map('upper')).gi_frame.f_globals",
    ],
)
def test_python_is_out_of_reach(expression: str) -> None:
    with pytest.raises(ChatTemplateError):
        render("{{ " + expression + " }}")


def test_a_template_may_change_the_lists_that_it_made() -> None:
    source = (
        "{% set ns = namespace(ids=[]) %}{% set _ = ns.ids.append('a') %}"
        "{% set _ = ns.ids.append('b') %}{{ ns.ids.pop(0) }}{{ ns.ids }}"
    )
    assert render(source) == "a['b']"


@pytest.mark.parametrize("given", ["messages", "messages[0].content", "tools"])
def test_a_template_may_not_change_what_the_request_holds(given: str) -> None:
    chat = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    template = ChatTemplate.of_source(f"{{% set ns = namespace(x={given}) %}}{{{{ ns.x.pop() }}}}")
    with pytest.raises(ChatTemplateError, match="unsafe"):
        template.render(chat, tools=[{"type": "function"}])


def test_what_a_filter_yields_is_written_as_json() -> None:
    assert render("{{ messages | map(attribute='role') | tojson }}") == '["user"]'


def test_the_environment_is_out_of_reach() -> None:
    source = "{{ environment is defined or context is defined or __file__ is defined }}"
    assert render(source) == "False"


@pytest.mark.parametrize("room", [calculators, graph_runtime, servers])
def test_there_is_one_jinja_environment_in_the_project(room: object) -> None:
    """A second environment would lack the guards of the first."""
    folder = Path(str(room.__file__)).parent  # type: ignore[attr-defined]
    users = {
        path.parent.name
        for path in folder.rglob("*.py")
        if re.search(r"^\s*(import|from) jinja2\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users <= {"chat_template"}
