"""The sizes of nodes, and the places of their ports.

Rightwards, ports are rows at the sides, below the name. Downwards, they stand at top and bottom,
with their tags beside the edge.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass

from servers.drawing.diagram import Box, Socket
from servers.drawing.drawing import Direction
from servers.drawing.level import Align, Cell, Sections

TITLE_SIZE = 13.0

_NARROW = frozenset("fijlrtI.,:;'!|()[]{} -")
_BROAD = frozenset("mwMWQOGDHNU@%_")


def text_width(text: str, size: float) -> float:
    """Return the width in pixels for a sans-serif font of ``size`` pixels."""
    return sum(_em(char) for char in text) * size


def _em(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in _NARROW:
        return 0.36
    if char in _BROAD:
        return 0.78
    return 0.68 if char.isupper() else 0.59


def title_width(text: str) -> float:
    """Return the width of a bold title of `TITLE_SIZE`."""
    return text_width(text, TITLE_SIZE) * 1.14


def mono_width(text: str, size: float) -> float:
    """Return the width in pixels in a font whose letters are all 0.6 of ``size`` wide."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return (len(text) + 0.7 * wide) * 0.6 * size


HEAD = 46.0
FOOT = 30.0
#: Rows of ports, and the room above and below them.
ROW = 22.0
_ROWS_PADDING = 8.0
#: The sizes of letters.
SUBTITLE_SIZE = 11.0
TAG_SIZE = 10.5
#: From the left edge of a node to its texts, past the sign.
TEXT_LEFT = 46.0
#: From an edge to a port's label.
LABEL_INSET = 12.0
_LEAST_WIDTH = 150.0
_LABELS_APART = 22.0
#: Room for the number of calls at the right of the title.
_BADGE = 34.0
_TERMINAL_HEIGHT = 40.0
_TERMINAL_LOW = 30.0
#: The height of the tags of a side, downwards.
TAG_STRIP = 16.0
_ALIGNS: dict[str, Align] = {"input": "end", "side_input": "end", "output": "start"}


@dataclass(frozen=True, slots=True)
class NodeBox:
    """A box with its size. Ports are along the edge: y rightwards, x downwards."""

    box: Box
    width: float
    height: float
    inputs: tuple[float, ...]
    outputs: tuple[float, ...]

    @property
    def is_terminal(self) -> bool:
        return self.box.kind in _ALIGNS

    def cell(self, direction: Direction) -> Cell:
        """Return the box as a cell of a level."""
        length, breadth = self.width, self.height
        if direction == "down":
            length, breadth = breadth, length
        align = _ALIGNS.get(self.box.kind, "middle")
        sections: Sections = ((), ())
        if direction == "right" and not self.is_terminal:
            sections = (_sections(self.box.tops), _sections(self.box.bottoms))
        return Cell(length, breadth, self.inputs, self.outputs, align=align, sections=sections)


def measure(box: Box, direction: Direction, *, has_foot: bool) -> NodeBox:
    """Return the size of a box; ``has_foot``: nodes have room for figures."""
    if box.kind in _ALIGNS:
        return _terminal(box, direction)
    return _rightward(box, has_foot) if direction == "right" else _downward(box, has_foot)


def _sections(sockets: tuple[Socket, ...]) -> tuple[tuple[int, str], ...]:
    """Return the section of each row, and its tag: rows of a tag stay together, in their order."""
    return tuple(
        (each.section, each.label.partition(":")[0] or f" {place}" if each.label else " ")
        for place, each in enumerate(sockets)
    )


def port_label(socket: Socket) -> str:
    """Return the text at a port: its tag, or the stream's name."""
    return socket.label or socket.shown or socket.name


def _terminal(box: Box, direction: Direction) -> NodeBox:
    width = max(84.0, title_width(box.title) + 32, mono_width(box.subtitle, TAG_SIZE - 0.5) + 36)
    width = _even(width)
    height = _TERMINAL_HEIGHT if box.subtitle else _TERMINAL_LOW
    middle = ((height if direction == "right" else width) / 2,)
    ins, outs = (middle, ()) if box.tops else ((), middle)
    return NodeBox(box, width, height, ins, outs)


def _texts(box: Box, has_foot: bool) -> float:
    title = title_width(box.title) + (_BADGE if has_foot else 0.0)
    return TEXT_LEFT + max(title, text_width(box.subtitle, SUBTITLE_SIZE)) + 14


def _rightward(box: Box, has_foot: bool) -> NodeBox:
    count = max(len(box.tops), len(box.bottoms))
    width = max(_LEAST_WIDTH, _texts(box, has_foot), 176.0 if has_foot else 0.0)
    for row in range(count):
        labels = [_label_width(side, row) for side in (box.tops, box.bottoms)]
        width = max(width, sum(labels) + 2 * LABEL_INSET + (_LABELS_APART if all(labels) else 0))
    first = HEAD + _ROWS_PADDING + ROW / 2
    rows = count * ROW + 2 * _ROWS_PADDING if count else 0.0
    return NodeBox(
        box,
        _even(width),
        HEAD + rows + (FOOT if has_foot else 0.0),
        tuple(first + ROW * row for row in range(len(box.tops))),
        tuple(first + ROW * row for row in range(len(box.bottoms))),
    )


def _label_width(side: tuple[Socket, ...], row: int) -> float:
    return mono_width(port_label(side[row]), TAG_SIZE) if row < len(side) else 0.0


def _downward(box: Box, has_foot: bool) -> NodeBox:
    rooms = [
        [mono_width(port_label(each), TAG_SIZE) + 14 for each in side]
        for side in (box.tops, box.bottoms)
    ]
    width = _even(max(_LEAST_WIDTH, _texts(box, has_foot), *(sum(side) + 10 for side in rooms)))
    height = HEAD + (FOOT if has_foot else 0.0)
    height += TAG_STRIP * (bool(box.tops) + bool(box.bottoms))
    return NodeBox(box, width, height, *(_spread(side, width) for side in rooms))


def _even(value: float) -> float:
    """Return the next even number, so that halves are whole pixels."""
    return 2.0 * math.ceil(value / 2)


def _spread(rooms: list[float], width: float) -> tuple[float, ...]:
    extra = (width - sum(rooms)) / max(len(rooms), 1)
    at = 0.0
    places = []
    for room in rooms:
        places.append(float(round(at + (room + extra) / 2)))
        at += room + extra
    return tuple(places)
