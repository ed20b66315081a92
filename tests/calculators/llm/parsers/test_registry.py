"""Parsers by name: built-in ones, and those of other packages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calculators.llm.parsers.families import FAMILIES, AnswerFamily
from calculators.llm.parsers.parser import ReasoningParser, ToolParser
from calculators.llm.parsers.registry import (
    UnknownParser,
    reasoning_parser,
    reasoning_parser_names,
    tool_parser,
    tool_parser_names,
)
from tests.calculators.llm.parsers.said import parse
from tests.support.installed_package import install

TOOL = """\
from calculators.language.events import Content, ToolCall
from calculators.llm.parsers.families import AnswerFamily, CallSyntax
from calculators.llm.parsers.parser import ToolParser


class Shouts(ToolParser):
    special_tokens = frozenset(("!",))

    def feed(self, text):
        return [ToolCall(text)] if text.isupper() else [Content(text)]

    def finish(self):
        return []


class Half(ToolParser):
    def feed(self, text):
        return []


NUMBER = 5
DECLARED = AnswerFamily(name="declared", calls=CallSyntax(call="<tool>{object}</tool>"))
MUTE = AnswerFamily(name="mute")
ENDLESS = AnswerFamily(name="endless", calls=CallSyntax(call="<tool>{name} {tree}"))
"""

ENTRY_POINTS = """\
[graphrt.tool_parsers]
shouts = shouting_parsers:Shouts
half = shouting_parsers:Half
number = shouting_parsers:NUMBER
declared = shouting_parsers:DECLARED
mute = shouting_parsers:MUTE
endless = shouting_parsers:ENDLESS
missing = shouting_parsers:Missing
gone = no_such_module_at_all:Parser
hermes3 = shouting_parsers:Shouts
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with parsers, valid and invalid ones."""
    (tmp_path / "shouting_parsers.py").write_text(TOOL)
    install(tmp_path, "shouting_parsers", ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("shouting_parsers", None)


OWN = (
    "hermes3",
    "llama3",
    "phi4",
    "mistral",
    "devstral",
    "qwen3coder",
    "gptoss",
    "lfm2",
    "gemma4",
    "onyx",
    "minicpm5",
)


def test_the_built_in_parsers_are_listed() -> None:
    assert {*OWN, *FAMILIES} <= set(tool_parser_names())
    assert {"qwen3", "gptoss", "lfm2", "gemma4", "onyx", "minicpm5"} <= set(
        reasoning_parser_names()
    )


@pytest.mark.parametrize("name", OWN)
def test_a_built_in_tool_parser_is_found(name: str) -> None:
    found = tool_parser(name)
    if isinstance(found, AnswerFamily):
        assert found.calls is not None
        assert name not in ("gptoss", "onyx")
    else:
        assert issubclass(found, ToolParser)


@pytest.mark.parametrize("name", ["qwen3", "gptoss", "lfm2", "gemma4", "onyx", "minicpm5"])
def test_a_built_in_reasoning_parser_is_found(name: str) -> None:
    found = reasoning_parser(name)
    if isinstance(found, AnswerFamily):
        assert found.reasoning is not None
    else:
        assert issubclass(found, ReasoningParser)
        assert found.end_tag


def test_no_two_families_share_a_name() -> None:
    names = [each for family in FAMILIES.values() for each in (family.name, *family.aliases)]
    assert len(names) == len(set(names))
    assert not {"gptoss", "onyx", "none"} & set(names)


def test_an_unknown_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownParser) as raised:
        tool_parser("hermes4")
    assert str(raised.value).startswith('"hermes4" is not a tool parser: one of hermes, exaone4, ')
    assert str(raised.value).endswith("?")
    assert 'Did you mean "hermes"' in str(raised.value)
    with pytest.raises(UnknownParser, match='"qwen" is not a reasoning parser: one of hermes, '):
        reasoning_parser("qwen")
    with pytest.raises(UnknownParser, match="not a reasoning parser"):
        reasoning_parser("mistral")


@pytest.mark.usefixtures("package")
def test_a_parser_of_another_package_is_found() -> None:
    assert "shouts" in tool_parser_names()
    found = tool_parser("shouts")
    assert not isinstance(found, AnswerFamily)
    assert found.special_tokens == {"!"}
    assert parse("hello", "shouts").content == "hello"
    with pytest.raises(UnknownParser, match="shouts"):
        tool_parser("shout")


@pytest.mark.usefixtures("package")
def test_a_built_in_parser_wins_over_another_package() -> None:
    assert tool_parser("hermes3") is FAMILIES["hermes"]
    assert tool_parser_names().count("hermes3") == 1


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("half", "(shouting_parsers:Half) lacks methods of ToolParser"),
        (
            "number",
            "(shouting_parsers:NUMBER) is neither an AnswerFamily nor a class derived from"
            " ToolParser",
        ),
        ("mute", "(shouting_parsers:MUTE) declares no calls"),
        ("endless", "(shouting_parsers:ENDLESS): the call '<tool>{name} {tree}' has no end: put"),
        ("missing", "(shouting_parsers:Missing) cannot be loaded: AttributeError"),
        ("gone", "(no_such_module_at_all:Parser) cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_broken_package_is_named_and_disturbs_no_other(name: str, reason: str) -> None:
    with pytest.raises(UnknownParser) as raised:
        tool_parser(name)
    begin = f'entry point "{name}" of the group "graphrt.tool_parsers" '
    assert str(raised.value).startswith(begin + reason)
    assert tool_parser_names().count("shouts") == 1


@pytest.mark.usefixtures("package")
def test_a_package_may_give_a_declaration() -> None:
    call = '<tool>{"name": "f", "arguments": {"a": 1}}</tool>'
    assert parse(f"Well. {call}", "declared") == ("Well.", "", [("f", '{"a":1}')])
