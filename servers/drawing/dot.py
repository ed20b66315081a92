"""A diagram in Graphviz's DOT language."""

from __future__ import annotations

from servers.drawing.diagram import Box, Diagram, Edge
from servers.drawing.drawing import NodeKind

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
