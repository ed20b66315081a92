"""Values of arguments that models do not write as JSON: by the parameter's type, and in Python.

`parameter_type` reads from a tool's schema how the text of an argument becomes JSON. `PythonValue`
reads an argument of a call in Python as it grows; `python_to_json` converts a complete one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from calculators.llm.parsers.call_walker import BrokenCall, CallScanner
from calculators.llm.parsers.json_scanner import compact_json, json_or_string
from calculators.llm.parsers.parser import Tags

_BOOLEANS: Final = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


class ParameterType(NamedTuple):
    """The JSON types that a schema allows a value to have.

    Attributes:
        is_string: only strings are allowed, and null if ``is_nullable``.
        is_nullable: null is allowed.
        is_boolean: true and false are allowed.
        is_number: only numbers are allowed, and null if ``is_nullable``.
        is_array: only arrays are allowed, and null if ``is_nullable``.
    """

    is_string: bool = False
    is_nullable: bool = False
    is_boolean: bool = False
    is_number: bool = False
    is_array: bool = False

    def grows(self, first: str) -> bool:
        """True if a value that begins with ``first`` may be written before it is complete."""
        return self.is_string and not self.is_nullable and first != '"'

    def to_json(self, text: str) -> str:
        """Return the JSON of a complete value. Text that is not JSON becomes a string.

        A string is kept as it is, whatever it looks like, except that a JSON string in quotes
        stands for the text between them.
        """
        if self.is_string:
            if text == "null" and self.is_nullable:
                return text
            quoted = compact_json(text) if text.startswith('"') else None
            return encode_basestring(text) if quoted is None else quoted
        if self.is_boolean and text in _BOOLEANS:
            return _BOOLEANS[text]
        if self.is_nullable and text == "None":
            return "null"
        return json_or_string(text)


def parameter_type(schema: object, parameter: str) -> ParameterType:
    """Return the type of a parameter; ``schema`` is the schema of the object of all parameters.

    Reads ``type``, and the types of the alternatives in ``anyOf`` and ``oneOf``, which is how a
    string that may be null is declared. Without a type, anything is allowed.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    of_this = properties.get(parameter) if isinstance(properties, Mapping) else None
    if not isinstance(of_this, Mapping):
        return ParameterType()
    types = _types(of_this)
    for keyword in ("anyOf", "oneOf"):
        alternatives = of_this.get(keyword)
        if isinstance(alternatives, list):
            for each in alternatives:
                types |= (_types(each) if isinstance(each, Mapping) else set()) or {"any"}
    others = types - {"null"}
    return ParameterType(
        others == {"string"},
        "null" in types,
        "boolean" in types,
        bool(others) and others <= {"integer", "number"},
        others == {"array"},
    )


def _types(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {each for each in declared if isinstance(each, str)}
    return set()


#: Returns True if a quote ends its string, None if the text that follows decides. Takes the text,
#: the place after the quote, and True if more text may follow.
EndsString = Callable[[str, int, bool], "bool | None"]
_WORD: Final = re.compile(r"\b(?:(?i:true|false|null)|None)\b")
_QUOTE_OR_ESCAPE: Final = re.compile(r"\\x[0-9A-Fa-f]{2}|\\.|\"", re.DOTALL)
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
        "_depth", "_ends_string", "_json", "_last", "_parts", "_pieces", "_quote", "_raw",
        "_strings", "_tags",
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
        #: Strings as JSON, with True, and the text between them.
        self._parts: list[tuple[bool, str]] = []
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
        self._parts.append((False, bare))

    def _end_string(self) -> None:
        inner = "".join(self._pieces)
        self._pieces = []
        self._raw.append(self._quote + inner + self._quote)
        self._json.append(_string_literal(inner, self._quote))
        self._parts.append((True, self._json[-1]))
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
        if wrapped := _WRAPPED.fullmatch(raw):
            return python_to_json(wrapped[1]) if wrapped[1] else "[]"
        if raw[0] in "[{(":
            loose = compact_json(as_json) or _container(self._parts)
            return encode_basestring(raw) if loose is None else loose
        if self._strings == 1 and raw[0] in "\"'" and not "".join(self._raw[2:]).strip():
            return as_json
        if _WORD.fullmatch(raw):
            return as_json
        return _scalar(raw)


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


def _container(parts: Sequence[tuple[bool, str]]) -> str | None:
    """Return the JSON of a list, an object, a tuple or a set, which becomes a list; None if none.

    Reads what JSON does not have: commas at the end, tuples, sets, numbers of Python, and words,
    which become strings.
    """
    # Of each open container: its bracket, its items so far, and True if it has keys.
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
_HEX: Final = re.compile(r"-?0[xXoObB].*")
_DOTS: Final = re.compile(r"\A-?\.|\.\Z|\.[eE]")
_LONGEST_NUMBER: Final = 400
_ALONE: Final = PythonTags("</param>")


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
    if _CONTROL.search(inner):
        return encode_basestring(inner)
    escaped = _QUOTE_OR_ESCAPE.sub(_as_in_json if quote == "'" else _escape_as_in_json, inner)
    return compact_json(f'"{escaped}"') or encode_basestring(inner)


def _as_in_json(match: re.Match[str]) -> str:
    """Return text from between single quotes as it must be written between double ones."""
    return '\\"' if match[0] == '"' else _escape_as_in_json(match)


def _escape_as_in_json(match: re.Match[str]) -> str:
    """Return an escape of Python as JSON has it."""
    text = match[0]
    if text == "\\'":
        return "'"
    return f"\\u00{text[2:]}" if text.startswith("\\x") and len(text) == 4 else text
