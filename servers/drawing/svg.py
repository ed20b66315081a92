"""A drawing as SVG in the page's look, without scripts, fonts, or anything from outside."""

from __future__ import annotations

import zlib
from html import escape
from itertools import pairwise
from typing import Final, Literal

from servers.drawing.drawing import DrawnNode, DrawnPort, Family, Frame, GraphDrawing, Point, Wire
from servers.drawing.node_box import (
    LABEL_INSET,
    SUBTITLE_SIZE,
    TAG_SIZE,
    TAG_STRIP,
    TEXT_LEFT,
    TITLE_SIZE,
    title_width,
)

Theme = Literal["auto", "light", "dark"]

#: Colors on light pages and on dark pages by their names in the page.
COLORS: Final[dict[str, tuple[str, str]]] = {
    "canvas": ("#fafbfc", "#101319"),
    "surface": ("#ffffff", "#171b23"),
    "raised": ("#f4f5f8", "#1e232d"),
    "line": ("#dfe3e9", "#2b313d"),
    "line-strong": ("#7e899c", "#667087"),
    "text": ("#171a21", "#e8eaf0"),
    "muted": ("#535c6d", "#a0a8b8"),
    "faint": ("#626c80", "#8a93a8"),
    "bad": ("#c92a3a", "#ff6b6b"),
    "wire": ("#8590a3", "#5d6880"),
    "wire-live": ("#5b5bd6", "#7d8cf8"),
    "side": ("#8590a3", "#667087"),
    "kind-model": ("#7c4fe0", "#a78bfa"),
    "kind-io": ("#17857b", "#4fb3a9"),
    "kind-flow": ("#a86400", "#e0a458"),
    "kind-image": ("#1f6fd1", "#58a6ff"),
    "kind-own": ("#4d7c21", "#8fbf6a"),
    "kind-tensor": ("#22799f", "#6cb6d9"),
    "kind-session": ("#667084", "#8891a5"),
    "accent": ("#5350cf", "#8b8dfa"),
}
#: Names of colors by family.
TINTS: Final[dict[Family, str]] = {
    "model": "kind-model",
    "image": "kind-image",
    "tensor": "kind-tensor",
    "flow": "kind-flow",
    "own": "kind-own",
    "io": "kind-io",
    "session": "kind-session",
    "subgraph": "accent",
}
#: Strokes of signs, in a square of 16.
SIGNS: Final[dict[Family, str]] = {
    "model": "M8 1.8C8.6 5.6 10.4 7.4 14.2 8 10.4 8.6 8.6 10.4 8 14.2 7.4 10.4 5.6 8.6 1.8 8 "
    "5.6 7.4 7.4 5.6 8 1.8z",
    "image": "M2.5 3.5h11v9h-11zM3 11l3.2-3.4 2.4 2.4 1.6-1.5 2.8 2.6M10.4 6.1h.01",
    "tensor": "M2.5 2.5h4.6v4.6h-4.6zM8.9 2.5h4.6v4.6h-4.6zM2.5 8.9h4.6v4.6h-4.6z"
    "M8.9 8.9h4.6v4.6h-4.6z",
    "flow": "M2 8h4.2c1.8 0 2-4 4-4h3.6M6.2 8c1.8 0 2 4 4 4h3.6M11.8 2l2 2-2 2M11.8 10l2 2-2 2",
    "own": "M5.4 4.2L1.8 8l3.6 3.8M10.6 4.2L14.2 8l-3.6 3.8",
    "io": "M2.5 8h10M9 4.5L12.5 8 9 11.5",
    "session": "M2.5 3h11v3.2h-11zM3.6 6.2v6.8h8.8v-6.8M6.4 9h3.2",
    "subgraph": "M2.3 2.3h11.4v11.4h-11.4zM5 8h1.6M9.4 6h1.8M9.4 10h1.8"
    "M6.6 8c1.4 0 1.4-2 2.8-2M6.6 8c1.4 0 1.4 2 2.8 2",
}

SANS: Final = 'Inter, "Inter Variable", ui-sans-serif, system-ui, "Segoe UI", sans-serif'
MONO: Final = '"JetBrains Mono", "JetBrains Mono Variable", ui-monospace, Menlo, monospace'

#: Selectors, property, name of the color. Written out rule by rule, because viewers outside
#: browsers know neither variables nor media queries.
_RULES: Final[tuple[tuple[str, str, str], ...]] = (
    (".canvas", "fill", "canvas"),
    ("text", "fill", "text"),
    (".sub, .tag", "fill", "muted"),
    (".face", "fill", "surface"),
    (".face, .head", "stroke", "line"),
    (".side_input .face, .session .face", "fill", "raised"),
    (".hatch path", "stroke", "line"),
    (".frame rect", "fill", "raised"),
    (".frame rect", "stroke", "line-strong"),
    (".name text", "stroke", "raised"),
    (".line", "stroke", "wire"),
    (".dot", "fill", "wire"),
    (".side .line", "stroke", "side"),
    (".back .line", "stroke", "wire-live"),
    (".chevron", "fill", "wire-live"),
    (".port", "fill", "surface"),
    (".port", "stroke", "wire"),
    (".port.looped", "fill", "wire-live"),
    (".port.looped", "stroke", "wire-live"),
    (".unknown .face", "stroke", "bad"),
    *((f".{family} .sign path", "stroke", tint) for family, tint in TINTS.items()),
    *((f".{family} .sign rect", "fill", tint) for family, tint in TINTS.items()),
    *((f".{family} .edge", "stroke", tint) for family, tint in TINTS.items()),
)


def color_rules(theme: Theme) -> str:
    """Return the style's colors; "auto" follows the reader's settings."""
    light, dark = (_rules(place) for place in (0, 1))
    if theme == "auto":
        return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
    return dark if theme == "dark" else light


def _rules(place: int) -> str:
    lines = []
    for selectors, prop, name in _RULES:
        scoped = ", ".join(f".graphrt {each}" for each in selectors.split(", "))
        lines.append(f"{scoped} {{ {prop}: {COLORS[name][place]}; }}\n")
    return "".join(lines)


_STYLE = f"""\
.graphrt text {{ font-family: {SANS}; }}
.graphrt .title {{ font-size: {TITLE_SIZE:g}px; font-weight: 600; }}
.graphrt .sub {{ font-size: {SUBTITLE_SIZE:g}px; }}
.graphrt text.tag {{ font-family: {MONO}; font-size: {TAG_SIZE:g}px; font-weight: 500; }}
.graphrt .packet {{ font-style: italic; }}
.graphrt .middle {{ text-anchor: middle; }}
.graphrt .finish {{ text-anchor: end; }}
.graphrt .line {{ fill: none; stroke-width: 1.5; stroke-linejoin: round; }}
.graphrt .side .line {{ stroke-width: 1; }}
.graphrt .port {{ stroke-width: 1.25; }}
.graphrt .edge {{ fill: none; stroke-opacity: 0.45; }}
.graphrt .side_input .edge {{ stroke-opacity: 0; }}
.graphrt .terminal .edge {{ stroke-opacity: 0.9; }}
.graphrt .sign rect {{ fill-opacity: 0.15; }}
.graphrt .sign path {{ fill: none; stroke-width: 1.5; stroke-linecap: round; }}
.graphrt .frame > rect {{ fill-opacity: 0.55; stroke-opacity: 0.55; }}
.graphrt .name text {{ paint-order: stroke; stroke-width: 5px; stroke-linejoin: round; }}
.graphrt .hatch path {{ stroke-width: 2; }}
"""
_CORNER = 7.0
_SIGN = 26.0
#: Up to this number of nodes, the description for screen readers lists each node.
_MOST_DESCRIBED = 60


def to_svg(drawing: GraphDrawing, *, theme: Theme = "auto") -> str:
    """Return one ``<svg>`` element. Nodes and streams have ``data-node`` and ``data-stream``.

    Types of streams are shown while the pointer is on a line. ``theme``: "auto" follows the
    reader's settings.
    """
    width, height = _number(drawing.width), _number(drawing.height)
    looped = {(wire.target, wire.target_port) for wire in drawing.wires if wire.is_back_edge}
    # One for each drawing, because several can be in one document.
    hatch = f"hatch{zlib.crc32(repr(drawing).encode('utf-8', 'replace')):08x}"
    # Lines back lie over the others, and side packets under them.
    wires = sorted(drawing.wires, key=lambda wire: (not wire.is_side_packet, wire.is_back_edge))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graphrt" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{_text(drawing.title)}</title>",
        f"<desc>{_text(_described(drawing))}</desc>",
        f"<style>\n{_STYLE}{color_rules(theme)}</style>",
        f'<defs><pattern id="{hatch}" class="hatch" width="8" height="8" '
        'patternUnits="userSpaceOnUse"><path d="M-2 6L6 -2M2 10L10 2"/></pattern></defs>',
        f'<rect class="canvas" width="{width}" height="{height}" rx="12"/>',
        *(_frame(frame) for frame in drawing.frames),
        *(_wire(wire) for wire in wires),
        *(
            f'<circle class="dot" cx="{_number(x)}" cy="{_number(y)}" r="2.6"/>'
            for x, y in drawing.junctions
        ),
        *(_frame_name(frame) for frame in drawing.frames),
        *(_node(node, drawing, looped, hatch) for node in drawing.nodes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _described(drawing: GraphDrawing) -> str:
    """Return the graph in words: each node, and where its streams go."""
    nodes = [node for node in drawing.nodes if node.calculator]
    if len(nodes) > _MOST_DESCRIBED:
        return f"{len(nodes)} nodes and {len(drawing.wires)} lines between them."
    titles = {node.id: node.title for node in drawing.nodes}
    sent: dict[str, list[str]] = {}
    for wire in drawing.wires:
        sent.setdefault(wire.source, []).append(f"{wire.stream} to {titles[wire.target]}")
    return " ".join(
        f"{node.title}{f' ({node.subtitle})' if node.subtitle else ''}"
        f"{' sends ' + ', '.join(sent[node.id]) if node.id in sent else ''}."
        for node in drawing.nodes
    )


# Nodes --------------------------------------------------------------------------------------------


def _frame(frame: Frame) -> str:
    return (
        f'<g class="frame" data-group="{_text("/".join(frame.path))}">'
        f"{_rectangle(frame.x, frame.y, frame.width, frame.height, 14)}</g>"
    )


def _frame_name(frame: Frame) -> str:
    """Return the title of a frame, which lies over the lines."""
    x = frame.x + 40
    parts = [
        '<g class="name subgraph">',
        _sign("subgraph", frame.x + 10, frame.y + 7, 20),
        _label("title", x, frame.y + 21.5, frame.title),
    ]
    if frame.subtitle:
        x += title_width(frame.title) + 8
        parts.append(_label("sub", x, frame.y + 21.5, frame.subtitle))
    return "".join([*parts, "</g>"])


def _node(node: DrawnNode, drawing: GraphDrawing, looped: set[tuple[str, int]], hatch: str) -> str:
    if not node.calculator:
        return _terminal(node)
    x, y = node.x, node.y
    is_down = drawing.direction == "down"
    head = y + (TAG_STRIP if is_down and node.inputs else 0.0)
    parts = [f'<g class="node {node.kind} {node.family}" data-node="{_text("/".join(node.path))}">']
    if node.options or node.executor:
        parts.append(f"<title>{_text(_facts(node))}</title>")
    if node.kind == "subgraph":
        parts.append(
            f'<rect class="face" x="{_number(x + 5)}" y="{_number(y + 5)}" '
            f'width="{_number(node.width)}" height="{_number(node.height)}" rx="10"/>'
        )
    parts.append(_rectangle(x, y, node.width, node.height, 10, "face"))
    if node.kind == "unknown":
        parts.append(
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(node.width)}" '
            f'height="{_number(node.height)}" rx="10" fill="url(#{hatch})"/>'
        )
    parts.append(_rectangle(x, y, node.width, node.height, 10, "edge"))
    if not is_down and (node.inputs or node.outputs):
        line = _number(y + drawing.head)
        parts.append(f'<path class="head" d="M{_number(x)} {line}h{_number(node.width)}"/>')
    parts.append(_sign(node.family, x + 10, head + 10, _SIGN))
    left = x + TEXT_LEFT
    if node.subtitle:
        parts.append(_label("title", left, head + 21, node.title))
        parts.append(_label("sub", left, head + 35.5, node.subtitle))
    else:
        parts.append(_label("title", left, head + 27.5, node.title))
    for place, port in enumerate(node.inputs):
        parts.append(_port(port, (node.id, place) in looped))
    parts += [_port(port, False) for port in node.outputs]
    return "".join([*parts, "</g>"])


def _facts(node: DrawnNode) -> str:
    facts = [node.options]
    if node.executor:
        facts.insert(0, f"executor: {node.executor}")
    return "\n".join(each for each in facts if each)


def _terminal(node: DrawnNode) -> str:
    radius = 8.0 if node.kind == "side_input" else node.height / 2
    center = node.x + node.width / 2
    middle = node.y + node.height / 2
    parts = [
        f'<g class="terminal {node.kind} {node.family}">',
        _rectangle(node.x, node.y, node.width, node.height, radius, "face"),
        _rectangle(node.x, node.y, node.width, node.height, radius, "edge"),
    ]
    if node.subtitle:
        parts.append(_label("title middle", center, middle - 2, node.title))
        parts.append(_label("tag middle", center, middle + 12, node.subtitle))
    else:
        parts.append(_label("title middle", center, middle + 4.5, node.title))
    return "".join([*parts, "</g>"])


def _sign(family: Family, x: float, y: float, size: float) -> str:
    inset = size * 5 / 26
    scale = (size - 2 * inset) / 16
    return (
        f'<g class="sign">{_rectangle(x, y, size, size, size * 0.27)}'
        f'<path transform="translate({_number(x + inset)} {_number(y + inset)}) '
        f'scale({scale:.4g})" d="{SIGNS[family]}"/></g>'
    )


def _port(port: DrawnPort, is_looped: bool) -> str:
    kind = "port looped" if is_looped else "port"
    x, y = port.x, port.y
    if port.is_side_packet:
        shape = f'<path class="{kind}" d="M{_number(x - 5)} {_number(y)}l5 -5 5 5 -5 5z"/>'
    else:
        shape = (
            f'<rect class="{kind}" x="{_number(x - 4)}" y="{_number(y - 4)}" width="8" height="8" '
            'rx="2.5"/>'
        )
    tag = "tag packet" if port.is_side_packet else "tag"
    match port.side:
        case "left":
            return shape + _label(tag, x + LABEL_INSET, y + 3.7, port.label)
        case "right":
            return shape + _label(f"{tag} finish", x - LABEL_INSET, y + 3.7, port.label)
        case "top":
            return shape + _label(f"{tag} middle", x, y + TAG_STRIP + 0.5, port.label)
        case _:
            return shape + _label(f"{tag} middle", x, y - TAG_STRIP + 8, port.label)


# Lines --------------------------------------------------------------------------------------------


def _wire(wire: Wire) -> str:
    kind = "back" if wire.is_back_edge else "side" if wire.is_side_packet else "forward"
    title = f"{wire.stream}: {wire.type}" if wire.type else wire.stream
    title += " (back edge)" if wire.is_back_edge else ""
    title += " (side packet)" if wire.is_side_packet else ""
    return (
        f'<g class="{kind}" data-stream="{_text(wire.stream)}"><title>{_text(title)}</title>'
        f'<path class="line" d="{path_of(wire.points)}"/>'
        f"{_chevron(wire.points) if wire.is_back_edge else ''}</g>"
    )


def path_of(points: tuple[Point, ...]) -> str:
    """Return a path of straight pieces with rounded corners."""
    parts = [f"M{_number(points[0][0])} {_number(points[0][1])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _towards(corner, before), _towards(corner, after)
        parts.append(f"L{_number(start[0])} {_number(start[1])}")
        parts.append("Q" + " ".join(_number(number) for number in (*corner, *end)))
    parts.append(f"L{_number(points[-1][0])} {_number(points[-1][1])}")
    return "".join(parts)


def _towards(corner: Point, other: Point) -> Point:
    """Return the point where the rounding of a corner begins."""
    distance = abs(other[0] - corner[0]) + abs(other[1] - corner[1])
    share = min(_CORNER, distance / 2) / distance if distance else 0.0
    return (
        corner[0] + (other[0] - corner[0]) * share,
        corner[1] + (other[1] - corner[1]) * share,
    )


def _chevron(points: tuple[Point, ...]) -> str:
    """Return an arrow head in the middle of the longest piece."""
    a, b = max(pairwise(points), key=lambda each: _distance(*each))
    x, y = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
    length = _distance(a, b)
    if length < 12:
        return ""
    along = ((b[0] - a[0]) / length, (b[1] - a[1]) / length)
    tip = (x + 5 * along[0], y + 5 * along[1])
    wing = (-along[1] * 4.5, along[0] * 4.5)
    back = (x - 4 * along[0], y - 4 * along[1])
    corners = (
        tip,
        (back[0] + wing[0], back[1] + wing[1]),
        (x - 2 * along[0], y - 2 * along[1]),
        (back[0] - wing[0], back[1] - wing[1]),
    )
    text = "L".join(f"{_number(px)} {_number(py)}" for px, py in corners)
    return f'<path class="chevron" d="M{text}z"/>'


def _distance(a: Point, b: Point) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


# Elements -----------------------------------------------------------------------------------------


def _rectangle(
    x: float, y: float, width: float, height: float, radius: float, kind: str = ""
) -> str:
    name = f'class="{kind}" ' if kind else ""
    return (
        f'<rect {name}x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" '
        f'height="{_number(height)}" rx="{radius:g}"/>'
    )


def _label(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{_number(x)}" y="{_number(y)}">{_text(text)}</text>'


def _text(text: str) -> str:
    """Escape a text for XML, and replace characters that XML forbids."""
    legal = "".join(char if char in "\t\n\r" or char >= " " else "\ufffd" for char in text)
    legal = legal.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
    return escape(legal.encode("utf-8", "replace").decode())


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
