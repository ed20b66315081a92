"""Parsers of the strings in a model's config: shapes, layouts, numbers, conversions.

The forms are OpenVINO Model Server's (``shape.cpp``, ``layout.cpp``, ``modelconfig.cpp``). Every
function raises `ValueError` whose text says what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from calculators.tensors.openvino.dimension import Dimension
from calculators.tensors.openvino.model_settings import ANY_LENGTH, Conversion

MAX_NIREQ: Final = 100_000
_MAX_LENGTH: Final = 2**31 - 1

#: Element types by the names of OpenVINO Model Server and of OpenVINO.
_PRECISIONS: Final[Mapping[str, str]] = {
    "FP64": "f64",
    "FP32": "f32",
    "FP16": "f16",
    "BF16": "bf16",
    **{f"INT{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
_COLOR_FORMATS: Final[Mapping[str, str]] = {
    "RGB": "RGB",
    "BGR": "BGR",
    "GRAY": "GRAY",
    "NV12": "NV12_SINGLE_PLANE",
    "I420": "I420_SINGLE_PLANE",
}
_DIMENSION: Final = re.compile(r"-1|\d{1,10}(:\d{1,10})?")
_LAYOUT: Final = re.compile(r"[NCHWD?]*(\.\.\.)?[NCHWD?]*")


def shape_of(value: str | list[int]) -> tuple[Dimension, ...] | None:
    """Parse ``(1,3,-1,2:8)``, or a list of lengths. None for ``auto``."""
    if isinstance(value, list):
        return tuple(_dimension(str(length)) for length in value)
    text = _without_spaces(value)
    if text == "auto":
        return None
    if len(text) < 3 or text[0] != "(" or text[-1] != ")":
        raise ValueError(
            'a shape is "(1,3,224,224)", with -1 or 2:8 for lengths that vary, or auto'
        )
    return tuple(_dimension(word) for word in text[1:-1].removesuffix(",").split(","))


def batch_size_of(value: int | str) -> Dimension | None:
    """Parse a number, ``auto``, ``-1`` or a range ``2:8``. None for "" and 0: no change."""
    text = _without_spaces(str(value))
    if text in ("", "0"):
        return None
    return ANY_LENGTH if text == "auto" else _dimension(text)


def layout_of(text: str) -> Conversion:
    """Parse ``NHWC:NCHW``, the layouts of clients and of the model; ``NCHW`` alone is both."""
    words = _without_spaces(text).upper().split(":")
    if len(words) > 2 or not all(map(_is_layout, words)):
        raise ValueError(
            "a layout is NHWC:NCHW, what clients send and what the model takes, of the letters N, "
            "C, H, W and D, ? for an axis and ... for several"
        )
    return words[0], words[-1]


def precision_of(text: str) -> Conversion:
    """Parse ``uint8:fp32``, the element types of clients and of the model."""
    return _pair(text, _PRECISIONS, "a precision is uint8:fp32, what clients send and what")


def color_format_of(text: str) -> Conversion:
    """Parse ``RGB:BGR``, the formats of the model and of clients: the model's comes first here."""
    taken, sent = _pair(text, _COLOR_FORMATS, "a color format is RGB:BGR, what the model takes and")
    return sent, taken


def numbers_of(value: Any) -> tuple[float, ...] | float:
    """Parse a number, or several as a list, ``[1,2,3]`` or ``(1,2,3)``."""
    if isinstance(value, str):
        text = _without_spaces(value)
        if text[:1] + text[-1:] in ("[]", "()"):
            value = text[1:-1].split(",")
    try:
        return tuple(map(_number, value)) if isinstance(value, list) else _number(value)
    except (TypeError, ValueError):
        raise ValueError("a number is needed, or one per channel: [123.7,116.3,103.5]") from None


def divisors_of(value: Any) -> tuple[float, ...] | float:
    """Parse numbers as `numbers_of`, none of which is 0."""
    numbers = numbers_of(value)
    if 0 in (numbers if isinstance(numbers, tuple) else (numbers,)):
        raise ValueError("inputs are divided by it, so it must not be 0")
    return numbers


def _dimension(text: str) -> Dimension:
    if not _DIMENSION.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is no length: write a number, -1 for any, or a range 2:8")
    if text == "-1":
        return ANY_LENGTH
    low, _, high = text.partition(":")
    found = Dimension(int(low), int(high or low))
    if high and found.low >= int(high):
        raise ValueError(f"the range {text} must rise")
    if int(high or low) > _MAX_LENGTH:
        raise ValueError(f"the length {high or low} is more than {_MAX_LENGTH}")
    return found


def _is_layout(text: str) -> bool:
    letters = text.replace("?", "").replace("...", "")
    return bool(text and _LAYOUT.fullmatch(text)) and len(set(letters)) == len(letters)


def _pair(text: str, known: Mapping[str, str], form: str) -> Conversion:
    words = _without_spaces(text).upper().split(":")
    if len(words) != 2 or not all(word in known for word in words):
        raise ValueError(f"{form} the other side has, of {', '.join(known)}")
    return known[words[0]], known[words[1]]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError
    number = float(value)
    if number in (float("inf"), float("-inf")) or number != number:
        raise ValueError
    return number


def _without_spaces(text: str) -> str:
    return "".join(text.split())
