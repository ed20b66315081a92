"""Texts that are JSON, or are to become it."""

from __future__ import annotations

from json.encoder import encode_basestring

import msgspec

from calculators.llm.parsers.json_scanner import JsonScanner


def compact_json(text: str) -> str | None:
    """The same JSON without white space between its parts; None if it is none.

    Numbers and strings stay as they are written, but that control characters in strings, which
    JSON forbids and models write, are escaped.
    """
    try:
        compact = msgspec.json.format(text.encode("utf-8", "surrogatepass"), indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return _compact_any_depth(text)
    return compact.decode("utf-8", "surrogatepass")


def _compact_any_depth(text: str) -> str | None:
    """As `compact_json`: slower, but for control characters and values that nest deeply, too."""
    scanner = JsonScanner()
    parts: list[str] = []
    # A blank after it, for a number is complete only when something else follows.
    text += " "
    end = scanner.read(text, 0, parts)
    return "".join(parts) if scanner.is_done and not text[end:].strip() else None


def json_or_string(text: str) -> str:
    """The JSON that ``text`` is, or else the JSON string of it."""
    compact = compact_json(text)
    return encode_basestring(text) if compact is None else compact
