"""The layout of a diagram: places of boxes, frames of subgraphs and lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from servers.drawing.columns import Columns, arrange
from servers.drawing.diagram import Box, Diagram, Edge, Socket
from servers.drawing.layers import assign_layers, split_links
from servers.drawing.level import Cell, Level, LevelBuilder, Link, Pin
from servers.drawing.text_size import text_width

TITLE_SIZE = 13.0
SUBTITLE_SIZE = 11.0
TAG_SIZE = 9.0
NAME_SIZE = 10.0

_MARGIN = 16.0
_CELL_GAP = 28.0
_LAYER_GAP = 56.0
#: The length of the straight beginning of a line at a box, past the stream's name.
_STRAIGHT = 15.0
_LANE_GAP = 10.0
_SOCKET_PADDING = 14.0
_FRAME_PADDING = 18.0
_FRAME_TITLE = 24.0
#: The distance between a frame and its first and last layer.
_FRAME_GAP = 34.0
_PINS: dict[str, Pin] = {"input": "top", "side_input": "top", "output": "bottom"}

Point = tuple[float, float]


@dataclass(frozen=True)
class PlacedBox:
    """A box with its place. ``tops`` and ``bottoms`` are the x of its sockets."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    tops: tuple[float, ...]
    bottoms: tuple[float, ...]


@dataclass(frozen=True)
class Frame:
    """The frame of an expanded subgraph. ``title_at_right``: a line would cross it at the left."""

    path: tuple[str, ...]
    type: str
    title_at_right: bool
    x: float
    y: float
    width: float
    height: float

    @property
    def title(self) -> str:
        name = self.path[-1]
        return name if name == self.type else f"{name} ({self.type})"


@dataclass(frozen=True)
class Line:
    """The line of a link.

    Attributes:
        points: points on the line, which is vertical there and curved between (`is_back`: angular).
        has_arrow: the line ends at a box, not at a frame behind which it continues.
    """

    edge: Edge
    points: tuple[Point, ...]
    is_back: bool
    has_arrow: bool


@dataclass
class Layout:
    """Places and sizes in pixels. ``frames`` are in the order of drawing, the outermost first."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[PlacedBox] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def add(self, other: Layout, x: float, y: float) -> None:
        """Add the contents of another layout at this place."""
        for placed in other.boxes:
            self.boxes.append(
                replace(
                    placed,
                    x=placed.x + x,
                    y=placed.y + y,
                    tops=tuple(top + x for top in placed.tops),
                    bottoms=tuple(bottom + x for bottom in placed.bottoms),
                )
            )
        for frame in other.frames:
            self.frames.append(replace(frame, x=frame.x + x, y=frame.y + y))
        for line in other.lines:
            points = tuple((px + x, py + y) for px, py in line.points)
            self.lines.append(replace(line, points=points))


def lay_out(diagram: Diagram) -> Layout:
    """Place a whole diagram, with a margin around it."""
    inner, _, _, _ = _lay_out_group(diagram, ())
    layout = Layout(inner.width + 2 * _MARGIN, inner.height + 2 * _MARGIN)
    layout.add(inner, _MARGIN, _MARGIN)
    return layout


def _lay_out_group(
    diagram: Diagram, group: tuple[str, ...]
) -> tuple[Layout, Level, tuple[float, ...], tuple[float, ...]]:
    """Place one level with its contents. Return also the x of its inlets and outlets."""
    builder = LevelBuilder(diagram, group)
    boxes: dict[int, Box] = {}
    children: dict[int, tuple[tuple[str, ...], Layout]] = {}
    for box in diagram.boxes:
        if box.group == group:
            boxes[len(builder.cells)] = box
            builder.add_box(_box_cell(box))
    for path in diagram.groups:
        if path[:-1] == group and len(path) == len(group) + 1:
            inner, level, inlets, outlets = _lay_out_group(diagram, path)
            children[len(builder.cells)] = (path, inner)
            cell = Cell("/".join(path), inner.width, inner.height, inlets, outlets)
            builder.add_group(path, level, cell)
    level = builder.build()
    down, up = split_links(level.cells, level.links)
    layer_of = assign_layers(level.cells, down)
    columns = arrange(level.cells, layer_of, down, _CELL_GAP)
    sheet = _Sheet(level, layer_of, columns, down, up, is_framed=bool(group))
    layout = sheet.draw()
    for place, box in boxes.items():
        layout.boxes.append(_placed(box, level.cells[place], *sheet.corner(place)))
    for place, (path, inner) in children.items():
        x, y = sheet.corner(place)
        frame = Frame(path, diagram.groups[path], False, x, y, inner.width, inner.height)
        end = text_width(frame.title, SUBTITLE_SIZE) + 20
        is_crossed = any(inlet < end for inlet in level.cells[place].tops)
        layout.frames.append(replace(frame, title_at_right=is_crossed))
        layout.add(inner, x, y)
    first = len(builder.cells)
    ends = [sheet.corner(place)[0] + 0.5 for place in range(first, len(level.cells))]
    count = len(level.inlets)
    return layout, level, tuple(ends[:count]), tuple(ends[count:])


# Boxes --------------------------------------------------------------------------------------------


def _box_cell(box: Box) -> Cell:
    """Return a cell with the size of a box: its texts, and its sockets side by side."""
    if box.kind in _PINS:
        width = text_width(box.title, NAME_SIZE + 1) + 22
        width = max(width, text_width(box.subtitle, TAG_SIZE) + 22)
        middle = (width / 2,)
        height = 34.0 if box.subtitle else 24.0
        tops, bottoms = (middle, ()) if box.tops else ((), middle)
        return Cell(box.key, width, height, tops, bottoms, _PINS[box.kind])
    tops_width = sum(sum(_room(socket, is_top=True)) for socket in box.tops)
    bottoms_width = sum(sum(_room(socket, is_top=False)) for socket in box.bottoms)
    # The title is bold.
    texts = max(text_width(box.title, TITLE_SIZE * 1.12), text_width(box.subtitle, SUBTITLE_SIZE))
    width = max(texts + 28, tops_width, bottoms_width, 90.0)
    return Cell(
        box.key,
        width,
        _box_height(box),
        _spread(box.tops, tops_width, width, is_top=True),
        _spread(box.bottoms, bottoms_width, width, is_top=False),
    )


def _box_height(box: Box) -> float:
    height = 20.0 + TITLE_SIZE
    if box.subtitle:
        height += SUBTITLE_SIZE + 5
    if any(socket.label for socket in box.tops):
        height += TAG_SIZE + 4
    if any(socket.label for socket in box.bottoms):
        height += TAG_SIZE + 4
    return height


def _room(socket: Socket, *, is_top: bool) -> tuple[float, float]:
    """Return the room left and right of a socket, for its tag and the stream's name."""
    tag = text_width(socket.label, TAG_SIZE) / 2
    name = 0.0 if is_top else text_width(socket.shown, NAME_SIZE) + 2
    return tag + _SOCKET_PADDING / 2, max(tag, name) + _SOCKET_PADDING / 2


def _spread(
    sockets: tuple[Socket, ...], needed: float, width: float, *, is_top: bool
) -> tuple[float, ...]:
    if len(sockets) == 1 and _room(sockets[0], is_top=is_top)[1] <= width / 2 + _SOCKET_PADDING:
        return (width / 2,)
    extra = (width - needed) / max(len(sockets), 1)
    at = 0.0
    places = []
    for socket in sockets:
        left, right = _room(socket, is_top=is_top)
        places.append(at + left + extra / 2)
        at += left + right + extra
    return tuple(places)


def _placed(box: Box, cell: Cell, x: float, y: float) -> PlacedBox:
    return PlacedBox(
        box,
        x,
        y,
        cell.width,
        cell.height,
        tuple(x + top for top in cell.tops),
        tuple(x + bottom for bottom in cell.bottoms),
    )


# Lines --------------------------------------------------------------------------------------------


class _Sheet:
    """The drawing of one level: the y of its layers, and the lanes of lines that run up."""

    def __init__(
        self,
        level: Level,
        layer_of: list[int],
        columns: Columns,
        down: list[Link],
        up: list[Link],
        *,
        is_framed: bool,
    ) -> None:
        self._cells = level.cells
        self._layer_of = layer_of
        self._columns = columns
        self._down = down
        # Short links first, so that they get the inner lanes.
        self._up = sorted(up, key=lambda link: abs(layer_of[link.source] - layer_of[link.target]))
        self._is_framed = is_framed
        self._left = _FRAME_PADDING if is_framed else 0.0
        count = len(columns.layers)
        self._rows: list[float] = [
            max((self._height(vertex) for vertex in row), default=0.0) for row in columns.layers
        ]
        # Gap g is above layer g; the last one is below all layers.
        self._gaps = [0.0, *[_LAYER_GAP] * (count - 1), 0.0] if count else [0.0]
        if is_framed:
            has_inlets = any(cell.pin == "top" for cell in self._cells)
            has_outlets = any(cell.pin == "bottom" for cell in self._cells)
            if has_inlets and count > 1:
                self._gaps[1] = _FRAME_TITLE + _FRAME_GAP
            else:
                self._gaps[0] = _FRAME_TITLE + 8
            if has_outlets and count > 1:
                self._gaps[-2] = _FRAME_GAP
            else:
                self._gaps[-1] = _FRAME_PADDING
        for link in self._up:
            self._gaps[layer_of[link.source] + 1] += _LANE_GAP
            self._gaps[layer_of[link.target]] += _LANE_GAP
        for layer in {layer_of[link.source] + 1 for link in self._up}:
            self._gaps[layer] += 22.0 if layer == count else 6.0
        for layer in {layer_of[link.target] for link in self._up}:
            self._gaps[layer] += 14.0 if layer == 0 else 6.0
        self._tops: list[float] = []
        at = 0.0
        for row, gap in zip(self._rows, self._gaps, strict=False):
            at += gap
            self._tops.append(at)
            at += row
        self._bottom = at + self._gaps[-1]

    def corner(self, cell: int) -> Point:
        """Return the upper left corner of a cell."""
        x = self._columns.x[cell] + self._left
        layer = self._layer_of[cell]
        if self._cells[cell].pin == "top":
            return x, self._tops[layer] + self._rows[layer] - self._cells[cell].height
        return x, self._tops[layer]

    def draw(self) -> Layout:
        """Return a layout with the lines and the size of the level."""
        lines = [
            self._line_down(link, knots)
            for link, knots in zip(self._down, self._columns.knots, strict=True)
        ]
        right = max(
            (
                self._columns.x[place] + vertex.width
                for place, vertex in enumerate(self._columns.vertices)
            ),
            default=0.0,
        )
        right += self._left
        used: list[tuple[int, int, float]] = []  # layers and x of lanes
        slots: dict[tuple[int, bool], int] = {}
        for link in self._up:
            line, lane = self._line_up(link, used, slots)
            lines.append(line)
            right = max(right, lane)
        layout = Layout(right + self._left, self._bottom)
        layout.lines = lines
        return layout

    def _height(self, vertex: int) -> float:
        cell = self._columns.vertices[vertex].cell
        return self._cells[cell].height if cell >= 0 else 0.0

    def _ends(self, link: Link) -> tuple[Point, Point]:
        source, target = self._cells[link.source], self._cells[link.target]
        x, y = self.corner(link.source)
        to_x, to_y = self.corner(link.target)
        return (
            (x + source.bottoms[link.source_place], y + source.height),
            (to_x + target.tops[link.target_place], to_y),
        )

    def _line_down(self, link: Link, knots: list[int]) -> Line:
        start, end = self._ends(link)
        layer = self._layer_of[link.source]
        out = self._tops[layer] + self._rows[layer]
        if self._cells[link.source].pin == "free":
            out += _STRAIGHT
        elif self._is_framed:
            out += _FRAME_TITLE
        points = [start, (start[0], out)]
        for step, knot in enumerate(knots, layer + 1):
            x = self._columns.x[knot] + self._columns.vertices[knot].width / 2 + self._left
            points += [(x, self._tops[step]), (x, self._tops[step] + self._rows[step])]
        points.append(end)
        return Line(link.edge, tuple(points), False, self._has_arrow(link))

    def _line_up(
        self,
        link: Link,
        used: list[tuple[int, int, float]],
        slots: dict[tuple[int, bool], int],
    ) -> tuple[Line, float]:
        """Draw a line from below the source, up a lane at the right, to above the target."""
        start, end = self._ends(link)
        low, high = self._layer_of[link.source], self._layer_of[link.target]
        first, last = min(low, high), max(low, high)
        lane = self._right_of(first, last)
        for other_first, other_last, x in used:
            if other_first <= last and first <= other_last:
                lane = max(lane, x)
        lane += _LANE_GAP + 4
        used.append((first, last, lane))
        below = slots[low, True] = slots.get((low, True), 0) + 1
        above = slots[high, False] = slots.get((high, False), 0) + 1
        low_y = self._tops[low] + self._rows[low] + 10 + below * _LANE_GAP
        high_y = self._tops[high] - 8 - above * _LANE_GAP
        points = (start, (start[0], low_y), (lane, low_y), (lane, high_y), (end[0], high_y), end)
        return Line(link.edge, points, True, self._has_arrow(link)), lane

    def _right_of(self, first: int, last: int) -> float:
        return self._left + max(
            (
                self._columns.x[vertex] + self._columns.vertices[vertex].width
                for layer in range(first, last + 1)
                for vertex in self._columns.layers[layer]
            ),
            default=0.0,
        )

    def _has_arrow(self, link: Link) -> bool:
        return self._cells[link.target].key == link.edge.target
