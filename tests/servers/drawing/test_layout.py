"""The layout: nothing overlaps, lines run down, what belongs in a frame is in it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_runtime import REGISTRY, Registry, parse_graph_text
from servers.drawing.columns import keep_apart
from servers.drawing.description import describe_graph
from servers.drawing.diagram import Diagram, make_diagram
from servers.drawing.layout import Layout, PlacedBox, lay_out


def diagram_of(text: str, *, subgraphs: tuple[str, ...] = (), expand: bool = False) -> Diagram:
    registry = Registry(REGISTRY)
    for each in subgraphs:
        registry.register_subgraph(each)
    graph = describe_graph(parse_graph_text(text), registry, None, expand=expand)
    return make_diagram(graph, "test")


def box(layout: Layout, title: str) -> PlacedBox:
    (found,) = [placed for placed in layout.boxes if placed.box.title == title]
    return found


def overlaps(a: PlacedBox, b: PlacedBox) -> bool:
    return (
        a.x < b.x + b.width
        and b.x < a.x + a.width
        and a.y < b.y + b.height
        and b.y < a.y + a.height
    )


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """Nodes that read streams from anywhere: before them, or behind them over back edges."""
    count = draw(st.integers(0, 9))
    nodes = []
    for place in range(count):
        sources = draw(st.lists(st.integers(-2, count - 1), max_size=4))
        lines = [f'name: "n{place}" calculator: "N" output_stream: "s{place}"']
        for index, source in enumerate(sources):
            stream = f"s{source}" if source >= 0 else f"in{-source}"
            lines.append(f'input_stream: "T:{index}:{stream}"')
            if source >= place:
                lines.append(f'input_stream_info {{ tag_index: "T:{index}" back_edge: true }}')
        nodes.append("node { " + " ".join(lines) + " }")
    ends = 'input_stream: "in1" input_stream: "in2" ' + (
        f'output_stream: "s{draw(st.integers(0, count - 1))}"' if count else ""
    )
    return ends + "\n".join(nodes)


@given(graphs())
def test_boxes_do_not_overlap_and_fit_on_the_page(text: str) -> None:
    layout = lay_out(diagram_of(text))
    for place, first in enumerate(layout.boxes):
        assert first.x >= 0
        assert first.y >= 0
        assert first.x + first.width <= layout.width
        assert first.y + first.height <= layout.height
        for second in layout.boxes[place + 1 :]:
            assert not overlaps(first, second)


@given(graphs())
def test_every_edge_is_drawn_from_its_source_to_its_target(text: str) -> None:
    diagram = diagram_of(text)
    layout = lay_out(diagram)
    placed = {each.box.key: each for each in layout.boxes}
    assert len(layout.lines) == len(diagram.edges)
    for line in layout.lines:
        source, target = placed[line.edge.source], placed[line.edge.target]
        assert line.points[0][1] == pytest.approx(source.y + source.height)
        assert line.points[0][0] == pytest.approx(source.bottoms[line.edge.source_place])
        assert line.points[-1][1] == pytest.approx(target.y)
        assert line.points[-1][0] == pytest.approx(target.tops[line.edge.target_place])
        assert line.is_back == line.edge.is_back_edge
        if not line.is_back:
            assert all(upper[1] <= lower[1] for upper, lower in pairwise(line.points))


def test_a_straight_chain_is_a_straight_line() -> None:
    layout = lay_out(
        diagram_of(
            """input_stream: "a" output_stream: "d"
            node { calculator: "LongerName" input_stream: "a" output_stream: "b" }
            node { calculator: "N" input_stream: "b" output_stream: "c" }
            node { calculator: "AnEvenLongerName" input_stream: "c" output_stream: "d" }"""
        )
    )
    xs = {round(x) for line in layout.lines for x, _ in line.points}
    assert max(xs) - min(xs) <= 1


def test_few_lines_cross() -> None:
    # Two chains, written so that the order of the text would cross them.
    layout = lay_out(
        diagram_of(
            """input_stream: "a" input_stream: "b"
            node { name: "b1" calculator: "N" input_stream: "b" output_stream: "b2" }
            node { name: "a1" calculator: "N" input_stream: "a" output_stream: "a2" }
            node { name: "a2" calculator: "N" input_stream: "a2" }
            node { name: "b2" calculator: "N" input_stream: "b2" }"""
        )
    )
    is_left = box(layout, "a").x < box(layout, "b").x
    assert (box(layout, "a1").x < box(layout, "b1").x) is is_left
    assert (box(layout, "a2").x < box(layout, "b2").x) is is_left


def test_inputs_stand_on_top_outputs_at_the_bottom_and_sources_above_their_readers() -> None:
    layout = lay_out(
        diagram_of(
            """input_stream: "in" output_stream: "early"
            node { name: "first" calculator: "N" input_stream: "in" output_stream: "early" }
            node { name: "second" calculator: "N" input_stream: "early" output_stream: "x" }
            node { name: "source" calculator: "N" output_stream: "y" }
            node { name: "last" calculator: "N" input_stream: "x" input_stream: "y" }"""
        )
    )
    nodes = ["first", "second", "source", "last"]
    assert all(box(layout, "in").y < box(layout, name).y for name in nodes)
    assert all(box(layout, "early").y > box(layout, name).y for name in nodes)
    assert box(layout, "source").y == box(layout, "second").y


SUB = """type: "Sub" input_stream: "IN:a" output_stream: "OUT:c" output_stream: "LOOP:d"
    node { name: "one" calculator: "N" input_stream: "a" input_stream: "d" output_stream: "b"
           input_stream_info { tag_index: ":1" back_edge: true } }
    node { name: "two" calculator: "N" input_stream: "b" output_stream: "c" output_stream: "d" }"""
OUTER = """type: "Outer" input_stream: "IN:x" output_stream: "OUT:y"
    node { name: "s" calculator: "Sub" input_stream: "IN:x" output_stream: "OUT:y" }"""


def test_a_frame_holds_its_nodes_and_no_others() -> None:
    layout = lay_out(
        diagram_of(
            """input_stream: "in" output_stream: "out"
            node { name: "before" calculator: "N" input_stream: "in" output_stream: "m" }
            node { name: "o" calculator: "Outer" input_stream: "IN:m" output_stream: "OUT:out" }
            node { name: "beside" calculator: "N" input_stream: "m" }""",
            subgraphs=(SUB, OUTER),
            expand=True,
        )
    )
    frames = {frame.path: frame for frame in layout.frames}
    assert set(frames) == {("o",), ("o", "s")}
    for placed in layout.boxes:
        for path, frame in frames.items():
            is_inside = (
                frame.x <= placed.x
                and frame.y <= placed.y
                and placed.x + placed.width <= frame.x + frame.width
                and placed.y + placed.height <= frame.y + frame.height
            )
            assert is_inside == (placed.box.group[: len(path)] == path), placed.box.title
    outer, inner = frames["o",], frames["o", "s"]
    assert outer.x < inner.x
    assert inner.y + inner.height < outer.y + outer.height


def test_lines_that_cross_a_frame_meet_on_it() -> None:
    layout = lay_out(
        diagram_of(
            """input_stream: "in" output_stream: "out"
            node { name: "o" calculator: "Outer"
                   input_stream: "IN:in" output_stream: "OUT:out" }""",
            subgraphs=(SUB, OUTER),
            expand=True,
        )
    )
    for stream in ("in", "out"):
        pieces = [line for line in layout.lines if line.edge.name == stream]
        assert len(pieces) == 3
        assert sum(line.has_arrow for line in pieces) == 1
        ends = {tuple(map(round, line.points[-1])) for line in pieces}
        starts = {tuple(map(round, line.points[0])) for line in pieces}
        assert len(ends & starts) == 2


def test_subgraphs_that_feed_each_other_are_no_endless_loop() -> None:
    # No cycle of nodes, but one of frames.
    pair = """type: "Pair" input_stream: "A:a" input_stream: "B:b"
        output_stream: "A:c" output_stream: "B:d"
        node { calculator: "N" input_stream: "a" output_stream: "c" }
        node { calculator: "N" input_stream: "b" output_stream: "d" }"""
    layout = lay_out(
        diagram_of(
            """input_stream: "in"
            node { name: "p" calculator: "Pair" input_stream: "A:in" input_stream: "B:back"
                   output_stream: "A:there" output_stream: "B:end" }
            node { name: "q" calculator: "N" input_stream: "there" output_stream: "back" }""",
            subgraphs=(pair,),
            expand=True,
        )
    )
    assert sum(line.is_back for line in layout.lines) == 1


@given(
    st.lists(
        st.tuples(st.floats(-1000, 1000), st.floats(0.1, 10), st.floats(1, 200)),
        max_size=12,
    )
)
def test_places_keep_their_order_and_distance(wishes: list[tuple[float, float, float]]) -> None:
    widths = [width for _, _, width in wishes]
    places = keep_apart([(wish, weight) for wish, weight, _ in wishes], widths)
    for place, (left, right) in enumerate(pairwise(places)):
        assert right - left >= widths[place] - 1e-6


def test_places_that_do_not_clash_are_kept() -> None:
    assert keep_apart([(0.0, 1.0), (50.0, 1.0)], [10.0, 10.0]) == [0.0, 50.0]
    assert keep_apart([(0.0, 1.0), (0.0, 1.0)], [10.0, 10.0]) == [-5.0, 5.0]
