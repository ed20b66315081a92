"""Boxes and edges: the part of a graph that is drawn, for all writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from servers.drawing.description import GraphDescription, Node, Port
from servers.drawing.drawing import Family
from servers.drawing.drawing import NodeKind as BoxKind


@dataclass(frozen=True)
class Socket:
    """The end of an edge at a box.

    Attributes:
        label: the port's tag.
        name: the stream's name.
        shown: the stream's name without the prefix of the subgraph.
    """

    label: str
    name: str
    type: str = ""
    is_side_packet: bool = False
    is_back_edge: bool = False
    shown: str = ""


@dataclass(frozen=True)
class Box:
    """A node, or a graph's input or output. ``key`` is unique; ``group`` as in the description."""

    key: str
    kind: BoxKind
    title: str
    subtitle: str = ""
    tops: tuple[Socket, ...] = ()
    bottoms: tuple[Socket, ...] = ()
    group: tuple[str, ...] = ()
    family: Family = "own"


@dataclass(frozen=True)
class Edge:
    """From a bottom socket of one box to a top socket of another, by key and place."""

    source: str
    source_place: int
    target: str
    target_place: int
    name: str
    type: str = ""
    is_side_packet: bool = False
    is_back_edge: bool = False


@dataclass(frozen=True)
class Diagram:
    """The boxes and edges of a graph. ``groups`` has types of subgraphs by the path of nodes."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    groups: Mapping[tuple[str, ...], str]


def make_diagram(graph: GraphDescription, title: str) -> Diagram:
    """Return the boxes and edges of a graph. Streams without producer or consumer have no edge."""
    boxes = [
        _terminal("input", port.name, port.label, port.type, is_top=True) for port in graph.inputs
    ]
    boxes += [
        _terminal("side_input", side.name, "side packet", side.type, is_top=True)
        for side in graph.input_side_packets
    ]
    prefixes = frozenset(node.prefix for node in graph.nodes)
    loops = frozenset(
        port.name for node in graph.nodes for port in node.inputs if port.is_back_edge
    )
    boxes += [_node_box(place, node, prefixes, loops) for place, node in enumerate(graph.nodes)]
    produced = {stream.name for stream in graph.streams if stream.producer is not None}
    produced |= {port.name for port in graph.inputs}
    boxes += [
        _terminal("output", port.name, port.label, port.type, is_top=False)
        for port in graph.outputs
        if port.name in produced
    ]
    return Diagram(title, tuple(boxes), tuple(_edges(boxes)), graph.groups)


def _terminal(kind: BoxKind, name: str, label: str, type_: str, *, is_top: bool) -> Box:
    family: Family = "session" if kind == "side_input" else "io"
    socket = (Socket("", name, type_, is_side_packet=kind.startswith("side")),)
    tops, bottoms = ((), socket) if is_top else (socket, ())
    return Box(f"{kind}:{name}", kind, name, label, tops, bottoms, (), family)


def _node_box(place: int, node: Node, prefixes: frozenset[str], loops: frozenset[str]) -> Box:
    """Return the box of a node. ``loops`` are the streams that are back edges of some node."""
    own = {port.name for port in node.outputs} & {port.name for port in node.inputs}
    kind = node.calculator.rpartition(".")[2].removesuffix("Calculator") or node.calculator
    title = node.name
    if title == node.calculator:
        title, kind = kind, ""
    return Box(
        key=f"node:{place}",
        kind=node.kind,
        title=title,
        subtitle="" if kind == title else kind,
        # The loop of the node itself comes first, because it goes over the top; other loops last.
        tops=tuple(
            sorted(
                _sockets(node, node.inputs, node.input_side_packets, prefixes),
                key=lambda socket: _rank(socket, own, socket.is_back_edge),
            )
        ),
        bottoms=tuple(
            sorted(
                _sockets(node, node.outputs, node.output_side_packets, prefixes),
                key=lambda socket: _rank(socket, own, socket.name in loops),
            )
        ),
        group=node.group,
        family=node.family,
    )


def _rank(socket: Socket, own: set[str], is_loop: bool) -> int:
    if socket.is_side_packet:
        return 3
    return 0 if socket.name in own else 2 if is_loop else 1


def _inner_name(name: str, node: Node, prefixes: frozenset[str]) -> str:
    """Return a stream's name without the prefix of the subgraph around the node."""
    known = [each for each in prefixes if node.prefix.startswith(each) and name.startswith(each)]
    return name.removeprefix(max(known, key=len, default=""))


def _sockets(
    node: Node, streams: tuple[Port, ...], sides: tuple[Port, ...], prefixes: frozenset[str]
) -> tuple[Socket, ...]:
    return tuple(
        Socket(
            port.label,
            port.name,
            port.type,
            is_side_packet=is_side,
            is_back_edge=port.is_back_edge,
            shown=_inner_name(port.name, node, prefixes),
        )
        for ports, is_side in ((streams, False), (sides, True))
        for port in ports
    )


def _edges(boxes: list[Box]) -> list[Edge]:
    producers: dict[tuple[str, bool], tuple[str, int]] = {}
    for box in boxes:
        for place, socket in enumerate(box.bottoms):
            producers.setdefault((socket.name, socket.is_side_packet), (box.key, place))
    edges = []
    for box in boxes:
        for place, socket in enumerate(box.tops):
            producer = producers.get((socket.name, socket.is_side_packet))
            if producer is not None:
                edges.append(
                    Edge(
                        *producer,
                        box.key,
                        place,
                        socket.name,
                        socket.type,
                        socket.is_side_packet,
                        socket.is_back_edge,
                    )
                )
    return edges
