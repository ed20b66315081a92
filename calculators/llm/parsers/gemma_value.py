"""`GemmaValue`: a value as Gemma's models write it, read as it grows.

An object is ``{name:value}``, a list ``[value]``, a text stands between quotes of its own or
ordinary ones, and a bare word is JSON or else a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

from calculators.llm.parsers.json_scanner import compact_json, json_or_string
from calculators.llm.parsers.parser import TagScanner, tags_of
from calculators.llm.parsers.python_value import DECIMAL

_WORDS: Final = {"true": "true", "false": "false", "null": "null", "none": "null"}


class _Tags:
    """The tags to look for in a value, which ends at ``ends``, even in a string."""

    def __init__(self, quote: str, ends: tuple[str, ...]) -> None:
        self.ends: Final = frozenset(ends)
        self.bare: Final = tags_of(*'{}[],:"', quote, *ends)
        self.inside: Final = {
            quote: tags_of(quote, *ends),
            '"': tags_of('"', '\\"', "\\\\", *ends),
        }


@lru_cache(maxsize=64)
def _tags(quote: str, ends: tuple[str, ...]) -> _Tags:
    return _Tags(quote, ends)


class GemmaValue:
    """Reads one value, up to the comma or bracket after it, which is left.

    Attributes:
        is_done: the value is complete.
        is_broken: the text is no value.
        text: the value as it was written, where it is a bare word.
    """

    def __init__(self, quote: str, ends: Sequence[str]) -> None:
        """``quote``: around texts; ``ends``: marks that no value has."""
        self.is_done = False
        self.is_broken = False
        self.text = ""
        self._mark = quote
        self._tags: Final = _tags(quote, tuple(ends))
        self._written: list[str] = []
        self._open: list[_Open] = []
        self._out: list[str] = []
        self._quote = ""
        self._pieces: list[str] = []
        # What is being read: bare text, the JSON of a string, or something that has been closed.
        self._bare: list[str] = []
        self._string = ""
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """True if the value is a list or an object, and its last bracket was read."""
        return self._is_closed and not self._open

    @property
    def written(self) -> str:
        """The text so far."""
        return "".join(self._written)

    def to_json(self) -> str:
        """Return the JSON of the complete value."""
        return "".join(self._out)

    def read(self, scanner: TagScanner) -> bool:
        """Read on. Return False without enough text, or where the text is no value."""
        while not self.is_done:
            if self._quote:
                text, tag = scanner.take(self._tags.inside[self._quote])
                self._pieces.append(text)
            else:
                text, tag = scanner.take(self._tags.bare)
                if text:
                    self._bare.append(text)
            self._written.append(text)
            if tag is None:
                return False
            is_part = tag not in self._tags.ends and self._read_tag(tag)
            if not is_part:
                scanner.place -= len(tag)
                self.is_broken = not self.is_done
                return self.is_done
            self._written.append(tag)
        return True

    @property
    def _is_blank(self) -> bool:
        return not (self._string or self._is_closed or "".join(self._bare).strip())

    def _read_tag(self, tag: str) -> bool:
        """Return False if the tag is no part of the value."""
        if self._quote:
            return self._read_string(tag)
        inner = self._open[-1] if self._open else None
        if tag in (self._mark, '"'):
            if self._is_blank:
                self._quote = tag
                self._pieces = []
            elif tag == '"':
                self._bare.append(tag)
            else:
                return False
        elif tag in ",}]":
            return self._end_item(tag, inner)
        elif tag == ":":
            if inner is None or inner.bracket != "{" or inner.key is not None:
                self._bare.append(tag)
            else:
                name = self._taken_name()
                inner.key = name
                return bool(name)
        else:
            if not self._is_blank or (inner and inner.bracket == "{" and inner.key is None):
                return False
            self._bare = []
            self._begin_item(inner)
            self._out.append(tag)
            self._open.append(_Open(tag))
        return True

    def _read_string(self, tag: str) -> bool:
        if tag != self._quote:
            self._pieces.append(tag)
            return True
        text = "".join(self._pieces)
        as_json = compact_json(f'"{text}"') if tag == '"' else None
        self._string = encode_basestring(text) if as_json is None else as_json
        self._quote = ""
        self._bare = []
        return True

    def _taken_name(self) -> str:
        """Take the name of a member; "" where there is none."""
        bare = "".join(self._bare).strip()
        name = "" if self._is_closed else bare
        if self._string:
            name = "" if bare else "".join(self._pieces)
        self._bare, self._string = [], ""
        return name

    def _end_item(self, tag: str, inner: _Open | None) -> bool:
        """End an item at a comma or bracket; the value itself ends where nothing is open."""
        if inner is None:
            if tag == "]":
                self._bare.append(tag)
                return True
            value = self._item(None)
            if value is not None:
                self._out.append(value)
                self.is_done = True
            return False
        if tag == ("]" if inner.bracket == "{" else "}"):
            return False
        if tag == "," or inner.key is not None or not self._is_blank:
            value = self._item(inner)
            if value is None:
                return False
            if value:
                self._begin_item(inner)
                self._out.append(value)
            inner.is_empty = False
            inner.key = None
        self._bare = []
        if tag != ",":
            self._open.pop()
            self._is_closed = True
            self._out.append(tag)
        return True

    def _item(self, inner: _Open | None) -> str | None:
        """Return the JSON of the item that ends; "" if it is written already, None for none."""
        if inner is not None and inner.bracket == "{" and inner.key is None:
            inner.key = self._taken_name()
            return '""' if inner.key else None
        bare = "".join(self._bare).strip()
        string, is_closed = self._string, self._is_closed
        self._string, self._is_closed = "", False
        if not string and not is_closed:
            if inner is None:
                self.text = bare
            if DECIMAL.fullmatch(bare):
                return bare
            return _WORDS.get(bare.lower()) or json_or_string(bare)
        return None if bare else string

    def _begin_item(self, inner: _Open | None) -> None:
        """Write the separator and name before an item of a list or an object."""
        if inner is None:
            return
        if not inner.is_empty:
            self._out.append(",")
        if inner.key is not None:
            self._out.append(encode_basestring(inner.key) + ":")


class _Open:
    """An incomplete list or object.

    Attributes:
        key: of the member that is being read; None before its colon, and in lists.
    """

    __slots__ = ("bracket", "is_empty", "key")

    def __init__(self, bracket: str) -> None:
        self.bracket = bracket
        self.is_empty = True
        self.key: str | None = None
