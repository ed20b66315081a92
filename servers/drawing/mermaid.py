"""A diagram as Mermaid flowchart text, which Markdown pages show."""

from __future__ import annotations

from servers.drawing.diagram import Box, Diagram, Edge
from servers.drawing.drawing import NodeKind

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
    lines += _group_lines(diagram, (), ids, "  ")
    lines += [_edge_line(edge, ids) for edge in diagram.edges]
    return "\n".join(lines) + "\n"


def _group_lines(
    diagram: Diagram, group: tuple[str, ...], ids: dict[str, str], indent: str
) -> list[str]:
    lines = [f"{indent}{ids[box.key]}{_shape(box)}" for box in diagram.boxes if box.group == group]
    for place, (path, kind) in enumerate(diagram.groups.items()):
        if path[:-1] == group:
            lines.append(f'{indent}subgraph g{place}["{_escape(f"{path[-1]} ({kind})")}"]')
            lines += _group_lines(diagram, path, ids, indent + "  ")
            lines.append(f"{indent}end")
    return lines


def _shape(box: Box) -> str:
    before, after = _SHAPES[box.kind]
    text = _escape(box.title)
    if box.subtitle:
        text += f"<br/><i>{_escape(box.subtitle)}</i>"
    return f'{before}"{text}"{after}'


def _edge_line(edge: Edge, ids: dict[str, str]) -> str:
    arrow = "-.->" if edge.is_back_edge else "==>" if edge.is_side_packet else "-->"
    label = f"{edge.name}: {edge.type}" if edge.type else edge.name
    return f'  {ids[edge.source]} {arrow}|"{_escape(label)}"| {ids[edge.target]}'


def _escape(text: str) -> str:
    """Replace characters that Mermaid would take for markup by its entity codes."""
    return "".join(f"#{ord(char)};" if char in '"<>&#`\\\n' else char for char in text)
