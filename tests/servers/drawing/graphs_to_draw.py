"""Graphs for tests of drawings, and measures of what is drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from hypothesis import strategies as st

from graph_runtime import REGISTRY, Registry, parse_graph_text
from servers.drawing.description import GraphDescription, describe_graph
from servers.drawing.drawing import Direction, DrawnNode, GraphDrawing, Point
from servers.drawing.layout import draw


def described(
    text: str,
    *,
    subgraphs: tuple[str, ...] = (),
    expand: bool | Collection[tuple[str, ...]] = False,
) -> GraphDescription:
    registry = Registry(REGISTRY)
    for each in subgraphs:
        registry.register_subgraph(each)
    return describe_graph(parse_graph_text(text), registry, None, expand=expand)


def drawn(
    text: str,
    *,
    subgraphs: tuple[str, ...] = (),
    expand: bool | Collection[tuple[str, ...]] = False,
    direction: Direction = "right",
) -> GraphDrawing:
    graph = described(text, subgraphs=subgraphs, expand=expand)
    return draw(graph, "test", direction=direction)


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> str:
    """Nodes that read streams from anywhere: before them, their own, or later ones."""
    count = draw(st.integers(0, most))
    nodes = []
    for place in range(count):
        sources = draw(st.lists(st.integers(-2, count - 1), max_size=4))
        lines = [f'name: "n{place}" calculator: "N" output_stream: "s{place}"']
        for index, source in enumerate(sources):
            stream = f"s{source}" if source >= 0 else f"in{-source}"
            lines.append(f'input_stream: "T:{index}:{stream}"')
            if source >= place:
                lines.append(f'input_stream_info {{ tag_index: "T:{index}" back_edge: true }}')
        if draw(st.booleans()):
            lines.append(f'input_side_packet: "SIDE:side{place % 2}"')
        nodes.append("node { " + " ".join(lines) + " }")
    ends = 'input_stream: "in1" input_stream: "in2" ' + (
        f'output_stream: "s{draw(st.integers(0, count - 1))}"' if count else ""
    )
    return ends + "\n".join(nodes)


def chain(length: int) -> str:
    """Return a pipeline whose last node reads a stream of the first one, too."""
    nodes = [
        f'node {{ name: "node{place}" calculator: "N" input_stream: "s{place}" '
        f'output_stream: "s{place + 1}" }}'
        for place in range(length)
    ]
    nodes.append(
        f'node {{ name: "last" calculator: "N" input_stream: "s{length}" input_stream: "s1" '
        'output_stream: "end" }'
    )
    return 'input_stream: "s0" output_stream: "end"\n' + "\n".join(nodes)


def node(drawing: GraphDrawing, title: str) -> DrawnNode:
    (found,) = [each for each in drawing.nodes if each.title == title]
    return found


def overlap(a: DrawnNode, b: DrawnNode) -> bool:
    return (
        a.x < b.x + b.width
        and b.x < a.x + a.width
        and a.y < b.y + b.height
        and b.y < a.y + a.height
    )


def enters(a: Point, b: Point, box: DrawnNode) -> bool:
    """True if a horizontal or vertical piece of a line has a point inside of a node."""
    return (
        max(a[0], b[0]) > box.x + 0.2
        and min(a[0], b[0]) < box.x + box.width - 0.2
        and max(a[1], b[1]) > box.y + 0.2
        and min(a[1], b[1]) < box.y + box.height - 0.2
    )


def pieces(drawing: GraphDrawing) -> Iterator[tuple[str, Point, Point]]:
    """Yield the pieces of all lines, each with the output it comes from."""
    for wire in drawing.wires:
        for a, b in pairwise(wire.points):
            yield f"{wire.source}.{wire.source_port}", a, b


def overlapping(drawing: GraphDrawing) -> list[tuple[str, str]]:
    """Return pairs of outputs whose lines lie on one another somewhere."""
    found = []
    known = sorted(set(pieces(drawing)))
    for place, (name, a, b) in enumerate(known):
        for other, c, d in known[place + 1 :]:
            if name == other:
                continue
            for axis in (0, 1):
                is_one_line = max(abs(each[axis] - a[axis]) for each in (b, c, d)) < 1
                low = max(min(a[1 - axis], b[1 - axis]), min(c[1 - axis], d[1 - axis]))
                high = min(max(a[1 - axis], b[1 - axis]), max(c[1 - axis], d[1 - axis]))
                if is_one_line and high - low > 1:
                    found.append((name, other))
    return found
