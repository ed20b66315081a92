"""Errors of members of a JSON object, and readers of members inside nested objects.

Every reader returns None for a member that is absent or null. ``path`` is how the error names a
member that is not at the top. Members at the top are declared, and read in one pass: see
`calculators.kit.requests.members`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError, without_values

UINT32_MAX: Final = 2**32 - 1
INT32_MAX: Final = 2**31 - 1

_SHOWN_CHARACTERS: Final = 40

#: The beginning of each refusal of a member that is valid without another one.
COMBINED: Final = "it cannot be combined with"


def body_object(value: object) -> dict[str, Any]:
    """Return a parsed body that is a JSON object.

    Raises:
        RequestError: it is something else.
    """
    if not isinstance(value, dict):
        raise RequestError(f"The body must be a JSON object, not {describe(value)}")
    return value


def invalid(path: str, why: str) -> RequestError:
    """Return the error for a member with a wrong value; ``why`` completes the sentence."""
    return RequestError(
        f'Invalid value for "{path}": {why}', param=path, detail=without_values(why)
    )


def missing(path: str, hint: str = "") -> RequestError:
    """Return the error for a required member that is missing."""
    return RequestError(
        f'Missing required member "{path}"' + (f": {hint}" if hint else ""),
        param=path,
        detail="missing",
    )


def wrong_type(path: str, expected: str, value: object) -> RequestError:
    """Return the error for a member of another JSON type; ``expected`` has its article."""
    return invalid(path, f"expected {expected}, got {describe(value)}")


def renamed(error: RequestError, names: Mapping[str, str]) -> RequestError:
    """Return an error of a member that an API has under another name, by the name here."""
    head, _, rest = (error.param or "").partition("[")
    if head not in names:
        return error
    shown = names[head] + (f"[{rest}" if rest else "")
    return RequestError(
        str(error).replace(f'"{error.param}"', f'"{shown}"', 1),
        param=shown,
        code=error.code,
        reason=error.reason,
        detail=error.detail,
    )


def below(error: RequestError, outer: str) -> RequestError:
    """Return an error of a member of the object ``outer`` of the body, with its whole place."""
    if error.param is None:
        return error
    head = error.param.partition("[")[0]
    return renamed(error, {head: f"{outer}.{head}"})


def above(path: str, value: float, maximum: float) -> RequestError:
    """Return the error of a number that is too large."""
    return invalid(path, f"{describe(value)} is above the maximum {maximum}")


def combined(path: str, other: str) -> RequestError:
    """Return the error of a member that is valid, but not beside ``other``, which may go on."""
    return invalid(path, f"{COMBINED} {other}")


def check_most(path: str, count: int, of: str, most: int) -> None:
    """Refuse more characters, texts or the like, which ``of`` names, than a request may have."""
    if count > most:
        raise invalid(path, f"{count} {of} are above the maximum {most}")


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


def whole(value: Any) -> Any:
    """Return the integer for a float without a fraction, which is one for JSON Schema.

    Some libraries write ``1066.0``. Other values are returned as they are.
    """
    return int(value) if type(value) is float and value.is_integer() else value


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
