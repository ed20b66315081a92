"""Values of arguments that models write in Python.

`PythonValue` reads an argument of a call up to what follows it, and `PythonString` one whose text
may go out while it grows; `python_to_json` converts a complete one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

from calculators.llm.parsers.json_scanner import compact_json, json_or_string
from calculators.llm.parsers.parser import Tags, TagScanner

_WORD: Final = re.compile(r"\b(?:(?i:true|false|null)|None)\b")
_QUOTE_OR_ESCAPE: Final = re.compile(r"\\x[0-9A-Fa-f]{2}|\\.|\"", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_AFTER_ITEM: Final = re.compile(r"\s{0,20}+[,:\]})]")
_AFTER_ITEM_SO_FAR: Final = re.compile(r"\s{0,20}+")


_BLANK: Final = r"\s{0,20}+"
_NAME: Final = r"[\w.\-]{1,128}+"
# After an argument: another one, or the end of the call and what may follow it.
_AFTER_STRING: Final = re.compile(
    rf"{_BLANK}(?:,{_BLANK}{_NAME}{_BLANK}="
    rf"|(?:,{_BLANK})?\){_BLANK}(?:[,\];<`]|{_NAME}{_BLANK}\()|\]{_BLANK}<)"
)
_AFTER_STRING_SO_FAR: Final = re.compile(
    rf"{_BLANK}(?:,{_BLANK}(?:{_NAME}{_BLANK})?|(?:,{_BLANK})?\){_BLANK}(?:{_NAME}{_BLANK})?"
    rf"|\]{_BLANK})?"
)
_AT_THE_END: Final = re.compile(rf"{_BLANK}(?:(?:,{_BLANK})?\){_BLANK})?")


def _ends_argument(text: str, place: int, more: bool) -> bool | None:
    """Return True if a quote before ``place`` ends its string, None if later text decides."""
    if _AFTER_STRING.match(text, place):
        return True
    if more:
        return None if _AFTER_STRING_SO_FAR.fullmatch(text, place) else False
    return _AT_THE_END.fullmatch(text, place) is not None


_QUOTES: Final = ('"', "'", '"' * 3, "'" * 3)


class PythonTags:
    """The tags to look for in a value. It breaks off at ``end``, even in a string."""

    def __init__(self, end: str) -> None:
        ends = (end,) if end else ()
        self.end: Final = end
        self.bare: Final = Tags(*"\"'[{(]}),", *ends)
        #: Within a bracket, where a comma ends nothing.
        self.inner: Final = Tags(*"\"'[{(]})", *ends)
        self.string: Final = {
            quote: Tags(quote, "\\" + quote[0], "\\\\", *ends) for quote in _QUOTES
        }
        self.growing: Final = {quote: Tags(quote, "\\", *ends) for quote in _QUOTES}


def opening_quote(scanner: TagScanner, quote: str) -> str | None:
    """Return the quote that begins a string, one or three; None without enough text.

    ``quote``: the first one, before which the scanner stands.
    """
    begin = scanner.text[scanner.place : scanner.place + 3]
    if begin == quote * 3:
        return begin
    return None if scanner.more and begin == quote * len(begin) else quote


class PythonString:
    """Reads a string between quotes, and passes its text on as it grows, as JSON without quotes.

    Escapes that Python and JSON share stand for what they say. From the first one that neither has,
    or from a line end on, backslashes are text: the model did not mean Python. Between three quotes
    line ends are Python too.

    Attributes:
        is_done: the string is complete.
        is_broken: the call ends before the string.
    """

    def __init__(self, quote: str, tags: PythonTags) -> None:
        self.is_done = False
        self.is_broken = False
        self._quote = quote
        self._tags = tags.growing[quote]
        self._may_have_lines = len(quote) > 1
        self._is_literal = False

    def read(self, scanner: TagScanner) -> str:
        """Read on, and return the text that is certain."""
        out: list[str] = []
        while True:
            text, tag = scanner.take(self._tags)
            if text:
                if not self._may_have_lines:
                    self._is_literal = self._is_literal or _CONTROL.search(text) is not None
                out.append(encode_basestring(text)[1:-1])
            if tag == self._quote:
                ends = _ends_argument(scanner.text, scanner.place, scanner.more)
                if ends is None:
                    scanner.put_back(tag)
                    break
                if ends:
                    self.is_done = True
                    break
                # The last ones of several quotes may end it.
                scanner.place -= len(tag) - 1
                out.append(encode_basestring(tag[0])[1:-1])
            elif tag == "\\":
                read = self._escape(scanner)
                if read is None:
                    scanner.put_back(tag)
                    break
                out.append(read)
            else:
                if tag is not None:
                    scanner.put_back(tag)
                    self.is_broken = True
                break
        return "".join(out)

    def _escape(self, scanner: TagScanner) -> str | None:
        """Return the JSON of what follows a backslash; None without enough text."""
        rest = scanner.text[scanner.place : scanner.place + 5]
        length = {"x": 3, "u": 5}.get(rest[:1], 1)
        if len(rest) < length and scanner.more:
            return None
        if not self._is_literal:
            if rest[:1] and rest[0] in '"\\/bfnrt':
                scanner.place += 1
                return "\\" + rest[0]
            if rest[:1] == "'":
                scanner.place += 1
                return "'"
            if rest[:1] in ("x", "u") and _HEX_DIGITS.fullmatch(rest, 1, length):
                scanner.place += length
                return f"\\u{rest[1:length]:0>4}"
            if rest[:1] == "\n" and self._may_have_lines:
                scanner.place += 1
                return ""
            self._is_literal = True
        if rest[:1] and rest[0] in "\"'\\":
            # It ends nothing, though it stays as it is written.
            scanner.place += 1
            return "\\\\" + encode_basestring(rest[0])[1:-1]
        return "\\\\"


_HEX_DIGITS: Final = re.compile(r"[0-9A-Fa-f]{2}(?:[0-9A-Fa-f]{2})?")


@lru_cache(maxsize=64)
def python_tags(end: str) -> PythonTags:
    """Return the tags for values in calls that ``end`` ends, which may be empty."""
    return PythonTags(end)


class PythonValue:
    """Reads a value up to a comma or a parenthesis that is not part of it.

    Models do not always escape the quotes in a string. So a quote ends a string only if the text
    after it fits: in a list or an object a comma, a colon or a bracket, else another argument or
    the end of the call.

    Attributes:
        text: the value as it was written, once it is complete.
    """

    __slots__ = (
        "_depth", "_last", "_parts", "_pieces", "_quote", "_raw", "_tags", "text",
    )  # fmt: skip

    def __init__(self, tags: PythonTags) -> None:
        self.text = ""
        self._tags = tags
        self._depth = 0
        #: The quote that ends the current string.
        self._quote = ""
        #: The last character that is not a blank, which decides whether a quote begins a string.
        self._last = ":"
        #: The pieces of the current string, or of the text between strings.
        self._pieces: list[str] = []
        self._raw: list[str] = []
        #: Strings as JSON, with True, and the text between them.
        self._parts: list[tuple[bool, str]] = []

    def read(self, scanner: TagScanner) -> str | None:
        """Read on. Return the tag that ended the value, or None without enough text.

        The tag is a comma, a bracket, or the end of the call, which comes too early.
        """
        while True:
            if self._quote:
                text, tag = scanner.take(self._tags.string[self._quote])
                self._pieces.append(text)
            else:
                brackets = "[{(]})" if self._depth else "[{(]}),"
                tag = scanner.take_one(brackets) or self._take_bare(scanner)
            if tag is None:
                return None
            if tag == self._tags.end:
                return tag
            if not self._quote:
                if not self._depth and tag in ",)":
                    return tag
                if tag in "\"'" and self._last in ":=,[{(":
                    scanner.put_back(tag)
                    if (quote := opening_quote(scanner, tag)) is None:
                        return None
                    scanner.place += len(quote)
                    self._end_bare()
                    self._quote = quote
                    continue
                self._read_bare(tag)
            elif tag != self._quote:
                self._pieces.append(tag)
            else:
                ends = (_ends_item if self._depth else _ends_argument)(
                    scanner.text, scanner.place, scanner.more
                )
                if ends is None:
                    scanner.put_back(tag)
                    return None
                if ends:
                    self._end_string()
                else:
                    scanner.place -= len(tag) - 1
                    self._pieces.append(tag[0])

    def _take_bare(self, scanner: TagScanner) -> str | None:
        text, tag = scanner.take(self._tags.inner if self._depth else self._tags.bare)
        if text:
            self._pieces.append(text)
            self._last = text.rstrip()[-1:] or self._last
        return tag

    def _read_bare(self, tag: str) -> None:
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
        self._parts.append((False, bare))

    def _end_string(self) -> None:
        inner = "".join(self._pieces)
        self._pieces = []
        self._raw.append(self._quote + inner + self._quote)
        self._parts.append((True, _string_literal(inner, self._quote)))
        self._last = self._quote[0]
        self._quote = ""

    @property
    def written(self) -> str:
        """The text so far."""
        return "".join((*self._raw, self._quote, *self._pieces))

    @property
    def is_whole(self) -> bool:
        """True if all strings, lists and objects are closed."""
        return not self._quote and not self._depth

    def to_json(self) -> str:
        """Return the JSON of a whole value; what is neither Python nor JSON becomes a string."""
        if not self._parts and len(self._pieces) == 1:
            # Nearly all other values: a bare word or number.
            self.text = word = self._pieces[0].strip()
            if word.isalnum():
                return _scalar(word)
        self._end_bare()
        self.text = raw = "".join(self._raw).strip()
        if not raw:
            return '""'
        if raw[0] in "[{(":
            words = (text if is_string else _WORD.sub(_json_word, text)
                     for is_string, text in self._parts)  # fmt: skip
            loose = compact_json("".join(words)) or _container(self._parts)
            return encode_basestring(raw) if loose is None else loose
        strings = [text for is_string, text in self._parts if is_string]
        if len(strings) == 1 and raw[0] in "\"'" and not "".join(self._raw[2:]).strip():
            return strings[0]
        if wrapped := _WRAPPED.fullmatch(raw):
            return python_to_json(wrapped[1]) if wrapped[1] else "[]"
        return _scalar(raw)


def python_to_json(text: str) -> str:
    """Return the JSON of a whole text; one that is neither Python nor JSON becomes a string."""
    scanner = TagScanner()
    scanner.feed(text)
    scanner.finish()
    value = PythonValue(_ALONE)
    if value.read(scanner) is None and value.is_whole:
        return value.to_json()
    return encode_basestring(text)


def _container(parts: Sequence[tuple[bool, str]]) -> str | None:
    """Return the JSON of a list, an object, a tuple or a set, which becomes a list; None if none.

    Reads what JSON does not have: commas at the end, tuples, sets, numbers of Python, and words,
    which become strings.
    """
    # The bracket of each open container, its items so far, and True if it has keys.
    waiting: list[tuple[str, list[str], bool]] = []
    bracket, items, has_keys = "", list[str](), False
    key: str | None = None
    value: str | None = None
    keys: list[str | None] = []
    for is_string, text in parts:
        for token in (text,) if is_string else _TOKEN.findall(text):
            if not is_string and token in _PUNCTUATION:
                if token in "[{(":
                    if value == '"set"':
                        value = None
                    if value is not None:
                        return None
                    waiting.append((bracket, items, has_keys))
                    keys.append(key)
                    bracket, items, has_keys, key = token, [], False, None
                    continue
                if token == ":":
                    if bracket != "{" or key is not None or value is None:
                        return None
                    key, value = value if value[0] == '"' else encode_basestring(value), None
                    has_keys = True
                    continue
                if value is not None:
                    items.append(value if key is None else f"{key}:{value}")
                    if has_keys is not (key is not None):
                        return None
                elif key is not None:
                    return None
                key = value = None
                if token == ",":
                    continue
                if not waiting or bracket + token not in ("[]", "{}", "()"):
                    return None
                is_object = bracket == "{" and (has_keys or not items)
                joined = ",".join(items)
                value = "{" + joined + "}" if is_object else f"[{joined}]"
                bracket, items, has_keys = waiting.pop()
                key = keys.pop()
            elif value is not None:
                return None
            else:
                value = token if is_string else _scalar(token)
    return value if not waiting else None


def _scalar(text: str) -> str:
    """Return the JSON of a word or number of Python; other text becomes a string."""
    if DECIMAL.fullmatch(text):
        return text
    if _WORD.fullmatch(text):
        return _json_word_of(text)
    if _NUMBER.fullmatch(text) and len(text) <= _LONGEST_NUMBER:
        number = text.replace("_", "").removeprefix("+")
        if _HEX.fullmatch(number):
            return str(int(number, 0))
        if _DOTS.search(number):
            value = float(number)
            return repr(value) if math.isfinite(value) else encode_basestring(text)
        compact = compact_json(number)
        if compact is not None:
            return compact
    return json_or_string(text)


_TOKEN: Final = re.compile(r"[\[\]{}(),:]|[^\s\[\]{}(),:]+(?:[ \t]+[^\s\[\]{}(),:]+)*")
_PUNCTUATION: Final = frozenset("[]{}(),:")
#: A set, or a list or tuple made of another one.
_WRAPPED: Final = re.compile(
    r"(?:set|frozenset|list|tuple)\(\s*((?:[\[{(].*[\]})])?)\s*\)", re.DOTALL
)
#: Without a zero in front, which makes a text such as ``007`` of a number.
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+"
    r"|(?:0|[1-9][\d_]*)?(?:\.\d*)?(?:[eE][+-]?\d+)?)"
)
#: Written the same in JSON.
DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?")
_HEX: Final = re.compile(r"-?0[xXoObB].*")
_DOTS: Final = re.compile(r"\A-?\.|\.\Z|\.[eE]")
_LONGEST_NUMBER: Final = 400
_ALONE: Final = python_tags("")


def _ends_item(text: str, place: int, more: bool) -> bool | None:
    if _AFTER_ITEM.match(text, place):
        return True
    return None if more and _AFTER_ITEM_SO_FAR.fullmatch(text, place) else False


def _json_word(match: re.Match[str]) -> str:
    return _json_word_of(match[0])


def _json_word_of(word: str) -> str:
    word = word.lower()
    return "null" if word == "none" else word


def _string_literal(inner: str, quote: str) -> str:
    """Read the escapes that Python and JSON share, and Python's own for quotes and letters.

    If they or the quotes do not fit, take everything literally.
    """
    has_lines = len(quote) > 1
    if not has_lines and _CONTROL.search(inner):
        return encode_basestring(inner)
    has_quotes = has_lines or quote == "'"
    escaped = _QUOTE_OR_ESCAPE.sub(_as_in_json if has_quotes else _escape_as_in_json, inner)
    escaped = _CONTROL.sub(lambda control: encode_basestring(control[0])[1:-1], escaped)
    return compact_json(f'"{escaped}"') or encode_basestring(inner)


def _as_in_json(match: re.Match[str]) -> str:
    """Return text from between single quotes as it must be written between double ones."""
    return '\\"' if match[0] == '"' else _escape_as_in_json(match)


def _escape_as_in_json(match: re.Match[str]) -> str:
    """Return an escape of Python as JSON has it."""
    text = match[0]
    if text == "\\'":
        return "'"
    if text == "\\\n":
        return ""
    return f"\\u00{text[2:]}" if text.startswith("\\x") and len(text) == 4 else text
