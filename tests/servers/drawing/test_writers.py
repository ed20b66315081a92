"""SVG, Mermaid and DOT: well formed whatever the names are, and nothing from outside."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from servers.drawing.diagram import Box, Diagram, Edge, Socket
from servers.drawing.dot import to_dot
from servers.drawing.mermaid import to_mermaid
from servers.drawing.svg import to_svg

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
SVG = "{http://www.w3.org/2000/svg}"


def diagram(name: str) -> Diagram:
    first = Box("a", "input", name, name, (), (Socket("", name, name, shown=name),))
    second = Box(
        "b", "calculator", name, name, (Socket(name, name),), (Socket(name, name, shown=name),)
    )
    third = Box("c", "calculator", "inner", "", (Socket("", name),), (), ("g",))
    edges = (Edge("a", 0, "b", 0, name, name), Edge("b", 0, "c", 0, name))
    return Diagram(name, (first, second, third), edges, {("g",): name})


@pytest.mark.parametrize("name", NASTY)
def test_svg_escapes_what_it_is_given(name: str) -> None:
    text = to_svg(diagram(name))
    root = ElementTree.fromstring(text)
    legal = "".join(char for char in name if char not in "\x00\x1b\ud800")
    titles = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    assert any(legal in title for title in titles)


def test_svg_needs_nothing_from_outside() -> None:
    text = to_svg(diagram("x"))
    assert text.count("http") == 1  # the name space
    assert "<script" not in text
    assert "prefers-color-scheme: dark" in text
    assert "var(" not in text


def test_svg_dashes_back_edges_and_titles_lines_with_their_types() -> None:
    box = Box("a", "calculator", "n", "", (Socket("", "s"),), (Socket("", "s", shown="s"),))
    edge = Edge("a", 0, "a", 0, "s", "int", is_back_edge=True)
    root = ElementTree.fromstring(to_svg(Diagram("t", (box,), (edge,), {})))
    (line,) = [each for each in root.iter(f"{SVG}g") if each.get("data-stream") == "s"]
    assert line.get("class") == "back"
    assert line.findtext(f"{SVG}title") == "s: int (back edge)"


def test_an_empty_graph_is_a_drawing_too() -> None:
    empty = Diagram("nothing", (), (), {})
    ElementTree.fromstring(to_svg(empty))
    assert to_mermaid(empty) == "flowchart TD\n"
    assert to_dot(empty).startswith('digraph "nothing" {')


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
