"""Boxes and edges: the part of a graph that is drawn, for all writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from servers.drawing.description import DescribedNode, DescribedPort, GraphDescription
from servers.drawing.drawing import Family, NodeKind


@dataclass(frozen=True)
class Socket:
    """The end of an edge at a box.

    Attributes:
        label: the port's tag.
        name: the stream's name.
        shown: the stream's name without the prefix of the subgraph.
        section: of the ports of a side: 0 for the loop of the node itself, which goes over the top,
            1 for streams, 2 for other loops, 3 for side packets.
    """

    label: str
    name: str
    type: str = ""
    is_side_packet: bool = False
    is_back_edge: bool = False
    shown: str = ""
    section: int = 1


@dataclass(frozen=True)
class Box:
    """A node, or a graph's input or output. ``key`` is unique; ``group`` as in the description."""

    key: str
    kind: NodeKind
    title: str
    subtitle: str = ""
    tops: tuple[Socket, ...] = ()
    bottoms: tuple[Socket, ...] = ()
    group: tuple[str, ...] = ()
    family: Family = "own"


@dataclass(frozen=True)
class Edge:
    """A line from a bottom socket of one box to a top socket of another, by key and place."""

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
    boxes += [
        _terminal("output", port.name, port.label, port.type, is_top=False)
        for port in graph.outputs
    ]
    return Diagram(title, tuple(boxes), tuple(_edges(boxes)), graph.groups)


def _terminal(kind: NodeKind, name: str, label: str, type_: str, *, is_top: bool) -> Box:
    family: Family = "session" if kind == "side_input" else "io"
    socket = (Socket("", name, type_, is_side_packet=kind.startswith("side")),)
    tops, bottoms = ((), socket) if is_top else (socket, ())
    return Box(f"{kind}:{name}", kind, name, label, tops, bottoms, (), family)


def _node_box(
    place: int, node: DescribedNode, prefixes: frozenset[str], loops: frozenset[str]
) -> Box:
    """Return the box of a node. ``loops`` are the streams that are back edges of some node."""
    own = {port.name for port in node.outputs} & {port.name for port in node.inputs}
    inputs = _sockets(node, node.inputs, node.input_side_packets, prefixes)
    outputs = _sockets(node, node.outputs, node.output_side_packets, prefixes)
    return Box(
        key=f"node:{place}",
        kind=node.kind,
        title=node.name,
        subtitle="" if node.name == node.calculator else node.calculator,
        tops=_sorted(inputs, own, None),
        bottoms=_sorted(outputs, own, loops),
        group=node.group,
        family=node.family,
    )


def _sorted(
    sockets: tuple[Socket, ...], own: set[str], loops: frozenset[str] | None
) -> tuple[Socket, ...]:
    """Return the ports of a side in their sections; ``loops`` are the streams that run back."""
    found = []
    for each in sockets:
        is_loop = each.is_back_edge if loops is None else each.name in loops
        section = 3 if each.is_side_packet else 0 if each.name in own else 2 if is_loop else 1
        found.append(replace(each, section=section))
    return tuple(sorted(found, key=lambda socket: socket.section))


def _inner_name(name: str, node: DescribedNode, prefixes: frozenset[str]) -> str:
    """Return a stream's name without the prefix of the subgraph around the node."""
    known = [each for each in prefixes if node.prefix.startswith(each) and name.startswith(each)]
    return name.removeprefix(max(known, key=len, default=""))


def _sockets(
    node: DescribedNode,
    streams: tuple[DescribedPort, ...],
    sides: tuple[DescribedPort, ...],
    prefixes: frozenset[str],
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


_STYLES: dict[NodeKind, str] = {
    "input": "shape=box, style=rounded",
    "output": "shape=box, style=rounded",
    "side_input": "shape=parallelogram",
    "calculator": "shape=box",
    "source": "shape=box, penwidth=2",
    "subgraph": "shape=box, peripheries=2",
    "unknown": "shape=box, style=dashed",
}


def to_dot(diagram: Diagram) -> str:
    """Return a ``digraph``: back edges dashed, side packets dotted, subgraphs as clusters."""
    ids = {box.key: f"n{place}" for place, box in enumerate(diagram.boxes)}
    lines = [f"digraph {_quote(diagram.title)} {{", "  node [fontname=Helvetica];"]
    lines.append("  edge [fontname=Helvetica, fontsize=10];")
    lines += _group_lines(diagram, (), ids, "  ")
    lines += [_edge_line(edge, ids) for edge in diagram.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _group_lines(
    diagram: Diagram, group: tuple[str, ...], ids: dict[str, str], indent: str
) -> list[str]:
    lines = [
        f"{indent}{ids[box.key]} [label={_label(box)}, {_STYLES[box.kind]}];"
        for box in diagram.boxes
        if box.group == group
    ]
    for place, (path, kind) in enumerate(diagram.groups.items()):
        if path[:-1] == group:
            lines.append(f"{indent}subgraph cluster_{place} {{")
            lines.append(f"{indent}  label={_quote(f'{path[-1]} ({kind})')};")
            lines += _group_lines(diagram, path, ids, indent + "  ")
            lines.append(f"{indent}}}")
    return lines


def _label(box: Box) -> str:
    return _quote(f"{box.title}\n{box.subtitle}" if box.subtitle else box.title)


def _edge_line(edge: Edge, ids: dict[str, str]) -> str:
    label = f"{edge.name}: {edge.type}" if edge.type else edge.name
    # A back edge has no effect on layers, else its target would move below its source.
    style = ", style=dashed, constraint=false" if edge.is_back_edge else ""
    style = ", style=dotted" if edge.is_side_packet else style
    return f"  {ids[edge.source]} -> {ids[edge.target]} [label={_quote(label)}{style}];"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


#: Brackets around the text by kind of box: they select the shape.
_SHAPES: dict[NodeKind, tuple[str, str]] = {
    "input": ("([", "])"),
    "output": ("([", "])"),
    "side_input": ("[/", "/]"),
    "calculator": ("[", "]"),
    "source": ("[[", "]]"),
    "subgraph": ("[[", "]]"),
    "unknown": ("{{", "}}"),
}


def to_mermaid(diagram: Diagram) -> str:
    """Return a ``flowchart TD``. Back edges are dotted, side packets thick."""
    ids = {box.key: f"n{place}" for place, box in enumerate(diagram.boxes)}
    lines = ["flowchart TD"]
    lines += _mermaid_group(diagram, (), ids, "  ")
    lines += [_mermaid_edge(edge, ids) for edge in diagram.edges]
    return "\n".join(lines) + "\n"


def _mermaid_group(
    diagram: Diagram, group: tuple[str, ...], ids: dict[str, str], indent: str
) -> list[str]:
    lines = [f"{indent}{ids[box.key]}{_shape(box)}" for box in diagram.boxes if box.group == group]
    for place, (path, kind) in enumerate(diagram.groups.items()):
        if path[:-1] == group:
            lines.append(f'{indent}subgraph g{place}["{_escape(f"{path[-1]} ({kind})")}"]')
            lines += _mermaid_group(diagram, path, ids, indent + "  ")
            lines.append(f"{indent}end")
    return lines


def _shape(box: Box) -> str:
    before, after = _SHAPES[box.kind]
    text = _escape(box.title)
    if box.subtitle:
        text += f"<br/><i>{_escape(box.subtitle)}</i>"
    return f'{before}"{text}"{after}'


def _mermaid_edge(edge: Edge, ids: dict[str, str]) -> str:
    arrow = "-.->" if edge.is_back_edge else "==>" if edge.is_side_packet else "-->"
    label = f"{edge.name}: {edge.type}" if edge.type else edge.name
    return f'  {ids[edge.source]} {arrow}|"{_escape(label)}"| {ids[edge.target]}'


def _escape(text: str) -> str:
    """Replace characters that Mermaid would take for markup by its entity codes."""
    return "".join(f"#{ord(char)};" if char in '"<>&#`\\\n' else char for char in text)
