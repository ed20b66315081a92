"""Drawings as SVG: well formed whatever the names are, and readable for everyone."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from servers.drawing.description import DescribedNode, DescribedPort, GraphDescription
from servers.drawing.drawing import Direction, GraphDrawing
from servers.drawing.layout import draw
from servers.drawing.svg import COLORS, TINTS, Theme, to_svg
from tests.servers.drawing.graphs_to_draw import drawn
from tests.support.checkout import ROOT

NASTY = [
    '"quoted"',
    "<b>&amp;</b>",
    "]]>--",
    "line\nbreak",
    "\x00\x1b",
    "\ud800",
    "中文",
]
SVG = "{http://www.w3.org/2000/svg}"
LOOP = """input_stream: "IN:in" output_stream: "OUT:out"
    node { name: "model" calculator: "ModelCalculator"
           input_stream: "IN:in" input_stream: "LOOPBACK:again"
           output_stream: "LOOPBACK:again" output_stream: "OUT:out"
           input_side_packet: "MODEL:weights"
           input_stream_info { tag_index: "LOOPBACK" back_edge: true } }"""


def nasty(name: str) -> GraphDrawing:
    node = DescribedNode(
        name,
        name,
        "unknown",
        "own",
        (DescribedPort(name, 0, name, name),),
        (DescribedPort("", 0, "out", name),),
        (),
        (),
        options=name,
    )
    graph = GraphDescription(
        "", False, (DescribedPort(name, 0, name, name),), (), (node,), (), (), (), (), 100
    )
    return draw(graph, name)


@pytest.mark.parametrize("name", NASTY)
def test_names_are_escaped(name: str) -> None:
    root = ElementTree.fromstring(to_svg(nasty(name)))
    legal = "".join(char for char in name if char not in "\x00\x1b\ud800")
    titles = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    assert any(legal in title for title in titles)


@pytest.mark.parametrize("direction", ["right", "down"])
def test_it_needs_nothing_from_outside(direction: Direction) -> None:
    text = to_svg(drawn(LOOP, direction=direction))
    assert text.count("http") == 1  # the name space
    assert "<script" not in text
    assert "var(" not in text
    assert "@import" not in text


@pytest.mark.parametrize(("theme", "colors"), [("light", {0}), ("dark", {1}), ("auto", {0, 1})])
def test_it_is_light_or_dark_or_follows_the_reader(theme: Theme, colors: set[int]) -> None:
    text = to_svg(drawn(LOOP), theme=theme)
    assert ("prefers-color-scheme: dark" in text) is (theme == "auto")
    for place in (0, 1):
        assert (f"fill: {COLORS['canvas'][place]}" in text) is (place in colors)


def test_it_has_a_title_and_tells_the_graph_in_words() -> None:
    root = ElementTree.fromstring(to_svg(drawn(LOOP)))
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "test"
    words = root.findtext(f"{SVG}desc") or ""
    assert "model (Model) sends again to model, out to out." in words


def test_lines_have_streams_and_types_and_no_dashes() -> None:
    text = to_svg(drawn(LOOP))
    assert "dasharray" not in text, "they make drawings slow"
    root = ElementTree.fromstring(text)
    lines = {each.get("data-stream"): each for each in root.iter(f"{SVG}g")}
    assert lines["again"].get("class") == "back"
    assert lines["again"].findtext(f"{SVG}title") == "again (back edge)"
    assert lines["weights"].get("class") == "side"
    assert [each.get("data-node") for each in root.iter(f"{SVG}g") if each.get("data-node")] == [
        "model"
    ]


def test_two_drawings_in_one_document_do_not_share_names() -> None:
    first, second = (
        set(re.findall(r'id="([^"]+)"', to_svg(drawn(LOOP.replace("model", name)))))
        for name in ("one", "two")
    )
    assert not first & second


# Colors -------------------------------------------------------------------------------------------


def luminance(color: str) -> float:
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("place", [0, 1])
def test_texts_and_lines_have_enough_contrast(place: int) -> None:
    def ratio(a: str, b: str) -> float:
        high, low = sorted((luminance(COLORS[a][place]), luminance(COLORS[b][place])))[::-1]
        return (high + 0.05) / (low + 0.05)

    for text in ("text", "muted"):
        for ground in ("surface", "raised", "canvas"):
            assert ratio(text, ground) >= 4.5, (text, ground)
    for line in ("wire", "wire-live", "side", *TINTS.values()):
        assert ratio(line, "canvas") >= 3, line


def test_the_colors_are_those_of_the_page() -> None:
    text = (ROOT / "page" / "src" / "look" / "tokens.css").read_text(encoding="utf-8")
    tokens = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", text))
    for name, (light, dark) in COLORS.items():
        assert tokens[name] == f"{light}, {dark}", name
