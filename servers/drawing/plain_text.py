"""A description as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from servers.drawing.description import GraphDescription, Node, Port


def to_text(graph: GraphDescription, title: str) -> str:
    """Return sections with aligned columns, without empty ones."""
    name = f"{title} (type {graph.type})" if graph.type else title
    parts = [f"{name}: {_count(graph.nodes, 'node')}, {_count(graph.streams, 'stream')}"]
    parts += [
        _section("Input streams", [(_port(port), port.type) for port in graph.inputs]),
        _section("Output streams", [(_port(port), port.type) for port in graph.outputs]),
        _section(
            "Input side packets",
            [
                (side.name, side.type, "optional" if side.is_optional else "")
                for side in graph.input_side_packets
            ],
        ),
        _section("Output side packets", [(name,) for name in graph.output_side_packets]),
        _section(
            "Executors",
            [
                (
                    each.name or "(default)",
                    each.type or "chosen by the runtime",
                    f"{each.num_threads} threads" if each.num_threads > 0 else "",
                )
                for each in graph.executors
            ],
        ),
        _nodes(graph),
        _section(
            "Streams",
            [
                (
                    stream.name,
                    stream.type,
                    f"{stream.producer or ('(graph)' if stream.is_graph_input else '(nobody)')} -> "
                    f"{', '.join(stream.consumers) or '(nobody)'}",
                )
                for stream in graph.streams
            ],
        ),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _nodes(graph: GraphDescription) -> str:
    lines = ["\nNodes:"]
    shown: tuple[str, ...] = ()
    for node in graph.nodes:
        if node.group != shown and node.group:
            kind = graph.groups.get(node.group, "")
            lines.append(f"  in subgraph {'/'.join(node.group)} ({kind}):")
        shown = node.group
        lines += [("    " if node.group else "  ") + line for line in _node(node)]
    return "\n".join(lines) if graph.nodes else ""


def _node(node: Node) -> list[str]:
    kind = f"{node.calculator}, {node.kind}" if node.kind != "calculator" else node.calculator
    lines = [f"{node.name} ({kind})"]
    rows = [
        ("in", _ports(node.inputs)),
        ("out", _ports(node.outputs)),
        ("side in", _ports(node.input_side_packets)),
        ("side out", _ports(node.output_side_packets)),
        ("handler", node.input_stream_handler),
        ("executor", node.executor),
        ("in flight", str(node.max_in_flight) if node.max_in_flight != 1 else ""),
        ("options", " ".join(node.options.split())),
    ]
    return lines + [f"  {label:9}  {value}" for label, value in rows if value]


def _ports(ports: Iterable[Port]) -> str:
    return ", ".join(
        _port(port)
        + (f" ({port.type})" if port.type else "")
        + (" [back edge]" if port.is_back_edge else "")
        for port in ports
    )


def _port(port: Port) -> str:
    return f"{port.label}:{port.name}" if port.label else port.name


def _section(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([f"\n{title}:", *(line.rstrip() for line in lines)])


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
