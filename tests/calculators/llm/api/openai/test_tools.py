"""Selection of the tools that a chat request leaves for the model."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.llm.requests.request_limits import RequestLimits
from tests.calculators.llm.api.openai.bodies import chat, refusal


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **members}}


TWO = [tool("first", parameters={"type": "object"}), tool("second", strict=True)]


@pytest.mark.parametrize("choice", [None, "auto", "required"])
def test_all_tools_are_kept_as_written(choice: str | None) -> None:
    tools = chat(tools=TWO, tool_choice=choice).tools
    assert tools.items == TWO
    assert tools.choice == (choice or "auto")


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": {"name": "second"}},
        {"function": {"name": "second"}},
        {"type": "function", "name": "second"},
    ],
)
def test_a_named_tool_is_the_only_one_kept(choice: dict[str, Any]) -> None:
    tools = chat(tools=TWO, tool_choice=choice).tools
    assert tools.items == [TWO[1]]
    assert tools.choice == "named"


def test_a_tool_may_have_the_name_of_a_choice() -> None:
    items = [tool("auto"), tool("none")]
    chosen = chat(tools=items, tool_choice={"type": "function", "function": {"name": "none"}})
    assert chosen.tools.items == [items[1]]


def test_the_choice_none_removes_tools_unread() -> None:
    tools = chat(tools=[1], tool_choice="none").tools
    assert tools.items == []
    assert tools.choice == "none"


def test_a_name_may_have_64_characters() -> None:
    assert chat(tools=[tool("n" * 64)]).tools.items
    assert "1 to 64 letters" in str(refusal(tools=[tool("n" * 65)]))


@pytest.mark.parametrize("items", [None, []])
def test_without_tools_there_is_nothing_to_choose(items: Any) -> None:
    assert chat(tools=items, tool_choice="auto").tools.choice == "none"
    assert refusal(tools=items, tool_choice="required").param == "tool_choice"
    named = {"type": "function", "function": {"name": "f"}}
    assert refusal(tools=items, tool_choice=named).param == "tool_choice"


def test_a_flat_tool_reaches_the_template_in_the_form_that_templates_read() -> None:
    function = {"name": "f", "parameters": {"type": "object"}}
    [tool] = chat(tools=[{"type": "function", **function}]).tools.items
    assert tool == {"type": "function", "function": function}


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "required"}, "required"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "first"}, "named"),
    ],
)
def test_a_choice_in_the_form_of_other_apis(choice: dict[str, Any], read: str) -> None:
    tools = chat(tools=[{"type": "function", "function": {"name": "first"}}], tool_choice=choice)
    assert tools.tools.choice == read
    assert bool(tools.tools.items) is (choice["type"] != "none")


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (3, "tool_choice"),
        ([], "tool_choice"),
        ({}, "tool_choice"),
        ({"name": "first"}, "tool_choice"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "function", "name": 1}, "tool_choice.name"),
        ({"type": "function", "function": "first"}, "tool_choice.name"),
        ({"type": "function", "function": {"name": 4}}, "tool_choice.function.name"),
        ({"function": {}}, "tool_choice.function.name"),
        ({"function": {"name": "third"}}, "tool_choice"),
    ],
)
def test_a_choice_that_names_no_tool_is_refused(choice: Any, param: str) -> None:
    assert refusal(tools=TWO, tool_choice=choice).param == param


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (1, "tools[1]"),
        ({}, "tools[1].function"),
        ({"type": "function"}, "tools[1].name"),
        ({"type": "web_search"}, "tools[1].type"),
        ({"type": "custom", "custom": {}}, "tools[1].name"),
        ({"type": "function", "function": "f"}, "tools[1].function"),
        ({"type": "function", "function": {}}, "tools[1].function.name"),
        (tool("a b"), "tools[1].function.name"),
        (tool('a"}{"x'), "tools[1].function.name"),
        (tool("a" * 65), "tools[1].function.name"),
        (tool("f\n"), "tools[1].function.name"),
        (tool("f", parameters="x"), "tools[1].function.parameters"),
        (tool("f", parameters=[]), "tools[1].function.parameters"),
        (tool("f", description=1), "tools[1].function.description"),
        (tool("f", strict={}), "tools[1].function.strict"),
    ],
)
def test_a_malformed_tool_is_named(item: Any, param: str) -> None:
    assert refusal(tools=[TWO[0], item]).param == param


def test_the_number_of_tools_is_limited() -> None:
    limits = RequestLimits(max_tools=2)
    assert len(chat(limits, tools=TWO).tools.items) == 2
    assert refusal(limits, tools=[*TWO, tool("third")]).param == "tools"
    assert refusal(tools={"a": 1}).param == "tools"


def test_two_tools_of_one_name_are_refused() -> None:
    flat = {"type": "function", "name": "first"}
    assert refusal(tools=[*TWO, tool("first")]).param == "tools[2].function.name"
    assert refusal(tools=[*TWO, flat]).param == "tools[2].name"
    assert refusal(tools=[*TWO, TWO[1]], tool_choice="required").param == "tools[2].function.name"


def test_the_size_of_a_schema_and_of_all_tools_is_limited() -> None:
    large = tool("large", parameters={"description": "x" * 70_000})
    error = refusal(tools=[*TWO, large])
    assert error.param == "tools[2].function.parameters"
    assert "65536" in str(error)
    many = [tool(f"f{i}", description="x" * 20_000) for i in range(60)]
    assert refusal(tools=many).param == "tools"
    assert len(chat(tools=many[:50]).tools.items) == 50


def test_a_schema_keeps_its_place_in_the_request() -> None:
    flat = {"type": "function", "name": "f", "parameters": {}}
    assert chat(tools=[*TWO, flat]).tools.schema_paths == (
        "tools[0].function.parameters",
        "tools[1].function.parameters",
        "tools[2].parameters",
    )
    chosen = {"type": "function", "function": {"name": "second"}}
    assert chat(tools=TWO, tool_choice=chosen).tools.schema_paths == (
        "tools[1].function.parameters",
    )
