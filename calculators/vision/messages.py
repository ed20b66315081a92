"""Messages and packet types of the family: rectangles, detections, landmarks."""

from __future__ import annotations

from functools import cache
from types import GenericAlias
from typing import Any

from protos.pool import message_class


@cache
def message_type(name: str) -> Any:
    """Return the class of ``mediapipe.NAME``."""
    return message_class(f"mediapipe.{name}")


def list_of(name: str) -> Any:
    """Return the type of lists of ``mediapipe.NAME`` messages."""
    return GenericAlias(list, (message_type(name),))


def normalized_rect(
    x_center: float, y_center: float, width: float, height: float, rotation: float = 0.0
) -> Any:
    """Make a mediapipe.NormalizedRect, in fractions of the image; rotation in radians."""
    return message_type("NormalizedRect")(
        x_center=x_center, y_center=y_center, width=width, height=height, rotation=rotation
    )
