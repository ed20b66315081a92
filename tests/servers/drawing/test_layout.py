"""The layout: nothing overlaps, lines keep clear of nodes, frames hold what belongs in them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.drawing.drawing import Direction, DrawnNode, GraphDrawing
from servers.drawing.layout import draw
from servers.drawing.places import keep_apart
from tests.servers.drawing.graphs_to_draw import (
    chain,
    described,
    drawn,
    enters,
    graphs,
    node,
    overlap,
    overlapping,
    pieces,
)
from tests.support.checkout import ROOT

DIRECTIONS = st.sampled_from(["right", "down"])
BIG = ROOT / "bench" / "graphs"


def check(drawing: GraphDrawing) -> None:
    """Check what every drawing must keep."""
    for place, first in enumerate(drawing.nodes):
        assert first.x >= 0
        assert first.y >= 0
        assert first.x + first.width <= drawing.width
        assert first.y + first.height <= drawing.height
        for second in drawing.nodes[place + 1 :]:
            assert not overlap(first, second), (first.id, second.id)
    for name, a, b in pieces(drawing):
        assert a[0] == b[0] or a[1] == b[1], (name, a, b)
        for x, y in (a, b):
            assert 0 <= x <= drawing.width
            assert 0 <= y <= drawing.height
        for box in drawing.nodes:
            assert not enters(a, b, box), (name, a, b, box.id)
    nodes = {each.id: each for each in drawing.nodes}
    for wire in drawing.wires:
        begin = nodes[wire.source].outputs[wire.source_port]
        end = nodes[wire.target].inputs[wire.target_port]
        assert wire.points[0] == (begin.x, begin.y)
        assert wire.points[-1] == (end.x, end.y)
        assert begin.is_connected
        assert end.is_connected
        assert begin.stream == end.stream == wire.stream
    assert not overlapping(drawing)


@settings(max_examples=50)
@given(graphs(), DIRECTIONS)
def test_nodes_and_lines_keep_clear_of_each_other(text: str, direction: Direction) -> None:
    graph = described(text)
    drawing = draw(graph, "test", direction=direction)
    check(drawing)
    assert drawing == draw(graph, "test", direction=direction)


@settings(max_examples=12)
@given(graphs(most=30))
def test_larger_graphs_do_too(text: str) -> None:
    check(drawn(text))


@settings(max_examples=30)
@given(graphs())
def test_every_reader_of_a_stream_that_has_a_source_has_its_line(text: str) -> None:
    graph = described(text)
    drawing = draw(graph, "test")
    made = {port.name for each in graph.nodes for port in each.outputs}
    made |= {port.name for port in graph.inputs}
    read = sum(port.name in made for each in graph.nodes for port in each.inputs)
    read += sum(len(each.input_side_packets) for each in graph.nodes)
    read += sum(port.name in made for port in graph.outputs)
    assert len(drawing.wires) == read
    assert len({wire.id for wire in drawing.wires}) == len(drawing.wires)


def test_streams_run_rightwards_and_inputs_are_at_the_left() -> None:
    drawing = drawn(
        """input_stream: "in" output_stream: "out"
        node { name: "first" calculator: "N" input_stream: "in" output_stream: "x" }
        node { name: "second" calculator: "N" input_stream: "x" output_stream: "out" }"""
    )
    order = [node(drawing, name) for name in ("in", "first", "second", "out")]
    assert all(a.x + a.width < b.x for a, b in pairwise(order))
    assert node(drawing, "first").inputs[0].side == "left"
    assert node(drawing, "first").outputs[0].side == "right"
    assert all(len(wire.points) == 2 for wire in drawing.wires), "a chain is a straight line"


def test_downwards_they_run_down() -> None:
    drawing = drawn(
        """input_stream: "in" output_stream: "out"
        node { name: "first" calculator: "N" input_stream: "in" output_stream: "out" }""",
        direction="down",
    )
    order = [node(drawing, name) for name in ("in", "first", "out")]
    assert all(a.y + a.height < b.y for a, b in pairwise(order))
    assert node(drawing, "first").inputs[0].side == "top"


def test_the_loop_of_one_node_goes_over_its_top_and_crosses_nothing() -> None:
    drawing = drawn(
        """input_stream: "IN:in" output_stream: "OUT:out"
        node { name: "model" calculator: "N" input_stream: "IN:in" input_stream: "LOOPBACK:again"
               output_stream: "LOOPBACK:again" output_stream: "OUT:out"
               input_stream_info { tag_index: "LOOPBACK" back_edge: true } }"""
    )
    model = node(drawing, "model")
    (loop,) = [wire for wire in drawing.wires if wire.is_loop]
    assert loop.is_back_edge
    assert min(y for _, y in loop.points) < model.y
    assert max(y for _, y in loop.points) < min(
        port.y for port in model.inputs if port.label != "LOOPBACK"
    )


def test_a_line_that_closes_a_loop_is_marked_and_enters_at_the_left() -> None:
    drawing = drawn(
        """input_stream: "in"
        node { name: "a" calculator: "N" input_stream: "in" input_stream: "back" output_stream: "x"
               input_stream_info { tag_index: ":1" back_edge: true } }
        node { name: "b" calculator: "N" input_stream: "x" output_stream: "back" }"""
    )
    (back,) = [wire for wire in drawing.wires if wire.is_back_edge]
    assert (back.source, back.target, back.is_loop) == ("b", "a", False)
    assert node(drawing, "a").x < node(drawing, "b").x
    assert min(x for x, _ in back.points) < node(drawing, "a").x


def test_ports_stand_in_the_order_of_their_neighbours() -> None:
    # In the order of the tags, the two lines would cross.
    drawing = drawn(
        """input_stream: "in"
        node { name: "split" calculator: "N" input_stream: "in"
               output_stream: "A:far" output_stream: "B:near" }
        node { name: "up" calculator: "N" input_stream: "near" output_stream: "x" }
        node { name: "more" calculator: "N" input_stream: "X:x" input_stream: "Y:far" }"""
    )
    places = {port.label: port.y for port in node(drawing, "split").outputs}
    is_up = node(drawing, "more").inputs[0].y < node(drawing, "more").inputs[1].y
    assert (places["B"] < places["A"]) is is_up


def test_few_lines_cross() -> None:
    # Two chains, written so that the order of the text would cross them.
    drawing = drawn(
        """input_stream: "a" input_stream: "b"
        node { name: "b1" calculator: "N" input_stream: "b" output_stream: "b2" }
        node { name: "a1" calculator: "N" input_stream: "a" output_stream: "a2" }
        node { name: "a2" calculator: "N" input_stream: "a2" }
        node { name: "b2" calculator: "N" input_stream: "b2" }"""
    )
    is_above = node(drawing, "a").y < node(drawing, "b").y
    assert (node(drawing, "a1").y < node(drawing, "b1").y) is is_above
    assert (node(drawing, "a2").y < node(drawing, "b2").y) is is_above


# Folding ------------------------------------------------------------------------------------------


def test_a_long_chain_is_folded_to_the_shape_of_a_screen() -> None:
    drawing = drawn(chain(24))
    check(drawing)
    assert drawing.width < 2100
    assert 1.1 < drawing.width / drawing.height < 2.6
    order = [node(drawing, f"node{place}") for place in range(24)]
    bands = sum(b.x < a.x for a, b in pairwise(order)) + 1
    assert bands > 1
    assert all(a.x < b.x or a.y + a.height < b.y for a, b in pairwise(order))


def test_a_chain_that_can_be_read_is_not_folded() -> None:
    drawing = drawn(chain(5))
    order = [node(drawing, f"node{place}") for place in range(5)]
    assert all(a.x + a.width < b.x for a, b in pairwise(order))


def test_drawings_downwards_are_not_folded() -> None:
    order = [node(drawn(chain(24), direction="down"), f"node{place}") for place in range(24)]
    assert all(a.y + a.height < b.y for a, b in pairwise(order))


# Subgraphs ----------------------------------------------------------------------------------------

SUB = """type: "Sub" input_stream: "IN:a" output_stream: "OUT:c" output_stream: "LOOP:d"
    node { name: "one" calculator: "N" input_stream: "a" input_stream: "d" output_stream: "b"
           input_stream_info { tag_index: ":1" back_edge: true } }
    node { name: "two" calculator: "N" input_stream: "b" output_stream: "c" output_stream: "d" }"""
OUTER = """type: "Outer" input_stream: "IN:x" output_stream: "OUT:y"
    node { name: "s" calculator: "Sub" input_stream: "IN:x" output_stream: "OUT:y" }"""
GRAPH = """input_stream: "in" output_stream: "out"
    node { name: "before" calculator: "N" input_stream: "in" output_stream: "m" }
    node { name: "o" calculator: "Outer" input_stream: "IN:m" output_stream: "OUT:out" }
    node { name: "beside" calculator: "N" input_stream: "m" }"""


def is_in(box: DrawnNode, frame: object) -> bool:
    x, y, width, height = (getattr(frame, name) for name in ("x", "y", "width", "height"))
    return bool(
        x <= box.x
        and y <= box.y
        and box.x + box.width <= x + width
        and box.y + box.height <= y + height
    )


@pytest.mark.parametrize("direction", ["right", "down"])
def test_a_frame_holds_its_nodes_and_no_others(direction: Direction) -> None:
    drawing = drawn(GRAPH, subgraphs=(SUB, OUTER), expand=True, direction=direction)
    check(drawing)
    assert [frame.path for frame in drawing.frames] == [("o",), ("o", "s")]
    for box in drawing.nodes:
        for frame in drawing.frames:
            assert is_in(box, frame) == (box.path[:-1][: len(frame.path)] == frame.path), box.id
    assert drawing.frames[1].members == ("o__s__one", "o__s__two")
    assert drawing.closed == ()


def test_subgraphs_open_by_their_paths() -> None:
    closed = drawn(GRAPH, subgraphs=(SUB, OUTER))
    assert closed.closed == (("o",),)
    assert node(closed, "o").kind == "subgraph"
    half = drawn(GRAPH, subgraphs=(SUB, OUTER), expand={("o",)})
    check(half)
    assert [frame.path for frame in half.frames] == [("o",)]
    assert half.closed == (("o", "s"),)
    inner = node(half, "s")
    assert (inner.id, inner.kind, inner.calculator) == ("o__s", "subgraph", "Sub")
    assert drawn(GRAPH, subgraphs=(SUB, OUTER), expand={("o", "s")}) == closed


def test_subgraphs_that_feed_each_other_are_no_endless_loop() -> None:
    # No cycle of nodes, but one of frames.
    pair = """type: "Pair" input_stream: "A:a" input_stream: "B:b"
        output_stream: "A:c" output_stream: "B:d"
        node { calculator: "N" input_stream: "a" output_stream: "c" }
        node { calculator: "N" input_stream: "b" output_stream: "d" }"""
    drawing = drawn(
        """input_stream: "in"
        node { name: "p" calculator: "Pair" input_stream: "A:in" input_stream: "B:back"
               output_stream: "A:there" output_stream: "B:end" }
        node { name: "q" calculator: "N" input_stream: "there" output_stream: "back" }""",
        subgraphs=(pair,),
        expand=True,
    )
    check(drawing)
    assert sum(wire.is_back_edge for wire in drawing.wires) == 1


# Large graphs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["guard", "image20", "big60", "big200"])
def test_graphs_of_the_yardstick_keep_it_too(name: str) -> None:
    text = Path(BIG, f"{name}.pbtxt").read_text(encoding="utf-8")
    drawing = drawn(text)
    check(drawing)
    assert drawing.has_minimap is (len(drawing.nodes) > 60)


# Places -------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.floats(-1000, 1000), st.floats(0.1, 10), st.floats(1, 200)),
        max_size=12,
    ),
    st.booleans(),
)
def test_places_keep_their_order_and_distance(
    wishes: list[tuple[float, float, float]], is_exact: bool
) -> None:
    distances = [distance for _, _, distance in wishes][1:]
    places = keep_apart(
        [[(wish, weight)] for wish, weight, _ in wishes], distances, is_exact=is_exact
    )
    for place, (before, after) in enumerate(pairwise(places)):
        assert after - before >= distances[place] - 1e-6


def test_places_that_do_not_clash_are_kept() -> None:
    assert keep_apart([[(0.0, 1.0)], [(50.0, 1.0)]], [10.0], is_exact=False) == [0.0, 50.0]
    assert keep_apart([[(0.0, 1.0)], [(0.0, 1.0)]], [10.0], is_exact=False) == [-5.0, 5.0]
