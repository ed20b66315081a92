"""`PythonValue`: an argument of a call in Python, read as it grows."""

from __future__ import annotations

import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Final

from calculators.llm.parsers.built_call import BrokenCall
from calculators.llm.parsers.call_scanner import CallScanner
from calculators.llm.parsers.json_value import compact_json, json_or_string
from calculators.llm.parsers.tag_scanner import Tags

#: Returns True if a quote ends its string, None if the text that follows decides. Takes the text,
#: the place after the quote, and True if more text may follow.
EndsString = Callable[[str, int, bool], "bool | None"]

_WORD: Final = re.compile(r"\b(?:(?i:true|false|null)|None)\b")
_QUOTE_OR_ESCAPE: Final = re.compile(r'\\.|"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_AFTER_ITEM: Final = re.compile(r"\s{0,20}+[,:\]})]")
_AFTER_ITEM_SO_FAR: Final = re.compile(r"\s{0,20}+")


class PythonTags:
    """The tags to look for in a value. It breaks off at ``end``, even in a string."""

    def __init__(self, end: str) -> None:
        self.end: Final = end
        self.bare: Final = Tags(*"\"'[{(]}),", end)
        self.string: Final = {quote: Tags(quote, "\\" + quote, "\\\\", end) for quote in ('"', "'")}


class PythonValue:
    """Reads a value up to a comma or a parenthesis that is not part of it.

    Models do not always escape the quotes in a string. So a quote ends a string only if the text
    after it fits: in a list or an object a comma, a colon or a bracket; else ``ends_string``
    decides.
    """

    __slots__ = (
        "_depth", "_ends_string", "_json", "_last", "_pieces", "_quote", "_raw", "_strings", "_tags"
    )  # fmt: skip

    def __init__(self, tags: PythonTags, ends_string: EndsString) -> None:
        self._tags = tags
        self._ends_string = ends_string
        self._depth = 0
        #: The quote that ends the current string.
        self._quote = ""
        #: The last character that is not a blank, which decides whether a quote begins a string.
        self._last = ":"
        #: The pieces of the current string, or of the text between strings.
        self._pieces: list[str] = []
        self._raw: list[str] = []
        self._json: list[str] = []
        self._strings = 0

    def read(self, scanner: CallScanner) -> str | None:
        """Read on. Return the tag that ended the value, or None without enough text.

        Raises:
            BrokenCall: the end of the call comes before that of the value.
        """
        while True:
            if self._quote:
                text, tag = scanner.take(self._tags.string[self._quote])
                self._pieces.append(text)
            else:
                tag = scanner.take_one("[{(]}),") or self._take_bare(scanner)
            if tag is None:
                return None
            if tag == self._tags.end:
                raise BrokenCall
            if not self._quote:
                if not self._depth and tag in ",)":
                    return tag
                self._read_bare(tag)
            elif tag != self._quote:
                self._pieces.append(tag)
            else:
                ends = (_ends_item if self._depth else self._ends_string)(
                    scanner.text, scanner.place, scanner.more
                )
                if ends is None:
                    scanner.put_back(tag)
                    return None
                if ends:
                    self._end_string()
                else:
                    self._pieces.append(tag)

    def _take_bare(self, scanner: CallScanner) -> str | None:
        text, tag = scanner.take(self._tags.bare)
        if text:
            self._pieces.append(text)
            self._last = text.rstrip()[-1:] or self._last
        return tag

    def _read_bare(self, tag: str) -> None:
        if tag in "\"'" and self._last in ":=,[{(":
            self._end_bare()
            self._quote = tag
            return
        if tag in "[{(":
            self._depth += 1
        elif tag in "]})" and self._depth:
            self._depth -= 1
        self._pieces.append(tag)
        self._last = tag

    def _end_bare(self) -> None:
        bare = "".join(self._pieces)
        self._pieces = []
        self._raw.append(bare)
        self._json.append(_WORD.sub(_json_word, bare))

    def _end_string(self) -> None:
        inner = "".join(self._pieces)
        self._pieces = []
        self._raw.append(self._quote + inner + self._quote)
        self._json.append(_string_literal(inner, self._quote))
        self._strings += 1
        self._last = self._quote
        self._quote = ""

    @property
    def is_whole(self) -> bool:
        """True if all strings, lists and objects are closed."""
        return not self._quote and not self._depth

    def to_json(self) -> str:
        """Return the JSON of a whole value; what is neither Python nor JSON becomes a string."""
        self._end_bare()
        raw, as_json = "".join(self._raw).strip(), "".join(self._json).strip()
        if not raw:
            return '""'
        if raw[0] in "[{":
            return compact_json(as_json) or encode_basestring(raw)
        if self._strings == 1 and raw[0] in "\"'" and not "".join(self._raw[2:]).strip():
            return as_json
        if _WORD.fullmatch(raw):
            return as_json
        return json_or_string(raw)


def python_to_json(text: str) -> str:
    """Return the JSON of a whole text; one that is neither Python nor JSON becomes a string."""
    scanner = CallScanner()
    scanner.feed(text)
    scanner.finish()
    value = PythonValue(_ALONE, _ends_item)
    try:
        stop = value.read(scanner)
    except BrokenCall:
        stop = _ALONE.end
    if stop is None and value.is_whole:
        return value.to_json()
    return encode_basestring(text)


_ALONE: Final = PythonTags("</param>")


def _ends_item(text: str, place: int, more: bool) -> bool | None:
    if _AFTER_ITEM.match(text, place):
        return True
    return None if more and _AFTER_ITEM_SO_FAR.fullmatch(text, place) else False


def _json_word(match: re.Match[str]) -> str:
    word = match[0].lower()
    return "null" if word == "none" else word


def _string_literal(inner: str, quote: str) -> str:
    """Read the escapes of JSON; if they or the quotes do not fit, take everything literally."""
    if _CONTROL.search(inner):
        return encode_basestring(inner)
    escaped = inner if quote == '"' else _QUOTE_OR_ESCAPE.sub(_as_in_json, inner)
    return compact_json(f'"{escaped}"') or encode_basestring(inner)


def _as_in_json(match: re.Match[str]) -> str:
    """Return text from between single quotes as it must be written between double ones."""
    return {'"': '\\"', "\\'": "'"}.get(match[0], match[0])
