"""The one JSON parser of client bodies: strict, bounded, unambiguous.

python-rapidjson refuses comments, NaN, 1e999, lone surrogates and text after the document. But it
stops reading at a NUL, so NULs are replaced before parsing, and lets some numbers become infinite,
which is checked after it. It does not bound depth (its C stack) and keeps the last of duplicate
keys. So the body without its strings, the *skeleton*, is checked first: its brackets give the
depth, its colons the number of members.
Numbers are read in rapidjson's default mode: with NM_NATIVE, 9 % of random doubles are an ulp or
two off, and integers past 64 bits silently become floats.

Each step holds the GIL throughout, so in a thread the event loop waits for one: the limits on size
and elements bound it (measured: 30 us for 11 KB of chat, 20 to 80 ms for 8 MiB of text). Fractions
have no such bound: one that is nearly halfway between two doubles takes 3 us, and 200,000 of them
0.6 s. So where there are many, `json` reads the values after the check; it calls a function for
each, and there the loop has its turn. rapidjson takes twice as long for ``bytes``, so it gets a
``str``.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import rapidjson

from calculators.kit.requests.http_payload import without_values
from servers.contract.error_text import clean
from servers.fronts.http.errors import HttpError

# No client needs a longer integer, and converting digits is quadratic in their number.
_MAX_DIGITS = 64
_LONG_NUMBER = b"0" * (_MAX_DIGITS + 1)
_DIGITS_TO_0 = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_EXPONENT = re.compile(rb"[eE]\+?000")
_LARGE_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{3,}")
_PARSE_ERROR = re.compile(r"Parse error at offset (\d+): (.*)", re.DOTALL)
# A body with more fractions leaves the interpreter to other threads between two.
_MANY_FRACTIONS = 10_000
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = b"[{"


def parse_json(body: bytes, *, max_depth: int, max_elements: int, advice: str = "") -> Any:
    """Parse ``body``.

    Args:
        advice: advice for a client that sends more than ``max_elements`` values.

    Raises:
        HttpError: 400; the text names the place, and repeats nothing of the body except a
            duplicate key.
    """
    if not body or body.isspace():
        raise HttpError(400, "the body is empty; it must be a JSON object")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise HttpError(400, f"the body is not UTF-8: byte {error.start + 1}") from None
    if text[0] == "\ufeff":
        raise HttpError(400, "the body starts with a byte order mark; JSON has none")
    skeleton = _skeleton(body, max_elements, advice)
    if skeleton.count(b"[") + skeleton.count(b"{") > max_depth:
        _check_depth(skeleton, max_depth)
    zeros = skeleton.translate(_DIGITS_TO_0)
    if _LONG_NUMBER in zeros:
        raise HttpError(400, f"the body has a number of more than {_MAX_DIGITS} digits")
    if "\0" in text:
        # \1 is invalid wherever \0 is, and rapidjson reports it.
        text = text.replace("\0", "\1")
    members = 0

    def count(mapping: dict[str, Any]) -> dict[str, Any]:
        nonlocal members
        members += len(mapping)
        return mapping

    fractions = sum(skeleton.count(sign) for sign in (b".", b"e", b"E"))
    # Inexact numbers, which cost nothing, if the values are read again.
    mode = None if fractions <= _MANY_FRACTIONS else rapidjson.NM_NATIVE
    try:
        value = rapidjson.loads(text, object_hook=count, allow_nan=False, number_mode=mode)
    except ValueError as error:
        raise _syntax_error(body, error) from None
    if members != skeleton.count(b":"):
        raise _duplicate_key(text)
    if mode is not None:
        value = json.loads(text, parse_float=_read_float)
    if _LONG_EXPONENT.search(zeros) is not None:
        _check_finite(skeleton)
    return value


def _read_float(text: str) -> float:
    return float(text)


def _skeleton(body: bytes, max_elements: int, advice: str) -> bytes:
    """Return ``body`` without its strings: exact up to the point at which ``body`` is not JSON."""
    if b"\\" in body and b'\\"' in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A string is a value or a member's name: at most two per element, with two quotes each.
    most_quotes = 4 * max_elements + 4
    pieces = body.split(b'"', most_quotes)
    if len(pieces) > most_quotes:
        raise _too_many(max_elements, advice)
    skeleton = b"".join(pieces[::2])
    if skeleton.count(b",") + skeleton.count(b"[") + skeleton.count(b"{") > max_elements:
        raise _too_many(max_elements, advice)
    return skeleton


def _check_depth(skeleton: bytes, max_depth: int) -> None:
    depth = 0
    for bracket in skeleton.translate(None, _NOT_BRACKETS):
        if bracket in _OPENING:
            depth += 1
            if depth > max_depth:
                raise HttpError(400, f"the body is nested deeper than {max_depth} levels")
        else:
            depth -= 1


def _check_finite(skeleton: bytes) -> None:
    """Refuse numbers that became infinite: rapidjson reports most of them, but not all."""
    if any(math.isinf(float(number)) for number in _LARGE_NUMBER.findall(skeleton)):
        raise HttpError(400, "the body is not valid JSON: number too big to be stored in double")


def _too_many(max_elements: int, advice: str) -> HttpError:
    text = f"the body has more than {max_elements} JSON values"
    return HttpError(400, f"{text}; {advice}" if advice else text)


def _syntax_error(body: bytes, error: ValueError) -> HttpError:
    found = _PARSE_ERROR.fullmatch(str(error))
    if found is None:
        return HttpError(400, "the body is not valid JSON")
    offset = int(found[1])
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    reason = found[2].rstrip(".")
    if body[offset : offset + 1] < b" " and reason.startswith("Invalid encoding"):
        reason = "A control character in a string must be escaped"
    reason = reason[:1].lower() + reason[1:]
    said = f"the body is not valid JSON: line {line}, byte {column}: {reason}"
    return HttpError(400, said, detail=without_values(said.replace(":", ",")))


def _duplicate_key(text: str) -> HttpError:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen = set()
        for key, _ in pairs:
            if key in seen and not found:
                found.append(key)
            seen.add(key)

    json.loads(text, object_pairs_hook=look)
    key = clean(found[0][:64]) if found else ""
    return HttpError(400, f'the body has the key "{key}" twice in one object', param=key or None)
