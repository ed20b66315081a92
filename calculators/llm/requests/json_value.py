"""JSON of a client's values: its size, its text, and the value of a JSON text."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from calculators.requests import fields

#: Half of a surrogate pair as JSON writes it, or one half of a whole pair.
_ESCAPED_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")

_encode = msgspec.json.Encoder().encode


def check_size(value: object, most: int, path: str) -> None:
    """Refuse a value whose JSON is longer than ``most`` bytes, or cannot be written.

    Linear, a millisecond or two for the longest body that the server takes.

    Raises:
        RequestError: it is; ``path`` is its param.
    """
    size = len(json_text(value, path))
    if size > most:
        raise fields.invalid(path, f"its JSON has {size} bytes, more than the maximum {most}")


def json_text(value: object, path: str) -> bytes:
    """The JSON of a value, in UTF-8.

    Raises:
        RequestError: it has no JSON: it is nested too deeply, or has half of a surrogate pair.
    """
    try:
        return _encode(value)
    except RecursionError:
        raise fields.invalid(path, "it is nested too deeply") from None
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError, TypeError):
        raise fields.invalid(path, "it is no JSON value of Unicode text") from None


def value_of(text: str, path: str) -> object:
    """The value of a JSON text, read as strictly as a body is.

    Raises:
        RequestError: it is no JSON; a number or a letter in it is none; it is nested too deeply.
    """
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise fields.invalid(path, "the text is nested too deeply") from None
    except (ValueError, OverflowError):
        raise fields.invalid(path, "the text is no JSON") from None


class NotUnicode(ValueError):
    """Half of a surrogate pair: JSON can write it as an escape, and nobody can encode it."""


def parsed_text(text: str) -> Any:
    """The value of a JSON text inside a request.

    Raises:
        NotUnicode: a text in it, or a name, has half of a surrogate pair.
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        value = json.loads(text)
        if _ESCAPED_HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise NotUnicode("half of a surrogate pair") from None
    return value
