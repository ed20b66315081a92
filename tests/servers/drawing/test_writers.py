"""Mermaid and DOT: well formed whatever the names are."""

from __future__ import annotations

import pytest

from servers.drawing.diagram import Box, Diagram, Edge, Socket, to_dot, to_mermaid

NASTY = [
    '"quoted"',
    "<b>&amp;</b>",
    "]]>--",
    "line\nbreak",
    "back\\slash",
    "\x00\x1b",
    "\ud800",
    "中文",
]


def diagram(name: str) -> Diagram:
    first = Box("a", "input", name, name, (), (Socket("", name, name, shown=name),))
    second = Box(
        "b", "calculator", name, name, (Socket(name, name),), (Socket(name, name, shown=name),)
    )
    third = Box("c", "calculator", "inner", "", (Socket("", name),), (), ("g",))
    edges = (Edge("a", 0, "b", 0, name, name), Edge("b", 0, "c", 0, name))
    return Diagram(name, (first, second, third), edges, {("g",): name})


@pytest.mark.parametrize("name", NASTY)
def test_mermaid_has_one_statement_per_line_and_balanced_quotes(name: str) -> None:
    lines = to_mermaid(diagram(name)).splitlines()
    assert len([line for line in lines if "-->" in line]) == 2
    assert all(line.count('"') % 2 == 0 for line in lines)
    assert len(lines) == 1 + 2 + 3 + 2


@pytest.mark.parametrize("name", NASTY)
def test_dot_has_balanced_quotes(name: str) -> None:
    text = to_dot(diagram(name))
    for line in text.split(";\n"):
        bare = line.replace("\\\\", "").replace('\\"', "")
        assert bare.count('"') % 2 == 0
    assert text.count("{") - text.count("}") == name.count("{") - name.count("}")


def test_an_empty_graph_is_a_drawing_too() -> None:
    empty = Diagram("nothing", (), (), {})
    assert to_mermaid(empty) == "flowchart TD\n"
    assert to_dot(empty).startswith('digraph "nothing" {')
