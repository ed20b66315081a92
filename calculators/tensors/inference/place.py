"""Short names of places for error texts, whatever a client sends."""

from __future__ import annotations

from collections.abc import Sequence

_MAX_CHARS = 64
_MAX_DIMENSIONS = 8


def quoted(name: str) -> str:
    """``name`` in quotation marks, at most 64 characters of it."""
    return f'"{name}"' if len(name) <= _MAX_CHARS else f'"{name[:_MAX_CHARS]}..."'


def place_of(kind: str, index: int, name: str) -> str:
    """A tensor of a request: ``inputs[0] "image"``."""
    return f"{kind}[{index}] {quoted(name)}"


def shown_shape(shape: Sequence[object]) -> str:
    """A shape as clients write it, ``[1, 3, 224, 224]``; the first 8 of many dimensions."""
    shown = [str(dimension)[:24] for dimension in shape[:_MAX_DIMENSIONS]]
    return f"[{', '.join(shown)}{', ...' if len(shape) > _MAX_DIMENSIONS else ''}]"
