"""JSON that a client wrote inside of a request: its size, its text, and the value of a text."""

from __future__ import annotations

import msgspec

from calculators.kit.requests import fields

_encode = msgspec.json.Encoder().encode


def check_size(value: object, most: int, path: str) -> None:
    """Refuse a value whose JSON is longer than ``most`` bytes, or cannot be written.

    Takes time in proportion to the value, 1 to 2 ms for the longest body that the server accepts.

    Raises:
        RequestError: the value is too long or has no JSON; ``path`` is its param.
    """
    size = len(json_text(value, path))
    if size > most:
        raise fields.invalid(path, f"its JSON has {size} bytes, more than the maximum {most}")


def json_text(value: object, path: str) -> bytes:
    """Return the JSON of a value, in UTF-8.

    Raises:
        RequestError: it is nested too deeply, or has half of a surrogate pair.
    """
    try:
        return _encode(value)
    except RecursionError:
        raise fields.invalid(path, "it is nested too deeply") from None
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError, TypeError):
        raise fields.invalid(path, "it is no JSON value of Unicode text") from None


def value_of(text: str, path: str) -> object:
    """Return the value of a JSON text, read as strictly as a request's body.

    Raises:
        RequestError: it is not JSON (NaN and lone surrogates are not), or nested too deeply.
    """
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise fields.invalid(path, "the text is nested too deeply") from None
    except (ValueError, OverflowError):
        raise fields.invalid(path, "the text is no JSON") from None
