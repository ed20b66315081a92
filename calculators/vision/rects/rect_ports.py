"""Ports that carry rectangles, and what calculators on them share."""

from __future__ import annotations

import math
from typing import Any, Final

from calculators.vision.messages import list_of, message_type
from graph_runtime import CalculatorContract

RECT_TAGS: Final = ("NORM_RECT", "RECT", "NORM_RECTS", "RECTS")

#: Where MediaPipe's maxima begin (``std::numeric_limits<float>::min()``): 0, rather than -infinity.
SMALLEST: Final = 1.17549435e-38


def rect_type(tag: str) -> Any:
    """Return the packet type of a stream of rectangles with this tag."""
    name = "NormalizedRect" if tag.startswith("NORM_") else "Rect"
    return list_of(name) if tag.endswith("S") else message_type(name)


def take_one_rect_tag(contract: CalculatorContract, ports: Any, kind: str) -> str:
    """Declare exactly one port of rectangles; return its tag."""
    found = [tag for tag in RECT_TAGS if ports.has_tag(tag)]
    contract.require(
        len(found) == 1, f"exactly one of the {kind} streams {', '.join(RECT_TAGS)} is needed"
    )
    for tag in RECT_TAGS:
        ports[tag].set(rect_type(tag)).optional()
    return found[0] if found else "NORM_RECT"


def normalize_radians(angle: float) -> float:
    """Return the angle within [-pi, pi)."""
    return angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi))
