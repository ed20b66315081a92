"""A diagram as SVG for light and dark pages, without scripts, fonts, or anything from outside."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from servers.drawing.diagram import Box, Diagram, Edge, Socket
from servers.drawing.layout import (
    NAME_SIZE,
    SUBTITLE_SIZE,
    TAG_SIZE,
    TITLE_SIZE,
    Frame,
    Layout,
    Line,
    PlacedBox,
    Point,
    lay_out,
)

#: Selectors, CSS property, its color on light pages and on dark pages. Written out rule by rule,
#: because viewers outside browsers know neither variables nor media queries.
_COLORS: tuple[tuple[str, str, str, str], ...] = (
    ("text", "fill", "#1f2328", "#e6edf3"),
    (".subtitle, .tag, .name", "fill", "#59636e", "#9198a1"),
    (".name", "stroke", "#ffffff", "#0d1117"),
    ("rect", "stroke", "#8c959f", "#656c76"),
    (".box rect", "fill", "#f6f8fa", "#212830"),
    (".input rect", "fill", "#ddf4ff", "#12304f"),
    (".output rect", "fill", "#dafbe1", "#143d25"),
    (".side_input rect", "fill", "#fff8c5", "#3b300f"),
    (".source rect", "fill", "#ddf4ff", "#12304f"),
    (".subgraph rect, .frame rect", "fill", "#fbefff", "#35204d"),
    (".unknown rect", "fill", "#ffebe9", "#4c1d1f"),
    (".line", "stroke", "#6e7781", "#9198a1"),
    (".head", "fill", "#6e7781", "#9198a1"),
    (".back .line", "stroke", "#bc4c00", "#f0883e"),
    (".back .head", "fill", "#bc4c00", "#f0883e"),
    (".side .line", "stroke", "#9a6700", "#d29922"),
    (".side .head", "fill", "#9a6700", "#d29922"),
)
_STYLE = f"""\
.graphrt {{ font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }}
.graphrt {{ text-anchor: middle; }}
.graphrt .title {{ font-size: {TITLE_SIZE}px; font-weight: 600; }}
.graphrt .subtitle {{ font-size: {SUBTITLE_SIZE}px; }}
.graphrt .end {{ font-size: {NAME_SIZE + 1}px; font-weight: 500; }}
.graphrt .tag {{ font-size: {TAG_SIZE}px; }}
.graphrt .name {{ font-size: {NAME_SIZE}px; text-anchor: start; paint-order: stroke;
  stroke-width: 3px; stroke-linejoin: round; }}
.graphrt .line {{ fill: none; stroke-width: 1.3; }}
.graphrt .back .line {{ stroke-dasharray: 5 4; }}
.graphrt .side .line {{ stroke-dasharray: 1.5 3; }}
.graphrt .unknown rect {{ stroke-dasharray: 4 3; }}
.graphrt .frame rect {{ fill-opacity: 0.35; stroke-dasharray: 6 3; }}
.graphrt .start {{ text-anchor: start; }}
.graphrt .finish {{ text-anchor: end; }}
"""
_CORNER = 7.0
_HEAD = 6.0


def to_svg(diagram: Diagram) -> str:
    """Return one ``<svg>`` element. Nodes and streams have ``data-node`` and ``data-stream``.

    Types of streams are shown while the pointer is on a line.
    """
    layout = lay_out(diagram)
    width, height = _number(layout.width), _number(layout.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graphrt" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{_text(diagram.title)}</title>",
        f"<style>\n{_style()}</style>",
        *(_frame(frame) for frame in layout.frames),
        *(_line(line) for line in layout.lines),
        *(_box(placed) for placed in layout.boxes),
        *_names(layout),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style() -> str:
    light, dark = "", ""
    for selectors, prop, on_light, on_dark in _COLORS:
        scoped = ", ".join(f".graphrt {selector}" for selector in selectors.split(", "))
        light += f"{scoped} {{ {prop}: {on_light}; }}\n"
        dark += f"{scoped} {{ {prop}: {on_dark}; }}\n"
    return f"{_STYLE}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _frame(frame: Frame) -> str:
    name = "/".join(frame.path)
    kind, x = "subtitle start", frame.x + 10
    if frame.title_at_right:
        kind, x = "subtitle finish", frame.x + frame.width - 10
    return (
        f'<g class="frame" data-group="{_text(name)}">{_rectangle(frame, 8)}'
        f"{_label(kind, x, frame.y + 16, frame.title)}</g>"
    )


def _box(placed: PlacedBox) -> str:
    box = placed.box
    center = placed.x + placed.width / 2
    is_end = box.kind in ("input", "output", "side_input")
    name = "/".join((*box.group, box.title))
    data = "" if is_end else f' data-node="{_text(name)}"'
    parts = [f'<g class="box {box.kind}"{data}>', _rectangle(placed, 12 if is_end else 5)]
    if is_end:
        y = placed.y + (15 if box.subtitle else 16)
        parts.append(_label("end", center, y, box.title))
        if box.subtitle:
            parts.append(_label("tag", center, y + 13, box.subtitle))
    else:
        parts += _node_texts(box, placed, center)
    return "".join([*parts, "</g>"])


def _node_texts(box: Box, placed: PlacedBox, center: float) -> list[str]:
    tags_above = any(socket.label for socket in box.tops)
    y = placed.y + 10 + (TAG_SIZE + 4 if tags_above else 0) + TITLE_SIZE - 1
    texts = [_label("title", center, y, box.title)]
    if box.subtitle:
        texts.append(_label("subtitle", center, y + SUBTITLE_SIZE + 5, box.subtitle))
    texts += _tags(box.tops, placed.tops, placed.y + TAG_SIZE + 3)
    texts += _tags(box.bottoms, placed.bottoms, placed.y + placed.height - 5)
    return texts


def _tags(sockets: tuple[Socket, ...], places: tuple[float, ...], y: float) -> list[str]:
    return [
        _label("tag", x, y, socket.label)
        for socket, x in zip(sockets, places, strict=True)
        if socket.label
    ]


def _names(layout: Layout) -> Iterable[str]:
    """Yield the names of streams, each beside the beginning of its line."""
    for placed in layout.boxes:
        if placed.box.kind in ("input", "output", "side_input"):
            continue
        for socket, x in zip(placed.box.bottoms, placed.bottoms, strict=True):
            text = _label("name", x + 5, placed.y + placed.height + 12, socket.shown)
            yield text.replace(
                "</text>", f"<title>{_text(_typed(socket.name, socket.type))}</title></text>"
            )


# Lines --------------------------------------------------------------------------------------------


def _line(line: Line) -> str:
    edge = line.edge
    kind = "back" if edge.is_back_edge else "side" if edge.is_side_packet else "forward"
    path = _angular(line.points) if line.is_back else _curved(line.points)
    head = _head(line.points[-1]) if line.has_arrow else ""
    return (
        f'<g class="{kind}" data-stream="{_text(edge.name)}"><title>{_text(_title(edge))}</title>'
        f'<path class="line" d="{path}"/>{head}</g>'
    )


def _title(edge: Edge) -> str:
    text = _typed(edge.name, edge.type)
    if edge.is_back_edge:
        return f"{text} (back edge)"
    return f"{text} (side packet)" if edge.is_side_packet else text


def _typed(name: str, kind: str) -> str:
    return f"{name}: {kind}" if kind else name


def _curved(points: tuple[Point, ...]) -> str:
    """Return a path that is vertical at every point, with curves between different x."""
    (x, y), *rest = points
    parts = [f"M{_number(x)} {_number(y)}"]
    for to_x, to_y in rest:
        if abs(to_x - x) < 0.05:
            parts.append(f"V{_number(to_y)}")
        else:
            middle = (y + to_y) / 2
            numbers = (x, middle, to_x, middle, to_x, to_y)
            parts.append("C" + " ".join(_number(number) for number in numbers))
        x, y = to_x, to_y
    return "".join(parts)


def _angular(points: tuple[Point, ...]) -> str:
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


def _head(tip: Point) -> str:
    x, y = tip
    return (
        f'<path class="head" d="M{_number(x)} {_number(y)}l-{_HEAD / 2:g} -{_HEAD:g}h{_HEAD:g}z"/>'
    )


# Elements -----------------------------------------------------------------------------------------


def _rectangle(area: Frame | PlacedBox, radius: float) -> str:
    return (
        f'<rect x="{_number(area.x)}" y="{_number(area.y)}" width="{_number(area.width)}" '
        f'height="{_number(area.height)}" rx="{radius:g}"/>'
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
