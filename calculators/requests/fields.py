"""Typed readers of the members of a JSON object, whose errors say what would be right.

Every reader returns None for a member that is absent or null. A boolean is never a number, and
``1.0`` is never an integer. ``path`` names a nested member in errors; by default its name does.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from calculators.requests.http_payload import RequestError, without_values

UINT32_MAX: Final = 2**32 - 1
INT32_MAX: Final = 2**31 - 1

_SHOWN_CHARACTERS: Final = 40


def invalid(path: str, why: str) -> RequestError:
    """The error for a member with a wrong value; ``why`` completes the sentence."""
    return RequestError(
        f'Invalid value for "{path}": {why}', param=path, detail=without_values(why)
    )


def missing(path: str, hint: str = "") -> RequestError:
    """The error for a required member that is missing."""
    return RequestError(
        f'Missing required member "{path}"' + (f": {hint}" if hint else ""),
        param=path,
        detail="missing",
    )


def wrong_type(path: str, expected: str, value: object) -> RequestError:
    """The error for a member of another JSON type; ``expected`` has its article."""
    return invalid(path, f"expected {expected}, got {describe(value)}")


def describe(value: object) -> str:
    """A JSON value for an error text: its type, and the value itself if it is short."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            # A number of thousands of digits is neither printed nor converted to text.
            return str(value) if value.bit_length() < 128 else "an integer of over 128 bits"
        case float():
            return repr(value)
        case str():
            short = value[:_SHOWN_CHARACTERS]
            return "the string " + json.dumps(short) + ("..." if len(value) > len(short) else "")
        case list():
            return f"an array of {len(value)}"
        case _:
            return "an object"


def boolean(body: Mapping[str, Any], name: str, path: str | None = None) -> bool | None:
    """Read ``true`` or ``false``."""
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise wrong_type(path or name, "true or false", value)


def string(body: Mapping[str, Any], name: str, path: str | None = None) -> str | None:
    """Read a string, which may be empty."""
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise wrong_type(path or name, "a string", value)


def array(body: Mapping[str, Any], name: str, path: str | None = None) -> list[Any] | None:
    """Read an array of any values."""
    value = body.get(name)
    if value is None or isinstance(value, list):
        return value
    raise wrong_type(path or name, "an array", value)


def json_object(
    body: Mapping[str, Any], name: str, path: str | None = None
) -> dict[str, Any] | None:
    """Read an object."""
    value = body.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise wrong_type(path or name, "an object", value)


def one_of(body: Mapping[str, Any], name: str, *allowed: str) -> str | None:
    """Read one of the ``allowed`` words."""
    value = string(body, name)
    if value is None or value in allowed:
        return value
    words = ", ".join(f'"{word}"' for word in allowed)
    raise invalid(name, f"{describe(value)} is none of {words}")


def integer(
    body: Mapping[str, Any],
    name: str,
    *,
    minimum: int = 0,
    maximum: int = UINT32_MAX,
    path: str | None = None,
) -> int | None:
    """Read an integer from ``minimum`` to ``maximum``, inclusive."""
    value = body.get(name)
    if value is None:
        return None
    path = path or name
    if type(value) is not int:
        raise wrong_type(path, "an integer", value)
    if value < minimum:
        raise invalid(path, f"{describe(value)} is below the minimum {minimum}")
    if value > maximum:
        raise invalid(path, f"{describe(value)} is above the maximum {maximum}")
    return value


def number(
    body: Mapping[str, Any],
    name: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float | None:
    """Read a finite number, from ``minimum`` to ``maximum`` or strictly between other bounds.

    The engine computes with 32-bit floats, so the bounds also hold for the number rounded to such a
    float; one that is too small for it becomes 0.0.
    """
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int and type(value) is not float:
        raise wrong_type(name, "a number", value)
    if minimum is not None and value < minimum:
        raise invalid(name, f"{describe(value)} is below the minimum {minimum:g}")
    if maximum is not None and value > maximum:
        raise invalid(name, f"{describe(value)} is above the maximum {maximum:g}")
    try:
        rounded: float = struct.unpack("f", struct.pack("f", float(value)))[0]
    except OverflowError:
        raise invalid(name, f"{describe(value)} does not fit a 32-bit float") from None
    if rounded - rounded != 0:
        raise invalid(name, f"{describe(value)} is not a finite number")
    if above is not None and rounded <= above:
        raise invalid(name, f"{describe(value)} is not above {above:g}")
    if below is not None and rounded >= below:
        raise invalid(name, f"{describe(value)} is not below {below:g}")
    return float(value) if rounded else 0.0
