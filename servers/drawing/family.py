"""Families of calculators, by the room they are written in."""

from __future__ import annotations

from typing import Final

from graph_runtime.authoring.calculator import Calculator
from servers.drawing.drawing import Family

#: Rooms below `calculators`; all others run models.
_ROOMS: Final[dict[str, Family]] = {
    "answer_cache": "flow",
    "core": "flow",
    "ensemble": "flow",
    "image": "image",
    "inference": "tensor",
    "language": "flow",
    "openvino": "tensor",
    "redaction": "flow",
    "routing": "flow",
}


def family_of(calculator: type[Calculator]) -> Family:
    """Return the work of a calculator; "own" for code that is not of this project."""
    package, _, rest = calculator.__module__.partition(".")
    if package != "calculators":
        return "own"
    return _ROOMS.get(rest.partition(".")[0], "model")
