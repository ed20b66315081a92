"""`GemmaArguments`: the arguments of a call as Gemma writes them, read as they grow."""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Final

from calculators.llm.parsers.call_walker import Argument, BrokenCall, CallScanner
from calculators.llm.parsers.json_scanner import compact_json, json_or_string
from calculators.llm.parsers.tag_scanner import Tags

BLOCK_BEGIN: Final = "<|tool_call>"
BLOCK_END: Final = "<tool_call|>"
MARK: Final = '<|"|>'

_BARE: Final = Tags(*'{}[],:"', MARK, BLOCK_BEGIN, BLOCK_END)
_STRING: Final = {
    MARK: Tags(MARK, BLOCK_END),
    '"': Tags('"', '\\"', "\\\\", BLOCK_END),
}
_WORDS: Final = frozenset(("true", "false", "null"))


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


class GemmaArguments:
    """Reads ``name:value,name:value}``.

    A value is an object ``{name:value}``, a list ``[value]``, a string between marks or in quotes,
    or a bare word, which is JSON or else a string. The value of a name alone is "".
    """

    __slots__ = (
        "_bare",
        "_is_blank",
        "_is_closed",
        "_open",
        "_out",
        "_quote",
        "_string",
        "_text",
        "is_done",
    )

    def __init__(self) -> None:
        self.is_done = False
        #: The object of the arguments, and what is open in it.
        self._open = [_Open("{")]
        #: JSON of the argument, where it is a list or an object.
        self._out: list[str] = []
        #: The text that ends the current string.
        self._quote = ""
        self._text: list[str] = []
        # The text since the last comma, colon or bracket: bare text, the JSON of a string, or a
        # list or an object that has just been closed.
        self._bare: list[str] = []
        self._string = ""
        self._is_closed = False
        #: None of these has been read yet.
        self._is_blank = True

    def read(self, scanner: CallScanner) -> Argument | None:
        """Read the next argument; see `calculators.llm.parsers.block_call.ArgumentsReader`."""
        while True:
            if self._quote:
                text, tag = scanner.take(_STRING[self._quote])
                self._text.append(text)
            else:
                tag = scanner.take_one("{}[],:")
                if tag is None:
                    text, tag = scanner.take(_BARE)
                    self._add_bare(text)
            if tag is None:
                return None
            if tag == BLOCK_END:
                raise BrokenCall
            if tag == BLOCK_BEGIN:
                scanner.put_back(tag)
                raise BrokenCall
            if self._quote:
                self._read_string(tag)
            elif tag in (",", "}", "]"):
                argument = self._end_item(tag)
                if argument is not None or self.is_done:
                    return argument
            else:
                self._read_bare(tag)

    def _add_bare(self, text: str) -> None:
        self._bare.append(text)
        if self._is_blank and text.strip():
            self._is_blank = False

    def _read_string(self, tag: str) -> None:
        if tag != self._quote:
            self._text.append(tag)
            return
        text = "".join(self._text)
        as_json = compact_json(f'"{text}"') if tag == '"' else None
        self._string = encode_basestring(text) if as_json is None else as_json
        self._quote = ""
        self._is_blank = False

    def _read_bare(self, tag: str) -> None:
        inner = self._open[-1]
        is_member = inner.bracket == "{"
        if tag in (MARK, '"'):
            if self._is_blank:
                self._quote = tag
                self._text = []
            elif tag == '"':
                self._add_bare(tag)
            else:
                raise BrokenCall
        elif tag == ":":
            if is_member and inner.key is None:
                inner.key = self._take_name()
            else:
                self._add_bare(tag)
        else:
            if not self._is_blank or (is_member and inner.key is None):
                raise BrokenCall
            self._bare = []
            self._begin_item(inner)
            self._out.append(tag)
            self._open.append(_Open(tag))

    def _take_name(self) -> str:
        name, self._bare = "".join(self._bare).strip(), []
        if self._string:
            name, self._string = "".join(self._text) if not name else "", ""
        if not name or self._is_closed:
            raise BrokenCall
        self._is_blank = True
        return name

    def _end_item(self, tag: str) -> Argument | None:
        """End an item at a comma or closing bracket; return the argument if it is complete."""
        inner = self._open[-1]
        if tag == ("]" if inner.bracket == "{" else "}"):
            raise BrokenCall
        argument = None
        # An empty list, or a trailing comma.
        if tag == "," or inner.key is not None or not self._is_blank:
            value = self._item(inner)
            if len(self._open) == 1:
                argument = Argument(inner.key or "", value or "".join(self._out))
                self._out = []
            elif value:
                self._begin_item(inner)
                self._out.append(value)
            inner.is_empty = False
            inner.key = None
        self._bare = []
        self._is_blank = tag == ","
        if tag != ",":
            self._open.pop()
            self._is_closed = True
            self.is_done = not self._open
            if not self.is_done:
                self._out.append(tag)
        return argument

    def _item(self, inner: _Open) -> str:
        """Return the JSON of the item that ends; "" if it is written already."""
        if inner.bracket == "{" and inner.key is None:
            inner.key = self._take_name()
            return '""'
        bare = "".join(self._bare).strip()
        string, is_closed = self._string, self._is_closed
        self._string, self._is_closed = "", False
        if not string and not is_closed:
            return bare.lower() if bare.lower() in _WORDS else json_or_string(bare)
        if bare:
            raise BrokenCall
        return string

    def _begin_item(self, inner: _Open) -> None:
        """Write the separator and name before an item of a list or an object inside an argument."""
        if len(self._open) == 1:
            return
        if not inner.is_empty:
            self._out.append(",")
        if inner.key is not None:
            self._out.append(encode_basestring(inner.key) + ":")
