"""The drawing of a graph as data: the same for the page, for SVG, and for editors.

`servers.drawing.layout.draw` makes it from a description. Its classes are the types of the page's
`page/src/graph_types.ts` (``python -m servers.page.graph_types``). All lengths are CSS pixels from
the upper left corner, x to the right and y downwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["right", "down"]
NodeKind = Literal["input", "output", "side_input", "calculator", "source", "subgraph", "unknown"]
#: The work of a node, which gives it its color and its sign.
Family = Literal["model", "image", "tensor", "flow", "own", "io", "session", "subgraph"]
Side = Literal["left", "right", "top", "bottom"]

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class DrawnPort:
    """One end of a stream or side packet, at the edge of its node.

    Attributes:
        label: ``TAG``, ``TAG:2``, or the stream's name where the port has no tag.
        stream: the name of the stream or side packet, as live counts have it.
        shown: that name without the prefix of the subgraph around the node.
        type: of its packets; "" if it is not known.
        is_connected: a line begins or ends here.
        side: the edge of the node.
        x: of the point where lines begin or end.
    """

    label: str
    stream: str
    shown: str
    type: str
    is_side_packet: bool
    is_back_edge: bool
    is_connected: bool
    side: Side
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node, a closed subgraph, or an input or output of the graph.

    Attributes:
        id: unique in the drawing, and the same in every drawing of the graph: the node's name, or
            ``input:NAME``, ``output:NAME`` or ``side_input:NAME``.
        title: the name within its subgraph.
        subtitle: the calculator without "Calculator", the type of a subgraph, or the tag of an
            input or output; "" if it says the same as the title.
        calculator: the registered name; "" for inputs and outputs.
        path: names of the subgraph nodes around it, the outermost first, and its own; a closed
            subgraph opens by ``expand=PATH``, joined by "/".
        members: names of nodes in live counts: its own, and those of all nodes in a closed
            subgraph.
        options: as text of the graph's language.
    """

    id: str
    kind: NodeKind
    family: Family
    title: str
    subtitle: str
    calculator: str
    path: tuple[str, ...]
    members: tuple[str, ...]
    inputs: tuple[DrawnPort, ...]
    outputs: tuple[DrawnPort, ...]
    x: float
    y: float
    width: float
    height: float
    executor: str
    input_stream_handler: str
    max_in_flight: int
    options: str


@dataclass(frozen=True, slots=True)
class Wire:
    """A line from an output to an input. Lines of one stream share their beginning.

    Attributes:
        id: unique in the drawing, and the same in every drawing of the graph that has it.
        source, target: ids of nodes.
        source_port, target_port: indexes in their ``outputs`` and ``inputs``.
        is_loop: it ends at the node where it begins, and goes over its top.
        is_back_edge: it closes a loop: it was declared so, or runs against the direction.
        points: corners of horizontal and vertical pieces, both ends included.
    """

    id: str
    stream: str
    type: str
    source: str
    source_port: int
    target: str
    target_port: int
    is_side_packet: bool
    is_back_edge: bool
    is_loop: bool
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """An open subgraph around its nodes. Frames are in the order of drawing, the outermost first.

    Attributes:
        path: as `DrawnNode.path`; the subgraph closes when it is left out of ``expand``.
        members: names of all nodes inside, as in live counts.
    """

    path: tuple[str, ...]
    title: str
    subtitle: str
    members: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A graph with all places.

    Attributes:
        direction: of the streams. Rightwards, ports are rows at the sides of a node; downwards,
            they stand at its top and bottom.
        head: the height of the part of a node with its name, above its rows.
        foot: the height of the part below its rows, for figures.
        junctions: where lines of one stream part.
        closed: paths of the subgraphs that could be open.
        has_minimap: the graph is so large that a reader needs one.
    """

    title: str
    direction: Direction
    width: float
    height: float
    head: float
    foot: float
    nodes: tuple[DrawnNode, ...]
    wires: tuple[Wire, ...]
    frames: tuple[Frame, ...]
    junctions: tuple[Point, ...]
    closed: tuple[tuple[str, ...], ...]
    has_minimap: bool
