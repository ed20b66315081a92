"""Conversion of a model's text to compact JSON."""

from __future__ import annotations

from json.encoder import encode_basestring

import msgspec

from calculators.llm.parsers.json_scanner import JsonScanner


def compact_json(text: str) -> str | None:
    """Return the same JSON without white space between its parts; None if ``text`` is not JSON.

    Numbers and strings stay as they are written, except that control characters in strings, which
    JSON forbids and models write, are escaped.
    """
    try:
        compact = msgspec.json.format(text.encode("utf-8", "surrogatepass"), indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return _compact_any_depth(text)
    return compact.decode("utf-8", "surrogatepass")


def _compact_any_depth(text: str) -> str | None:
    """Do as `compact_json`, slower, also for control characters and deeply nested values."""
    scanner = JsonScanner()
    parts: list[str] = []
    # A number is complete only when something else follows.
    text += " "
    end = scanner.read(text, 0, parts)
    return "".join(parts) if scanner.is_done and not text[end:].strip() else None


def json_or_string(text: str) -> str:
    """Return ``text`` as compact JSON if it is JSON, else as a JSON string."""
    compact = compact_json(text)
    return encode_basestring(text) if compact is None else compact
